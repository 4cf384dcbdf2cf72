//go:build !linux

package main

import (
	"errors"
	"sync/atomic"
)

type disk struct{ delay atomic.Int64 }

func (*disk) intercept() error { return errors.New("only Linux reports a process's calls to it") }
