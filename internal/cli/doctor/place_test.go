package doctor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
)

// clusterFaults change roles, which all databases of a server share.
func clusterFaults() []fault {
	return []fault{
		{check: "lockdb_roles", sql: `ALTER ROLE lockapp LOGIN CREATEDB`, saw: "lockapp is LOGIN", also: map[string]doctor.Status{"lockdb_idle_timeout": doctor.Warn}},
		{check: "lockdb_roles", sql: `GRANT dlock_owner TO lockapp`, saw: "lockapp is a member of dlock_owner", also: map[string]doctor.Status{"lockdb_service_logins": doctor.Warn, "lockdb_privileges_lockapp": doctor.Fail}},
		{check: "lockdb_roles", sql: `REVOKE dlock_owner FROM dlock_operator`, saw: "dlock_operator is no member of dlock_owner"},
		{check: "lockdb_roles", sql: `GRANT dlock_owner TO dlock_operator WITH INHERIT TRUE`, saw: "dlock_operator inherits from dlock_owner", also: map[string]doctor.Status{"lockdb_privileges_dlock_operator": doctor.Fail}},
		{check: "lockdb_service_logins", sql: `GRANT dlock_operator TO t_lockapp`, warn: true, saw: "t_lockapp is lockapp and dlock_owner"},
		{check: "paydb_roles", sql: `GRANT pg_read_all_data TO payapp_rail`, saw: "payapp_rail is a member of pg_read_all_data"},
		{check: "paydb_roles", sql: `REVOKE payapp FROM payapp_resource`, saw: "payapp_resource is no member of payapp"},
		{check: "paydb_service_logins", sql: `GRANT payapp_resource TO t_rail`, warn: true, saw: "t_rail is payapp_resource and payapp_rail"},
		{check: "paydb_service_logins", sql: `GRANT dlock_owner TO t_resource`, warn: true, saw: "t_resource is payapp_resource and dlock_owner"},
	}
}

// What is wrong with a server's roles is found and put right as well.
//
// Clauses: K-9.5, K-12.1, K-6.2
// Mutation: take a comparison out of roles() or a pair out of excluding().
func TestFaultsOfTheRoles(t *testing.T) { //nolint:paralleltest // it changes roles of the servers that the other tests use
	p := newPatient(t)
	for i, f := range clusterFaults() {
		if !t.Run(fmt.Sprintf("%s_%d", f.check, i), func(t *testing.T) { p.suffer(t, f) }) {
			break
		}
	}
}

// A role that is gone has left its rights behind: its fix and those of what shows
// after it lead to a healthy database.
//
// Clauses: K-9.5
// Mutation: leave the missing roles out of roles().
func TestMissingRole(t *testing.T) { //nolint:paralleltest // it takes a role from the servers that the other tests use
	p := newPatient(t)
	p.target.Lock = p.dbs.Lock.Config(t, "t_operator")
	p.exec(t, p.dbs.Lock, `ALTER ROLE dlock_auditor RENAME TO dlock_reader`)
	// Deferred, not a Cleanup: the test's context has ended by then.
	defer p.exec(t, p.dbs.Lock, `DROP OWNED BY dlock_auditor; DROP ROLE dlock_auditor; ALTER ROLE dlock_reader RENAME TO dlock_auditor`)
	for _, want := range []map[string]doctor.Status{
		{"lockdb_roles": doctor.Fail, "lockdb_privileges_dlock_auditor": doctor.Unknown},
		{"lockdb_privileges_dlock_auditor": doctor.Fail},
		{},
	} {
		found := p.notOK(t)
		for id, status := range want {
			if r, there := found[id]; !there || r.Status != status {
				t.Fatalf("%s is %+v, want %s", id, r, status)
			}
		}
		if len(want) == 0 && len(found) > 0 {
			t.Errorf("not well yet: %+v", found)
		}
		for _, r := range found {
			if r.Fix.Run != "" {
				p.run(t, r.Fix)
			}
		}
	}
}

// otherFaults are those of where the databases are and how they are reached.
func otherFaults() []fault {
	return []fault{
		{check: "lockdb_login", warn: true, saw: "postgres is one", plant: func(t *testing.T, p *patient) func(*testing.T) {
			return swap(&p.target.Lock, p.dbs.Lock.Config(t, "super"))
		}},
		{check: "paydb_login", warn: true, saw: "postgres is one", plant: func(t *testing.T, p *patient) func(*testing.T) {
			return swap(&p.target.Pay, p.dbs.Pay.Config(t, "super"))
		}},
		{check: "lockdb_pooler", warn: true, saw: "transaction mode", plant: func(t *testing.T, p *patient) func(*testing.T) {
			pooled := p.target.Lock.Copy()
			pooled.DialFunc = startPooler(t, p.dbs.Lock)
			return swap(&p.target.Lock, pooled)
		}},
		{check: "paydb_pooler", warn: true, saw: "transaction mode", plant: func(t *testing.T, p *patient) func(*testing.T) {
			pooled := p.target.Pay.Copy()
			pooled.DialFunc = startPooler(t, p.dbs.Pay)
			return swap(&p.target.Pay, pooled)
		}},
		{check: "clocks_agree", warn: true, like: `lockdb is 1\.[2-9]s ahead of paydb`, plant: shiftClocks},
		{check: "instances_distinct", saw: "both are on instance", plant: oneInstance},
		{check: "service_lock_server", saw: "connection refused", plant: serviceAt("lock-server", "http://127.0.0.1:1")},
		{check: "service_payment_resource", saw: "the address is that of rail-sim", plant: imposter("payment-resource", httpd.Health{Service: "rail-sim", Ready: true})},
		{check: "service_rail_proxy", saw: "FENCING IS OFF", plant: imposter("rail-proxy", httpd.Health{
			Service: "rail-proxy", Ready: true, Conditions: []httpd.Condition{{Name: "fencing", State: httpd.Warning, Reason: "FENCING IS OFF"}},
		})},
		{check: "service_payment_resource", saw: "its paydb is 7/7, and the one of this configuration is ", plant: imposter("payment-resource", httpd.Health{
			Service: "payment-resource", Ready: true,
			Conditions: []httpd.Condition{{Name: "paydb", State: httpd.Good, Database: &httpd.Database{Identity: "7/7", MinSchema: 1, MaxSchema: 1}}},
		})},
		{check: "service_lock_server", saw: "its program knows lockdb's schema from 1 to 3, and that is at ", plant: before},
		{check: "lockdb_standbys", warn: true, saw: "1 connected, and no commit waits", plant: follower},
		{check: "lockdb_primary", saw: "standby", plant: standby(doctor.LockDB), also: map[string]doctor.Status{"lockdb_gate": doctor.Unknown}},
		{check: "paydb_primary", saw: "standby", plant: standby(doctor.PayDB), also: map[string]doctor.Status{"paydb_gate": doctor.Unknown}},
	}
}

// Each fault of the place is found, and following the advice puts it right.
//
// Clauses: K-6.1, K-6.3, K-12.3, K-2.10
// Mutation: take a check out of the table.
func TestFaultsOfThePlace(t *testing.T) {
	t.Parallel()
	for _, f := range otherFaults() {
		t.Run(f.check, func(t *testing.T) {
			t.Parallel()
			newPatient(t).suffer(t, f)
		})
	}
}

// swap changes a value until what it returns is called.
func swap[T any](at *T, to T) func(*testing.T) {
	was := *at
	*at = to
	return func(*testing.T) { *at = was }
}

// shiftClocks sets one clock 0.8 s forward and the other as much back: neither is
// far from this machine's.
func shiftClocks(t *testing.T, p *patient) func(*testing.T) {
	t.Helper()
	set := func(db pgtest.DB, by string) {
		p.exec(t, db, `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + interval ''`+by+`''';
			ALTER DATABASE `+quoted(db)+` SET search_path = public, pg_catalog`)
	}
	set(p.dbs.Lock, "0.8s")
	set(p.dbs.Pay, "-0.8s")
	return func(t *testing.T) {
		t.Helper()
		for _, db := range []pgtest.DB{p.dbs.Lock, p.dbs.Pay} {
			p.exec(t, db, `DROP FUNCTION public.clock_timestamp(); ALTER DATABASE `+quoted(db)+` RESET search_path`)
		}
	}
}

// oneInstance puts a paydb beside lockdb; the advice is to give it an instance of
// its own again.
func oneInstance(t *testing.T, p *patient) func(*testing.T) {
	t.Helper()
	apart := *p
	p.dbs.Pay = pgtest.Servers(t, 16).Lock.EmptyDB(t)
	p.migrate(t, "--allow-same-instance")
	p.target.Pay = p.dbs.Pay.Config(t, "t_auditor")
	return func(t *testing.T) {
		t.Helper()
		*p = apart
		p.migrate(t)
	}
}

func (p *patient) migrate(t *testing.T, flags ...string) {
	t.Helper()
	if exit, out, errOut := p.dlockctl(t, append([]string{"migrate", "up", "--target", "all"}, flags...)...); exit != app.OK {
		t.Fatalf("migrate up: exit %d\n%s%s", exit, out, errOut)
	}
}

// standby puts a database on a server that is then restarted as a standby; the
// advice is to go to the primary, which the same server is when it is one again.
func standby(database string) func(*testing.T, *patient) func(*testing.T) {
	return func(t *testing.T, p *patient) func(*testing.T) {
		t.Helper()
		single := pgtest.Crashable(t, 16)
		db := single.EmptyDB(t)
		if database == doctor.LockDB {
			p.dbs.Lock, p.target.Lock = db, db.Config(t, "t_auditor")
			p.exec(t, db, "ALTER ROLE t_lockapp SET idle_in_transaction_session_timeout = '30s'")
		} else {
			p.dbs.Pay, p.target.Pay = db, db.Config(t, "t_auditor")
		}
		p.migrate(t)
		signal := filepath.Join(single.Dir, "data", "standby.signal")
		single.Stop(t)
		if err := os.WriteFile(signal, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		single.Start(t)
		return func(t *testing.T) {
			t.Helper()
			single.Stop(t)
			if err := os.Remove(signal); err != nil {
				t.Fatal(err)
			}
			single.Start(t)
		}
	}
}

// serviceAt configures a service; the advice is to correct its address or to start it.
func serviceAt(name, url string) func(*testing.T, *patient) func(*testing.T) {
	return func(_ *testing.T, p *patient) func(*testing.T) {
		ask := func(ctx context.Context) (httpd.Health, error) { return client.Health(ctx, client.Options{URL: url}) }
		return swap(&p.target.Services, []doctor.Service{{Name: name, Ask: ask}})
	}
}

// imposter is a service that says what it says.
func imposter(name string, health httpd.Health) func(*testing.T, *patient) func(*testing.T) {
	return func(t *testing.T, p *patient) func(*testing.T) {
		t.Helper()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" || json.NewEncoder(w).Encode(health) != nil {
				http.NotFound(w, r)
			}
		}))
		t.Cleanup(server.Close)
		return serviceAt(name, server.URL)(t, p)
	}
}

// before is a lock-server on this very lockdb whose program is older than the schema;
// the advice is to bring both together.
func before(t *testing.T, p *patient) func(*testing.T) {
	t.Helper()
	id, err := instance.Identity(t.Context(), p.dbs.Lock.Conn(t, "t_auditor"))
	if err != nil {
		t.Fatal(err)
	}
	return imposter("lock-server", httpd.Health{Service: "lock-server", Ready: true, Conditions: []httpd.Condition{
		{Name: "lockdb", State: httpd.Good, Database: &httpd.Database{Identity: id, MinSchema: 1, MaxSchema: 3}},
	}})(t, p)
}

// follower connects to a server of its own as a standby does; the advice is to have
// commits wait for it, or to live with the runbook.
func follower(t *testing.T, p *patient) func(*testing.T) {
	t.Helper()
	db := pgtest.Crashable(t, 16).EmptyDB(t)
	p.dbs.Lock, p.target.Lock = db, db.Config(t, "t_auditor")
	p.exec(t, db, "ALTER ROLE t_lockapp SET idle_in_transaction_session_timeout = '30s'")
	p.migrate(t)
	config, err := pgconn.ParseConfig(db.DSN("super"))
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["replication"] = "true"
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) {
		t.Helper()
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// startPooler is a proxy that answers the start of a connection itself, as
// PgBouncer does, and lends one of three backends for each transaction, in turn.
func startPooler(t *testing.T, db pgtest.DB) pgconn.DialFunc {
	t.Helper()
	idle := make(chan *pgconn.HijackedConn, 3)
	for range cap(idle) {
		conn, err := pgconn.Connect(t.Context(), db.DSN("t_auditor"))
		if err != nil {
			t.Fatal(err)
		}
		backend, err := conn.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = backend.Conn.Close() })
		idle <- backend
	}
	var clients sync.WaitGroup
	t.Cleanup(clients.Wait)
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		clients.Go(func() {
			defer far.Close()
			serve(pgproto3.NewBackend(far, far), idle)
		})
		return near, nil
	}
}

// serve speaks with one client until it leaves.
func serve(client *pgproto3.Backend, idle chan *pgconn.HijackedConn) {
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	var backend *pgconn.HijackedConn
	for client.Flush() == nil {
		message, err := client.Receive()
		for ; err == nil; message, err = client.Receive() {
			if _, leaving := message.(*pgproto3.Terminate); leaving {
				return
			}
			if backend == nil {
				backend = <-idle
			}
			backend.Frontend.Send(message)
			_, query := message.(*pgproto3.Query)
			if _, sync := message.(*pgproto3.Sync); sync || query {
				break
			}
		}
		if err != nil {
			return
		}
		status, err := answer(backend, client)
		if err != nil {
			return
		}
		if status == 'I' {
			idle <- backend
			backend = nil
		}
	}
}

// answer forwards the server's messages up to ReadyForQuery.
func answer(backend *pgconn.HijackedConn, client *pgproto3.Backend) (byte, error) {
	if err := backend.Frontend.Flush(); err != nil {
		return 0, err
	}
	for {
		message, err := backend.Frontend.Receive()
		if err != nil {
			return 0, err
		}
		client.Send(message)
		if ready, ok := message.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus, nil
		}
	}
}
