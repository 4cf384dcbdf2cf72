//go:build unix && !linux

package runner

import (
	"errors"
	"syscall"
)

// dieWithParent can do nothing here: the guard kills the group.
func dieWithParent(*syscall.SysProcAttr) {}

// await waits for news of the main process, and takes its end in.
func (g *group) await() change {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(g.pid, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err == nil && status.Stopped():
			return change{stopped, status.StopSignal()}
		case err == nil && status.Continued():
			return change{kind: continued}
		default:
			g.reaped.Do(func() { g.ending = status })
			return change{kind: ended}
		}
	}
}

// tree is the process group alone: what leaves it cannot be found here.
type tree struct{}

func plantTree() tree         { return tree{} }
func (tree) grow(int)         {}
func (tree) close()           {}
func (tree) strays(int) []int { return nil }

// others tells whether the group has members; the main process, once it has
// ended, is none.
func (tree) others(pgid int) int {
	if err := syscall.Kill(-pgid, 0); err == nil || errors.Is(err, syscall.EPERM) {
		return 1
	}
	return 0
}

func marked([]string) []int { return nil }
