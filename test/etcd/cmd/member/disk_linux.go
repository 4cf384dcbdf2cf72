package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// disk makes fsync and fdatasync of this process late. etcd offers no hook for it, so the kernel does: a seccomp filter
// reports the calls to a listener, which lets each go on when its time has come.
type disk struct{ delay atomic.Int64 }

// intercept puts the filter over every thread there is and will be.
func (d *disk) intercept() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(number uint32, jump uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jt: jump}
	}
	answer := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	filter := []unix.SockFilter{
		load(0), // seccomp_data.nr
		equal(unix.SYS_FDATASYNC, 2),
		equal(unix.SYS_FSYNC, 1),
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_USER_NOTIF),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("install the filter: %w", errno)
	}
	go d.serve(listener)
	return nil
}

// notification and response are the kernel's struct seccomp_notif and
// struct seccomp_notif_resp.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	data  [64]byte
}

type response struct {
	id    uint64
	value int64
	err   int32
	flags uint32
}

func (d *disk) serve(listener uintptr) {
	for {
		var call notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, listener, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call)))
		if errors.Is(errno, unix.EINTR) || errors.Is(errno, unix.ENOENT) {
			continue // a signal, or the caller is gone
		}
		if errno != 0 {
			panic(fmt.Sprintf("hear of the disk: %v", errno)) // else every write would hang
		}
		go func() {
			time.Sleep(time.Duration(d.delay.Load()))
			goOn := response{id: call.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
			// A caller that is gone needs no answer.
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, listener, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&goOn)))
		}()
	}
}
