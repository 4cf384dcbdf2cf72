package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/plaintext"
)

// duration is what is one in form, though perhaps too long for the type.
var duration = regexp.MustCompile(`^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)

// flagError names the flag, the value, what is most often forgotten, and the
// command's help.
func flagError(cmd *cobra.Command, err error) error {
	help := cmd.CommandPath() + " --help"
	invalid, is := errors.AsType[*pflag.InvalidValueError](err)
	if !is {
		return app.UsageError(help, "%s", err)
	}
	given := fmt.Sprintf("--%s %s", invalid.GetFlag().Name, plaintext.Shown(invalid.GetValue()))
	switch kind := invalid.GetFlag().Value.Type(); {
	case kind == "duration" && duration.MatchString(invalid.GetValue()):
		return app.UsageError("give a shorter one; "+help, "%s is longer than the longest duration, 2562047h", given)
	case kind == "duration":
		return app.UsageError("a duration has a unit, such as 30s or 5m; "+help, "%s is no duration", given)
	case kind == "bool":
		return app.UsageError("leave the value out for true; "+help, "%s is neither true nor false", given)
	}
	why := strings.TrimPrefix(invalid.Unwrap().Error(), lockstore.ErrInvalid.Error()+": ")
	if strings.Contains(why, plaintext.Shown(invalid.GetValue())) {
		given = "--" + invalid.GetFlag().Name // what is wrong names the value
	}
	return app.UsageError(help, "%s: %s", given, why)
}
