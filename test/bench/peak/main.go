//go:build unix

// Command peak runs a program and writes its peak memory in bytes to file
// descriptor 3.
//
//	peak PROGRAM [ARGUMENT…]
//
// It exists because the kernel counts into a program's ru_maxrss what its parent
// had at the moment of the exec: measured by the benchmark itself, every program
// would seem as large as the benchmark. This one is as small as a Go program
// gets, so it imports nothing but what it needs.
package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = os.Stderr.WriteString("peak: " + err.Error() + "\n")
		os.Exit(1)
	}
}

func run(args []string) error {
	pid, err := syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		_, err = syscall.Wait4(pid, &status, 0, &usage)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return err
	}
	if status.ExitStatus() != 0 {
		os.Exit(max(1, status.ExitStatus()))
	}
	peak := usage.Maxrss
	if runtime.GOOS != "darwin" { // which counts bytes; the others KiB
		peak *= 1024
	}
	_, err = syscall.Write(3, []byte(strconv.FormatInt(peak, 10)))
	return err
}
