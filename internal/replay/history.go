package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
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
	// Job is kind and name of the job as people know it ("Job blue/train"); where the
	// recordings do not know that, the name of the Workload.
	Job      string
	Workload string
	// Queue is its ClusterQueue; "" if its local queue has none.
	Queue string `json:",omitempty"`
	// Seen is when it was first told of, Since when it got into its state: "waits",
	// "holds quota" or "gone".
	Seen, Since time.Time
	State       string
	// Admitted and Evicted count decisions.
	Admitted, Evicted int

	job   string   // kind and name
	local core.Key // its local queue
	key   core.Key
	// asked is when it began to wait for the first time, zero if that was not recorded;
	// waited is for how long, and admitted until when.
	asked, admitted time.Time
	waited          *time.Duration
}

// Moment is one thing that happened, to a workload or to another object.
type Moment struct {
	At time.Time
	// Subject is the job as people know it, or kind and name of an object.
	Subject string
	// Queue is the ClusterQueue of the job, or that the moment is about.
	Queue string `json:",omitempty"`
	// Is says what kind of moment it is, What what happened.
	Is   Event
	What string

	key  core.Key // of the workload
	node bool     // it is of a node
}

// Event is a kind of moment.
type Event string

// The kinds of moments.
const (
	Known     Event = "Known" // in the state with which recordings begin
	Submitted Event = "Submitted"
	Waits     Event = "Waits"
	Admitted  Event = "Admitted"
	Replaced  Event = "Replaced"
	Evicted   Event = "Evicted"
	Gone      Event = "Gone"
	Changed   Event = "Changed" // of objects
)

// The states of lives.
const (
	waits = "waits"
	holds = "holds quota"
	gone  = "gone"
)

// history gathers the lives of all workloads, and what happened.
type history struct {
	lives   map[core.Key]*Life
	moments []Moment
	// ended are lives of workloads that were made again under their names.
	ended []*Life
	// objects are all others, queues is where a local queue leads.
	objects map[string]core.Event
	queues  map[core.Key]string
	// quiet while an engine is told what there is; unseen is what was there when another one
	// began, less what that was told: what is left when it has decided once is gone.
	quiet   bool
	unseen  map[string]core.Event
	missing map[core.Key]*Life
}

func newHistory() history {
	return history{lives: map[core.Key]*Life{}, objects: map[string]core.Event{}, queues: map[core.Key]string{}}
}

// begins says that an engine begins, which is told all that there is until it has decided once.
func (h *history) begins() {
	h.quiet, h.unseen, h.missing = true, maps.Clone(h.objects), map[core.Key]*Life{}
	for k, l := range h.lives {
		if l.State != gone {
			h.missing[k] = l
		}
	}
}

// known takes in what was there in a recorded state.
func (h *history) known(s *cycle.Snapshot, at time.Time) {
	for _, ev := range told(s) {
		h.told(ev, at)
	}
}

// cycle notes that an engine has decided.
func (h *history) cycle(at time.Time) {
	if !h.quiet {
		return
	}
	h.quiet = false
	for _, k := range slices.SortedFunc(maps.Keys(h.missing), core.Key.Compare) {
		h.goes(h.missing[k], k, at)
	}
	for _, name := range sorted(h.unseen) {
		h.object(goneOf(h.unseen[name]), at)
	}
	h.unseen, h.missing = nil, nil
}

func (h *history) goes(l *Life, k core.Key, at time.Time) {
	h.become(l, gone, at)
	h.add(k, Gone, at, "is gone: it finished or was deleted, and holds nothing any more")
}

// justNow is how old a workload may be of which an engine hears when it begins, for that to be
// its submission: an engine that had nothing to do began with it. Kubernetes counts in seconds.
const justNow = 2 * time.Second

// life is that of a workload, which begins with it.
func (h *history) life(w *core.Workload, at time.Time) *Life {
	l := h.lives[w.Key]
	if l != nil && l.State != gone {
		return l
	}
	if l != nil {
		h.ended = append(h.ended, l)
	}
	l = &Life{Job: jobOf(w), Workload: w.Key.String(), Seen: at, Since: at, State: waits, job: w.Job, key: w.Key}
	if l.asked = w.Created; l.asked.IsZero() {
		l.asked = w.QueueTime
	}
	h.lives[w.Key] = l
	if h.quiet && at.Sub(l.asked) > justNow {
		h.add(w.Key, Known, at, "is known")
	} else {
		h.add(w.Key, Submitted, at, "is submitted to local queue %s, priority %d", w.Queue, w.Priority)
	}
	return l
}

// jobOf is how people know a workload.
func jobOf(w *core.Workload) string {
	if kind, name, ok := strings.Cut(w.Job, "/"); ok {
		return kind + " " + w.Key.Namespace + "/" + name
	}
	return w.Key.String()
}

// name is how people know a workload of which only the key is known.
func (h *history) name(k core.Key) string {
	if l := h.lives[k]; l != nil {
		return l.Job
	}
	return k.String()
}

func (h *history) add(k core.Key, is Event, at time.Time, format string, args ...any) {
	h.moments = append(
		h.moments,
		Moment{At: at, Subject: h.name(k), Is: is, What: fmt.Sprintf(format, args...), key: k},
	)
}

// told notes an event.
func (h *history) told(ev core.Event, at time.Time) {
	switch ev := ev.(type) {
	case core.WorkloadSet:
		h.workload(&ev.Workload, at)
	case core.WorkloadGone:
		if l := h.lives[ev.Key]; l != nil && l.State != gone {
			h.goes(l, ev.Key, at)
		}
	case core.Applied, core.Refused:
	default:
		h.object(ev, at)
	}
}

func (h *history) workload(w *core.Workload, at time.Time) {
	delete(h.missing, w.Key)
	l := h.life(w, at)
	l.local = core.Key{Namespace: w.Key.Namespace, Name: w.Queue}
	if w.Admission == nil {
		h.become(l, waits, at)
		return
	}
	if l.Admitted == 0 {
		l.asked = time.Time{} // how long it waited was decided before
	}
	h.become(l, holds, at)
}

// object notes what became of a queue, a flavor, a node.
func (h *history) object(ev core.Event, at time.Time) {
	name, goes := NameOf(ev)
	delete(h.unseen, name)
	was, before := h.objects[name]
	what := "is there"
	switch {
	case goes && !before, before && !goes && reflect.DeepEqual(was, ev):
		return
	case goes:
		delete(h.objects, name)
		what = "is gone"
	case before:
		what = "is changed"
	}
	if !goes {
		h.objects[name] = ev
	}
	queue := ""
	switch ev := ev.(type) {
	case core.LocalQueueSet:
		queue = ev.LocalQueue.Queue
		h.queues[core.Key{Namespace: ev.LocalQueue.Namespace, Name: ev.LocalQueue.Name}] = queue
	case core.LocalQueueGone:
		delete(h.queues, core.Key(ev))
	case core.QueueSet:
		queue = ev.Queue.Name
		if old, is := was.(core.QueueSet); is && old.Queue.Stop != ev.Queue.Stop {
			what = "is stopped: " + string(ev.Queue.Stop)
			if ev.Queue.Stop == "" {
				what = "is resumed"
			}
		}
	case core.QueueGone:
		queue = ev.Name
	case core.NodeSet:
		what = nodeChange(was, ev, what)
	}
	if kind, of, _ := strings.Cut(name, "/"); !h.quiet && kind != "Namespace" {
		h.moments = append(
			h.moments,
			Moment{At: at, Subject: kind + " " + of, Queue: queue, Is: Changed, What: what, node: kind == "Node"},
		)
	}
}

// nodeChange says what a node became.
func nodeChange(was core.Event, is core.NodeSet, what string) string {
	old, before := was.(core.NodeSet)
	if before && old.Node.State == is.Node.State {
		return what
	}
	what = "is " + string(is.Node.State)
	if is.Node.Why != "" {
		what += ": " + is.Node.Why
	}
	return what
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
		l := h.lives[d.Key]
		if l == nil {
			return // no engine admits what it was not told of
		}
		if l.Admitted++; l.Admitted == 1 && !l.asked.IsZero() {
			l.admitted, l.waited = at, new(max(0, at.Sub(l.asked)))
		}
		h.become(l, holds, at)
		h.add(d.Key, Admitted, at, "is admitted to %s%s", d.Admission.Queue, Places(&d.Admission))
	case core.Replace:
		h.add(d.Key, Replaced, at, "gets other nodes%s", Places(&d.Admission))
	case core.Evict:
		if l := h.lives[d.Key]; l != nil {
			l.Evicted++
		}
		text := "is evicted (" + string(d.Reason) + ")"
		if d.For != (core.Key{}) {
			text = fmt.Sprintf("is evicted for %s (%s)", h.name(d.For), d.Reason)
		}
		h.add(d.Key, Evicted, at, "%s", text)
	case core.Refuse:
		h.add(d.Key, Waits, at, "waits: %s", explain.Sentence(h.named(d.Why)))
	}
}

// named is a reason with the names of jobs that people know.
func (h *history) named(r core.Reason) core.Reason {
	known := func(k core.Key) core.Key {
		if l := h.lives[k]; l != nil {
			if _, name, ok := strings.Cut(l.job, "/"); ok {
				k.Name = name
			}
		}
		return k
	}
	r.Ahead, r.Holders = known(r.Ahead), slices.Clone(r.Holders)
	for i := range r.Holders {
		r.Holders[i] = known(r.Holders[i])
	}
	return r
}

// places says which queue each life was in: a local queue may be told after its jobs.
func (h *history) places() {
	for _, l := range h.lives {
		if q := h.queues[l.local]; q != "" {
			l.Queue = q
		}
	}
	for i := range h.moments {
		if m := &h.moments[i]; m.Queue == "" && h.lives[m.key] != nil {
			m.Queue = h.lives[m.key].Queue
		}
	}
}

// sorted is all lives that were last under their names, by those of their Workloads.
func (h *history) sorted() (out []*Life) {
	for _, k := range slices.SortedFunc(maps.Keys(h.lives), core.Key.Compare) {
		out = append(out, h.lives[k])
	}
	return out
}

// list is all lives that are wanted and were not over at a time, by name.
func (h *history) list(is wanted, from time.Time) (out []Life) {
	for k, l := range h.lives {
		if is(k, l.Queue) && (l.State != gone || !l.Since.Before(from)) {
			out = append(out, *l)
		}
	}
	slices.SortFunc(out, func(a, b Life) int {
		return cmp.Or(cmp.Compare(a.place(), b.place()), cmp.Compare(a.Workload, b.Workload))
	})
	return out
}

// wanted says whether people have asked for what is of a workload, zero for other objects,
// and of a ClusterQueue, "" for none.
type wanted func(k core.Key, queue string) bool

// place is a job's namespace and name, by which lists are sorted.
func (l *Life) place() string {
	_, name, ok := strings.Cut(l.Job, " ")
	if !ok {
		return l.Job
	}
	return name
}

// timeline is what happened from a time on, of what is wanted.
func (h *history) timeline(is wanted, from time.Time) (out []Moment) {
	for _, m := range h.moments {
		if !m.At.Before(from) && is(m.key, m.Queue) {
			out = append(out, m)
		}
	}
	return out
}

// find is the workload that people mean by a name: their job's, or that of the Workload.
// Of several, of a job that was made again under its name or of jobs of several kinds, it
// is the last.
func (h *history) find(k core.Key) (core.Key, bool) {
	if h.lives[k] != nil {
		return k, true
	}
	ofJob := regexp.MustCompile(`^[a-z]+-` + regexp.QuoteMeta(k.Name) + `-[0-9a-z]{5}$`) // of old recordings
	var found []core.Key
	for other, l := range h.lives {
		_, name, known := strings.Cut(l.job, "/")
		if other.Namespace == k.Namespace && (known && name == k.Name || !known && ofJob.MatchString(other.Name)) {
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

// near lists at most five jobs of the namespace, for people who named none that there is.
func (h *history) near(namespace string) (out []string) {
	for _, l := range h.list(func(k core.Key, _ string) bool { return k.Namespace == namespace }, time.Time{}) {
		if len(out) < 5 {
			out = append(out, l.Job)
		}
	}
	return out
}

// queueNames are the ClusterQueues that there are, or were.
func (h *history) queueNames() (out []string) {
	for _, m := range h.moments {
		out = append(out, m.Queue)
	}
	for _, ev := range h.objects {
		if q, is := ev.(core.QueueSet); is {
			out = append(out, q.Queue.Name)
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(q string) bool { return q == "" })
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
		return at, fmt.Errorf(
			"%w: %s is before the recordings, which are from %s to %s",
			ErrTime,
			Stamp(at),
			Stamp(first),
			Stamp(last),
		)
	}
	return at, nil
}

// ErrTime is the error of a time at which nothing was recorded.
var ErrTime = errors.New("no such time")
