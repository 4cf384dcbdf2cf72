package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// readSecret reads a file that is named for a secret, whole or not at all: of one that
// is longer the wrong path was given. what names the file in errors, which show nothing
// of what is in it; check may refuse the file that was opened.
func readSecret(what, path string, most int64, check func(fs.FileInfo) error) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", what, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("read the %s %s: %w", what, path, err)
	}
	if err := check(info); err != nil {
		return "", fmt.Errorf("the %s %s %w", what, path, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", fmt.Errorf("read the %s %s: %w", what, path, err)
	}
	if int64(len(text)) > most {
		return "", fmt.Errorf("the %s %s is longer than %d bytes; give the path of a file that holds one line", what, path, most)
	}
	return string(text), nil
}

// anyMode accepts a file whoever may read it.
func anyMode(fs.FileInfo) error { return nil }

// private refuses a file that others may read or change. Its group may read it: a
// service's login often has it from root.
func private(info fs.FileInfo) error {
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o027 != 0 {
		return fmt.Errorf("has mode %04o, so that others can read or change it; chmod 600 it", mode)
	}
	return nil
}
