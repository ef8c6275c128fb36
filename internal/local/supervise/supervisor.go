package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrUnknown is returned for a name that no process has.
var ErrUnknown = errors.New("no such component")

// Supervisor keeps a set of processes alive.
type Supervisor struct {
	clock   clock.Clock
	changed func()
	forker  *forker

	mu sync.Mutex
	// children are in start order, names unique.
	children []*child
	stopping bool
	// entered are the forkers of processes that run inside others.
	entered []*forker
}

// New makes a supervisor. It calls changed, which must not block, whenever a
// Status may have changed.
func New(changed func()) *Supervisor {
	return &Supervisor{clock: clock.RealClock{}, changed: changed, forker: newForker()}
}

// Start runs the process of s and keeps it alive until Stop.
func (s *Supervisor) Start(spec Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return fmt.Errorf("start %s: everything is being stopped", spec.Name)
	}
	if s.find(spec.Name) != nil {
		return fmt.Errorf("start %s: it is there already", spec.Name)
	}
	c := newChild(spec, s.clock, s.forker, s.changed)
	if spec.Inside != "" {
		if c.leader = s.find(spec.Inside); c.leader == nil {
			return fmt.Errorf("start %s inside %s: %w", spec.Name, spec.Inside, ErrUnknown)
		}
		c.forker = newForker()
		s.entered = append(s.entered, c.forker)
	}
	s.children = append(s.children, c)
	go c.run()
	return nil
}

// WaitReady returns when the process is ready. It gives up when it keeps
// dying without ever having been ready, with the end of its log.
func (s *Supervisor) WaitReady(ctx context.Context, name string) error {
	c, err := s.lookup(name)
	if err != nil {
		return err
	}
	select {
	case <-c.ready:
		return nil
	case <-c.hopeless:
		return fmt.Errorf(
			"%s does not start; the end of %s says:\n%s",
			name,
			c.spec.LogFile,
			tail(c.spec.LogFile, 8),
		)
	case <-c.done:
		return fmt.Errorf("%s was stopped", name)
	case <-ctx.Done():
		st := c.status()
		return fmt.Errorf("wait for %s (%s: %s): %w", name, st.Health, st.Message, context.Cause(ctx))
	}
}

// Kill ends the process at once, as a crash would. It will be started again.
func (s *Supervisor) Kill(name string) error {
	c, err := s.lookup(name)
	if err != nil {
		return err
	}
	return c.kill()
}

// Status lists all processes in start order.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, 0, len(s.children))
	for _, c := range s.children {
		out = append(out, c.status())
	}
	return out
}

// Stop ends all processes, stage by stage. When ctx ends, it kills what is
// left. It returns when no process runs.
func (s *Supervisor) Stop(ctx context.Context) {
	s.mu.Lock()
	again := s.stopping
	s.stopping = true
	children := slices.Clone(s.children)
	s.mu.Unlock()
	slices.SortStableFunc(children, func(a, b *child) int { return b.spec.Stage - a.spec.Stage })
	for len(children) > 0 {
		n := 0
		for n < len(children) && children[n].spec.Stage == children[0].spec.Stage {
			children[n].askToStop()
			n++
		}
		for _, c := range children[:n] {
			c.waitStopped(ctx)
		}
		children = children[n:]
	}
	if !again {
		for _, f := range append(s.entered, s.forker) {
			f.close()
		}
	}
}

func (s *Supervisor) lookup(name string) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.find(name); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
}

func (s *Supervisor) find(name string) *child {
	for _, c := range s.children {
		if c.spec.Name == name {
			return c
		}
	}
	return nil
}

// The rhythm of probes: quick until the process is ready, because others wait
// for it, then slow. A probe that takes longer than probeTimeout has failed.
const (
	probeQuick   = 25 * time.Millisecond
	probeSlow    = 2 * time.Second
	probeTimeout = 3 * time.Second
	// unhealthyAfter failed probes in a row, a ready process counts as
	// unhealthy: one slow answer on a busy machine is no news.
	unhealthyAfter = 2
	// hopelessAfter deaths without ever being ready, it is not waited for any longer.
	hopelessAfter = 5
)
