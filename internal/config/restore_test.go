package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/config"
)

// A policy that could never be carried out is refused before it is needed, with
// everything that it lacks.
//
// Clauses: K-7.10
// Mutation: drop a line of needs from AutoRestore, or the look into the files.
func TestAutoRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	operator, pay, empty := filepath.Join(dir, "lock.dsn"), filepath.Join(dir, "pay.dsn"), filepath.Join(dir, "empty.dsn")
	for path, text := range map[string]string{operator: "host=l", pay: "host=p password=hunter2", empty: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := "profile: p\nprofiles:\n  p:\n    mark_dir: /m\n    lock: {dsn: host=l}\n    restore: {auto: safe, operator_dsn_file: " + operator + ", pay_operator_dsn_file: " + pay + "}\n"
	for name, c := range map[string]struct {
		file string
		on   bool
		want []string
	}{
		"nothing is said": {"", false, nil},
		"off":             {strings.Replace(whole, "auto: safe", "auto: off", 1), false, nil},
		"whole":           {whole, true, nil},
		"no operator":     {strings.Replace(whole, "operator_dsn_file: "+operator+", ", "", 1), true, []string{"restore.operator_dsn_file is not set", "SET ROLE dlock_owner", "from profile p"}},
		"no paydb":        {strings.Replace(whole, ", pay_operator_dsn_file: "+pay, "", 1), true, []string{"restore.pay_operator_dsn_file is not set", "no_payments: true"}},
		"no payments":     {strings.Replace(whole, ", pay_operator_dsn_file: "+pay+"}", "}\n    no_payments: true", 1), true, nil},
		"no mark":         {strings.Replace(whole, "    mark_dir: /m\n", "", 1), true, []string{"mark_dir is not set"}},
		"an empty file":   {strings.Replace(whole, operator, empty, 1), true, []string{"empty.dsn is empty"}},
		"no file":         {strings.Replace(whole, pay, pay+".gone", 1), true, []string{"read the DSN file", "pay.dsn.gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Load(sources(t, c.file, nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			on, err := cfg.AutoRestore()
			if on != c.on || (err != nil) != (c.want != nil) {
				t.Fatalf("on %t, %v", on, err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}
