package serve_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/cli/serve"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
)

// Each service is told its own login and none of the others'.
//
// Clauses: K-4.6
// Mutation: return variables, or flags, as they are
func TestEachItsOwnLogin(t *testing.T) {
	t.Parallel()
	variables := []string{"PATH=/bin", "DLOCKCTL_LOCK_DSN=l", "DLOCKCTL_PAY_DSN=p", "DLOCKCTL_RAIL_DSN_FILE=r", "DLOCKCTL_SERVE_LISTEN=:1", "DLOCKCTL_RAIL_URL=u", "DLOCKCTL_BACKEND=etcd", "DLOCKCTL_ETCD_PASSWORD_FILE=e", "DLOCKCTL_ETCD_KEY_FILE=k"}
	flags := []string{"--profile", "x", "--lock-dsn-file", "l", "--pay-dsn-file", "p", "--rail-dsn-file", "r", "--allow-same-instance"}
	for own, want := range map[string][2][]string{
		"lock": {{"PATH=/bin", "DLOCKCTL_LOCK_DSN=l", "DLOCKCTL_RAIL_URL=u", "DLOCKCTL_BACKEND=etcd", "DLOCKCTL_ETCD_PASSWORD_FILE=e", "DLOCKCTL_ETCD_KEY_FILE=k"}, {"--profile", "x", "--lock-dsn-file", "l", "--allow-same-instance"}},
		"pay":  {{"PATH=/bin", "DLOCKCTL_PAY_DSN=p", "DLOCKCTL_RAIL_URL=u", "DLOCKCTL_BACKEND=etcd"}, {"--profile", "x", "--pay-dsn-file", "p", "--allow-same-instance"}},
		"rail": {{"PATH=/bin", "DLOCKCTL_RAIL_DSN_FILE=r", "DLOCKCTL_RAIL_URL=u", "DLOCKCTL_BACKEND=etcd"}, {"--profile", "x", "--rail-dsn-file", "r", "--allow-same-instance"}},
		"":     {{"PATH=/bin", "DLOCKCTL_RAIL_URL=u", "DLOCKCTL_BACKEND=etcd"}, {"--profile", "x", "--allow-same-instance"}},
	} {
		if diff := cmp.Diff(want[0], serve.Environment(variables, own)); diff != "" {
			t.Errorf("the variables of %q: %s", own, diff)
		}
		if diff := cmp.Diff(want[1], serve.Connection(flags, own)); diff != "" {
			t.Errorf("the flags of %q: %s", own, diff)
		}
	}
}

// Mutation: look at Ready alone
func TestSummary(t *testing.T) {
	t.Parallel()
	good := httpd.Condition{Name: "a", State: httpd.Good, Reason: "fine"}
	for _, c := range []struct {
		health        httpd.Health
		err           error
		state, reason string
	}{
		{httpd.Health{Ready: true, Conditions: []httpd.Condition{good}}, nil, "ready", ""},
		{httpd.Health{Ready: true, Conditions: []httpd.Condition{good, {Name: "f", State: httpd.Warning, Reason: "FENCING IS OFF"}}}, nil, "warning", "FENCING IS OFF"},
		{httpd.Health{Conditions: []httpd.Condition{{Name: "d", State: httpd.Failed, Reason: "down"}}}, nil, "not ready", "down"},
		{httpd.Health{}, errors.New("it does not answer"), "not ready", "it does not answer"},
	} {
		if state, reason := serve.Summary(c.health, c.err); state != c.state || reason != c.reason {
			t.Errorf("%+v: %q, %q; want %q, %q", c.health, state, reason, c.state, c.reason)
		}
	}
}
