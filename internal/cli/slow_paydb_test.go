package cli_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A paydb that answers late is waited for as long as its address says: its tokens are
// compared before a grant, and its gate is told of by thaw.
//
// Clauses: K-6.2, K-7.6
// Mutation: take the connect_timeout out of PayWithin, or leave lookAtPaydb a second.
func TestSlowPaydbIsWaitedForAsItsAddressSays(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	if _, err := dbs.Pay.Conn(t, "super").Exec(t.Context(), `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'a copy'`); err != nil {
		t.Fatal(err)
	}
	dsn, err := url.Parse(dbs.Pay.DSN("t_operator"))
	if err != nil {
		t.Fatal(err)
	}
	dsn.Host = slow(t, dsn.Host)
	env := envOf(dbs, "t_operator", "DLOCKCTL_PAY_DSN", dsn.String())
	for name, c := range map[string]struct{ args, said string }{
		"grant": {"acquire account:42 -o name", ""},
		"gate":  {"thaw --reason r -o name", "paydb has a gate of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := runReal(t, env, append(strings.Fields(c.args), "--timeout", "2m")...)
			if r.exit != app.OK || !strings.Contains(r.err, c.said) || c.said == "" && r.err != "" {
				t.Errorf("exit %d, stderr %q", r.exit, r.err)
			}
		})
	}
}

// slow passes connections on to an address, each later than paydb is waited for where
// its address says nothing.
func slow(t *testing.T, address string) string {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			time.AfterFunc(1200*time.Millisecond, func() {
				defer conn.Close()
				var dialer net.Dialer
				server, err := dialer.DialContext(t.Context(), "tcp", address)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, conn) }()
				_, _ = io.Copy(conn, server)
			})
		}
	}()
	return listener.Addr().String()
}
