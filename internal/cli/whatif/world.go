package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// Assumed counts what a recording does not say.
type Assumed struct {
	// Running jobs had not ended when the recording did, Waiting ones had never held quota
	// then: how long they would run is estimated (see estimates).
	Running int `json:"stillRunning"`
	Waiting int `json:"stillWaiting"`
	// TakenBack jobs ended or were deleted while they waited: they go at the same time.
	TakenBack int `json:"takenBack"`
	// Carried jobs are older than the recording: their waits count from its beginning.
	Carried int `json:"carriedOver"`
	// Endings are evictions that the engine did not decide: by hand, by a time limit, for lost nodes.
	// They are not done again.
	Endings int `json:"evictedByOthers"`
	// Cuts are states of queues and cohorts with quotas that were cut while nodes were out of service. They are whole.
	Cuts int `json:"cutQuotas"`
}

// job is one of the past as it is told and as it is simulated.
type job struct {
	past *replay.PastJob
	key  core.Key
	team string // the ClusterQueue of its LocalQueue
	work time.Duration
}

// history is a past ready to be simulated.
type history struct {
	past    *replay.Past
	jobs    []job
	queues  []string
	unit    string
	assumed Assumed
}

func newHistory(p *replay.Past) *history {
	h := &history{}
	h.past, h.assumed.Cuts = promised(p)
	h.findQueues()
	h.findJobs()
	h.findWork()
	return h
}

// promised is a past in which no quota was ever cut, and how often one was: manifests of a policy say nothing of cuts,
// and policies are compared by what they promise.
func promised(p *replay.Past) (*replay.Past, int) {
	cuts := 0
	whole := func(ev core.Event) core.Event {
		switch ev := ev.(type) {
		case core.QueueSet:
			groups, cut := uncut(ev.Queue.Groups)
			ev.Queue.Groups, cuts = groups, cuts+cut
			return ev
		case core.CohortSet:
			groups, cut := uncut(ev.Cohort.Groups)
			ev.Cohort.Groups, cuts = groups, cuts+cut
			return ev
		}
		return ev
	}
	out := *p
	out.Objects, out.Changes = slices.Clone(p.Objects), slices.Clone(p.Changes)
	for i, ev := range out.Objects {
		out.Objects[i] = whole(ev)
	}
	for i := range out.Changes {
		out.Changes[i].Event = whole(out.Changes[i].Event)
	}
	return &out, cuts
}

// uncut are quotas as they were promised, and 1 if any was cut.
func uncut(groups []core.ResourceGroup) (whole []core.ResourceGroup, cut int) {
	whole = slices.Clone(groups)
	for i := range whole {
		flavors := slices.Clone(whole[i].Flavors)
		for j := range flavors {
			quotas := slices.Clone(flavors[j].Quotas)
			for k := range quotas {
				if q := &quotas[k]; q.Cut != 0 {
					cut, q.Nominal, q.Cut = 1, q.Nominal.Add(q.Cut), 0
				}
			}
			flavors[j].Quotas = quotas
		}
		whole[i].Flavors = flavors
	}
	return whole, cut
}

// length is from the first cycle to the last.
func (h *history) length() time.Duration { return h.past.Last.Sub(h.past.First) }

// findQueues lists all ClusterQueues there ever were, and what they count.
func (h *history) findQueues() {
	names, covered := map[string]bool{}, map[string]bool{}
	note := func(ev core.Event) {
		if q, ok := ev.(core.QueueSet); ok {
			names[q.Queue.Name] = true
			for _, g := range q.Queue.Groups {
				for _, r := range g.Covered {
					covered[r] = true
				}
			}
		}
	}
	for _, ev := range h.past.Objects {
		note(ev)
	}
	for _, c := range h.past.Changes {
		note(c.Event)
	}
	h.queues = slices.Sorted(maps.Keys(names))
	h.unit = core.GPU
	if !covered[core.GPU] && covered[core.CPU] {
		h.unit = core.CPU
	}
}

// findJobs gives every job a name of its own, since a job may be made again under the name
// of one that has ended, and finds whose it is.
func (h *history) findJobs() {
	localQueues := map[string]string{}
	note := func(ev core.Event) {
		if l, ok := ev.(core.LocalQueueSet); ok {
			localQueues[l.LocalQueue.Namespace+"/"+l.LocalQueue.Name] = l.LocalQueue.Queue
		}
	}
	for _, ev := range h.past.Objects {
		note(ev)
	}
	changes, times := h.past.Changes, map[core.Key]int{}
	for _, p := range h.past.Jobs {
		for len(changes) > 0 && !changes[0].At.After(p.Told) {
			note(changes[0].Event)
			changes = changes[1:]
		}
		j := job{past: p, key: p.Workload.Key, team: localQueues[p.Workload.Key.Namespace+"/"+p.Workload.Queue]}
		if n := times[j.key]; n > 0 {
			j.key.Name = fmt.Sprintf("%s#%d", j.key.Name, n+1)
		}
		times[p.Workload.Key]++
		h.jobs = append(h.jobs, j)
		h.count(p)
	}
}

func (h *history) count(p *replay.PastJob) {
	a := &h.assumed
	switch {
	case p.Ended.IsZero() && len(p.Stays) > 0:
		a.Running++
	case p.Ended.IsZero():
		a.Waiting++
	case p.TakenBack():
		a.TakenBack++
	}
	if p.Carried {
		a.Carried++
	}
	for _, s := range p.Stays {
		if !s.Decided && !s.To.IsZero() && !s.To.Equal(p.Ended) {
			a.Endings++
		}
	}
}

// pace is the part of its pods that a job was given.
func pace(p *replay.PastJob, a *core.Admission) float64 {
	var all, given int32
	for i := range p.Workload.PodSets {
		all += p.Workload.PodSets[i].Count
	}
	for i := range a.PodSets {
		given += a.PodSets[i].Count
	}
	if given <= 0 || given >= all {
		return 1
	}
	return float64(given) / float64(all)
}

// findWork finds how long each job runs if it is left alone: from the last time that it got
// quota to its end. For jobs that have not ended it is an estimate.
func (h *history) findWork() {
	known := map[string][]time.Duration{}
	for i := range h.jobs {
		j := &h.jobs[i]
		if n := len(j.past.Stays); !j.past.Ended.IsZero() && !j.past.TakenBack() {
			last := j.past.Stays[n-1]
			j.work = max(time.Duration(float64(last.To.Sub(last.From))*pace(j.past, last.Admission)), time.Millisecond)
			known[j.team] = append(known[j.team], j.work)
			known[""] = append(known[""], j.work)
		}
	}
	for _, list := range known {
		slices.Sort(list)
	}
	for i := range h.jobs {
		j := &h.jobs[i]
		if j.work > 0 {
			continue
		}
		var ran time.Duration
		for _, s := range j.past.Stays { // the longest that it was seen to run
			to := s.To
			if to.IsZero() {
				to = h.past.Last
			}
			ran = max(ran, to.Sub(s.From))
		}
		list := known[j.team]
		if len(list) == 0 {
			list = known[""]
		}
		j.work = h.estimate(list, ran)
	}
}

// estimate is how long a job runs in all that has run so long: the median of those jobs, of
// a sorted list, that ran longer. Where there is none it runs to the end of the recording.
func (h *history) estimate(list []time.Duration, ran time.Duration) time.Duration {
	i, _ := slices.BinarySearch(list, ran+1)
	if longer := list[i:]; len(longer) > 0 {
		return longer[(len(longer)-1)/2]
	}
	return ran + h.length() + time.Hour
}

// world is the past as a world of the simulator, decided by the recorded policy. Pods start
// at once in it, because runtimes count from admission.
func (h *history) world(name string) *sim.World {
	p := h.past
	w := &sim.World{
		Name: name, Seed: 1, Start: p.First, Horizon: max(h.length(), time.Millisecond), Engine: p.Options,
		Objects: slices.Clone(p.Objects), Unit: h.unit,
	}
	for _, q := range h.queues {
		w.Teams = append(w.Teams, sim.Team{Name: q, Queue: q})
	}
	is := map[string]core.Event{}
	for _, ev := range w.Objects {
		name, _ := replay.NameOf(ev)
		is[name] = ev
	}
	for _, c := range p.Changes {
		name, _ := replay.NameOf(c.Event)
		if reflect.DeepEqual(is[name], c.Event) {
			continue // told again by another process
		}
		is[name] = c.Event
		w.Script = append(w.Script, sim.Op{At: c.At.Sub(p.First), Object: c.Event})
	}
	for i := range h.jobs {
		h.add(w, &h.jobs[i], i)
	}
	slices.SortStableFunc(w.Jobs, func(a, b sim.Job) int { return cmp.Compare(a.Submit, b.Submit) })
	slices.SortStableFunc(w.Script, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
	return w
}

// add submits a job, and has its user change it and take it back as was recorded.
func (h *history) add(w *sim.World, j *job, index int) {
	p := j.past
	submit := p.Told.Sub(h.past.First)
	if p.Carried && !p.Running {
		// Those that ran go first; the others keep their order, by which they are told.
		submit = time.Millisecond + time.Duration(index)*time.Microsecond
	}
	spec := sim.Job{
		Key:            j.key,
		UID:            p.Workload.UID,
		Queue:          p.Workload.Queue,
		Priority:       clamp(p.Workload.Priority),
		PodSets:        p.Workload.PodSets,
		Submit:         submit,
		Work:           j.work,
		GatedBy:        p.Workload.GatedBy,
		PreemptionGate: p.Workload.PreemptionGate,
	}
	w.Jobs = append(w.Jobs, spec)
	for _, e := range p.Edits {
		priority, held, gated, gate := clamp(e.Priority), e.Held, e.GatedBy, e.PreemptionGate
		w.Script = append(w.Script, sim.Op{At: max(submit, e.At.Sub(h.past.First)), Change: &sim.JobEdit{
			Key: j.key, Priority: &priority, Held: &held, GatedBy: &gated, PreemptionGate: &gate,
		}})
	}
	if p.TakenBack() {
		key := j.key
		w.Script = append(w.Script, sim.Op{At: p.Ended.Sub(h.past.First), Delete: &key})
	}
}

func clamp(priority int64) int32 {
	const most = 1<<31 - 1
	return int32(min(max(priority, -most), most))
}
