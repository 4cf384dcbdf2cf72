package app

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/ui"
)

// ConfirmFlag adds --confirm, which says aloud which protected profile is
// meant. It is a flag alone: neither a variable nor a pipe can say it.
func ConfirmFlag(flags *pflag.FlagSet) {
	flags.String("confirm", "", "`PROFILE` that is meant; a protected one wants its name, and --yes does not stand for it")
}

// Protect refuses what destroys something in a protected profile unless
// --confirm is that profile's very name, and everywhere a --confirm that names
// another profile than the one that stands.
func (a *App) Protect() error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	confirmed, given := a.flag("confirm")
	profile, protected := cfg.Protection()
	switch {
	case !protected && given && confirmed != cfg.Profile:
		return &Failure{
			Exit: Refused, Code: "not_confirmed", Message: fmt.Sprintf("--confirm names profile %q, but %q is in force", confirmed, cfg.Profile),
			Hint: "choose the profile with --profile, and name the same one",
		}
	case !protected || confirmed == profile:
		return nil
	case given:
		return &Failure{
			Exit: Refused, Code: "protected", Message: fmt.Sprintf("--confirm %q is not the name of the protected profile %q; nothing was changed", confirmed, profile),
			Hint: "the name is compared letter by letter",
		}
	default:
		hint := "say which profile you mean: --confirm=" + profile
		if a.flags.Lookup("dry-run") != nil {
			hint = "look with --dry-run, then " + hint
		}
		return &Failure{Exit: Refused, Code: "protected", Message: fmt.Sprintf("profile %q is protected; nothing was changed", profile), Hint: hint}
	}
}

// Badge names a protected profile on stderr, once, before anything is changed.
func (a *App) Badge() {
	cfg, err := a.Config()
	if err != nil {
		return
	}
	profile, protected := cfg.Protection()
	if !protected || !a.asides() {
		return
	}
	a.badged.Do(func() {
		styles := a.Streams.ErrStyles(a.bestPrinter().Color)
		fmt.Fprintf(a.Streams.Err, "%s profile %s\n", styles.Paint(ui.Alarm, " PROTECTED "), ui.Visible(profile))
	})
}
