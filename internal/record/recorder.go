package record

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Recorder is a flight recorder: it writes the cycles of a decision loop into a
// Ring, in a goroutine of its own. It never blocks the loop and never fails it:
// where it cannot keep up, or the disk takes no more, it gives up the segment and
// goes on with a new one from the state of then. What it is given must not be
// changed afterwards.
type Recorder struct {
	ring    *Ring
	options any
	failed  func(error)

	in   chan cycle
	done chan struct{}
	// renew asks the loop for a new segment.
	renew atomic.Bool

	// Of the loop: started is false until the first cycle, behind true while
	// cycles are left out.
	started, behind bool
	decided         uint64
	// Of the goroutine: when the last failure was, or the last attempt since.
	broken time.Time
}

// cycle is one turn of the decision loop, or the start of a segment.
type cycle struct {
	start   bool
	state   any
	decided uint64
	events  []core.Event
	at      time.Time
	plan    core.Plan
}

const (
	// backlog is how many cycles may wait to be written.
	backlog = 256
	// pause is how long nothing is written after a failure, by the loop's clock.
	pause = time.Minute
)

// ErrBehind is reported when cycles are left out because the disk is too slow.
var ErrBehind = errors.New("writing is too slow: decisions are left out of the recording")

// NewRecorder starts a recorder of an engine that knows nothing yet and has these
// options. failed is called from any goroutine, once for every failure to
// write, after which nothing is recorded for a minute, and with ErrBehind.
func NewRecorder(ring *Ring, options any, failed func(error)) *Recorder {
	r := &Recorder{
		ring:    ring,
		options: options,
		failed:  failed,
		in:      make(chan cycle, backlog),
		done:    make(chan struct{}),
	}
	go r.run()
	return r
}

// Record notes what the engine was told and what it decided then. It is called
// after every decision, always by the same goroutine. state returns what the
// engine knows now; it is called now and then only, and may fail.
func (r *Recorder) Record(events []core.Event, at time.Time, plan core.Plan, state func() (any, error)) {
	if !r.started {
		r.started = true
		r.in <- cycle{start: true, at: at} // there is room: nothing was sent before
	}
	r.decided++
	if !r.behind && !r.send(cycle{events: events, at: at, plan: plan}) {
		r.behind = true
		r.failed(ErrBehind)
	}
	if r.behind && len(r.in) > 0 {
		return // not before the writer has caught up
	}
	if !r.behind && !r.renew.Load() {
		return
	}
	s, err := state()
	if err != nil || !r.send(cycle{start: true, state: s, decided: r.decided, at: at}) {
		return
	}
	r.behind = false
	r.renew.Store(false)
}

func (r *Recorder) send(c cycle) bool {
	select {
	case r.in <- c:
		return true
	default:
		return false
	}
}

// Close writes what is left, and waits for it. Nothing may be recorded
// afterwards.
func (r *Recorder) Close() {
	close(r.in)
	<-r.done
	r.ring.Close()
}

func (r *Recorder) run() {
	defer close(r.done)
	for c := range r.in {
		switch {
		case c.start:
			r.check(r.ring.Start(r.options, c.state, c.decided), c.at)
		case r.ring.overfull(): // the loop was asked for a state and has not sent it yet
			r.ring.stop()
			r.failed(ErrBehind)
		case r.ring.file != nil:
			r.check(r.ring.Append(c.events, c.at, c.plan), c.at)
			if r.ring.Full() {
				r.renew.Store(true)
			}
		case c.at.Sub(r.broken) >= pause:
			r.broken = c.at
			r.renew.Store(true)
		}
	}
}

func (r *Recorder) check(err error, at time.Time) {
	if err != nil {
		r.broken = at
		r.failed(err)
	}
}
