// Package deploy_test holds what is deployed to the program: the metrics that the
// dashboard and the alerts name, and the commands that units and containers run.
package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.yaml.in/yaml/v3"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/telemetry"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// exported is what a service can export, all groups of metrics together.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	m := telemetry.NewMetrics("test")
	m.HTTP().Duration.WithLabelValues("o", "200")
	m.HTTP().Reloads.WithLabelValues("keys", "ok")
	m.Locks().Refused.WithLabelValues("frozen")
	m.Payments().FencedOut.WithLabelValues("rail")
	m.Payments().Attempts.WithLabelValues("ACKED")
	pool, err := pgxpool.New(t.Context(), "postgres://u@127.0.0.1:1/d") // it connects when it is asked to
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	m.Pool("lockdb", pool.Stat)
	m.Executor().Payouts.WithLabelValues("posted")
	// What belongs to one service alone stands in its group; the groups ask each other
	// for nothing, but two have the counter of lost sessions.
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, family := range families {
		names[family.GetName()] = true
	}
	return names
}

var metricName = regexp.MustCompile(`\b(?:dlockctl|lock|rail)_[a-z_]+\b`)

// named lists the metrics in a query; a histogram's parts are named after it.
func named(query string) []string {
	var names []string
	for _, name := range metricName.FindAllString(query, -1) {
		for _, part := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, part)
		}
		names = append(names, name)
	}
	return names
}

// documented lists the metrics of docs/services.md; test/services holds the page to what
// each service exports when it runs.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("../docs/services.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:dlockctl|lock|rail)_[a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		names[row[1]] = true
	}
	return names
}

// What the dashboard and the alerts ask for is exported, and what is exported is
// documented.
//
// Mutation: rename a metric in the dashboard, the rules, docs/services.md or telemetry
func TestEveryMetricIsExported(t *testing.T) {
	t.Parallel()
	known := exported(t)
	maps.DeleteFunc(known, func(name string, _ bool) bool { return !metricName.MatchString(name) }) // Go's and the process's own
	if diff := cmp.Diff(known, documented(t)); diff != "" {
		t.Errorf("docs/services.md has not the metrics that are exported (-exported +documented):\n%s", diff)
	}
	seen := map[string]bool{}
	for from, queries := range map[string][]string{"the dashboard": dashboard(t), "the alert rules": alerts(t)} {
		for _, query := range queries {
			names := named(query)
			if len(names) == 0 {
				t.Errorf("%s: no metric in %q", from, query)
			}
			for _, name := range names {
				seen[name] = true
				if !known[name] {
					t.Errorf("%s: no service exports %s, asked for in %q", from, name, query)
				}
			}
		}
	}
	// The names of K-4.4 are shown.
	for _, name := range []string{"lock_fenced_out_total", "rail_duplicate_attempted_total", "lock_session_lost_total"} {
		if !seen[name] {
			t.Errorf("nothing looks at %s", name)
		}
	}
}

func dashboard(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("grafana/dlockctl.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, panel := range board.Panels {
		if panel.Title == "" || panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("a panel without a title or a query: %+v", panel)
		}
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}

func alerts(t *testing.T) []string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Expr string `yaml:"expr"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	readYAML(t, "prometheus/dlockctl.rules.yaml", &file)
	var queries []string
	for _, rule := range file.Groups[0].Rules {
		queries = append(queries, rule.Expr)
	}
	return queries
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// services are the services of `dlockctl serve`.
func services() []string {
	return []string{"lock-server", "payment-resource", "rail-proxy", "payout-executor", "rail-sim"}
}

// runnable refuses a command line that the program does not know.
func runnable(t *testing.T, args []string) {
	t.Helper()
	streams, _, _ := ui.Test("", nil)
	cmd, rest, err := cli.NewRoot(app.New(streams, nil)).Find(args)
	if err != nil {
		t.Errorf("%v: %v", args, err)
		return
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	if !cmd.Runnable() || len(cmd.Flags().Args()) > 0 {
		t.Errorf("%v: no such command, or the arguments %v are too many", args, cmd.Flags().Args())
	}
}

// Mutation: rename a verb or a flag that the unit uses
func TestUnitRunsEveryService(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("systemd/dlockctl@.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/dlockctl (.+)$`).FindStringSubmatch(string(text))
	if start == nil {
		t.Fatal("the unit starts no dlockctl")
	}
	for _, service := range services() {
		runnable(t, strings.Fields(strings.ReplaceAll(start[1], "%i", service)))
	}
	// SIGKILL comes after the drain, not in it.
	if stop := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(string(text)); stop == nil || len(stop[1]) < 2 || stop[1] < "25" {
		t.Errorf("TimeoutStopSec is %v, want more than the drain of 20 s", stop)
	}
}

// Mutation: rename a verb or a flag that a container uses, or leave a service out
func TestComposeRunsEveryService(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Image       string            `yaml:"image"`
			Command     []string          `yaml:"command"`
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	readYAML(t, "compose/compose.yaml", &file)
	var served []string
	for name, service := range file.Services {
		if service.Image != "dlockctl" {
			continue
		}
		runnable(t, service.Command)
		if service.Command[0] == "serve" {
			served = append(served, service.Command[1])
			logins := 0
			for variable := range service.Environment {
				if strings.HasSuffix(variable, "_DSN") {
					logins++
				}
			}
			if logins > 1 {
				t.Errorf("%s has %d logins; each service has its own and no other's (K-4.6)", name, logins)
			}
		}
	}
	want := services()
	slices.Sort(want)
	slices.Sort(served)
	if !slices.Equal(want, served) {
		t.Errorf("compose serves %v, want %v", served, want)
	}
}
