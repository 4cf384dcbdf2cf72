package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// The printed command is read back by a shell as it stands.
func TestReleaseCommandIsQuoted(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "a:b/c": "a:b/c", "~": "'~'", "a;b": "'a;b'",
	} {
		r := run(t, &fake{}, "acquire", "-o", "json", "--", key)
		if got := fields(t, r.out)["release_command"]; got != "dlockctl release "+want+" --token 106 --session "+string(freshSession) {
			t.Errorf("key %q: %v", key, got)
		}
	}
	// Quotes do not keep a key from being read as a flag.
	r := run(t, &fake{}, "acquire", "-o", "json", "--", "--all")
	if got := fields(t, r.out)["release_command"]; got != "dlockctl release --token 106 --session "+string(freshSession)+" -- --all" {
		t.Errorf("key --all: %v", got)
	}
}

// The printed command reaches the databases that this one reached: what was said
// by flags, and was not found in the environment, is said again.
//
// Mutation: leave Connection out of plainCommand.
func TestReleaseCommandKeepsTheConnection(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "lock dsn")
	if err := os.WriteFile(dsn, []byte("host=/nowhere user=u"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-p", "open", "--lock-dsn-file", dsn, "--environment", "test"}
	said := " --token 106 --session " + string(freshSession) + " --profile open --lock-dsn-file '" + dsn + "' --environment test"
	for key, want := range map[string]string{"k": "dlockctl release k" + said, "--all": "dlockctl release" + said + " -- --all"} {
		args := append(append([]string{"acquire", "-o", "json"}, flags...), "--", key)
		r := inProfiles(t, destructible(), nil, false, "", args...)
		r.check(t, app.OK, "\n", "")
		if got := fields(t, r.out)["release_command"]; got != want {
			t.Errorf("key %s: %v, want %s", key, got, want)
		}
	}
	r := inProfiles(t, destructible(), map[string]string{"DLOCKCTL_PROFILE": "open"}, false, "", "acquire", "k", "-o", "json")
	if got := fields(t, r.out)["release_command"]; got != "dlockctl release k --token 106 --session "+string(freshSession) {
		t.Errorf("a profile from the environment: %v", got)
	}
}

// A session from the environment lives on, and is not repeated where it shows in
// ps.
//
// Clauses: K-2.12
// Mutation: leave ambient out of sessionFlag.
func TestReleaseCommandSparesTheAmbientSession(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DLOCKCTL_SESSION": string(givenSession)}
	for flag, want := range map[string]string{
		"": "", "auto": " --session " + string(freshSession), string(givenSession): " --session " + string(givenSession),
	} {
		args := []string{"acquire", "k", "--owner", "alice@a", "-o", "json"}
		if flag != "" {
			args = append(args, "--session", flag)
		}
		r := inProfiles(t, destructible(), env, false, "", args...)
		if got := fields(t, r.out)["release_command"]; got != "dlockctl release k --token 106"+want {
			t.Errorf("--session %q: %v", flag, got)
		}
		store := destructible()
		store.acquire = func(context.Context, lockstore.AcquireParams) (lockstore.Grant, error) {
			return lockstore.Grant{}, &lockstore.UnknownOutcomeError{Doing: "acquire", Err: errors.New("cut")}
		}
		r = inProfiles(t, store, env, false, "", args...)
		details, _ := fields(t, r.err)["details"].(map[string]any)
		if got := details["retry_command"]; got != "dlockctl acquire k --owner alice@a"+want+" --ttl 30s" {
			t.Errorf("--session %q, retry: %v", flag, got)
		}
	}
}
