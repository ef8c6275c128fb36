package chaos_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
)

// ideal is a made-up world in which nothing is left to chance, so that two runs
// can be compared.
func ideal(seed uint64) sim.World {
	w := chaos.World(seed)
	w.Lifecycle = nil
	w.Cluster, w.Faults = sim.ClusterModel{Stop: sim.Always(time.Second)}, sim.Faults{}
	w.Script = slices.DeleteFunc(w.Script, func(o sim.Op) bool { return o.Restart || o.Refuse })
	for i := range w.Checks {
		c := &w.Checks[i]
		c.Answer, c.Retry, c.Reject = sim.Always(c.Answer.Max), 0, 0
	}
	return w
}

// outcome is what became of each job, in order of names, and how many were evicted.
func outcome(t *testing.T, w sim.World) (out []string, evictions int) {
	t.Helper()
	run := sim.New(w, sim.Watch{})
	if run.Advance(20_000) {
		t.Fatalf("seed %d does not come to rest", w.Seed)
	}
	r := run.Result()
	for _, j := range r.Jobs() {
		evictions += j.Evicted
		out = append(
			out,
			fmt.Sprintf(
				"%s %s started %g ended %g evicted %d %s",
				j.Key,
				j.State,
				j.Started,
				j.Ended,
				j.Evicted,
				j.Reason,
			),
		)
	}
	slices.Sort(out)
	return out, evictions
}

// TestOutcomeDoesNotDependOn changes worlds in ways that must not matter.
func TestOutcomeDoesNotDependOn(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*testing.T, sim.World) sim.World
		// back undoes the change in the outcome.
		back func(string) string
		// calm: only in worlds without evictions.
		calm bool
	}{
		"names": {
			why: "names break ties, and nothing else", change: renamed,
			back: func(s string) string { return strings.ReplaceAll(s, "m", "") },
		},
		"order": {
			why: "what happens at one moment has no order", change: shuffled,
		},
		"units": {
			why: "a world of twice everything is the same world", change: doubled,
		},
		"restarts": {
			why: "a process that dies comes back to the same state", change: restarted,
			calm: true, // whom to spare, and what costs a local queue in advance, is in memory only
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			compared := 0
			for seed := uint64(1); seed <= 200; seed++ {
				w := ideal(seed)
				if c.calm { // nor does it know what changed just before it came
					w.Engine.StabilizationWindow = 0
				}
				want, evictions := outcome(t, w)
				if c.calm && (evictions > 0 || byUsage(w)) {
					continue
				}
				got, _ := outcome(t, c.change(t, w))
				if c.back != nil {
					for i := range got {
						got[i], want[i] = c.back(got[i]), c.back(want[i])
					}
					slices.Sort(got)
					slices.Sort(want)
				}
				compared++
				if d := gocmp.Diff(want, got); d != "" {
					t.Errorf("%s: seed %d (-want +got)\n%s", c.why, seed, d)
				}
			}
			if compared < 50 {
				t.Errorf("only %d worlds were compared", compared)
			}
		})
	}
}

func byUsage(w sim.World) bool {
	return slices.ContainsFunc(w.Script, func(o sim.Op) bool {
		q, ok := o.Object.(core.QueueSet)
		return ok && q.Queue.UsageBased
	})
}

var names = regexp.MustCompile(`\b([qhju]\d+|n-\d+)\b`)

// renamed gives everything a longer name, in the same order.
func renamed(t *testing.T, w sim.World) sim.World {
	t.Helper()
	var b bytes.Buffer
	if err := chaos.Write(&b, w); err != nil {
		t.Fatal(err)
	}
	out, err := chaos.Read(bytes.NewReader(names.ReplaceAll(b.Bytes(), []byte("m$1"))))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shuffled changes the order of what happens at the same moment, save to the same
// object.
func shuffled(_ *testing.T, w sim.World) sim.World {
	r := rand.New(rand.NewPCG(w.Seed, 7))
	w.Script = slices.Clone(w.Script)
	was := slices.Clone(w.Script)
	r.Shuffle(len(w.Script), func(i, k int) { w.Script[i], w.Script[k] = w.Script[k], w.Script[i] })
	slices.SortStableFunc(w.Script, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
	next := map[string][]sim.Op{}
	for _, o := range was {
		next[subject(o)] = append(next[subject(o)], o)
	}
	for i, o := range w.Script {
		s := subject(o)
		w.Script[i] = next[s][0]
		next[s] = next[s][1:]
	}
	return w
}

// subject is the moment and the object that an entry is about.
func subject(o sim.Op) string {
	at := o.At.String() + " "
	switch {
	case o.Job != nil:
		return at + o.Job.Key.String()
	case o.Delete != nil:
		return at + o.Delete.String()
	case o.Finish != nil:
		return at + o.Finish.String()
	case o.Change != nil:
		return at + o.Change.Key.String()
	}
	switch ev := o.Object.(type) {
	case core.QueueSet:
		return at + "queue " + ev.Queue.Name
	case core.CohortSet:
		return at + "cohort " + ev.Cohort.Name
	case core.LocalQueueSet:
		return at + "door " + ev.LocalQueue.Namespace + "/" + ev.LocalQueue.Name
	case core.FlavorSet:
		return at + "flavor " + ev.Flavor.Name
	case core.FlavorGone:
		return at + "flavor " + ev.Name
	case core.NamespaceSet:
		return at + "namespace " + ev.Namespace.Name
	case core.NodeSet:
		return at + "node " + ev.Node.Name
	case core.NodeGone:
		return at + "node " + ev.Name
	}
	return at + fmt.Sprintf("%+v", o.Object)
}

// doubled counts everything in units half as large.
func doubled(_ *testing.T, w sim.World) sim.World {
	w.Script = slices.Clone(w.Script)
	for i := range w.Script {
		o := &w.Script[i]
		if o.Job != nil {
			j := *o.Job
			j.PodSets = slices.Clone(j.PodSets)
			for k := range j.PodSets {
				j.PodSets[k].Requests = j.PodSets[k].Requests.Times(2)
			}
			o.Job = &j
		}
		switch ev := o.Object.(type) {
		case core.QueueSet:
			ev.Queue.Groups = doubledGroups(ev.Queue.Groups)
			o.Object = ev
		case core.CohortSet:
			ev.Cohort.Groups = doubledGroups(ev.Cohort.Groups)
			o.Object = ev
		case core.NodeSet:
			pods := ev.Node.Allocatable.Of(core.Pods)
			ev.Node.Allocatable = ev.Node.Allocatable.Times(2).With(core.Pods, pods)
			o.Object = ev
		}
	}
	return w
}

func doubledGroups(groups []core.ResourceGroup) []core.ResourceGroup {
	out := slices.Clone(groups)
	for i := range out {
		out[i].Flavors = slices.Clone(out[i].Flavors)
		for k := range out[i].Flavors {
			f := &out[i].Flavors[k]
			f.Quotas = slices.Clone(f.Quotas)
			for n := range f.Quotas {
				q := &f.Quotas[n]
				q.Nominal *= 2
				if q.Borrowing != nil {
					q.Borrowing = new(*q.Borrowing * 2)
				}
				if q.Lending != nil {
					q.Lending = new(*q.Lending * 2)
				}
			}
		}
	}
	return out
}

// restarted kills the process every few seconds.
func restarted(_ *testing.T, w sim.World) sim.World {
	w.Script = slices.Clone(w.Script)
	for at := 3 * time.Second; at < 200*time.Second; at += 7 * time.Second {
		w.Script = append(w.Script, sim.Op{At: at + 250*time.Millisecond, Restart: true})
	}
	slices.SortStableFunc(w.Script, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
	return w
}
