package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// forker starts processes from one thread that lives as long as it does.
// The kernel ties the parent-death signal to the thread that forked, not to
// the process, so a thread that the Go runtime retires would take the children
// with it. What runs in namespaces of others has forkers of its own: their threads
// enter those namespaces, and are of no use for anything else afterwards.
type forker struct {
	requests chan forkRequest
}

type forkRequest struct {
	cmd   *exec.Cmd
	into  []namespace
	reply chan error
}

// namespace is one to enter.
type namespace struct {
	file *os.File
	kind int
}

func newForker() *forker {
	f := &forker{requests: make(chan forkRequest)}
	go f.loop()
	return f
}

func (f *forker) loop() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// What the first thread sees counts as what the process sees, so it has to stay
		// where it is: kept here, another one does the work.
		other := make(chan struct{})
		go func() {
			defer close(other)
			f.loop()
		}()
		<-other
		runtime.UnlockOSThread()
		return
	}
	apart := false
	for r := range f.requests {
		var err error
		if len(r.into) > 0 && !apart {
			// Threads share their root directory, and who shares it may not leave a
			// mount namespace.
			err = unix.Unshare(unix.CLONE_FS)
			apart = err == nil
		}
		for _, n := range r.into {
			if err == nil {
				err = unix.Setns(int(n.file.Fd()), n.kind)
			}
		}
		if err == nil {
			err = r.cmd.Start()
		}
		r.reply <- err
	}
	// Returning while locked ends the thread; by then no child is left.
}

// start runs the command of s, printing to its log, in the namespaces that the
// process leader has for itself; zero is none.
func (f *forker) start(s Spec, leader int, kinds uintptr) (*exec.Cmd, error) {
	log, err := openLog(s.LogFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()           // the child has its own descriptor
	cmd := exec.Command(s.Path) //nolint:gosec,noctx // our own binary, or a package's; it is stopped by signal
	cmd.Args = s.Args
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: s.Namespaces}
	if kinds&unix.CLONE_NEWPID != 0 {
		// It ends with its leader, which ends with us. It could not tell us from a
		// parent that is dead: nobody outside has a number there.
		cmd.SysProcAttr.Pdeathsig = 0
	}
	r := forkRequest{cmd: cmd, reply: make(chan error, 1)}
	if leader != 0 {
		if r.into, err = namespacesOf(leader, kinds); err != nil {
			return nil, err
		}
		defer closeAll(r.into)
	}
	f.requests <- r
	return cmd, <-r.reply
}

func (f *forker) close() { close(f.requests) }

// namespacesOf opens namespaces of a process. The mount namespace is entered last: the
// others are found in the file system.
func namespacesOf(pid int, kinds uintptr) (all []namespace, err error) {
	for _, n := range []struct {
		name string
		kind int
	}{
		{"net", unix.CLONE_NEWNET},
		{"uts", unix.CLONE_NEWUTS},
		{"ipc", unix.CLONE_NEWIPC},
		{"pid", unix.CLONE_NEWPID},
		{"mnt", unix.CLONE_NEWNS},
	} {
		if kinds&uintptr(n.kind) == 0 {
			continue
		}
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, n.name))
		if err != nil {
			closeAll(all)
			return nil, fmt.Errorf("enter the namespaces of process %d: %w", pid, err)
		}
		all = append(all, namespace{f, n.kind})
	}
	return all, nil
}

func closeAll(all []namespace) {
	for _, n := range all {
		_ = n.file.Close()
	}
}
