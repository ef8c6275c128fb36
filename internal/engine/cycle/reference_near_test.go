package cycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// nearWorld is a small cluster with racks in blocks and quota for all, and the naive account of it: which nodes there
// are, what each job asks for, and which places it has. Every question is answered by trying every way to place the
// pods.
type nearWorld struct {
	t      *rapid.T
	engine *cycle.Engine
	nodes  map[string]core.Node
	jobs   map[core.Key]*nearJob
	now    time.Time
	seq    uint64
	log    []string
}

type nearJob struct {
	core.Workload
	places []core.Place
}

var nearLevels = []string{"block", "rack"}

func (x *nearWorld) apply(ev core.Event) {
	x.log = append(x.log, fmt.Sprintf("%T%+v", ev, ev))
	x.engine.Apply(ev)
}

// free is what is left of a node.
func (x *nearWorld) free(name string) core.Amount {
	left := x.nodes[name].Allocatable.Of(core.GPU)
	for _, j := range x.jobs { // sums, so order does not matter
		for _, pl := range j.places {
			if pl.Node == name {
				left -= j.PodSets[0].Requests.Of(core.GPU) * core.Amount(pl.Count)
			}
		}
	}
	return left
}

// in is the domain of a level that a node is in; "" for none.
func (x *nearWorld) in(name string, level int) string {
	out := ""
	for _, label := range nearLevels[:level+1] {
		value, has := x.nodes[name].Labels[label]
		if !has {
			return ""
		}
		out += "/" + value
	}
	return out
}

// span is the narrowest level of which one domain has all pods, -1 for none; false if they are not as near as they
// must be, or a slice is not whole.
func (x *nearWorld) span(p *core.PodSet, given map[string]int32) (span int, ok bool) {
	span = -1
	for level := range nearLevels {
		pods := map[string]int32{}
		for name, n := range given {
			if n > 0 {
				pods[x.in(name, level)] += n
			}
		}
		if len(pods) == 1 && pods[""] == 0 {
			span = level
		}
		for _, s := range p.Topology.Slices {
			if s.Level != nearLevels[level] {
				continue
			}
			for in, n := range pods { // all
				if in == "" || n%s.Size != 0 {
					return span, false
				}
			}
		}
	}
	return span, span >= slices.Index(nearLevels, p.Topology.Required)
}

// best tries every way to place a job: the narrowest span that there is; false if there is no way.
func (x *nearWorld) best(p *core.PodSet) (best int, ok bool) {
	var names []string
	for _, name := range sortedKeys(x.nodes) {
		if x.nodes[name].State.TakesWork() {
			names = append(names, name)
		}
	}
	given := map[string]int32{}
	var deal func(i int, left int32)
	deal = func(i int, left int32) {
		if left == 0 {
			if span, holds := x.span(p, given); holds && (!ok || span > best) {
				best, ok = span, true
			}
			return
		}
		if i == len(names) {
			return
		}
		most := int32(x.free(names[i]) / p.Requests.Of(core.GPU))
		for n := range min(most, left) + 1 {
			given[names[i]] = n
			deal(i+1, left-n)
		}
		delete(given, names[i])
	}
	deal(0, p.Count)
	return best, ok
}

func (x *nearWorld) node(i int) {
	name := fmt.Sprintf("n-%d", i)
	n, known := x.nodes[name]
	if !known {
		n = core.Node{Name: name, Labels: map[string]string{}}
		if block := pick(x.t, "block", "a", "a", "b", ""); block != "" {
			n.Labels["block"] = block
		}
		if rack := pick(x.t, "rack", "1", "2", ""); rack != "" {
			n.Labels["rack"] = rack
		}
		n.Allocatable = core.MakeResources(map[string]core.Amount{
			core.GPU: core.Amount(rapid.IntRange(1, 4).Draw(x.t, "gpus")), core.Pods: 20,
		})
	}
	n.State = pick(
		x.t,
		"state",
		core.NodeReady,
		core.NodeReady,
		core.NodeReady,
		core.NodeWarned,
		core.NodeClosed,
	)
	x.nodes[name] = n
	x.apply(core.NodeSet{Node: n})
}

func (x *nearWorld) job(i int) {
	w := core.Workload{
		Key: core.Key{Namespace: "q", Name: fmt.Sprint("j", i)}, UID: fmt.Sprintf("u%02d", i), Queue: "q",
		Created: x.now, QueueTime: x.now,
	}
	p := core.PodSet{Name: "main", Count: rapid.Int32Range(1, 6).Draw(x.t, "pods")}
	p.Requests = core.MakeResources(map[string]core.Amount{
		core.GPU: core.Amount(rapid.IntRange(1, 2).Draw(x.t, "gpus")),
	})
	p.Topology = pick(x.t, "near", core.TopologyRequest{}, core.TopologyRequest{Required: "rack"},
		core.TopologyRequest{Required: "block"}, core.TopologyRequest{Preferred: "rack"},
		core.TopologyRequest{Required: "block", Preferred: "rack"},
		core.TopologyRequest{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
		core.TopologyRequest{Required: "block", Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}})
	if len(p.Topology.Slices) > 0 {
		p.Count += p.Count % 2
	}
	w.PodSets = []core.PodSet{p}
	j := &nearJob{Workload: w}
	x.jobs[w.Key] = j
	x.tell(j)
}

func (x *nearWorld) tell(j *nearJob) {
	x.seq++
	j.Seq = x.seq
	x.apply(core.WorkloadSet{Workload: j.Workload})
}

// decide lets the engine decide, and compares step by step: who is admitted is in the narrowest domain that there is a
// way for, who waits has none, and nobody is evicted who could go on.
func (x *nearWorld) decide() {
	plan := x.engine.Decide(x.now)
	fail := func(format string, args ...any) {
		x.t.Helper()
		x.t.Fatalf(format+"\n%s\nplan: %+v", append(args, strings.Join(x.log, "\n"), plan)...)
	}
	for _, d := range plan {
		switch d := d.(type) {
		case core.Admit:
			j, p := x.jobs[d.Key], d.Admission.PodSets[0]
			best, ok := x.best(&j.PodSets[0])
			given := map[string]int32{}
			for _, pl := range p.Places {
				given[pl.Node] += pl.Count
				need := j.PodSets[0].Requests.Of(core.GPU) * core.Amount(given[pl.Node])
				if need > x.free(pl.Node) || !x.nodes[pl.Node].State.TakesWork() {
					fail("%s is placed on %s, which has no room", d.Key, pl.Node)
				}
			}
			span, holds := x.span(&j.PodSets[0], given)
			if !ok || !holds || span != best {
				fail("%s is on %v, in one domain of level %d (as it must be: %v); best is %d (%v)",
					d.Key, p.Places, span, holds, best, ok)
			}
			j.places, j.Admission, j.Reserved, j.Admitted = p.Places, &d.Admission, x.now, true
			x.tell(j)
		case core.Replace:
			j := x.jobs[d.Key]
			j.places, j.Admission = d.Admission.PodSets[0].Places, &d.Admission
			x.tell(j)
		case core.Evict: // its pods are gone at once
			j := x.jobs[d.Key]
			j.places, j.Admission, j.Reserved, j.Admitted = nil, nil, time.Time{}, false
			x.tell(j)
		case core.Refuse:
		}
	}
	if len(plan) > 0 {
		x.now = x.now.Add(time.Second)
		x.decide()
		return
	}
	for _, j := range x.jobs { // each is asked about
		if j.Admission != nil {
			continue
		}
		why, _ := x.engine.Why(j.Key)
		if best, ok := x.best(&j.PodSets[0]); ok {
			fail(
				"%s waits for %v (%s), and there is a place in one domain of level %d",
				j.Key,
				why.Code,
				why.Cause,
				best,
			)
		}
	}
}

// TestPlacesAgainstReference: with quota for all, nodes alone decide, and levels that are required, preferred or asked
// for by slices. Against every way to place each job at the moment of the decision, while nodes come, fail and return
// and jobs come and go: who has a place is given one, as narrow as there is one.
func TestPlacesAgainstReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := &nearWorld{
			t: t, engine: cycle.New(cycle.Options{}), now: time.Unix(1000, 0),
			nodes: map[string]core.Node{}, jobs: map[core.Key]*nearJob{},
		}
		x.apply(
			core.FlavorSet{Flavor: core.Flavor{Name: "x", Topology: core.Topology{Name: "t", Levels: nearLevels}}},
		)
		x.apply(core.NamespaceSet{Namespace: core.Namespace{Name: "q"}})
		x.apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "q", Name: "q", Queue: "q"}})
		x.apply(core.QueueSet{Queue: core.Queue{
			Name: "q", Namespaces: &core.Selector{}, Strategy: core.BestEffortFIFO,
			Groups: []core.ResourceGroup{{
				Covered: []string{core.GPU},
				Flavors: []core.FlavorQuotas{{Flavor: "x", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 1000}}}},
			}},
		}})
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			x.node(i)
		}
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			x.now = x.now.Add(time.Second)
			switch pick(t, "event", "job", "job", "job", "ends", "node") {
			case "job":
				x.job(step)
			case "node":
				x.node(rapid.IntRange(0, 5).Draw(t, "node"))
			case "ends":
				for _, k := range slices.SortedFunc(maps.Keys(x.jobs), core.Key.Compare) {
					if x.jobs[k].Admission != nil && rapid.Bool().Draw(t, "this one") {
						delete(x.jobs, k)
						x.apply(core.WorkloadGone{Key: k})
					}
				}
			}
			x.decide()
		}
	})
}
