package forecast

import (
	"container/heap"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// Bounds of one future.
const (
	// horizon is how far it goes.
	horizon = 30 * 24 * time.Hour
	// mostTurns bounds how often the engine decides at one moment.
	mostTurns = 60
	// stopping is how long evicted workloads take to go.
	stopping = 30 * time.Second
	// grain is how exact the times of a future are: what happens within this part of the
	// time since its beginning happens at once. It makes few decisions of many.
	grain = 256
	// busyGrain is that where jobs keep coming, of which nobody knows when exactly.
	busyGrain = 48
)

// future is one possible course of things.
type future struct {
	engine *cycle.Engine
	start  time.Time
	now    time.Time
	// remaining is how long a workload goes on that has run for so long.
	remaining func(k core.Key, ran time.Duration) time.Duration
	workloads map[core.Key]*course
	turns     turns
	// coming are the jobs that come while it goes on, late what became of them until the last
	// had come; nil as long as more come, or if none ever did. made says that an end of one of
	// them has just made room.
	coming *coming
	came   []*course
	late   map[queue][]comer
	made   bool
	// open are the waiting jobs that have not started yet; decides is how often the engine
	// may still decide.
	open    int
	decides int
}

// course is what becomes of a workload.
type course struct {
	told core.Workload
	// asked says that it waits when the future begins; started is when it starts then,
	// zero if it does not.
	asked   bool
	started time.Time
	// came says that it came in the future, passed that it starts only because nobody comes
	// any more: jobs that come later are started before it.
	came, passed bool
	ran          bool // it has started
	// run counts its starts: an end of an earlier one is none.
	run int
}

// turn is something that happens to a workload: it ends, or it is gone and waits again.
type turn struct {
	at   time.Time
	key  core.Key
	run  int
	gone bool
}

// turns are those to come, the earliest first.
type turns []turn //nolint:recvcheck // as heap.Interface has it

func (t turns) Len() int      { return len(t) }
func (t turns) Swap(i, k int) { t[i], t[k] = t[k], t[i] }
func (t turns) Less(i, k int) bool {
	if !t[i].at.Equal(t[k].at) {
		return t[i].at.Before(t[k].at)
	}
	return t[i].key.Compare(t[k].key) < 0
}

func (t *turns) Push(
	x any,
) {
	*t = append(*t, x.(turn)) //nolint:forcetypeassert // heap.Push is called with turns only
}

func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// begin is a future of a picture.
func begin(
	opt cycle.Options,
	s *cycle.Snapshot,
	now time.Time,
	decides int,
	remaining func(core.Key, time.Duration) time.Duration,
) (*future, error) {
	opt.Budget, opt.StabilizationWindow = 0, 0
	opt.Observe = 2 * horizon // what is decided is seen at once
	e, err := cycle.Load(opt, s)
	if err != nil {
		return nil, err
	}
	f := &future{
		engine:    e,
		start:     now,
		now:       now,
		decides:   decides,
		remaining: remaining,
		workloads: make(map[core.Key]*course, len(s.Workloads)),
	}
	leaving, promised := map[core.Key]bool{}, map[core.Key]bool{}
	for _, k := range s.Leaving {
		leaving[k] = true
	}
	for i := range s.Reservations { // they have an admission and wait for it
		promised[s.Reservations[i].Key] = true
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		c := &course{told: observed(w)}
		f.workloads[w.Key] = c
		switch {
		case leaving[w.Key]:
			f.turns = append(f.turns, turn{at: now.Add(stopping), key: w.Key, gone: true})
		case w.Admission != nil && !promised[w.Key]:
			f.turns = append(
				f.turns,
				turn{at: now.Add(remaining(w.Key, now.Sub(time.Unix(w.Reserved, 0)))), key: w.Key},
			)
		default:
			c.asked = true
			f.open++
		}
	}
	heap.Init(&f.turns)
	return f, nil
}

// submit adds a workload that is not there.
func (f *future) submit(w core.Workload) {
	w.Created, w.QueueTime, w.Seq = f.now, f.now, 0
	f.workloads[w.Key] = &course{told: w, asked: true}
	f.open++
	f.engine.Apply(core.WorkloadSet{Workload: w})
}

// arrive has those come that come up to now.
func (f *future) arrive() {
	for at, more := f.coming.next(); more && !at.After(f.now); at, more = f.coming.next() {
		w := f.coming.take()
		c := &course{told: w, came: true}
		f.workloads[w.Key] = c
		f.came = append(f.came, c)
		f.engine.Apply(core.WorkloadSet{Workload: w})
	}
}

// observed is a workload of a state as it is while it waits.
func observed(w *cycle.WorkloadState) core.Workload {
	at := time.Unix(0, w.Time)
	return core.Workload{
		Key:            w.Key,
		UID:            w.UID,
		Queue:          w.LocalQueue,
		Priority:       w.Priority,
		Created:        at,
		QueueTime:      at,
		PodSets:        w.PodSets,
		PreemptionGate: w.Gate,
		Held:           w.Held,
		Invalid:        w.Invalid,
		GatedBy:        w.GatedBy,
		NotBefore:      w.NotBefore,
		Seq:            max(w.Seq, w.Applied),
	}
}

// run plays it, until all that wait have started, or it has gone on for long enough.
func (f *future) run() {
	for f.decide(); f.open > 0 && f.decides > 0; f.decide() {
		at := f.engine.NextWake()
		if len(f.turns) > 0 && (at.IsZero() || f.turns[0].at.Before(at)) {
			at = f.turns[0].at
		}
		if comes, more := f.coming.next(); more && (at.IsZero() || comes.Before(at)) {
			at = comes
		}
		if at.IsZero() || at.Sub(f.start) > horizon {
			return
		}
		if at.After(f.now) {
			f.now = at
		}
		f.now = f.now.Add(f.together())
		f.made = false
		for len(f.turns) > 0 && !f.turns[0].at.After(f.now) {
			if t, is := heap.Pop(&f.turns).(turn); is {
				f.happens(t)
			}
		}
		f.arrive()
		f.close()
	}
}

// together is the time from now in which everything happens at once. Where jobs keep coming it
// is no longer than one of them comes in: of many that end at once, room for a large one would
// be made that there is not.
func (f *future) together() time.Duration {
	past := f.now.Sub(f.start)
	if f.coming.span > 0 {
		return min(past/busyGrain, f.coming.span/time.Duration(len(f.coming.of.last)))
	}
	return past / grain
}

// happens tells the engine what happens to a workload.
func (f *future) happens(t turn) {
	c := f.workloads[t.key]
	switch {
	case c == nil || t.run != c.run:
	case t.gone:
		f.tell(c, nil)
	default:
		f.made = f.made || c.came
		delete(f.workloads, t.key)
		f.engine.Apply(core.WorkloadGone{Key: t.key})
	}
}

// tell tells the engine what a workload holds now.
func (f *future) tell(c *course, holds *core.Admission) {
	c.told.Seq++
	w := c.told
	if holds != nil {
		w.Admission, w.Admitted, w.Ready, w.Reserved = holds, true, true, f.now
	}
	f.engine.Apply(core.WorkloadSet{Workload: w})
}

// decide lets the engine decide until it has nothing more to say, and has it done at once.
func (f *future) decide() {
	for range mostTurns {
		f.decides--
		plan := f.engine.Decide(f.now)
		more := false
		for i := range plan {
			switch d := plan[i].(type) {
			case core.Admit:
				f.starts(d.Key, &d.Admission)
				more = true
			case core.Evict:
				if c := f.workloads[d.Key]; c != nil {
					c.run++
					heap.Push(&f.turns, turn{at: f.now.Add(stopping), key: d.Key, run: c.run, gone: true})
				}
			case core.Replace, core.Refuse:
			}
		}
		if !more || f.decides <= 0 {
			return
		}
	}
}

// starts lets a workload run.
func (f *future) starts(k core.Key, with *core.Admission) {
	c := f.workloads[k]
	if c == nil {
		return
	}
	if c.asked && c.started.IsZero() && !c.passed {
		if c.passed = f.passed(c); !c.passed {
			c.started = f.now
		}
		f.open--
	}
	c.ran = true
	c.run++
	f.tell(c, with)
	heap.Push(&f.turns, turn{at: f.now.Add(f.remaining(k, 0)), key: k, run: c.run})
}
