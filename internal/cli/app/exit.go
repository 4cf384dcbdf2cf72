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
	default:
		return "exit " + strconv.Itoa(int(e))
	}
}

// Exits lists every exit code in order.
func Exits() []Exit {
	return []Exit{
		OK, Unexpected, Usage, NotFound, Held, Lost, Refused, Findings,
		Unreachable, History, Unknown, Incomplete, Interrupted, Terminated,
	}
}
