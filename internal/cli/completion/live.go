package completion

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	// patience is how long a person who pressed Tab waits for a database.
	patience = 500 * time.Millisecond
	// enough is how many locks are looked at.
	enough = 50
	// quoting is set by a script that quotes all it inserts, as this package's do.
	// PowerShell's is cobra's, and does not in each of its modes.
	quoting = "DLOCKCTL_COMPLETION_QUOTED"
)

// values completes one kind of value: those that begin with what was typed.
type values func(ctx context.Context, a *app.App, typed string) []cobra.Completion

// Live completes live values in the whole tree: keys, owners and profiles,
// found by the name of an argument or a flag. What is no file is never completed
// by the files of the folder. A database that is slow, shut or unknown
// completes nothing and says nothing.
func Live(a *app.App, root *cobra.Command) {
	for _, cmd := range root.Commands() {
		Live(a, cmd)
	}
	if root.ValidArgsFunction == nil && !root.HasSubCommands() && !takesFile(root.Use) {
		root.ValidArgsFunction = firstArg(a, argument(root.Use))
	}
	root.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		if _, has := root.GetFlagCompletionFunc(f.Name); has || takesFile(name) {
			return
		}
		complete := flagValues(f.Name)
		// The flag exists, and has no completion yet.
		_ = root.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return quietly(cmd, a, complete, typed)
		})
	})
}

// argument is what completes the first argument of a command, by its usage line.
func argument(use string) values {
	words := strings.Fields(use)
	if len(words) < 2 {
		return nothing
	}
	if strings.Trim(words[1], "[]") == "KEY" {
		return keys
	}
	return nothing
}

func flagValues(name string) values {
	switch name {
	case "owner":
		return owners
	case "prefix":
		return keys
	case "profile", "confirm":
		return profiles
	default:
		return nothing
	}
}

// takesFile tells an argument or a flag whose value is a path.
func takesFile(usage string) bool {
	return slices.ContainsFunc([]string{"FILE", "FOLDER", "CMD", "OLD", "dir"}, func(word string) bool {
		return slices.Contains(strings.FieldsFunc(usage, func(r rune) bool { return r == ' ' || r == '[' || r == ']' || r == '.' }), word)
	})
}

func firstArg(a *app.App, complete values) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			complete = nothing
		}
		found, directive := quietly(cmd, a, complete, typed)
		if !strings.HasPrefix(typed, "-") {
			// It would be a flag where it is inserted. What is typed so far begins so only after --.
			found = slices.DeleteFunc(found, func(c cobra.Completion) bool { return strings.HasPrefix(c, "-") })
		}
		return found, directive
	}
}

func quietly(cmd *cobra.Command, a *app.App, complete values, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	a.Use(cmd)
	defer a.Silence()()
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	return complete(ctx, a, typed), cobra.ShellCompDirectiveNoFileComp
}

func nothing(context.Context, *app.App, string) []cobra.Completion { return nil }

func keys(ctx context.Context, a *app.App, typed string) []cobra.Completion {
	var found []cobra.Completion
	for _, e := range entries(ctx, a, lockstore.Filter{Prefix: typed, Limit: enough}) {
		about := strings.TrimPrefix(e.Owner+", "+ui.Left(e.Remaining), ", ") // a backend's rows may name no owner
		if e.Expired {
			about = strings.TrimSuffix("lapsed, was "+e.Owner, ", was ")
		}
		found = append(found, completion(a, e.Key, about)...)
	}
	return found
}

func owners(ctx context.Context, a *app.App, typed string) []cobra.Completion {
	held := map[string]int{}
	for _, e := range entries(ctx, a, lockstore.Filter{Limit: 10 * enough}) {
		if e.Owner != "" && strings.HasPrefix(e.Owner, typed) {
			held[e.Owner]++
		}
	}
	var found []cobra.Completion
	for owner := range held {
		found = append(found, completion(a, owner, "")...)
	}
	slices.Sort(found)
	return found
}

func entries(ctx context.Context, a *app.App, filter lockstore.Filter) []lockstore.Entry {
	if a.Streams.Env("DLOCKCTL_COMPLETION_DB") == "0" {
		return nil
	}
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return nil // a shell has no place for what is wrong
	}
	list, err := store.List(ctx, filter)
	if err != nil {
		return nil
	}
	return list
}

func profiles(_ context.Context, a *app.App, typed string) []cobra.Completion {
	cfg, err := a.Config()
	if err != nil {
		return nil
	}
	var found []cobra.Completion
	for _, p := range cfg.Named() {
		if strings.HasPrefix(p.Name, typed) {
			found = append(found, completion(a, p.Name, "")...)
		}
	}
	return found
}

// completion leaves out what is not this value any more once it is on the line:
// the protocol has lines and tabs and trims spaces, and a script that does not
// quote would have the shell read it.
func completion(a *app.App, value, about string) []cobra.Completion {
	if value != ui.Visible(value) || value != strings.TrimSpace(value) || a.Streams.Env(quoting) == "" && !plain(value) {
		return nil
	}
	return []cobra.Completion{cobra.CompletionWithDesc(value, ui.Visible(about))}
}

// plain tells a value that every shell reads as itself, and every beginning of it.
func plain(value string) bool {
	for i, r := range value {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:+%", r) && (r != '@' || i == 0) {
			return false
		}
	}
	return true
}
