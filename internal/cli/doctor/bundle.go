package doctor

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// bundleTime is what all commands of a bundle may take, beside the deadline.
const bundleTime = 5 * time.Minute

// parts are the commands whose answers a bundle holds. All only read.
func parts() [][]string {
	return [][]string{
		{"version"},
		{"config", "show", "--origin"},
		{"doctor"},
		{"migrate", "status"},
		{"lock", "list", "--limit", "1000"},
		{"session", "list", "--limit", "1000"},
		{"audit", "list", "--limit", "200"},
		{"audit", "list", "--kind", "operator", "--limit", "200"},
		{"audit", "verify"},
		{"restore", "plan"},
		{"restore", "verify"},
		{"payout", "list", "--limit", "200"},
	}
}

const readMe = `What dlockctl doctor --bundle collected: the answer of each command as JSON, what it
said on stderr, and its exit code in index.json. Passwords, connection strings, session ids
and API keys are left out; keys, owners, reasons and the ids of accounts and payouts are not:
read it before it leaves your house.
`

// part is one answer, as index.json lists it.
type part struct {
	Command string   `json:"command"`
	Exit    app.Exit `json:"exit_code"`
	File    string   `json:"file,omitempty"`
	Stderr  string   `json:"stderr,omitempty"`
	TookMS  int64    `json:"took_ms"`
}

// index is what a bundle holds, and where it was made.
type index struct {
	MadeAt string `json:"made_at"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	Parts  []part `json:"parts"`
}

// Bundle is what --bundle prints.
type Bundle struct {
	Path  string `json:"path"`
	Parts int    `json:"parts"`
	Bytes int64  `json:"bytes"`
}

// writeBundle runs every part and puts what it left into a new file. A part that
// fails says so in it: a bundle is wanted most where something fails.
func writeBundle(ctx context.Context, a *app.App, path string) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return &app.Failure{Exit: app.Refused, Code: "file_exists", Message: fmt.Sprintf("there is a file %q already", path), Hint: "give another name: a bundle overwrites nothing"}
	case err != nil:
		return app.UsageError("give a folder that can be written", "write the bundle: %v", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	packed := gzip.NewWriter(file)
	archive := &bundle{tar: tar.NewWriter(packed), at: a.Streams.Now().UTC(), clean: cleaner(a.Secrets())}
	if err := archive.fill(ctx, a); err != nil {
		return err
	}
	if err := errors.Join(archive.tar.Close(), packed.Close()); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("look at the bundle: %w", err)
	}
	return a.Print(ui.View{
		Data: Bundle{path, len(parts()), info.Size()},
		Columns: []ui.Column{
			{Title: "BUNDLE", Field: "path"},
			{Title: "PARTS", Field: "parts", Kind: ui.Number},
			{Title: "BYTES", Field: "bytes", Kind: ui.Number},
		},
		Name: "path",
	})
}

type bundle struct {
	tar   *tar.Writer
	at    time.Time
	clean func(string) string
}

func (b *bundle) fill(ctx context.Context, a *app.App) error {
	contents := index{MadeAt: b.at.Format(time.RFC3339), OS: runtime.GOOS, Arch: runtime.GOARCH}
	for _, command := range parts() {
		if err := app.Stopped(ctx); err != nil {
			return err
		}
		a.Progress(strings.Join(command, " "))
		began := time.Now()
		exit, out, errOut := a.Again(ctx, append(command, "-o", "json")...)
		made := part{Command: "dlockctl " + strings.Join(command, " "), Exit: exit, Stderr: b.clean(errOut), TookMS: time.Since(began).Milliseconds()}
		if out != "" {
			made.File = strings.NewReplacer(" ", "-", "--", "").Replace(strings.Join(command, " ")) + ".json"
			if err := b.add(made.File, out); err != nil {
				return err
			}
		}
		contents.Parts = append(contents.Parts, made)
	}
	text, err := json.MarshalIndent(contents, "", "  ")
	if err != nil {
		return fmt.Errorf("write the index of the bundle: %w", err)
	}
	return errors.Join(b.add("index.json", string(text)+"\n"), b.add("README.txt", readMe))
}

func (b *bundle) add(name, text string) error {
	text = b.clean(text)
	header := &tar.Header{Name: "dlockctl-bundle/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: b.at, Format: tar.FormatPAX}
	if err := b.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("write %s into the bundle: %w", name, err)
	}
	if _, err := b.tar.Write([]byte(text)); err != nil {
		return fmt.Errorf("write %s into the bundle: %w", name, err)
	}
	return nil
}

const redacted = "[redacted]"

// likeSecret is what a secret looks like whose value is not known here: a password
// in a connection string that somebody wrote into a reason, a bearer token.
var likeSecret = regexp.MustCompile(`(?i)(password\s*=\s*|passwd\s*=\s*|pwd\s*=\s*|bearer\s+|api[-_ ]?key\s*[=:]\s*)('[^']*'|[^\s'",;\\]+)|(://[^\s/:@"]+:)[^\s@"]+(@)`)

// cleaner takes the secrets out of a text: those that are known, and what looks
// like one. Every verb masks its own already; this is the second lock on the door.
func cleaner(secrets []string) func(string) string {
	var pairs []string
	for _, secret := range secrets {
		if len(secret) > 3 { // a shorter one would take the text apart, and hides nothing
			pairs = append(pairs, secret, redacted)
		}
	}
	known := strings.NewReplacer(pairs...)
	return func(text string) string {
		return likeSecret.ReplaceAllString(known.Replace(text), "$1$3"+redacted+"$4")
	}
}
