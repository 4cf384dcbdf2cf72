//go:build !linux

package devenv_test

import "errors"

func mountTmpfs(string, string) error { return errors.ErrUnsupported }
