package serve

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type keyOptions struct {
	name   string
	scopes []string
	cert   bool
	file   string
}

func newKeyCmd(a *app.App) *cobra.Command {
	var opts keyOptions
	cmd := &cobra.Command{
		Use:   "key --name NAME --scope SCOPE[,SCOPE]",
		Short: "Make an API key for a caller",
		Long: "Make an API key, print it this once on stdout, and add the caller's line to --keys-file, or print it on\n" +
			"stderr. The line holds a hash: who reads it cannot call. Services read the file again when it\n" +
			"changes. Two lines of one name are two keys, which is how a key is replaced. --cert makes the\n" +
			"line for a client certificate with that common name instead, and no key.\n\n" +
			"Scopes: acquire takes locks, operate does what operators do, audit looks, pay makes and settles\n" +
			"payouts, rail submits them to the rail.",
		Example: "  dlockctl serve key --name executor-1 --scope acquire,pay,rail --keys-file callers.keys > executor-1.key\n" +
			"  dlockctl serve key --name prometheus --scope audit --cert",
		Args: app.Args(),
		RunE: a.Run(func(context.Context, []string) error { return runKey(a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.name, "name", "", "who calls: letters, digits and . _ @ - (required)")
	flags.StringSliceVar(&opts.scopes, "scope", nil, "what the caller may do: acquire, operate, audit, pay, rail (required)")
	flags.BoolVar(&opts.cert, "cert", false, "make the line for a client certificate with that common name, and no key")
	flags.StringVar(&opts.file, "keys-file", "", "`FILE` to add the line to; made when it is not there")
	return cmd
}

// keyView is what serve key prints.
type keyView struct {
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
	// Key is the secret, "" for a certificate's line.
	Key  string `json:"key,omitempty"`
	Line string `json:"line"`
}

func runKey(a *app.App, opts keyOptions) error {
	scopes := make([]httpd.Scope, len(opts.scopes))
	for i, name := range opts.scopes {
		scopes[i] = httpd.Scope(name)
	}
	view := keyView{Name: opts.name, Scopes: opts.scopes}
	var err error
	if opts.cert {
		view.Line, err = httpd.CertLine(opts.name, scopes)
	} else {
		view.Key, view.Line, err = httpd.NewKey(opts.name, scopes)
	}
	if err != nil {
		return app.UsageError("dlockctl serve key --help", "%v", err)
	}
	if opts.file != "" {
		if err := addLine(opts.file, view.Line); err != nil {
			return app.UsageError("", "%v", err)
		}
	}
	if format := a.Format(); format != ui.Table && format != ui.Wide {
		return a.Print(ui.View{Data: view, Name: "key"})
	}
	if opts.file == "" {
		a.Aside("add this line to the keys file: %s", view.Line)
	}
	if view.Key == "" {
		return nil
	}
	if _, err := fmt.Fprintln(a.Streams.Out, view.Key); err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// addLine adds a line to a keys file, on a line of its own. One write: a service that
// reads meanwhile sees all of it or nothing.
func addLine(path, line string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("add to the keys file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("add to the keys file: %w", err)
	}
	if last := make([]byte, 1); info.Size() > 0 {
		if _, err := file.ReadAt(last, info.Size()-1); err != nil {
			return fmt.Errorf("add to the keys file: %w", err)
		}
		if last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := file.WriteString(line + "\n"); err != nil {
		return fmt.Errorf("add to the keys file: %w", err)
	}
	return nil
}
