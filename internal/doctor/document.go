package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Table writes the checks as the table of docs/doctor.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| check | severity | clause | what holds | why |\n|---|---|---|---|---|\n")
	for _, c := range slices.Concat(Checks(), EtcdChecks(), SyncGuardChecks()) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", c.ID, c.Severity, c.Clause, c.Title, c.Meaning)
	}
	return b.String()
}
