package rail

import (
	"io/fs"
	"strings"
)

// Queries returns every statement of the package by name, as it is sent.
func Queries() map[string]string {
	return map[string]string{
		"payout": payoutQuery, "mark": markQuery, "barrier": barrierQuery, "attempt": attemptQuery, "fenced": fencedQuery,
		"standing_attempt": standingAttemptQuery, "own_attempt": ownAttemptQuery, "answer": answerQuery,
		"timeout": timeoutQuery, "rights": rightsQuery, "overdue": overdueQuery,
	}
}

// QueryFiles returns the text of each file in queries/ by name.
func QueryFiles() (map[string]string, error) {
	files := make(map[string]string)
	names, err := fs.Glob(queryFiles, "queries/*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := queryFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[strings.TrimSuffix(strings.TrimPrefix(name, "queries/"), ".sql")] = string(text)
	}
	return files, nil
}
