package alerts_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

// rule is an alert as the file has it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         model.Duration    `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func readRules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/dlockctl.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// story is half an hour of samples, a minute apart, in promqltest's notation.
type story struct{ fires, quiet string }

func stories() map[string]story {
	return map[string]story{
		"DlockctlNotReady":           {`dlockctl_ready{job="d",instance="a"} 1x9 0x20`, `dlockctl_ready{job="d",instance="a"} 1x9 0 1x20`},
		"DlockctlFencingOff":         {`dlockctl_fencing_enabled{instance="a"} 0x30`, `dlockctl_fencing_enabled{instance="a"} 1x30`},
		"DlockctlDuplicateAtTheRail": {`rail_duplicate_attempted_total 0x25 1x5`, `rail_duplicate_attempted_total 3x30`},
		"DlockctlFencedOut":          {`lock_fenced_out_total{resource="account"} 0+2x30`, `lock_fenced_out_total{resource="account"} 0x10 3x20`},
		"DlockctlSessionsLost":       {`lock_session_lost_total 0+3x30`, `lock_session_lost_total 0x10 4x20`},
		"DlockctlGrantsRefused":      {`dlockctl_grants_refused_total{reason="grants_closed"} 0+1x30`, `dlockctl_grants_refused_total{reason="grants_closed"} 7x30`},
		"DlockctlSlowLocks": {
			"dlockctl_batch_wait_seconds_bucket{le=\"0.25\"} 0x30\n  dlockctl_batch_wait_seconds_bucket{le=\"1\"} 0+60x30\n  dlockctl_batch_wait_seconds_bucket{le=\"+Inf\"} 0+60x30",
			"dlockctl_batch_wait_seconds_bucket{le=\"0.25\"} 0+60x30\n  dlockctl_batch_wait_seconds_bucket{le=\"1\"} 0+60x30\n  dlockctl_batch_wait_seconds_bucket{le=\"+Inf\"} 0+60x30",
		},
		"DlockctlPoolExhausted": {
			"dlockctl_pool_connections_used{pool=\"lockdb\",instance=\"a\"} 8x30\n  dlockctl_pool_connections_max{pool=\"lockdb\",instance=\"a\"} 8x30",
			"dlockctl_pool_connections_used{pool=\"lockdb\",instance=\"a\"} 7x28 8x2\n  dlockctl_pool_connections_max{pool=\"lockdb\",instance=\"a\"} 8x30",
		},
		"DlockctlRailInDoubt": {`dlockctl_rail_attempts_total{outcome="TIMEOUT"} 0+1x30`, `dlockctl_rail_attempts_total{outcome="ACKED"} 0+9x30`},
		"DlockctlErrors": {
			"dlockctl_request_duration_seconds_count{service=\"s\",status=\"500\"} 0+10x30\n  dlockctl_request_duration_seconds_count{service=\"s\",status=\"200\"} 0+90x30",
			"dlockctl_request_duration_seconds_count{service=\"s\",status=\"503\"} 0+1x30\n  dlockctl_request_duration_seconds_count{service=\"s\",status=\"409\"} 0+90x30",
		},
		"DlockctlReloadFailed":       {`dlockctl_reloads_total{instance="a",what="keys",outcome="failed"} 0x25 1x5`, `dlockctl_reloads_total{instance="a",what="keys",outcome="ok"} 0+1x30`},
		"DlockctlConnectionsRefused": {`dlockctl_connections_refused_total{instance="a"} 0x27 4x3`, `dlockctl_connections_refused_total{instance="a"} 4x30`},
	}
}

// Each alert fires where it should, after its time, and stays quiet where it should.
//
// Mutation: change a threshold, a label or a metric's name in the rules
func TestAlerts(t *testing.T) {
	t.Parallel()
	all := readRules(t)
	for _, r := range all {
		s, told := stories()[r.Alert]
		if !told {
			t.Errorf("%s has no story here", r.Alert)
			continue
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s says too little: severity %q, annotations %v", r.Alert, r.Labels["severity"], r.Annotations)
		}
		if !fires(t, r, s.fires) {
			t.Errorf("%s does not fire on %s", r.Alert, s.fires)
		}
		if fires(t, r, s.quiet) {
			t.Errorf("%s fires on %s", r.Alert, s.quiet)
		}
	}
	if len(all) != len(stories()) {
		t.Errorf("%d alerts, %d stories", len(all), len(stories()))
	}
}

// fires plays a story, minute by minute, and tells whether the alert fired at its end.
func fires(t *testing.T, r rule, samples string) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+samples)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute})
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		t.Fatalf("%s: %v", r.Alert, err)
	}
	alert := rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	for minute := range 31 {
		at := time.Unix(0, 0).Add(time.Duration(minute) * time.Minute)
		if _, err := alert.Eval(t.Context(), 0, at, rules.EngineQueryFunc(engine, storage), nil, 0); err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
	}
	for _, active := range alert.ActiveAlerts() {
		if active.State == rules.StateFiring {
			return true
		}
	}
	return false
}
