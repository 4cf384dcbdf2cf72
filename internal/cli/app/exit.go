package app

import "strconv"

// Exit is a process exit code. The table is docs/exit-codes.md; the numbers
// are stable, scripts and runbooks depend on them.
type Exit int

// The exit codes.
const (
	OK          Exit = 0   // done
	Unexpected  Exit = 1   // an error that no row of the table knows
	Usage       Exit = 2   // wrong arguments or configuration; nothing was sent
	NotFound    Exit = 3   // no such thing
	Held        Exit = 4   // held by another, blocked, or the wait ran out
	Lost        Exit = 5   // lock or session lost, fenced out
	Refused     Exit = 6   // refused by a guard
	Findings    Exit = 7   // a check found something
	Unreachable Exit = 8   // database or service unreachable, or too slow
	History     Exit = 9   // migration history dirty or edited
	Unknown     Exit = 10  // outcome unknown, or only part was done
	Incomplete  Exit = 11  // a check could not finish and found nothing so far
	Interrupted Exit = 130 // SIGINT
	Terminated  Exit = 143 // SIGTERM

	// Of run alone, whose other codes are its command's.
	NotExecutable Exit = 126 // the command cannot be executed
	NoCommand     Exit = 127 // there is no such command
	NotAcquired   Exit = 200 // held by another, or refused; nothing was run
	WaitTimeout   Exit = 201 // the wait ran out; nothing was run
	RunLost       Exit = 202 // the lock was lost, and the command stopped
	RunRevoked    Exit = 203 // an operator revoked the lock, and the command was stopped
	RunDown       Exit = 204 // the database did not answer in time
)

// Meaning says an exit code in words; the documentation is held to it by a
// test.
func (e Exit) Meaning() string {
	switch e {
	case OK:
		return "done"
	case Unexpected:
		return "unexpected error"
	case Usage:
		return "wrong usage or configuration; nothing was sent"
	case NotFound:
		return "not found"
	case Held:
		return "held by another, blocked, or the wait ran out"
	case Lost:
		return "lock or session lost, or fenced out"
	case Refused:
		return "refused by a guard"
	case Findings:
		return "findings"
	case Unreachable:
		return "database or service unreachable, or the deadline passed"
	case History:
		return "migration history dirty or edited"
	case Unknown:
		return "outcome unknown or partial"
	case Incomplete:
		return "check incomplete, nothing found so far"
	case Interrupted:
		return "interrupted (SIGINT)"
	case Terminated:
		return "terminated (SIGTERM), or hung up (SIGHUP)"
	case NotExecutable:
		return "`run`: the command cannot be executed"
	case NoCommand:
		return "`run`: there is no such command"
	case NotAcquired:
		return "`run`: lock not acquired, nothing was run; `--conflict-exit-code` moves it"
	case WaitTimeout:
		return "`run`: the wait ran out, nothing was run"
	case RunLost:
		return "`run`: lock lost, command stopped"
	case RunRevoked:
		return "`run`: lock revoked, command stopped"
	case RunDown:
		return "`run`: database unreachable; the command was not run, or stopped before the lease could end"
	default:
		return "exit " + strconv.Itoa(int(e))
	}
}

// Exits lists every exit code in order.
func Exits() []Exit {
	return []Exit{
		OK, Unexpected, Usage, NotFound, Held, Lost, Refused, Findings,
		Unreachable, History, Unknown, Incomplete, NotExecutable, NoCommand, Interrupted, Terminated,
		NotAcquired, WaitTimeout, RunLost, RunRevoked, RunDown,
	}
}
