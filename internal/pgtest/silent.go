package pgtest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Silent is the address of a server that lets everybody in and answers no question.
func Silent(t testing.TB) *pgx.ConnConfig {
	t.Helper()
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			sessions.Go(func() { letIn(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		sessions.Wait()
	})
	config, err := pgx.ParseConfig("postgres://anybody@" + listener.Addr().String() + "/silent?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.ConnectTimeout = time.Second
	return config
}

// letIn greets a client, and hears it until it goes.
func letIn(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // the client has gone
	server := pgproto3.NewBackend(conn, conn)
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return
	}
	server.Send(&pgproto3.AuthenticationOk{})
	server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if server.Flush() != nil {
		return
	}
	for {
		if _, err := server.Receive(); err != nil {
			return
		}
	}
}
