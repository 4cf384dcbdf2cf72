package restore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// bumpFlags restore an etcd member from a snapshot with a bumped revision, while no
// member runs: what no running cluster can be brought to (K-10.1).
type bumpFlags struct {
	snapshot, dataDir, etcdutl string
	bump                       app.TokenFlag
	// rest goes to etcdutl as it is.
	rest []string
}

func (f *bumpFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.snapshot, "snapshot", "", "on etcd, restore a member from this `FILE` while none runs, instead of moving a running cluster")
	flags.StringVar(&f.dataDir, "data-dir", "", "on etcd, the `DIR` that the member's data is restored to; it must not be there yet")
	flags.Var(&f.bump, "bump", "on etcd, what is added to the snapshot's revision, as restore plan says it; the same for every member")
	flags.StringVar(&f.etcdutl, "etcdutl", "etcdutl", "on etcd, the `PATH` of etcd's offline tool")
}

// given tells that a member is to be restored.
func (f *bumpFlags) given() bool { return f.snapshot != "" || f.dataDir != "" || f.bump.Token != 0 }

// args takes what is behind -- for etcdutl.
func (f *bumpFlags) args(cmd *cobra.Command, args []string) error {
	if !f.given() || cmd.ArgsLenAtDash() != 0 {
		return app.Args()(cmd, args)
	}
	f.rest = args
	return nil
}

// bumped is what a restore of a member did, or would do.
type bumped struct {
	Command          []string        `json:"command"`
	DataDir          string          `json:"data_dir"`
	SnapshotRevision int64           `json:"snapshot_revision"`
	Bump             lockstore.Token `json:"bump"`
	BumpStr          string          `json:"bump_str"`
	Revision         lockstore.Token `json:"revision"`
	RevisionStr      string          `json:"revision_str"`
	Restored         bool            `json:"restored"`
	Next             []string        `json:"next"`
}

// words is the command that restores the member.
func (f *bumpFlags) words() []string {
	return append([]string{
		f.etcdutl, "snapshot", "restore", f.snapshot, "--data-dir", f.dataDir, "--bump-revision", f.bump.String(), "--mark-compacted",
	}, f.rest...)
}

func (f *bumpFlags) valid(cfg *config.Config) error {
	switch {
	case cfg.Backend != config.Etcd:
		return app.UsageError("give --backend etcd, or leave it out", "--snapshot, --data-dir and --bump are for the backend etcd")
	case f.snapshot == "" || f.dataDir == "" || f.bump.Token == 0:
		return app.UsageError("dlockctl restore plan --backend etcd says what to give as --bump", "--snapshot, --data-dir and --bump belong together, and one of them is missing")
	}
	for _, word := range f.rest {
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains([]string{"--bump-revision", "--mark-compacted", "--data-dir"}, name) {
			return app.UsageError("leave it out behind --", "%s says otherwise than the flags before --", name)
		}
	}
	return nil
}

// runBump restores one member. Nothing that runs is touched, and etcdutl refuses a
// folder that is there.
func runBump(ctx context.Context, a *app.App, opts fastForwardOptions) error {
	f := opts.bumpFlags
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if err := f.valid(cfg); err != nil {
		return err
	}
	command := make([]string, 0, len(f.words()))
	for _, word := range f.words() {
		command = append(command, app.Quoted(word))
	}
	path, err := exec.LookPath(f.etcdutl)
	if err != nil {
		return &app.Failure{
			Exit: app.Refused, Code: "no_etcdutl", Message: fmt.Sprintf("etcd's offline tool is not there: %v", err),
			Hint: "install it, or name it: --etcdutl PATH; on a machine that has it, run: " + strings.Join(command, " "),
		}
	}
	revision, err := snapshotRevision(ctx, path, f.snapshot)
	if err != nil {
		return err
	}
	done := bumped{Command: f.words(), DataDir: f.dataDir, SnapshotRevision: revision, Bump: f.bump.Token, Revision: f.bump.Token + lockstore.Token(revision)}
	done.BumpStr, done.RevisionStr = done.Bump.String(), done.Revision.String()
	if done.Revision > lockstore.MaxToken-restore.DefaultMargin {
		return &app.Failure{
			Exit: app.Refused, Code: "bump_too_far", Message: fmt.Sprintf("a revision of %s leaves fewer tokens below 2^53 than one more fast-forward takes", done.Revision),
			Hint: "give the --bump that restore plan says",
		}
	}
	if !opts.dryRun {
		if out, err := exec.CommandContext(ctx, path, f.words()[1:]...).CombinedOutput(); err != nil {
			return &app.Failure{
				Exit: app.Refused, Code: "etcdutl_failed", Message: fmt.Sprintf("restore %s by etcdutl: %v: %s", f.dataDir, err, lastLine(out)),
				Hint: "it was run as: " + strings.Join(command, " "),
			}
		}
		done.Restored = true
	}
	return printBumped(a, done, command)
}

func printBumped(a *app.App, done bumped, command []string) error {
	done.Next = []string{
		"restore every other member with the same snapshot and the same --bump, and then start them all",
		a.Command("restore fast-forward", "--reason", "TEXT"),
		a.Command("restore verify"),
	}
	err := a.Print(ui.View{Data: done, Name: "revision_str", Columns: []ui.Column{
		{Title: "RESTORED", Field: "restored"},
		{Title: "DATA", Field: "data_dir"},
		{Title: "SNAPSHOT", Field: "snapshot_revision"},
		{Title: "BUMP", Field: "bump"},
		{Title: "REVISION", Field: "revision_str"},
	}})
	if err != nil {
		return err
	}
	if !done.Restored {
		a.Aside("nothing was changed; it would run: %s", strings.Join(command, " "))
	}
	for _, next := range done.Next {
		a.Aside("next: %s", next)
	}
	return nil
}

// snapshotRevision asks etcdutl for the revision of a snapshot, which it checks too.
func snapshotRevision(ctx context.Context, etcdutl, snapshot string) (int64, error) {
	var said bytes.Buffer
	command := exec.CommandContext(ctx, etcdutl, "snapshot", "status", snapshot, "--write-out", "json")
	command.Stderr = &said
	out, err := command.Output()
	var status struct {
		Revision int64 `json:"revision"`
	}
	if err == nil {
		err = json.Unmarshal(out, &status)
	}
	if err == nil && status.Revision < 1 {
		err = errors.New("it has revision " + strconv.FormatInt(status.Revision, 10))
	}
	if err != nil {
		return 0, app.UsageError("etcdctl snapshot save FILE makes one", "read the snapshot %s by etcdutl: %v: %s", snapshot, err, lastLine(said.Bytes()))
	}
	return status.Revision, nil
}

// lastLine is where a program says why it ended.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return ui.Visible(lines[len(lines)-1])
}
