//go:build linux

package runner

import "fmt"

// Orders are what a guard is told first of a command with these marks.
func Orders(marks []string, pgid int) string {
	return fmt.Sprintf("%s\ngroup %d\n", markOrder(marks), pgid)
}
