package doctor

import (
	"cmp"
	"context"
	"slices"
)

// Severity says how bad it is when a check fails.
type Severity string

// The severities, worst first.
const (
	// Critical: money can be paid twice, or two holders can hold one lock.
	Critical Severity = "critical"
	// High: a guard or a proof that others rest on is missing.
	High Severity = "high"
	// Medium: something works worse than it should.
	Medium Severity = "medium"
	// Low: worth a look.
	Low Severity = "low"
)

func (s Severity) rank() int { return slices.Index([]Severity{Critical, High, Medium, Low}, s) }

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK Status = "ok"
	// Warn: it works, and not as it should.
	Warn Status = "warn"
	Fail Status = "fail"
	// Unknown: it could not be read, so nothing is said about it.
	Unknown Status = "unknown"
)

func (s Status) rank() int { return slices.Index([]Status{Fail, Unknown, Warn, OK}, s) }

// The databases a check is about.
const (
	LockDB = "lockdb"
	PayDB  = "paydb"
	Both   = "both"
	// Services are no database: they are asked how they are.
	Services = "services"
)

// Check is one precondition.
type Check struct {
	// ID is stable: scripts and runbooks name it.
	ID string
	// Clause is the paragraph of docs/contract.md that asks for it.
	Clause   string
	Severity Severity
	// Database is LockDB, PayDB, Both, EtcdDB, SyncGuard or Services.
	Database string
	// Title says what holds when the check is ok, Meaning why it matters.
	Title, Meaning string

	look func(ctx context.Context, e *exam) (finding, error)
}

// finding is what one look has seen.
type finding struct {
	status Status
	saw    string
	fix    *Fix
}

// Result is a check with its outcome.
type Result struct {
	ID       string   `json:"id"`
	Clause   string   `json:"clause"`
	Severity Severity `json:"severity"`
	Database string   `json:"database"`
	Title    string   `json:"title"`
	Status   Status   `json:"status"`
	// Saw is what was found, in one line.
	Saw     string `json:"saw"`
	Meaning string `json:"meaning"`
	// Fix is nil when the check is ok.
	Fix *Fix `json:"fix,omitempty"`
}

// Fix is what makes a check pass.
type Fix struct {
	// Run is the SQL or the command, to be run word for word; "" when it is not
	// a matter of one, and Advice says what to do.
	Run string `json:"run,omitempty"`
	// On is LockDB, PayDB or SyncGuard for SQL, "shell" for a command.
	On string `json:"on,omitempty"`
	// As is the role that may run the SQL.
	As     string `json:"as,omitempty"`
	Advice string `json:"advice,omitempty"`
}

// Shell is where a command runs.
const Shell = "shell"

// Superuser is the role of a Fix that no group role may run: a superuser, or
// on a managed server the role that created the others.
const Superuser = "superuser"

// Where says where the fix runs and as whom.
func (f *Fix) Where() string {
	switch {
	case f.Run == "":
		return ""
	case f.On == Shell:
		return "run"
	case f.As == Superuser:
		return "on " + f.On + ", as a superuser"
	default:
		return "on " + f.On + ", as " + f.As
	}
}

func command(text string) *Fix { return &Fix{Run: text, On: Shell} }

func advice(text string) *Fix { return &Fix{Advice: text} }

// Report is the outcome of all checks, worst first.
type Report struct {
	Results []Result `json:"results"`
	OK      int      `json:"ok"`
	Warn    int      `json:"warn"`
	Fail    int      `json:"fail"`
	Unknown int      `json:"unknown"`
	// Complete is false when a check is unknown: nothing found is then no proof
	// that nothing is there.
	Complete bool `json:"complete"`
	// Reached names the databases that answered.
	Reached []string `json:"reached"`
}

func newReport(results []Result, reached []string) Report {
	slices.SortStableFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Status.rank(), b.Status.rank()), cmp.Compare(a.Severity.rank(), b.Severity.rank()))
	})
	report := Report{Results: results, Reached: reached}
	for _, r := range results {
		switch r.Status {
		case OK:
			report.OK++
		case Warn:
			report.Warn++
		case Fail:
			report.Fail++
		default:
			report.Unknown++
		}
	}
	report.Complete = report.Unknown == 0
	return report
}
