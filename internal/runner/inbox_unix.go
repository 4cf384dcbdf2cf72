//go:build unix

package runner

import "syscall"

// listened are the signals that a job takes in.
func listened() []syscall.Signal {
	return []syscall.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
		syscall.SIGTSTP, syscall.SIGCONT,
	}
}

// stopSelf stops the wrapper's whole group as Ctrl-Z does, so that the shell has
// its terminal back. It returns at once; the stop itself follows. In a group that
// nobody could continue the system lets it pass. It is SIGTTIN, since SIGTSTP, once
// listened to, does not go back to stopping a Go process.
func stopSelf() { _ = syscall.Kill(0, syscall.SIGTTIN) } // one's own group is always there

func isContinue(sig syscall.Signal) bool { return sig == syscall.SIGCONT }
