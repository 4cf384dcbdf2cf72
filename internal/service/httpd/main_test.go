package httpd_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"
	"go.uber.org/goleak"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

func TestMain(m *testing.M) {
	m.Run()
	// The client's idle connections are the test's, not the service's.
	leaktest.Exit(goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// echoService is a service with one operation of each kind that a frame has to
// do with.
type echoService struct {
	// entered is told of each wait that has begun; release ends one.
	entered, release chan struct{}
}

func newEcho() *echoService {
	return &echoService{entered: make(chan struct{}, 100), release: make(chan struct{})}
}

type echoInput struct {
	Token string `header:"X-Fencing-Token"`
	Body  struct {
		Text      string `json:"text" maxLength:"100000"`
		SessionID string `json:"session_id,omitempty" minLength:"4" maxLength:"8"`
	}
}

type echoOutput struct {
	Body struct {
		Text   string `json:"text"`
		Caller string `json:"caller"`
	}
}

type tick struct {
	N int `json:"n"`
}

var errSecret = errors.New("dial postgres://u:hunter2@h: refused")

func (s *echoService) register(api huma.API) {
	huma.Post(api, "/v1/echo", func(ctx context.Context, in *echoInput) (*echoOutput, error) {
		out := &echoOutput{}
		out.Body.Text, out.Body.Caller = in.Body.Text, httpd.CallerOf(ctx).Name
		return out, nil
	}, httpd.Require(httpd.Acquire, httpd.Operate))
	huma.Post(api, "/v1/wait", s.wait, httpd.Require(httpd.Acquire))
	huma.Get(api, "/v1/look", func(context.Context, *struct {
		Key string `query:"key"`
	},
	) (*struct{}, error) {
		return nil, problem.New(http.StatusConflict, problem.Contended, "held").WithRetryAfter(1500 * time.Millisecond).WithDetails(map[string]int{"n": 1})
	}, httpd.Require(httpd.Audit))
	huma.Get(api, "/v1/break", func(context.Context, *struct{}) (*struct{}, error) { return nil, errSecret }, httpd.Require(httpd.Audit))
	huma.Get(api, "/v1/panic", func(context.Context, *struct{}) (*struct{}, error) { panic("lost my head") }, httpd.Require(httpd.Audit))
	huma.Get(api, "/v1/half", func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			_, _ = ctx.BodyWriter().Write([]byte(strings.Repeat("x", 10_000)))
			panic("half-way")
		}}, nil
	}, httpd.Require(httpd.Audit))
	events := huma.Operation{OperationID: "events", Method: http.MethodGet, Path: "/v1/events"}
	httpd.Require(httpd.Audit)(&events)
	sse.Register(api, events, map[string]any{"tick": tick{}}, func(ctx context.Context, _ *struct{}, send sse.Sender) {
		for n := 1; ; n++ {
			if err := send.Data(tick{n}); err != nil {
				return
			}
			s.entered <- struct{}{}
			select {
			case <-s.release:
			case <-httpd.Draining(ctx):
				return
			case <-ctx.Done():
				return
			}
		}
	})
}

func (s *echoService) bare(context.Context, *struct{}) (*struct{}, error) { return nil, nil }

// wait answers when it is released, when the service drains, or not at all.
func (s *echoService) wait(ctx context.Context, in *echoInput) (*echoOutput, error) {
	s.entered <- struct{}{}
	draining := httpd.Draining(ctx)
	if in.Body.Text == "stubborn" {
		draining = nil
	}
	out := &echoOutput{}
	select {
	case <-s.release:
		out.Body.Text = "released"
		return out, nil
	case <-draining:
		return nil, problem.New(http.StatusServiceUnavailable, problem.Draining, "the service is stopping")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// start starts the echo service.
func start(t *testing.T, opts httpd.Options) (*echoService, *httpdtest.Service) {
	t.Helper()
	echo := newEcho()
	opts.Name = "echo"
	return echo, httpdtest.Start(t, opts, echo.register)
}

// patience is more than anything here takes, however loaded the machine is.
const patience = time.Minute

// eventually polls until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-tick.C
	}
}
