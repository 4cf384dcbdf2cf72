package mark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Block is how far ahead the ceiling is raised at most, and leastBlock at least: the
// next block is twice the last one that was used up within grows, and else half of it.
const (
	Block      lockstore.Token = 1_000_000
	leastBlock lockstore.Token = 64
	grows                      = 500 * time.Millisecond
)

const version = 1

// mostBytes is far above any mark: something else stands in its place.
const mostBytes = 64 << 10

// ErrMissing is returned by Read and Raise: there is no file. Where lockdb says
// that one is kept, it was lost, and with it what was granted last.
var ErrMissing = errors.New("the outside mark is missing")

// DamagedError is returned for a file that is not what was written, or not this
// deployment's. It is never taken for 0.
type DamagedError struct{ Path, Problem string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("outside mark %s: %s", e.Path, e.Problem)
}

// State is what the file says.
type State struct {
	Path string `json:"path"`
	// Ceiling is at or above every token that was shown to anybody.
	Ceiling lockstore.Token `json:"ceiling"`
	// Issued is a token that was certainly shown, a moment or a block ago.
	Issued    lockstore.Token `json:"issued"`
	WrittenAt time.Time       `json:"written_at"`
}

// file is the JSON in the file. The checksum is over the rest.
type file struct {
	Version    int    `json:"version"`
	Deployment string `json:"deployment_id"`
	Ceiling    int64  `json:"ceiling"`
	Issued     int64  `json:"issued"`
	WrittenAt  string `json:"written_at"`
	Checksum   string `json:"checksum"`
}

func (f file) sum() string {
	text := fmt.Sprintf("%d\n%s\n%d\n%d\n%s", f.Version, f.Deployment, f.Ceiling, f.Issued, f.WrittenAt)
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(text))), 16)
}

// Mark is one deployment's file. It may be used by many goroutines.
type Mark struct {
	path, deployment string

	// ceiling is what the file is known to say, 0 before it was read.
	ceiling atomic.Int64
	seen    atomic.Int64
	// raising is held by who writes; ahead is full while somebody raises in the background.
	// Both are channels, for a context ends the wait for one.
	raising, ahead chan struct{}

	// block is the size of the last one, raised when that was.
	sizing sync.Mutex
	block  lockstore.Token
	raised time.Time
}

// Open names the file of a deployment; nothing is read yet. The deployment is the
// id that lockdb holds. It returns an error for a folder that is not there.
func Open(dir, deployment string) (*Mark, error) {
	id, err := uuid.Parse(deployment)
	if err != nil {
		return nil, fmt.Errorf("%w: deployment %q is not a UUID; lockdb's table outside_mark has it", lockstore.ErrInvalid, deployment)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the outside mark: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is no folder; give the folder that the outside mark is kept in", lockstore.ErrInvalid, dir)
	}
	return &Mark{path: filepath.Join(dir, "dlock-mark-"+id.String()+".json"), deployment: id.String(), raising: make(chan struct{}, 1), ahead: make(chan struct{}, 1)}, nil
}

// Path is where the file is, or would be.
func (m *Mark) Path() string { return m.path }

// Read reads the file. It returns ErrMissing or *DamagedError.
func (m *Mark) Read() (State, error) {
	info, err := os.Lstat(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return State{}, fmt.Errorf("%w: there is no %s", ErrMissing, m.path)
	case err != nil:
		return State{}, fmt.Errorf("read the outside mark: %w", err)
	case !info.Mode().IsRegular():
		// A link would be replaced by a file of this host's own, and a pipe waited for.
		return State{}, &DamagedError{m.path, "it is no regular file; mark_dir may be a link, the file may not"}
	case info.Size() > mostBytes:
		return State{}, &DamagedError{m.path, "it is far larger than what was written"}
	}
	text, err := os.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, fmt.Errorf("%w: there is no %s", ErrMissing, m.path)
	}
	if err != nil {
		return State{}, fmt.Errorf("read the outside mark: %w", err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return State{}, &DamagedError{m.path, "it is not the JSON that was written"}
	}
	at, timeErr := time.Parse(time.RFC3339Nano, f.WrittenAt)
	switch {
	case f.Version != version:
		return State{}, &DamagedError{m.path, fmt.Sprintf("it is of version %d, and this program knows %d", f.Version, version)}
	case f.Checksum != f.sum() || timeErr != nil || f.Ceiling < 0 || f.Issued < 0 || f.Issued > f.Ceiling:
		return State{}, &DamagedError{m.path, "its checksum does not fit what it says"}
	case f.Deployment != m.deployment:
		return State{}, &DamagedError{m.path, fmt.Sprintf("it belongs to deployment %s, not to %s", f.Deployment, m.deployment)}
	}
	rise(&m.ceiling, f.Ceiling)
	return State{Path: m.path, Ceiling: lockstore.Token(f.Ceiling), Issued: lockstore.Token(f.Issued), WrittenAt: at}, nil
}

// Writable tells whether the folder takes a new file, by making one and removing it:
// for who would find out too late, behind a closed gate.
func (m *Mark) Writable() error {
	temp, err := os.CreateTemp(filepath.Dir(m.path), filepath.Base(m.path)+".new-*")
	if err == nil {
		err = errors.Join(temp.Close(), os.Remove(temp.Name()))
	}
	if err != nil {
		return fmt.Errorf("write to the folder of the outside mark: %w", err)
	}
	return nil
}

// Create makes the file of a deployment that never had one, with the token that
// lockdb issued last; a file that stands is raised.
func (m *Mark) Create(ctx context.Context, issued lockstore.Token) (State, error) {
	return m.write(ctx, true, issued, issued)
}

// Replace makes the file anew after it was lost or damaged, and keeps what was
// damaged beside it: for an operator who goes on without what it said.
func (m *Mark) Replace(ctx context.Context, issued lockstore.Token) (State, error) {
	if _, err := m.Read(); err != nil && !errors.Is(err, ErrMissing) {
		if _, damaged := errors.AsType[*DamagedError](err); !damaged {
			return State{}, err
		}
		if err := os.Rename(m.path, m.path+".damaged"); err != nil {
			return State{}, fmt.Errorf("set the damaged outside mark aside: %w", err)
		}
	}
	return m.Create(ctx, issued)
}

// Raise raises the ceiling to at least to, and returns when it is on the disk. It
// returns ErrMissing when there is no file: a mark that was lost is not made anew
// as if nothing had been granted.
func (m *Mark) Raise(ctx context.Context, to lockstore.Token) (State, error) {
	return m.write(ctx, false, to, 0)
}

// Reach raises the ceiling and the highest token seen to a fast-forward's target, and
// returns when both are on the disk. So whoever still grants on the database of before
// hears at once that it was overtaken. It returns what Raise returns.
func (m *Mark) Reach(ctx context.Context, target lockstore.Token) (State, error) {
	return m.write(ctx, false, target, target)
}

// Cover returns when the ceiling is at or above token: at once, nearly always. Ask
// it after a grant's commit and before its token is shown; on an error the grant
// must be given back.
func (m *Mark) Cover(ctx context.Context, token lockstore.Token) error {
	ceiling := lockstore.Token(m.ceiling.Load())
	if token > ceiling {
		_, err := m.Raise(ctx, token+m.nextBlock())
		return err
	}
	if token <= ceiling-m.nearEnd() {
		return nil
	}
	select {
	case m.ahead <- struct{}{}:
		go func() {
			defer func() { <-m.ahead }()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), TellWithin)
			defer cancel()
			// Its failure is the next grant's to find, above the ceiling.
			_, _ = m.Raise(ctx, ceiling+m.nextBlock())
		}()
	default: // somebody does
	}
	return nil
}

// nextBlock is about as many tokens as are granted in twice the time that grows is, so
// that the file is written twice a second at most, and little is skipped after a crash.
func (m *Mark) nextBlock() lockstore.Token {
	m.sizing.Lock()
	defer m.sizing.Unlock()
	now := time.Now()
	if now.Sub(m.raised) < grows {
		m.block = min(m.block*2, Block)
	} else {
		m.block /= 2
	}
	m.block, m.raised = max(m.block, leastBlock), now
	return m.block
}

// nearEnd is how much of a block may be left when the next one is raised. A small block
// is used up first: raising it ahead would write as often as raising it at its end.
func (m *Mark) nearEnd() lockstore.Token {
	m.sizing.Lock()
	defer m.sizing.Unlock()
	if m.block < Block/100 {
		return 0
	}
	return m.block / 4
}

// Saw remembers the highest token shown; Flush writes it.
func (m *Mark) Saw(token lockstore.Token) { rise(&m.seen, int64(token)) }

// Seen is the highest token that this process has shown.
func (m *Mark) Seen() lockstore.Token { return lockstore.Token(m.seen.Load()) }

// Flush writes the highest token seen, and waits for what is being raised. Call it
// about once a second while granting, and once at the end.
func (m *Mark) Flush(ctx context.Context) error {
	select {
	case m.ahead <- struct{}{}:
		<-m.ahead
	case <-ctx.Done():
		return fmt.Errorf("wait for the outside mark to be raised: %w", context.Cause(ctx))
	}
	seen := m.Seen()
	if seen == 0 {
		return nil
	}
	_, err := m.write(ctx, false, seen, seen)
	return err
}

// write reads what stands, and writes the higher of the two.
func (m *Mark) write(ctx context.Context, create bool, ceiling, issued lockstore.Token) (State, error) {
	if max(ceiling, issued) > lockstore.MaxToken {
		// A block ahead of the last tokens there are.
		ceiling, issued = min(ceiling, lockstore.MaxToken), min(issued, lockstore.MaxToken)
	}
	select {
	case m.raising <- struct{}{}:
		defer func() { <-m.raising }()
	case <-ctx.Done():
		return State{}, fmt.Errorf("wait for who writes the outside mark: %w", context.Cause(ctx))
	}
	lock, err := filelock.Wait(ctx, m.path+".lock", func() {})
	if err != nil {
		return State{}, fmt.Errorf("lock the outside mark: %w", err)
	}
	defer lock.Release() //nolint:errcheck // closing it is all there is to it
	stands, err := m.Read()
	if err != nil && !(create && errors.Is(err, ErrMissing)) {
		return State{}, err
	}
	issued = max(issued, stands.Issued, min(m.Seen(), max(ceiling, stands.Ceiling)))
	next := State{Path: m.path, Ceiling: max(ceiling, issued, stands.Ceiling), Issued: issued, WrittenAt: time.Now().UTC()}
	if err == nil && next.Ceiling == stands.Ceiling && next.Issued == stands.Issued {
		return stands, nil
	}
	if err := m.replace(next); err != nil {
		return State{}, fmt.Errorf("write the outside mark: %w", err)
	}
	rise(&m.ceiling, int64(next.Ceiling))
	return next, nil
}

// replace writes a new file in the place of the old one, and waits for the disk: a
// reader sees one of the two, whole, whenever the machine stops.
func (m *Mark) replace(s State) (err error) {
	f := file{Version: version, Deployment: m.deployment, Ceiling: int64(s.Ceiling), Issued: int64(s.Issued), WrittenAt: s.WrittenAt.Format(time.RFC3339Nano)}
	f.Checksum = f.sum()
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(m.path), filepath.Base(m.path)+".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name()) // what failed is already an error
		}
	}()
	_, err = temp.Write(append(text, '\n'))
	if err == nil {
		err = temp.Sync()
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), m.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(m.path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// rise raises an atomic number, never lowers it.
func rise(to *atomic.Int64, n int64) {
	for {
		have := to.Load()
		if have >= n || to.CompareAndSwap(have, n) {
			return
		}
	}
}
