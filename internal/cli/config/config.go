// Package config holds the verbs that show the configuration and where each
// value of it came from.
package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/config/userfile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the config command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and begin the configuration",
		Long: "A flag goes before DLOCKCTL_* in the environment, that before the profile, that before the\n" +
			"file's own keys, those before the defaults. These verbs open no database.",
		Example: "  dlockctl config show --origin\n  dlockctl config profiles\n  dlockctl config init",
	}
	cmd.AddCommand(newShowCmd(a), newProfilesCmd(a), newInitCmd(a))
	return app.Group(cmd)
}

// valueView is one key as config show prints it.
type valueView struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Layer  string `json:"layer"`
	Origin string `json:"origin"`
}

func newShowCmd(a *app.App) *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every value in force, secrets masked",
		Long: "Show every key with the value in force. Passwords and session ids are dots; of a connection\n" +
			"string only where it leads is shown. With --origin, also where each value came from.",
		Example: "  dlockctl config show --origin\n  dlockctl config show --profile prod -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(context.Context, []string) error { return runShow(a, origin) }),
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value came from")
	return cmd
}

func runShow(a *app.App, origin bool) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	views := []valueView{}
	for _, v := range cfg.Values() {
		views = append(views, valueView{v.Key, v.Text, string(v.Origin.Layer), v.Origin.String()})
	}
	if cfg.File != "" {
		a.Aside("configuration file: %s", cfg.File)
	}
	return a.Print(ui.View{
		Data: views,
		Columns: []ui.Column{
			{Title: "KEY", Field: "key"},
			{Title: "VALUE", Field: "value"},
			{Title: "FROM", Field: "origin", Wide: !origin},
		},
		Name: "key",
	})
}

// profileView is one profile as config profiles prints it.
type profileView struct {
	Name        string `json:"name"`
	Active      bool   `json:"active"`
	Protected   bool   `json:"protected"`
	Environment string `json:"environment,omitempty"`
	Lock        string `json:"lock,omitempty"`
	Pay         string `json:"pay,omitempty"`
}

func newProfilesCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "profiles",
		Short: "List the profiles of the configuration file",
		Long: "List the profiles, which of them is in force, which are protected, and where each leads. dev is\n" +
			"always there: the embedded databases, unless the file says otherwise.",
		Example: "  dlockctl config profiles\n  dlockctl config profiles -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(context.Context, []string) error { return runProfiles(a) }),
	}
}

func runProfiles(a *app.App) error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	views := []profileView{}
	for _, p := range cfg.Named() {
		v := profileView{p.Name, p.Name == cfg.Profile, p.Protected, p.Environment, p.Lock.Describe(), p.Pay.Describe()}
		if p.Backend == config.Etcd {
			v.Lock = p.Etcd.Describe()
		}
		if p.Name == config.DevProfile && p.Backend != config.Etcd && !p.Lock.Configured() && !p.Pay.Configured() {
			v.Lock, v.Pay = "embedded", "embedded"
			v.Environment = cmp.Or(v.Environment, config.DevEnvironment)
		}
		views = append(views, v)
	}
	return a.Print(ui.View{
		Data: views,
		Columns: []ui.Column{
			{Title: "PROFILE", Field: "name"},
			{Title: "ACTIVE", Field: "active", Tones: map[string]ui.Tone{"yes": ui.Good}},
			{Title: "PROTECTED", Field: "protected", Tones: map[string]ui.Tone{"yes": ui.Bad}},
			{Title: "ENVIRONMENT", Field: "environment"},
			{Title: "LOCK", Field: "lock"},
			{Title: "PAY", Field: "pay"},
		},
		Name: "name",
	})
}

func newInitCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a commented configuration file",
		Long: "Write a configuration file with every key explained, readable by you alone, where --config,\n" +
			"DLOCKCTL_CONFIG or the user's configuration folder says. One that is there is left as it is:\n" +
			"exit 6.",
		Example: "  dlockctl config init\n  dlockctl config init --config ./dlockctl.yaml",
		Args:    app.Args(),
		// It reads no configuration: the file named is the one to be made.
		RunE: func(cmd *cobra.Command, _ []string) error { return runInit(cmd, a) },
	}
}

func runInit(cmd *cobra.Command, a *app.App) error {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	if path == "" {
		path = a.Streams.Env("DLOCKCTL_CONFIG")
	}
	if path == "" {
		path = userfile.Path(a.Streams.Env)
	}
	if path == "" {
		return app.UsageError("say where: --config FILE", "there is no home folder to write a configuration file into")
	}
	err = config.Init(path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return &app.Failure{
			Exit: app.Refused, Code: "file_exists", Message: fmt.Sprintf("%s exists already; nothing was changed", path),
			Hint: "look at it with dlockctl config show --origin, or name another with --config",
		}
	case err != nil:
		return app.UsageError("name a file in a folder of yours with --config", "%v", err)
	}
	type written struct {
		Path string `json:"path"`
	}
	return a.Print(ui.View{Data: written{path}, Columns: []ui.Column{{Title: "WROTE", Field: "path"}}, Name: "path"})
}
