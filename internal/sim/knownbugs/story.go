package knownbugs

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/worldfile"
)

//go:embed worlds/*.yaml
var worlds embed.FS

// What says what happened to a job.
type What string

// What can happen to a job.
const (
	Submitted What = "submitted"
	Started   What = "admitted" // Nodes
	Evicted   What = "evicted"  // For
	Left      What = "left"     // its pods are gone, and it waits again
	Moved     What = "moved"    // it was given other nodes: Nodes
	Refused   What = "refused"  // Code
	Ended     What = "ended"
)

// Moment is one thing that happened.
type Moment struct {
	At    time.Duration // since the world began
	What  What
	Job   string // TEAM/NAME
	For   string
	Code  core.Code
	Nodes []string // with a pod, by name
	Pods  int32    // admitted, those with a place
}

// Story is what happened in a world.
type Story struct {
	Moments []Moment
	// Decisions is how often the engine decided.
	Decisions int
	// Broken is the first promise (docs/promises.md) that the auditor found broken, nil if none.
	Broken error
}

// play runs a world of this package under the auditor.
func play(file string) (Story, error) {
	text, err := worlds.ReadFile("worlds/" + file + ".yaml")
	if err != nil {
		return Story{}, fmt.Errorf("read the world: %w", err)
	}
	f, err := worldfile.Parse(text)
	if err != nil {
		return Story{}, fmt.Errorf("read the world %s: %w", file, err)
	}
	world, err := worldfile.Build(f, nil)
	if err != nil {
		return Story{}, fmt.Errorf("build the world %s: %w", file, err)
	}
	t := teller{start: world.Start, leaving: map[string]bool{}, known: map[string]bool{}}
	result, broken := sim.New(*world, sim.Watch{Check: true, Log: &t}).Finish()
	t.story.Decisions, t.story.Broken = result.Engine.Decisions, broken
	for _, j := range result.Jobs() {
		if j.State == "Finished" {
			t.tell(Moment{At: time.Duration(j.Ended * float64(time.Second)), What: Ended, Job: named(j.Key)})
		}
	}
	slices.SortStableFunc(t.story.Moments, func(a, b Moment) int { return int(a.At - b.At) })
	return t.story, nil
}

// teller writes down what a run is told and decides. It is a sim.Log.
type teller struct {
	story   Story
	start   time.Time
	now     time.Duration
	leaving map[string]bool // evicted, and its pods exist
	known   map[string]bool
}

func (t *teller) tell(m Moment) { t.story.Moments = append(t.story.Moments, m) }

// Began implements sim.Log.
func (t *teller) Began(cycle.Options) {}

// Event implements sim.Log. Events carry no time: they are told just before a decision, which
// puts the time on them.
func (t *teller) Event(ev core.Event) {
	w, is := ev.(core.WorkloadSet)
	if !is {
		return
	}
	job := named(w.Workload.Key)
	switch {
	case !t.known[job]:
		t.known[job] = true
		t.tell(Moment{At: unset, What: Submitted, Job: job})
	case t.leaving[job] && w.Workload.Admission == nil:
		delete(t.leaving, job)
		t.tell(Moment{At: unset, What: Left, Job: job})
	}
}

// unset is the time of what happened since the last decision.
const unset time.Duration = -1

// Decided implements sim.Log.
func (t *teller) Decided(at time.Time, plan core.Plan) {
	t.now = at.Sub(t.start)
	for i := len(t.story.Moments) - 1; i >= 0 && t.story.Moments[i].At == unset; i-- {
		t.story.Moments[i].At = t.now
	}
	for _, d := range plan {
		switch d := d.(type) {
		case core.Admit:
			t.place(Started, d.Key, d.Admission)
		case core.Replace:
			t.place(Moved, d.Key, d.Admission)
		case core.Evict:
			t.leaving[named(d.Key)] = true
			t.tell(Moment{At: t.now, What: Evicted, Job: named(d.Key), For: named(d.For)})
		case core.Refuse:
			t.tell(Moment{At: t.now, What: Refused, Job: named(d.Key), Code: d.Why.Code})
		}
	}
}

func (t *teller) place(what What, key core.Key, to core.Admission) {
	m := Moment{At: t.now, What: what, Job: named(key)}
	for i := range to.PodSets {
		for _, p := range to.PodSets[i].Places {
			m.Nodes = append(m.Nodes, p.Node)
			m.Pods += p.Count
		}
	}
	slices.Sort(m.Nodes)
	m.Nodes = slices.Compact(m.Nodes)
	t.tell(m)
}

// named is a job as people call it. Jobs in world files are numbered; jobs that are alone
// with their name need no number.
func named(k core.Key) string { return strings.TrimSuffix(k.String(), "-0") }

// of is what happened to a job, of one kind.
func (s *Story) of(job string, what What) []Moment {
	var out []Moment
	for _, m := range s.Moments {
		if m.Job == job && m.What == what {
			out = append(out, m)
		}
	}
	return out
}

// all is what happened of one kind.
func (s *Story) all(what What) []Moment {
	var out []Moment
	for _, m := range s.Moments {
		if m.What == what {
			out = append(out, m)
		}
	}
	return out
}
