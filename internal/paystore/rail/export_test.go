package rail

import (
	"io/fs"
)

// Queries returns every statement of the package by name, as it is sent.
func Queries() map[string]string {
	return map[string]string{
		"payout": payoutQuery, "mark": markQuery, "barrier": barrierQuery, "attempt": attemptQuery, "fenced": fencedQuery,
		"standing_attempt": standingAttemptQuery, "own_attempt": ownAttemptQuery, "answer": answerQuery,
		"timeout": timeoutQuery, "rights": rightsQuery, "overdue": overdueQuery,
	}
}

// QueryFiles are the statements as they are written.
func QueryFiles() fs.FS { return queryFiles }
