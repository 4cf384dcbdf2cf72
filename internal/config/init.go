package config

import (
	_ "embed" // example.yaml
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// example is the commented configuration file that Init writes.
//
//go:embed example.yaml
var example string

// Init writes the example to path, readable by its owner alone, with the
// folders above it. It returns an error that wraps fs.ErrExist for a file that
// is there, and leaves that as it is.
func Init(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the folder of the configuration file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the configuration file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(example); err != nil {
		return fmt.Errorf("write the configuration file: %w", err)
	}
	return nil
}
