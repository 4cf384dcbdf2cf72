package runner

import (
	"io"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// job is a command in a job object: it dies with the wrapper, whose handle is the
// only one, and everything that it starts with it.
type job struct {
	process *os.Process
	object  windows.Handle
	news    chan change
	waited  sync.WaitGroup
	ending  ChildEnd
}

// start starts a command. It returns *StartError when the system does not execute
// it.
func start(s spec) (process, error) {
	object, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, os.NewSyscallError("create job object", err)
	}
	j := &job{object: object, news: make(chan change, 1)}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(object, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))) //nolint:gosec // G103: the call takes a structure
	if err != nil {
		j.close()
		return nil, os.NewSyscallError("set job object", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		j.close()
		return nil, err
	}
	defer null.Close()
	files := make([]*os.File, len(s.files))
	for i, file := range s.files {
		if files[i] = file; file == nil {
			files[i] = null
		}
	}
	j.process, err = os.StartProcess(s.path, s.argv, &os.ProcAttr{
		Env: s.env, Files: files, Sys: &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP},
	})
	if err != nil {
		j.close()
		return nil, notStarted(s.argv[0], err)
	}
	// What it starts before this line stands outside: docs/run.md says so.
	if err := j.take(); err != nil {
		_ = j.process.Kill()
		_, _ = j.process.Wait()
		j.close()
		return nil, err
	}
	j.waited.Go(func() {
		if state, err := j.process.Wait(); err == nil {
			j.ending = ChildEnd{Code: state.ExitCode()}
		}
		j.news <- change{kind: ended}
	})
	return j, nil
}

func (j *job) take() error {
	handle, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(j.process.Pid)) //nolint:gosec // G115: it is one
	if err != nil {
		return os.NewSyscallError("open process", err)
	}
	defer windows.CloseHandle(handle) //nolint:errcheck // it was only used
	return os.NewSyscallError("assign process to job object", windows.AssignProcessToJobObject(j.object, handle))
}

func (j *job) id() int                { return j.process.Pid }
func (j *job) changes() <-chan change { return j.news }

// forward sends Ctrl-Break, the only signal that reaches a group here.
func (j *job) forward(syscall.Signal) {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(j.process.Pid)) //nolint:gosec // G115: it is one
}

func (j *job) terminate() { j.forward(syscall.SIGTERM) }
func (j *job) kill()      { _ = windows.TerminateJobObject(j.object, 1) }

func (j *job) others() int {
	var info accounting
	err := windows.QueryInformationJobObject(j.object, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil) //nolint:gosec // G103: the call takes a structure
	if err != nil {
		return 0
	}
	return int(info.activeProcesses)
}

// accounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, which x/sys lacks.
type accounting struct {
	_               [4]int64 // times
	_, _            uint32   // page faults, all processes ever
	activeProcesses uint32
	_               uint32 // terminated by a limit
}

func (j *job) suspend(syscall.Signal) bool { return false }
func (j *job) resume()                     {}
func (j *job) trusted(Instant)             {}

func (j *job) end() ChildEnd {
	j.waited.Wait()
	return j.ending
}

func (j *job) close() { _ = windows.CloseHandle(j.object) }

// Guard has nothing to do here: the job object ends the command with the wrapper.
func Guard(io.Reader, Clock) {}
