package runner

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// find looks a command up as a shell does, in the PATH that it will be given: 127
// when there is none, 126 when what is there cannot be executed.
func find(name string, env []string) (string, error) {
	if name == "" {
		return "", &StartError{name, ExitNotFound, errors.New("the command is empty")}
	}
	if filepath.Base(name) != name {
		return executable(name, name)
	}
	var refused error
	for _, dir := range filepath.SplitList(valueOf(env, "PATH")) {
		path, err := executable(name, filepath.Join(dirOrHere(dir), name))
		if err == nil {
			return path, nil
		}
		if start, _ := errors.AsType[*StartError](err); start.Exit == ExitNotExecutable && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", refused
	}
	return "", &StartError{name, ExitNotFound, errors.New("no such command in PATH")}
}

// dirOrHere reads an empty element of PATH as a shell does.
func dirOrHere(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// executable is the path of a program, which keeps its folder even when that is
// the current one.
func executable(name, path string) (string, error) {
	if !strings.ContainsRune(path, filepath.Separator) {
		path = "." + string(filepath.Separator) + path
	}
	found, err := exec.LookPath(path)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		if found == "" {
			found = path
		}
		return found, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, exec.ErrNotFound):
		return "", &StartError{name, ExitNotFound, errors.New("no such file")}
	default:
		return "", &StartError{name, ExitNotExecutable, errors.Unwrap(err)}
	}
}

// notStarted reads why the system did not execute what find had found.
func notStarted(name string, err error) *StartError {
	start := &StartError{name, ExitNotExecutable, err}
	path, isPath := errors.AsType[*os.PathError](err)
	if isPath {
		start.Err = path.Err
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		start.Exit, start.Err = ExitNotFound, errors.New("it is gone, or the interpreter in its first line is")
	case errors.Is(err, syscall.ENOEXEC):
		start.Err = errors.New("it is no program; a script names its interpreter in the first line, such as #!/bin/sh")
	}
	return start
}

func valueOf(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// without is an environment less some names.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}
