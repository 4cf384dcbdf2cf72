package runner

import "syscall"

// listened are the signals that a job takes in: Ctrl-C and Ctrl-Break, and the
// end of the session.
func listened() []syscall.Signal { return []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} }

func stopSelf() {}

func isContinue(syscall.Signal) bool { return false }
