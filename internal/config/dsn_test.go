package config_test

import (
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/config"
)

// Of a connection string it is shown where it leads, and never a secret: what
// cannot be read to the end is dots.
//
// Mutation: add password to shownParams, or return what was read of a broken one.
func TestMaskDSN(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, c := range []struct{ dsn, want string }{
		{"", ""},
		{"postgres://me:hunter2@h:5/db?sslmode=disable", "postgres://me:•••@h:5/db?sslmode=disable"},
		{"postgresql://me@[::1]/db", "postgresql://me@[::1]/db"},
		{"postgres://h/db?password=hunter2&user=me", "postgres://h/db?password=•••&user=me"},
		{"postgres://h/db?sslkey=/k&sslpassword=hunter2", "postgres://h/db?sslkey=•••&sslpassword=•••"},
		{"postgres://me:hunter2@h:port/db", "•••"},
		{"postgres://me:p@hunter2@h/db", "postgres://me:•••@h/db"},
		{"postgres://h/db#hunter2", "•••"},
		{"host=h user=me password=hunter2", "host=h user=me password=•••"},
		{"host=h password='a hunter2 \\' b' dbname=db", "host=h password=••• dbname=db"},
		{"host=h password = hunter2", "host=h password=•••"},
		{"host=h password='hunter2", "•••"},
		{"host=h PASSWORD=hunter2", "•••"},
		{"service=prod passfile=/x", "service=prod passfile=•••"},
		{"host=h password=hunter2\\ x options=-chunter2", "host=h password=••• options=•••"},
		{"u:hunter2@h", "•••"},
	} {
		got := config.MaskDSN(c.dsn)
		if got != c.want || strings.Contains(got, secret) {
			t.Errorf("MaskDSN(%q) = %q, want %q", c.dsn, got, c.want)
		}
	}
}

// A connection string where the path of a file belongs is refused, and not shown:
// an argument stands in ps.
//
// Mutation: take IsDSN out of validate.
func TestDSNForAFile(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"postgres://u:hunter2@h/db", "postgresql://u:hunter2@h/db", "host=h password=hunter2", " password=hunter2", "password='hunter2'"} {
		for name, src := range map[string]config.Sources{
			"flag": sources(t, "", nil, map[string]string{"lock-dsn-file": value}),
			"env":  sources(t, "", map[string]string{"DLOCKCTL_PAY_DSN_FILE": value}, nil),
			"file": sources(t, "lock: {dsn_file: \""+value+"\"}\n", nil, nil),
		} {
			_, err := config.Load(src)
			if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "not the path of a file") {
				t.Errorf("%s: %q: %v", name, value, err)
			}
		}
	}
	for _, path := range []string{"a", "/a/b=c", "./a=b", "a b.dsn", "/run/secrets/lock dsn"} {
		if config.IsDSN(path) {
			t.Errorf("%q is the path of a file", path)
		}
	}
}

func FuzzMaskDSN(f *testing.F) {
	for _, seed := range []string{"postgres://u:p@h/db?x=y", "host=h user='a b'", "password=", "a=b c", "=", "'"} {
		f.Add(seed, "s3cr3t")
	}
	f.Fuzz(func(t *testing.T, dsn, password string) {
		config.MaskDSN(dsn)
		if len(password) < 6 || strings.ContainsAny(password, `'\`) || strings.Contains("host=h user=me password=•••", password) {
			return
		}
		if got := config.MaskDSN("host=h user=me password='" + password + "'"); strings.Contains(got, password) {
			t.Errorf("shows %q in %q", password, got)
		}
	})
}
