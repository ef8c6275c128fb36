package kuberules_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/kuberules"
)

// world has one queue of 4 GPUs, and lets pods start within a second.
func world(jobs ...sim.Job) sim.World {
	w := sim.World{
		Start: time.Unix(1_000_000, 0).UTC(), Jobs: jobs, Rules: kuberules.Rules{}, Lifecycle: &sim.Lifecycle{},
		Cluster: sim.ClusterModel{Start: sim.Always(time.Second), Stop: sim.Always(time.Second)},
		Objects: []core.Event{
			core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
			core.NamespaceSet{Namespace: core.Namespace{Name: "q"}},
			core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "q", Name: "q", Queue: "q"}},
			core.QueueSet{Queue: queue(core.StopNone)},
		},
	}
	return w
}

func queue(stop core.StopPolicy) core.Queue {
	return core.Queue{
		Name: "q", Namespaces: &core.Selector{}, Stop: stop,
		Groups: []core.ResourceGroup{{Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{
			{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 4}}},
		}}},
	}
}

// job needs all GPUs for 10 seconds.
func job(name string, change ...func(*sim.Job)) sim.Job {
	j := sim.Job{
		Key:   core.Key{Namespace: "q", Name: name},
		UID:   name,
		Queue: "q",
		Work:  10 * time.Second,
		PodSets: []core.PodSet{
			{Name: "main", Count: 4, Requests: core.MakeResources(map[string]core.Amount{core.GPU: 1})},
		},
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

func stuck(n int) func(*sim.Job) { return func(j *sim.Job) { j.Stuck = n } }

// What becomes of jobs is what the rules of the controllers say.
func TestJobsFollowTheRules(t *testing.T) {
	impatient := func(w *sim.World) {
		w.Lifecycle.PodsReady = &sim.PodsReady{
			Timeout: 5 * time.Second,
			Base:    2 * time.Second,
			Max:     time.Minute,
			Limit:   new(int32(2)),
		}
	}
	cases := map[string]struct {
		why    string
		jobs   []sim.Job
		change func(*sim.World)
		want   string // state, evictions and end in seconds, or why it waits
	}{
		"all is well": {
			"no controller has to do anything",
			[]sim.Job{job("a")},
			impatient,
			"a Finished evicted 0 after 11s",
		},
		"late once": {
			"5 s of patience, a second to stop, 2 s of pause, a second to start",
			[]sim.Job{job("a", stuck(1))},
			impatient,
			"a Finished evicted 1 after 19s",
		},
		"never": {
			"it is given up after two returns",
			[]sim.Job{job("a", stuck(9))},
			impatient,
			"a Waiting evicted 3 OnHold",
		},
		"nobody asks": {
			"without waitForPodsReady it stays",
			[]sim.Job{job("a", stuck(1))},
			func(*sim.World) {},
			"a Active evicted 0",
		},
		"too long": {
			"its time is over before its work is done",
			[]sim.Job{job("a", func(j *sim.Job) { j.Limit = 6 * time.Second })},
			func(*sim.World) {},
			"a Waiting evicted 1 OnHold",
		},
		"a check says no": {
			"it is deactivated",
			[]sim.Job{job("a")},
			func(w *sim.World) { w.Checks = []sim.Check{{Queue: "q", Reject: 1}} },
			"a Waiting evicted 1 OnHold",
		},
		"a check is slow": {
			"quota first, pods when it agrees",
			[]sim.Job{job("a")},
			func(w *sim.World) { w.Checks = []sim.Check{{Queue: "q", Answer: sim.Always(30 * time.Second)}} },
			"a Finished evicted 0 after 41s",
		},
		"drained and back": {"its work starts anew", []sim.Job{job("a")}, func(w *sim.World) {
			w.Script = []sim.Op{
				{At: 5 * time.Second, Object: core.QueueSet{Queue: queue(core.HoldAndDrain)}},
				{At: 20 * time.Second, Object: core.QueueSet{Queue: queue(core.StopNone)}},
			}
		}, "a Finished evicted 1 after 31s"},
		"stopped while a check thinks": {
			"what is only reserved is no eviction, and the answer that came meanwhile counts",
			[]sim.Job{job("a")},
			func(w *sim.World) {
				w.Checks = []sim.Check{{Queue: "q", Answer: sim.Always(10 * time.Second)}}
				w.Script = []sim.Op{
					{At: 5 * time.Second, Object: core.QueueSet{Queue: queue(core.Hold)}},
					{At: 20 * time.Second, Object: core.QueueSet{Queue: queue(core.StopNone)}},
				}
			},
			"a Finished evicted 0 after 31s",
		},
		"all wait for one": {
			"no job waits longer than the patience with the one that is stuck",
			[]sim.Job{
				job("a", stuck(1), func(j *sim.Job) { j.PodSets[0].Count = 1 }),
				job("b", func(j *sim.Job) { j.PodSets[0].Count = 1; j.Submit = time.Second }),
			},
			func(w *sim.World) {
				impatient(w)
				w.Engine.BlockAdmission = true
			},
			"a Finished evicted 1 after 19s, b Finished evicted 0 after 16s",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := world(c.jobs...)
			c.change(&w)
			result, err := sim.New(w, sim.Watch{Check: true}).Finish()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, j := range result.Jobs() {
				s := fmt.Sprintf("%s %s evicted %d", j.Key.Name, j.State, j.Evicted)
				switch {
				case j.State == "Finished":
					s += " after " + time.Duration(j.Ended*float64(time.Second)).String()
				case j.Reason != "":
					s += " " + string(j.Reason)
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		})
	}
}
