package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// A change whose first answer is lost stays unknown when it is sent again and nothing is
// done then: the first may have been carried out.
//
// Clauses: K-2.9, K-2.7
// Mutation: leave unsettled out of do, or one of its cases.
func TestUnknownWhateverComesOfTheNextTry(t *testing.T) {
	t.Parallel()
	for how, next := range map[string]http.RoundTripper{
		"nobody there": roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}),
		"draining":     refuses(problem.Draining),
		"no store":     refuses(problem.Unreachable),
		"rate limited": refuses(problem.RateLimited),
	} {
		for name, v := range verbs {
			if v.sent == 1 {
				continue
			}
			t.Run(how+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := serve(t, hangUp)
				l, err := client.NewLocks(client.Options{URL: s.URL, Wrap: func(base http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if s.asked() > 0 {
							return next.RoundTrip(r)
						}
						return base.RoundTrip(r)
					})
				}})
				if err != nil {
					t.Fatal(err)
				}
				err = v.call(t, l)
				if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); !unknown || s.asked() != 1 {
					t.Errorf("%v (%T), sent %d times, want an unknown outcome after one", err, err, s.asked())
				}
			})
		}
	}
}

// refuses is a service that says no in the same way to everything.
func refuses(code string) http.RoundTripper {
	return roundTrip(func(*http.Request) (*http.Response, error) {
		answer := httptest.NewRecorder()
		err := problem.New(http.StatusServiceUnavailable, code, "not now").Write(answer)
		return answer.Result(), err
	})
}
