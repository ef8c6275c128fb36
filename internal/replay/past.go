package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/record"
)

// Past is what happened in recordings, whoever decided it: what objects there were, which
// jobs came, and when they had quota. No engine has to decide anything again for it.
type Past struct {
	// First and Last are when the first and the last cycle were.
	First, Last time.Time
	// Options are those of the engine of the newest recording.
	Options cycle.Options
	// Objects are there from the start, and Changes what became of them later: events of
	// all kinds but those of workloads.
	Objects []core.Event
	Changes []Moved
	// Jobs in the order in which they were told.
	Jobs []*PastJob
	// Recordings is how many files were read. Runs, Gaps and CutShort are as in Report.
	Recordings, Runs, Gaps int
	CutShort               bool
}

// Moved is an object that changed.
type Moved struct {
	At    time.Time
	Event core.Event
}

// PastJob is one job of a past.
type PastJob struct {
	// Workload is what was told of it first.
	Workload core.Workload
	// Told is when that was; Carried says that it is older than the recordings, and
	// Running that it had quota when they began.
	Told             time.Time
	Carried, Running bool
	// Ended is when it was gone; zero if it was there to the end of the recordings.
	Ended time.Time
	// Stays are the times during which it had quota, in order. The last has no end if the
	// job held it to the end of the recordings.
	Stays []Stay
	// Edits are what its user changed while it waited.
	Edits []Edit
	// Preempted counts the evictions for others that were decided, Evicted the times that
	// it lost its quota before it had ended.
	Preempted, Evicted int

	now core.Workload
}

// Stay is a time during which a job had quota.
type Stay struct {
	From, To  time.Time
	Admission *core.Admission
	// Decided says that the engine evicted the job: for another, or because its queue was
	// stopped.
	Decided bool
}

// Edit is what a waiting job was changed to.
type Edit struct {
	At                            time.Time
	Priority                      int64
	Held, GatedBy, PreemptionGate string
}

// TakenBack reports that the job ended, or was deleted, while it held no quota.
func (j *PastJob) TakenBack() bool {
	n := len(j.Stays)
	return !j.Ended.IsZero() && (n == 0 || !j.Stays[n-1].To.Equal(j.Ended))
}

// Holds returns the stay that has not ended; nil if there is none.
func (j *PastJob) Holds() *Stay {
	if n := len(j.Stays); n > 0 && j.Stays[n-1].To.IsZero() {
		return &j.Stays[n-1]
	}
	return nil
}

// ReadPast reads a recording, or a directory of them. A line that was cut off is not there;
// all else that cannot be read is an error that names file and line.
func ReadPast(path string) (*Past, error) {
	paths, err := recordings(path)
	if err != nil {
		return nil, err
	}
	r := &pastReader{past: &Past{}, jobs: map[core.Key]*PastJob{}, objects: map[string]core.Event{}}
	for i, path := range paths {
		if err := r.file(path, i == 0); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if r.past.First.IsZero() {
		return nil, fmt.Errorf("%s: nothing was decided in it yet", path)
	}
	for _, j := range r.past.Jobs {
		j.close()
	}
	return r.past, nil
}

// close ends a job whose quota the engine did not take and which never had it again, because
// it was stopped or deleted: with the quota, and not when the object went.
func (j *PastJob) close() {
	n := len(j.Stays)
	if n == 0 || (j.Ended.IsZero() && j.now.Held == "") {
		return
	}
	if last := j.Stays[n-1]; !last.To.IsZero() && !last.Decided && !last.To.Equal(j.Ended) {
		j.Ended = last.To
		j.Evicted--
	}
}

// pastReader goes through recordings without an engine.
type pastReader struct {
	past    *Past
	codec   *record.Codec
	jobs    map[core.Key]*PastJob
	objects map[string]core.Event
	heard   []core.Event
	decided uint64
	// unseen is what was there when another engine began and has not been told to it:
	// what is left when it has decided once is gone.
	unseen map[string]core.Event
	absent map[core.Key]*PastJob
}

func (r *pastReader) file(path string, oldest bool) error { //nolint:revive // the oldest may be dropped
	f, err := os.Open(path)
	if oldest && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := record.NewReader(f)
	head, err := in.Next()
	if err != nil {
		if r.past.Recordings > 0 && in.Cut() { // killed when it began
			r.past.CutShort = true
			return nil
		}
		return err
	}
	r.past.Recordings++
	if err := r.begin(head.Header); err != nil {
		return err
	}
	for {
		l, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			r.past.CutShort = r.past.CutShort || in.Cut()
			return nil
		case err != nil:
			return err
		case l.Event != nil:
			r.heard = append(r.heard, l.Event)
		default:
			r.cycle(l.Decide)
		}
	}
}

// begin takes in the header. Where something is missing before it, all that is not told
// again has gone meanwhile.
func (r *pastReader) begin(h *record.Header) error {
	r.past.Options = cycle.Options{}
	if err := h.Options(&r.past.Options); err != nil {
		return err
	}
	was, first := r.decided, r.past.Recordings == 1
	r.decided, r.heard = h.Decided, nil
	if h.State() != nil && !first && h.Decided == was {
		return nil // the file before led here
	}
	switch {
	case first || h.State() == nil || h.Decided < was:
		r.past.Runs++
	default:
		r.past.Gaps++
	}
	if !first {
		r.unseen, r.absent = map[string]core.Event{}, map[core.Key]*PastJob{}
		maps.Copy(r.unseen, r.objects)
		maps.Copy(r.absent, r.jobs)
	}
	if h.State() == nil {
		return nil
	}
	if r.codec == nil {
		r.codec = record.NewCodec()
	}
	state, err := (&player{codec: r.codec}).upgrade(h.State())
	if err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	var s cycle.Snapshot
	if err := r.codec.Decode(state, &s); err != nil {
		return fmt.Errorf("line 1: state: %w", err)
	}
	if s.Version != cycle.StateVersion {
		return fmt.Errorf(
			"line 1: recorded with a state of version %d, this program reads version %d",
			s.Version,
			cycle.StateVersion,
		)
	}
	r.heard = told(&s)
	return nil
}

// told is a state as an engine would be told it.
func told(s *cycle.Snapshot) []core.Event {
	var out []core.Event
	for _, x := range s.Flavors {
		out = append(out, core.FlavorSet{Flavor: x})
	}
	for _, x := range s.Cohorts {
		out = append(out, core.CohortSet{Cohort: x})
	}
	for _, x := range s.Namespaces {
		out = append(out, core.NamespaceSet{Namespace: x})
	}
	for _, x := range s.Nodes {
		out = append(out, core.NodeSet{Node: x})
	}
	for _, x := range s.LocalQueues {
		if x.Spec != nil {
			out = append(out, core.LocalQueueSet{LocalQueue: *x.Spec})
		}
	}
	for _, x := range s.Queues {
		if x.Spec != nil {
			out = append(out, core.QueueSet{Queue: *x.Spec})
		}
	}
	waiting := slices.Clone(s.Workloads)
	slices.SortStableFunc(waiting, func(a, b cycle.WorkloadState) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, x := range waiting {
		w := core.Workload{
			Key:            x.Key,
			UID:            x.UID,
			Job:            x.Job,
			Queue:          x.LocalQueue,
			Priority:       x.Priority,
			PodSets:        x.PodSets,
			QueueTime:      time.Unix(0, x.Time),
			Held:           x.Held,
			Invalid:        x.Invalid,
			GatedBy:        x.GatedBy,
			PreemptionGate: x.Gate,
			Admission:      x.Admission,
			Admitted:       x.Admitted,
			Ready:          x.Ready,
			Evicting:       x.Evicting,
		}
		if x.Reserved > 0 {
			w.Reserved = time.Unix(x.Reserved, 0)
		}
		out = append(out, core.WorkloadSet{Workload: w})
	}
	return out
}

// cycle takes in what an engine was told and what it decided then.
func (r *pastReader) cycle(d *record.Decide) {
	first := r.past.First.IsZero()
	if first {
		r.past.First = d.At
	}
	r.past.Last = d.At
	r.decided++
	for _, ev := range r.heard {
		r.event(ev, d.At, first)
	}
	r.heard = r.heard[:0]
	r.sweep(d.At)
	for _, x := range d.Plan {
		switch x := x.(type) {
		case core.Admit:
			if j := r.jobs[x.Key]; j != nil && j.Holds() == nil {
				j.Stays = append(j.Stays, Stay{From: d.At, Admission: &x.Admission})
			}
		case core.Evict:
			j := r.jobs[x.Key]
			if j == nil {
				continue
			}
			if x.Reason.Preempted() {
				j.Preempted++
			}
			if s := j.Holds(); s != nil {
				s.Decided = true
			}
		default:
		}
	}
}

// sweep ends what another engine was not told of.
func (r *pastReader) sweep(at time.Time) {
	for _, name := range sorted(r.unseen) {
		if gone := goneOf(r.unseen[name]); gone != nil {
			delete(r.objects, name)
			r.past.Changes = append(r.past.Changes, Moved{at, gone})
		}
	}
	for k, j := range r.absent {
		r.ends(k, j, at)
	}
	r.unseen, r.absent = nil, nil
}

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// event takes in one event. What comes before the first cycle is there from the start.
func (r *pastReader) event( //nolint:revive // the same events, at the start
	ev core.Event,
	at time.Time,
	first bool,
) {
	switch ev := ev.(type) {
	case core.WorkloadSet:
		r.workload(&ev.Workload, at, first)
	case core.WorkloadGone:
		if j := r.jobs[ev.Key]; j != nil {
			r.ends(ev.Key, j, at)
		}
	case core.Refused:
		// The admission that was decided last was never written.
		if j := r.jobs[ev.Key]; j != nil && j.now.Admission == nil && j.Holds() != nil {
			j.Stays = j.Stays[:len(j.Stays)-1]
		}
	case core.Applied:
	default:
		name, gone := NameOf(ev)
		delete(r.unseen, name)
		if gone {
			delete(r.objects, name)
		} else {
			r.objects[name] = ev
		}
		if first {
			r.past.Objects = append(r.past.Objects, ev)
			return
		}
		r.past.Changes = append(r.past.Changes, Moved{at, ev})
	}
}

func (r *pastReader) ends(k core.Key, j *PastJob, at time.Time) {
	j.Ended = at
	if s := j.Holds(); s != nil {
		s.To = at
	}
	delete(r.jobs, k)
	delete(r.absent, k)
}

func (r *pastReader) workload( //nolint:revive // the same events, at the start
	w *core.Workload,
	at time.Time,
	first bool,
) {
	j := r.jobs[w.Key]
	if j != nil && j.Workload.UID != w.UID { // deleted and made again under its name
		r.ends(w.Key, j, at)
		j = nil
	}
	if j == nil {
		j = &PastJob{
			Workload: *w,
			Told:     at,
			Carried:  first && w.QueueTime.Before(at),
			Running:  first && w.Admission != nil,
		}
		r.past.Jobs = append(r.past.Jobs, j)
		r.jobs[w.Key] = j
		j.now = *w
		j.now.Admission, j.now.Held, j.now.GatedBy, j.now.PreemptionGate = nil, "", "", ""
	}
	if r.absent[w.Key] != nil && w.Admission == nil && j.now.Admission == nil && j.Holds() != nil {
		j.Stays = j.Stays[:len(j.Stays)-1] // what was decided last died with its process
	}
	delete(r.absent, w.Key)
	was := j.now
	j.now = *w
	held := j.Holds()
	switch {
	case w.Admission != nil && held == nil:
		from := at
		if !first && w.Reserved.After(j.Told) && w.Reserved.Before(at) {
			from = w.Reserved // decided where nothing was recorded
		}
		j.Stays = append(j.Stays, Stay{From: from, Admission: w.Admission})
	case w.Admission == nil && held != nil && was.Admission != nil:
		held.To = at
		j.Evicted++
	}
	if w.Admission == nil &&
		(w.Held != was.Held || w.Priority != was.Priority || w.GatedBy != was.GatedBy || w.PreemptionGate != was.PreemptionGate) {
		j.Edits = append(j.Edits, Edit{at, w.Priority, w.Held, w.GatedBy, w.PreemptionGate})
	}
}

// NameOf is the kind and name of the object that an event is about, and whether it goes;
// "" for events of workloads.
func NameOf(ev core.Event) (name string, gone bool) {
	switch ev := ev.(type) {
	case core.FlavorSet:
		return "ResourceFlavor/" + ev.Flavor.Name, false
	case core.FlavorGone:
		return "ResourceFlavor/" + ev.Name, true
	case core.CohortSet:
		return "Cohort/" + ev.Cohort.Name, false
	case core.CohortGone:
		return "Cohort/" + ev.Name, true
	case core.QueueSet:
		return "ClusterQueue/" + ev.Queue.Name, false
	case core.QueueGone:
		return "ClusterQueue/" + ev.Name, true
	case core.LocalQueueSet:
		return "LocalQueue/" + ev.LocalQueue.Namespace + "/" + ev.LocalQueue.Name, false
	case core.LocalQueueGone:
		return "LocalQueue/" + ev.Namespace + "/" + ev.Name, true
	case core.NamespaceSet:
		return "Namespace/" + ev.Namespace.Name, false
	case core.NamespaceGone:
		return "Namespace/" + ev.Name, true
	case core.NodeSet:
		return "Node/" + ev.Node.Name, false
	case core.NodeGone:
		return "Node/" + ev.Name, true
	}
	return "", false
}

// goneOf is the event that the object of another event goes.
func goneOf(ev core.Event) core.Event {
	switch ev := ev.(type) {
	case core.FlavorSet:
		return core.FlavorGone{Name: ev.Flavor.Name}
	case core.CohortSet:
		return core.CohortGone{Name: ev.Cohort.Name}
	case core.QueueSet:
		return core.QueueGone{Name: ev.Queue.Name}
	case core.LocalQueueSet:
		return core.LocalQueueGone{Namespace: ev.LocalQueue.Namespace, Name: ev.LocalQueue.Name}
	case core.NamespaceSet:
		return core.NamespaceGone{Name: ev.Namespace.Name}
	case core.NodeSet:
		return core.NodeGone{Name: ev.Node.Name}
	}
	return nil
}
