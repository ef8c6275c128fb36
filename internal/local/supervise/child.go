package supervise

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"k8s.io/utils/clock"
)

// child is one supervised process: a loop of runs with pauses between them.
type child struct {
	spec    Spec
	clock   clock.Clock
	forker  *forker
	leader  *child // in whose namespaces it runs, nil in ours
	under   int    // the process of the leader whose namespaces they are
	changed func()

	ready    chan struct{} // closed when first ready
	hopeless chan struct{} // closed when it died too often before that
	stop     chan struct{} // closed to ask for the end
	done     chan struct{} // closed when it will never run again

	stopOnce sync.Once

	mu  sync.Mutex
	now Status
}

func newChild(spec Spec, c clock.Clock, f *forker, changed func()) *child {
	return &child{
		spec: spec, clock: c, forker: f, changed: changed,
		ready: make(chan struct{}), hopeless: make(chan struct{}),
		stop: make(chan struct{}), done: make(chan struct{}),
		now: Status{Name: spec.Name, Health: Starting},
	}
}

// run keeps the process alive until it is asked to stop.
func (c *child) run() {
	defer close(c.done)
	deaths := 0
	for {
		begun := c.clock.Now()
		err := c.once()
		if c.stopped() {
			c.update(func(s *Status) { s.PID, s.Health, s.Message = 0, Stopped, "" })
			return
		}
		deaths = deathsAfter(deaths, c.clock.Since(begun))
		if deaths == hopelessAfter && !closed(c.ready) {
			close(c.hopeless)
		}
		wait := pause(deaths)
		c.update(func(s *Status) {
			s.PID, s.Health, s.Message = 0, Waiting, fmt.Sprintf("ended: %v", err)
			s.Restarts++
		})
		select {
		case <-c.stop:
		case <-c.clock.After(wait):
		}
		if c.stopped() {
			c.update(func(s *Status) { s.Health, s.Message = Stopped, "" })
			return
		}
	}
}

// once runs the process until it ends and returns why it did.
func (c *child) once() error {
	cmd, err := c.fork()
	if err != nil {
		return err
	}
	c.update(func(s *Status) {
		s.PID, s.Health, s.Message, s.Started = cmd.Process.Pid, Starting, "", c.clock.Now()
	})
	exited := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exited <- cmd.Wait()
	}()
	var watch sync.WaitGroup
	watch.Go(func() { c.watch(ended) })
	defer watch.Wait()
	select {
	case err = <-exited:
	case <-c.stop:
		err = c.end(cmd, exited)
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return err
}

// fork starts the process, in the namespaces of its leader if it has one.
func (c *child) fork() (*exec.Cmd, error) {
	if c.leader == nil {
		return c.forker.start(c.spec, 0, 0)
	}
	l := c.leader.status()
	if l.Health != Ready && l.Health != Unhealthy {
		// What it makes for others may be half there.
		return nil, fmt.Errorf("%s is not ready", l.Name)
	}
	c.under = l.PID
	return c.forker.start(c.spec, l.PID, c.leader.spec.Namespaces)
}

// end asks the process to stop and kills it when it takes too long.
func (c *child) end(cmd *exec.Cmd, exited <-chan error) error {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-exited:
		return err
	case <-c.clock.After(c.spec.Grace):
		_ = killGroup(cmd.Process.Pid)
		return <-exited
	}
}

// watch probes the process until it ended, and keeps its log small.
func (c *child) watch(ended <-chan struct{}) {
	ctx, cancel := contextUntil(ended)
	defer cancel()
	failures, wasReady := 0, false
	var silence silence
	for {
		err := c.probe(ctx)
		if closed(ended) {
			return
		}
		if c.leader != nil && c.leader.status().PID != c.under {
			// Namespaces outlive their leader where it is not the first process in them,
			// and the next one has others.
			_ = c.kill() // it is gone otherwise, which is as good
		}
		pid, now := c.status().PID, c.clock.Now()
		if !errors.Is(err, ErrSilent) {
			silence = silenceSince(now, pid)
		}
		switch {
		case err == nil:
			failures, wasReady = 0, true
			c.update(func(s *Status) { s.Health, s.Message = Ready, "" })
			if !closed(c.ready) {
				close(c.ready)
			}
		case wasReady:
			if failures++; failures >= unhealthyAfter {
				c.update(func(s *Status) { s.Health, s.Message = Unhealthy, err.Error() })
			}
			if silence.hung(now, pid, c.spec.Hung) {
				_ = c.kill() // it is gone otherwise, which is as good
			}
		default:
			c.update(func(s *Status) { s.Message = err.Error() })
		}
		every := probeQuick
		if wasReady {
			every = probeSlow
			_ = rotate(c.spec.LogFile, maxLog) // a log that cannot be rotated is still a log
		}
		select {
		case <-ended:
			return
		case <-c.clock.After(every):
		}
	}
}

func (c *child) probe(ctx context.Context) error {
	if c.spec.Probe == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return c.spec.Probe(ctx)
}

// kill ends the running process, which run then starts again.
func (c *child) kill() error {
	c.mu.Lock()
	pid := c.now.PID
	c.mu.Unlock()
	if pid == 0 {
		return fmt.Errorf("kill %s: it does not run", c.spec.Name)
	}
	if err := killGroup(pid); err != nil {
		return fmt.Errorf("kill %s: %w", c.spec.Name, err)
	}
	return nil
}

func (c *child) askToStop() { c.stopOnce.Do(func() { close(c.stop) }) }

// waitStopped waits for the end and helps with a kill when ctx is over.
func (c *child) waitStopped(ctx context.Context) {
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.kill()
		<-c.done
	}
}

func (c *child) stopped() bool { return closed(c.stop) }

func (c *child) status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *child) update(f func(*Status)) {
	c.mu.Lock()
	before := c.now
	f(&c.now)
	differs := before != c.now
	c.mu.Unlock()
	if differs {
		c.changed()
	}
}

// killGroup kills the process and whatever it started.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// contextUntil ends when the channel is closed.
func contextUntil(ended <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(
		context.Background(), //nolint:forbidigo // lives as long as a process, not as a call
	)
	go func() {
		select {
		case <-ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
