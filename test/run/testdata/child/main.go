// Command child is what the tests run under a lock. It is built by them, so that
// it starts in no time.
//
//	child write FILE [stubborn]   appends a line every 4 ms until it is killed
//	child daemon COMMAND ARG…     starts a command that has left group and session, twice forked, and ends
//
// A line is the process, the wall clock and the time since boot in nanoseconds: all
// processes of a machine read the same.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	switch os.Args[1] {
	case "write":
		if len(os.Args) > 3 {
			signal.Ignore(syscall.SIGTERM)
		}
		write(os.Args[2])
	case "daemon":
		fork(append([]string{os.Args[0], "again"}, os.Args[2:]...))
	case "again":
		fork(os.Args[2:])
	}
}

func write(path string) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	for {
		var boot unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
		if _, err := fmt.Fprintf(file, "%d %d %d\n", os.Getpid(), time.Now().UnixNano(), boot.Nano()); err != nil {
			panic(err)
		}
		time.Sleep(4 * time.Millisecond)
	}
}

func fork(argv []string) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}
