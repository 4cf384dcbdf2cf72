package flyway_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Behind a transaction pooler migrate refuses, whichever backend the pooler hands
// out next; in session mode a pooler is harmless.
//
// Clauses: K-12.3
// Mutation: return nil from refusePooler; ask once only (in turn); do not begin on the
// second connection (last used first).
func TestTransactionPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"last used first", "in turn", "session"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, db pgtest.DB) {
				p := startPooler(t, db, mode)
				m := open(t, db, files(t, base...), func(config *pgx.ConnConfig, _ *flyway.Options) { config.DialFunc = p.dial })
				_, err := m.Up(t.Context())
				if mode == "session" {
					if err != nil {
						t.Errorf("up through a session pooler: %v", err)
					}
					return
				}
				refused, ok := errors.AsType[*flyway.PoolerError](err)
				if !ok || refused.Hint() == "" {
					t.Fatalf("up: %v, want a PoolerError with a hint", err)
				}
				if value[bool](t, db, `SELECT to_regclass('flyway_schema_history') IS NOT NULL`) {
					t.Error("a refused run created the history")
				}
				if status, err := m.Status(t.Context()); err != nil || status.Pending != 3 {
					t.Errorf("status through a pooler = %+v, %v; want three pending", status, err)
				}
			})
		})
	}
}

// pooler is a small proxy that, like pgbouncer, answers the start of a connection
// itself and lends a backend for a transaction or for the session.
type pooler struct {
	mode string
	mu   sync.Mutex
	idle []*pgconn.HijackedConn
}

func startPooler(t *testing.T, db pgtest.DB, mode string) *pooler {
	t.Helper()
	p := &pooler{mode: mode}
	for range 2 {
		conn, err := pgconn.Connect(t.Context(), db.DSN("t_owner"))
		if err != nil {
			t.Fatal(err)
		}
		backend, err := conn.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = backend.Conn.Close() })
		p.idle = append(p.idle, backend)
	}
	return p
}

func (p *pooler) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go p.serve(pgproto3.NewBackend(server, server), server)
	return client, nil
}

func (p *pooler) lend() *pgconn.HijackedConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := 0
	if p.mode == "last used first" {
		at = len(p.idle) - 1
	}
	backend := p.idle[at]
	p.idle = slices.Delete(p.idle, at, at+1)
	return backend
}

func (p *pooler) giveBack(backend *pgconn.HijackedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, backend)
}

// serve speaks with one client until it leaves.
func (p *pooler) serve(client *pgproto3.Backend, conn net.Conn) {
	defer conn.Close()
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if client.Flush() != nil {
		return
	}
	var backend *pgconn.HijackedConn
	for {
		message, err := client.Receive()
		if err != nil {
			return
		}
		if _, leaving := message.(*pgproto3.Terminate); leaving {
			return
		}
		if backend == nil {
			backend = p.lend()
		}
		backend.Frontend.Send(message)
		if !ends(message) {
			continue
		}
		status, err := answer(backend, client)
		if err != nil {
			return
		}
		if status == 'I' && p.mode != "session" {
			p.giveBack(backend)
			backend = nil
		}
		if client.Flush() != nil { // after giving back, or the client could be faster
			return
		}
	}
}

// ends reports whether the server answers message with ReadyForQuery.
func ends(message pgproto3.FrontendMessage) bool {
	switch message.(type) {
	case *pgproto3.Query, *pgproto3.Sync:
		return true
	}
	return false
}

// answer forwards the server's messages up to ReadyForQuery and returns its status.
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
