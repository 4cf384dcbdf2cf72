package restore_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// onEtcd runs the program on a cluster, without payments.
func onEtcd(t *testing.T, c *etcdtest.Cluster, args ...string) (exit app.Exit, out, errOut string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("profiles:\n  etcd:\n    no_payments: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	streams, stdout, stderr := ui.Test("", map[string]string{
		"DLOCKCTL_BACKEND": "etcd", "DLOCKCTL_ETCD_ENDPOINTS": strings.Join(c.Endpoints(), ","), "DLOCKCTL_OPERATOR": "erin@ops",
		"DLOCKCTL_CONFIG": file, "DLOCKCTL_PROFILE": "etcd",
	})
	exit = cli.Run(t.Context(), app.New(streams, args), args)
	return exit, stdout.String(), stderr.String()
}

// want runs it and compares the exit code; JSON goes into data.
func want(t *testing.T, c *etcdtest.Cluster, exit app.Exit, data any, args ...string) (errOut string) {
	t.Helper()
	got, out, errOut := onEtcd(t, c, args...)
	if got != exit {
		t.Fatalf("dlockctl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, exit, out, errOut)
	}
	if data == nil {
		return errOut
	}
	if err := json.Unmarshal([]byte(out), data); err != nil {
		t.Fatalf("dlockctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return errOut
}

// An operator whose etcd cluster was restored without a bump follows what he is told,
// from the refusal to the proof: the plan's own command, on the real etcdutl, makes the
// cluster one that can be finished. Where the tool is missing, the command is printed.
//
// Clauses: K-10.1, K-7.3, K-7.6
// Mutation: drop --mark-compacted from words, or the comparison with 2^53 from runBump.
func TestRestoreVerbsOnEtcd(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{Nodes: 1})
	acquire := func(key string) []string {
		return []string{"acquire", key, "--ttl", "1h", "--owner", "alice", "--session", "auto"}
	}
	want(t, c, app.OK, nil, acquire("before")...)
	snapshot := c.Snapshot(t)
	want(t, c, app.OK, nil, acquire("lost")...)
	var lost struct {
		Token int64 `json:"token"`
	}
	want(t, c, app.OK, &lost, "lock", "show", "lost", "-o", "json")
	c.RestoreAll(t, snapshot, etcdtest.Restore{})

	if told := want(t, c, app.Refused, nil, acquire("after")...); !strings.Contains(told, "dlockctl restore plan --backend etcd") {
		t.Errorf("the refusal names no command: %s", told)
	}
	observed := []string{"--observed", jsonNumber(lost.Token)}
	var plan restore.Plan
	want(t, c, app.Refused, &plan, append([]string{"restore", "plan", "-o", "json"}, observed...)...)
	bump := "--bump " + plan.Target.String()
	if !strings.Contains(strings.Join(plan.Fixes, " "), bump) || len(plan.Signs) == 0 || !strings.Contains(plan.Signs[0].What, "its raft log") {
		t.Fatalf("the plan: %+v", plan)
	}
	want(t, c, app.Findings, nil, "restore", "verify")

	c.Wipe(t, 0)
	m := c.Membership(0)
	restoring := []string{"restore", "fast-forward", "--snapshot", snapshot, "--data-dir", m.DataDir, "--bump", plan.Target.String(), "-o", "json"}
	flags := []string{"--", "--name", m.Name, "--initial-cluster", m.InitialCluster, "--initial-cluster-token", m.Token, "--initial-advertise-peer-urls", m.PeerURL}
	told := want(t, c, app.Refused, nil, slices.Concat(restoring, []string{"--etcdutl", filepath.Join(t.TempDir(), "etcdutl")}, flags)...)
	for _, part := range []string{"snapshot restore " + snapshot, "--bump-revision " + plan.Target.String() + " --mark-compacted", "--initial-cluster-token " + m.Token} {
		if !strings.Contains(told, part) {
			t.Errorf("without etcdutl, %q is not printed: %s", part, told)
		}
	}
	tool := []string{"--etcdutl", etcdtest.Etcdutl(t)}
	want(t, c, app.Refused, nil, "restore", "fast-forward", "--snapshot", snapshot, "--data-dir", m.DataDir, "--bump", "9007199254740991", tool[0], tool[1])
	want(t, c, app.Usage, nil, slices.Concat(restoring, tool, []string{"--", "--bump-revision=3"})...)
	var done struct {
		Revision int64 `json:"revision"`
		Restored bool  `json:"restored"`
	}
	want(t, c, app.OK, &done, slices.Concat(restoring, tool, []string{"--dry-run"}, flags)...)
	if _, err := os.Stat(m.DataDir); err == nil || done.Restored {
		t.Error("--dry-run has restored the member")
	}
	want(t, c, app.OK, &done, slices.Concat(restoring, tool, flags)...)
	if !done.Restored || done.Revision <= int64(plan.Target) {
		t.Errorf("restored to revision %d, below the target %s", done.Revision, plan.Target)
	}
	c.StartRestored(t)

	want(t, c, app.Refused, nil, acquire("early")...)
	want(t, c, app.OK, nil, append([]string{"restore", "fast-forward", "--reason", "ticket 812", "--yes"}, observed...)...)
	want(t, c, app.OK, nil, "restore", "verify")
	want(t, c, app.OK, nil, acquire("after")...)
	var after struct {
		Token int64 `json:"token"`
	}
	want(t, c, app.OK, &after, "lock", "show", "after", "-o", "json")
	if after.Token <= int64(plan.Target) || after.Token <= lost.Token {
		t.Errorf("token %d was granted; the target was %s, and %d was lost", after.Token, plan.Target, lost.Token)
	}
}

func jsonNumber(n int64) string {
	text, _ := json.Marshal(n) // a number always is
	return string(text)
}
