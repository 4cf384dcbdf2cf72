package postgres_test

import (
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A store is reached by an IPv6 address: in brackets in a URL, bare among keywords. By
// ::1 it is a listener of the test's own that passes everything on; where a machine has
// no IPv6 loopback, the address of its IPv4 one in IPv6's spelling, which needs none.
//
// Mutation: put host and port together by a colon, as in fmt.Sprintf("%s:%d").
func TestConnectsByIPv6(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	u, err := url.Parse(dbs.Lock.DSN("t_lockapp"))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	addresses := map[string]string{"::ffff:127.0.0.1": u.Port()}
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "[::1]:0")
	if err == nil {
		_, addresses["::1"], _ = net.SplitHostPort(listener.Addr().String())
		proxyOn(t, listener, u.Host)
	} else {
		t.Logf("this machine has no ::1, so that ::ffff:127.0.0.1 stands for it: %v", err)
	}
	for host, port := range addresses {
		u.Host = net.JoinHostPort(host, port)
		for form, dsn := range map[string]string{
			"URL":      u.String(),
			"keywords": strings.Join([]string{"host=" + host, "port=" + port, "user=t_lockapp", "password=" + password, "dbname=" + dbs.Lock.Name, "sslmode=disable"}, " "),
		} {
			opts := options(t, dbs)
			if opts.Config, err = pgx.ParseConfig(dsn); err != nil {
				t.Fatal(err)
			}
			if opts.Config.Host != host {
				t.Fatalf("%s by %s leads to %s", host, form, opts.Config.Host)
			}
			store := open(t, opts)
			session, err := store.CreateSession(t.Context(), "six", time.Minute)
			if err != nil {
				t.Fatalf("%s by %s: %v", host, form, err)
			}
			grant, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: host + form, Owner: "six", Session: session.ID, TTL: time.Minute})
			if err != nil || grant.Token == 0 {
				t.Errorf("%s by %s: %+v, %v", host, form, grant, err)
			}
		}
	}
}
