package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
	"github.com/mlbatch/mlbatch/internal/record"
)

// Life is what a recording tells of one workload, up to where the replay ended.
type Life struct {
	Workload string
	// Seen is when it was first told of, Since when it got into its state: "waits",
	// "holds quota" or "gone".
	Seen, Since time.Time
	State       string
	// Admitted and Evicted count decisions.
	Admitted, Evicted int
}

// Moment is one thing that happened to a workload.
type Moment struct {
	At   time.Time
	What string
}

// The states of lives.
const (
	waits = "waits"
	holds = "holds quota"
	gone  = "gone"
)

// history gathers the lives of all workloads, and the moments of one.
type history struct {
	lives   map[core.Key]*Life
	moments map[core.Key][]Moment
}

func newHistory() history {
	return history{lives: map[core.Key]*Life{}, moments: map[core.Key][]Moment{}}
}

// known takes in the workloads of a recorded state.
func (h *history) known(s *cycle.State, at time.Time) {
	for i := range s.Workloads {
		if w := &s.Workloads[i]; w.Admission != nil {
			h.become(h.life(w.Key, at), holds, at)
		} else {
			h.life(w.Key, at)
		}
	}
}

func (h *history) life(k core.Key, at time.Time) *Life {
	l := h.lives[k]
	if l == nil || l.State == gone {
		l = &Life{Workload: k.String(), Seen: at, Since: at, State: waits}
		h.lives[k] = l
		h.add(k, at, "is known")
	}
	return l
}

func (h *history) add(k core.Key, at time.Time, format string, args ...any) {
	h.moments[k] = append(h.moments[k], Moment{at, fmt.Sprintf(format, args...)})
}

// told notes an event.
func (h *history) told(ev core.Event, at time.Time) {
	switch ev := ev.(type) {
	case core.WorkloadSet:
		w := &ev.Workload
		_, before := h.lives[w.Key]
		l := h.life(w.Key, at)
		if !before {
			h.moments[w.Key] = []Moment{{at, fmt.Sprintf("is submitted to local queue %s, priority %d", w.Queue, w.Priority)}}
		}
		if w.Admission != nil {
			h.become(l, holds, at)
		} else {
			h.become(l, waits, at)
		}
	case core.WorkloadGone:
		if l := h.lives[ev.Key]; l != nil && l.State != gone {
			h.become(l, gone, at)
			h.add(ev.Key, at, "is gone: it finished or was deleted, and holds nothing any more")
		}
	}
}

func (h *history) become(l *Life, state string, at time.Time) {
	if l.State != state {
		l.State, l.Since = state, at
	}
}

// decided notes a decision.
func (h *history) decided(d core.Decision, at time.Time) {
	switch d := d.(type) {
	case core.Admit:
		l := h.life(d.Key, at)
		l.Admitted++
		h.become(l, holds, at)
		h.add(d.Key, at, "is admitted to %s%s", d.Admission.Queue, nodesOf(&d.Admission))
	case core.Replace:
		h.add(d.Key, at, "gets other nodes%s", nodesOf(&d.Admission))
	case core.Evict:
		h.life(d.Key, at).Evicted++
		text := "is evicted (" + string(d.Reason) + ")"
		if d.For != (core.Key{}) {
			text = fmt.Sprintf("is evicted for %s (%s)", d.For, d.Reason)
		}
		h.add(d.Key, at, "%s", text)
	case core.Refuse:
		h.life(d.Key, at)
		h.add(d.Key, at, "waits: %s", explain.Sentence(d.Why))
	}
}

// list is all lives, by name.
func (h *history) list() []Life {
	out := make([]Life, 0, len(h.lives))
	for _, l := range h.lives {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Life) int { return cmp.Compare(a.Workload, b.Workload) })
	return out
}

// find is the workload that people mean by a name: their Workload, or that of a job.
// Of several of a job's, which was made again under its name, it is the last.
func (h *history) find(k core.Key) (core.Key, bool) {
	if h.lives[k] != nil {
		return k, true
	}
	ofJob := regexp.MustCompile(`^[a-z]+-` + regexp.QuoteMeta(k.Name) + `-[0-9a-z]{5}$`)
	var found []core.Key
	for other := range h.lives {
		if other.Namespace == k.Namespace && ofJob.MatchString(other.Name) {
			found = append(found, other)
		}
	}
	if len(found) == 0 {
		return k, false
	}
	return slices.MaxFunc(found, func(a, b core.Key) int {
		return cmp.Or(h.lives[a].Seen.Compare(h.lives[b].Seen), a.Compare(b))
	}), true
}

// near lists at most five workloads of the namespace, for people who named none that
// there is.
func (h *history) near(k core.Key) []string {
	var out []string
	for _, l := range h.list() {
		if strings.HasPrefix(l.Workload, k.Namespace+"/") && len(out) < 5 {
			out = append(out, l.Workload)
		}
	}
	return out
}

// span is when the first and the last cycle of recordings were.
func span(paths []string) (first, last time.Time, err error) {
	note := func(at time.Time) {
		if first.IsZero() {
			first = at
		}
		last = at
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return first, last, err
		}
		in := record.NewReader(f)
		for {
			l, err := in.Next()
			if err != nil {
				f.Close()
				if errors.Is(err, io.EOF) || in.Cut() {
					break
				}
				return first, last, fmt.Errorf("%s: %w", path, err)
			}
			if l.Decide != nil {
				note(l.Decide.At)
			}
		}
	}
	return first, last, nil
}

// onTheDay is the last moment within recordings at a time of day, in UTC.
func onTheDay(paths []string, clock time.Duration) (time.Time, error) {
	first, last, err := span(paths)
	if err != nil {
		return time.Time{}, err
	}
	const day = 24 * time.Hour
	at := last.UTC().Truncate(day).Add(clock)
	if at.After(last) && !at.Add(-day).Before(first) {
		at = at.Add(-day)
	}
	if at.Before(first) {
		return at, fmt.Errorf("%w: %s is before the recordings, which are from %s to %s", ErrTime, stamp(at), stamp(first), stamp(last))
	}
	return at, nil
}

// ErrTime is the error of a time at which nothing was recorded.
var ErrTime = errors.New("no such time")
