package supervise

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// forker starts all processes from one thread that lives as long as it does.
// The kernel ties the parent-death signal to the thread that forked, not to
// the process, so a thread that the Go runtime retires would take the children
// with it.
type forker struct {
	requests chan forkRequest
}

type forkRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

func newForker() *forker {
	f := &forker{requests: make(chan forkRequest)}
	go f.loop()
	return f
}

func (f *forker) loop() {
	runtime.LockOSThread()
	for r := range f.requests {
		r.reply <- r.cmd.Start()
	}
	// Returning while locked ends the thread; by then no child is left.
}

// start runs the command of s, printing to its log.
func (f *forker) start(s Spec) (*exec.Cmd, error) {
	log, err := openLog(s.LogFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()           // the child has its own descriptor
	cmd := exec.Command(s.Path) //nolint:gosec,noctx // our own binary; it is stopped by signal
	cmd.Args = s.Args
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r := forkRequest{cmd: cmd, reply: make(chan error, 1)}
	f.requests <- r
	return cmd, <-r.reply
}

func (f *forker) close() { close(f.requests) }
