package runner

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the command when the wrapper is gone.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// await waits for news of the main process. Its end is seen and not taken in: as
// long as it is a zombie, nobody else gets its number.
func (g *group) await() change {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, g.pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WCONTINUED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil, info.Code == cldExited, info.Code == cldKilled, info.Code == cldDumped:
			return change{kind: ended}
		}
		var status syscall.WaitStatus
		_, err = syscall.Wait4(g.pid, &status, syscall.WUNTRACED|syscall.WCONTINUED|syscall.WNOHANG, nil)
		switch {
		case err != nil:
		case status.Stopped():
			return change{stopped, status.StopSignal()}
		case status.Continued():
			return change{kind: continued}
		case status.Exited(), status.Signaled(): // it ended in between
			g.reaped.Do(func() { g.ending = status })
			return change{kind: ended}
		}
	}
}

// The kinds of news, as the kernel numbers them.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// tree is all that descends from the wrapper since the command began. Whatever
// loses its parent comes to the wrapper, so that a daemon is found too.
type tree struct {
	// before are those that were there already.
	before  map[int]bool
	orphans chan os.Signal
}

func plantTree() tree {
	// Where the kernel refuses, daemons go elsewhere and are not found.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	t := tree{before: map[int]bool{}, orphans: make(chan os.Signal, 1)}
	for pid, p := range processes() {
		if p.parent == os.Getpid() {
			t.before[pid] = true
		}
	}
	return t
}

// grow begins to bury the orphans that die while the command runs.
func (t tree) grow(main int) {
	signal.Notify(t.orphans, syscall.SIGCHLD)
	go func() {
		for range t.orphans {
			t.bury(main)
		}
	}()
}

func (t tree) close() {
	signal.Stop(t.orphans)
	close(t.orphans)
}

func (t tree) bury(main int) {
	for pid, p := range processes() {
		if p.parent == os.Getpid() && p.zombie && pid != main && !t.before[pid] {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // buried already
		}
	}
}

// strays are the living descendants outside the group.
func (t tree) strays(pgid int) []int {
	var pids []int
	for pid, p := range t.living(pgid) {
		if p.group != pgid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// others counts the living descendants and members of the group, but for the main
// process.
func (t tree) others(main int) int {
	living := t.living(main)
	delete(living, main)
	return len(living)
}

func (t tree) living(pgid int) map[int]procStat {
	all := processes()
	found := map[int]procStat{}
	for pid, p := range all {
		if !p.zombie && (p.group == pgid || t.descends(pid, all)) {
			found[pid] = p
		}
	}
	return found
}

func (t tree) descends(pid int, all map[int]procStat) bool {
	for p, known := all[pid]; known; p, known = all[p.parent] {
		if t.before[pid] {
			return false
		}
		if p.parent == os.Getpid() {
			return true
		}
		pid = p.parent
	}
	return false
}

// procStat is what /proc says of a process.
type procStat struct {
	parent, group int
	zombie        bool
}

// processes reads /proc. A process that ends meanwhile is left out.
func processes() map[int]procStat {
	found := map[int]procStat{}
	dir, err := os.Open("/proc")
	if err != nil {
		return found
	}
	defer dir.Close()                //nolint:errcheck // it was only read
	names, _ := dir.Readdirnames(-1) // as many as could be read
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// pid (name, which may hold anything) state parent group …
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 3 {
			continue
		}
		parent, parentErr := strconv.Atoi(string(fields[1]))
		group, groupErr := strconv.Atoi(string(fields[2]))
		if parentErr == nil && groupErr == nil {
			state := fields[0][0]
			found[pid] = procStat{parent, group, state == 'Z' || state == 'X'}
		}
	}
	return found
}

// marked are the processes that carry all the entries in the environment they were
// started with: what is left of a command whose wrapper is gone.
func marked(entries []string) []int {
	var pids []int
	for pid := range processes() {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil {
			continue
		}
		environ := bytes.Split(text, []byte{0})
		lacks := func(entry string) bool {
			return !slices.ContainsFunc(environ, func(have []byte) bool { return string(have) == entry })
		}
		if !slices.ContainsFunc(entries, lacks) {
			pids = append(pids, pid)
		}
	}
	return pids
}
