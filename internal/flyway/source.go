package flyway

import (
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/golang-migrate/migrate/v4/source"
)

var errNotByURL = errors.New("this driver serves one Migrator and cannot be opened by URL")

// fileSource is golang-migrate's source driver. Versions are places in the
// catalogue, counted from 1: that way repeatables have one too, and a version of
// any length fits.
type fileSource struct{ catalogue *Catalogue }

var _ source.Driver = fileSource{}

func (fileSource) Open(string) (source.Driver, error) { return nil, errNotByURL }

func (fileSource) Close() error { return nil }

func (s fileSource) First() (uint, error) { return s.place("first", 1) }

func (s fileSource) Prev(position uint) (uint, error) { return s.place("prev", position-1) }

func (s fileSource) Next(position uint) (uint, error) { return s.place("next", position+1) }

func (s fileSource) place(op string, position uint) (uint, error) {
	if position == 0 || position > uint(len(s.catalogue.migrations)) {
		return 0, &fs.PathError{Op: op, Path: "catalogue", Err: fs.ErrNotExist}
	}
	return position, nil
}

func (s fileSource) ReadUp(position uint) (io.ReadCloser, string, error) {
	if _, err := s.place("read up", position); err != nil {
		return nil, "", err
	}
	m := s.catalogue.migrations[position-1]
	return io.NopCloser(strings.NewReader(m.text)), m.Script, nil
}

// ReadDown has nothing to read: there is no way down.
func (fileSource) ReadDown(uint) (io.ReadCloser, string, error) {
	return nil, "", &fs.PathError{Op: "read down", Path: "catalogue", Err: fs.ErrNotExist}
}
