package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// maker makes up one world.
type maker struct {
	*rand.Rand
	world       sim.World
	flavors     []string
	cohorts     []string
	queues      []string
	specs       map[string]core.Queue
	nodes       map[string]core.Node
	localQueues map[string][]string // of each queue
	// byUsage: some queues of this world go by past usage.
	byUsage bool
	// hostile: pods exist one by one, and tenants act on them.
	hostile bool
	jobs    []core.Key
	// sharing draws what keeps pods from sharing nodes. All else of a seed stays as it was
	// without.
	sharing *rand.Rand
}

func pick[T any](m *maker, values ...T) T { return values[m.IntN(len(values))] }

// upTo is from 0 to n.
func (m *maker) upTo(n int) int { return m.IntN(n + 1) }

func (m *maker) odds(percent int) bool { return m.IntN(100) < percent }

// World makes up the world of a seed. In those of even seeds there are tenants who
// act on the pods of their jobs.
func World(seed uint64) sim.World {
	m := &maker{
		Rand:        rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // not for secrets
		sharing:     rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // not for secrets
		hostile:     seed%2 == 0,
		localQueues: map[string][]string{}, specs: map[string]core.Queue{}, nodes: map[string]core.Node{},
	}
	m.world = sim.World{Name: fmt.Sprint("seed ", seed), Seed: seed, Start: time.Unix(1_000_000, 0).UTC()}
	m.policies()
	m.world.Engine.StabilizationWindow = []time.Duration{0, 0, 500 * time.Millisecond, 2 * time.Second}[seed/2%4]
	m.rules()
	m.clusterModel()
	m.makeFlavors()
	m.makeTree()
	for i := range m.upTo(5) {
		m.makeNode(fmt.Sprintf("n-%d", i))
	}
	end := 20 + m.IntN(100)
	for range 3 + m.upTo(20) {
		m.makeJob(m.IntN(end))
	}
	for range m.upTo(12) {
		m.trouble(m.moment(end))
	}
	if m.hostile {
		for range 2 + m.upTo(12) {
			m.tenant(m.moment(end))
		}
	}
	if seed%5 == 3 {
		m.makeAlike()
	}
	if seed%4 == 1 {
		m.otherDoors()
	}
	if seed%9 == 4 {
		m.misfits(end)
	}
	if m.world.Engine.StabilizationWindow > 0 {
		m.atOnce(m.moment(end))
	}
	if seed%3 == 2 {
		m.racks(rand.New(rand.NewPCG(seed, 2)))    //nolint:gosec // not for secrets
		m.spread(rand.New(rand.NewPCG(seed, 4)))   //nolint:gosec // not for secrets
		m.together(rand.New(rand.NewPCG(seed, 8))) //nolint:gosec // not for secrets
		m.evenly(rand.New(rand.NewPCG(seed, 9)))   //nolint:gosec // not for secrets
	}
	if seed%9 == 2 {
		m.avoid(rand.New(rand.NewPCG(seed, 10))) //nolint:gosec // not for secrets
	}
	if seed%7 == 3 {
		m.runtimes(rand.New(rand.NewPCG(seed, 3))) //nolint:gosec // not for secrets
	}
	if seed%2 == 0 {
		m.interruptions(rand.New(rand.NewPCG(seed, 5)), end) //nolint:gosec // not for secrets
	}
	if seed%3 == 2 && seed%4 < 2 {
		crowded := seed%12 == 5
		if crowded {
			m.crowd(rand.New(rand.NewPCG(seed, 7)), end) //nolint:gosec // not for secrets
		}
		m.relocations(rand.New(rand.NewPCG(seed, 6)), crowded) //nolint:gosec // not for secrets
	}
	slices.SortStableFunc(m.world.Script, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
	return m.world
}

// relocations lets workloads of some queues be relocated, mostly where it is nodes that are short.
func (m *maker) relocations(r *rand.Rand, crowded bool) { //nolint:revive // what the world is like
	most, roomy := map[string]int32{}, r.IntN(4) > 0
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if ev, is := op.Object.(core.QueueSet); is {
			n, known := most[ev.Queue.Name]
			if !known || r.IntN(5) == 0 { // it is changed with others
				n = []int32{0, 1, 2, 20}[r.IntN(4)]
				if crowded {
					n = max(n, 1)
				}
				most[ev.Queue.Name] = n
			}
			ev.Queue.RelocationsPerHour = n
			if roomy {
				ev.Queue.Groups = enlarged(ev.Queue.Groups)
				ev.Queue.Preemption = core.Preemption{}
			}
			op.Object = ev
		}
	}
}

// crowd adds racks of nodes that are alike, two queues, one with jobs that leave some of these nodes free in each rack,
// and one with gangs that ask for nodes of one: they get them if jobs go to another.
func (m *maker) crowd(r *rand.Rand, end int) {
	racks, wide := 2+r.IntN(2), 2+r.IntN(2)
	for i := range racks * wide {
		m.object(0, core.NodeSet{Node: core.Node{
			State:       core.NodeReady,
			Name:        fmt.Sprintf("c-%d", i),
			Labels:      map[string]string{"kind": "x", "block": "b0", "rack": fmt.Sprint("c", i/wide)},
			Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: 4, core.CPU: 6, core.Pods: 5}),
		}})
	}
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if set, is := op.Object.(core.FlavorSet); is && set.Flavor.Name == "x" {
			set.Flavor.Topology = core.Topology{Name: "t", Levels: []string{"block", "rack"}}
			op.Object = set
		}
	}
	cohort := "crowded"
	if len(m.cohorts) > 0 && r.IntN(2) == 0 {
		cohort = m.cohorts[r.IntN(len(m.cohorts))]
	}
	for _, name := range []string{"crowd", "gangs"} {
		m.object(0, core.NamespaceSet{Namespace: core.Namespace{Name: name}})
		m.object(0, core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
		q := core.Queue{Name: name, Namespaces: &core.Selector{}, Cohort: cohort}
		q.Groups = []core.ResourceGroup{{
			Covered: []string{core.GPU},
			Flavors: []core.FlavorQuotas{{Flavor: "x", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 16}}}},
		}}
		if r.IntN(3) == 0 {
			q.Strategy, q.Preemption.WithinQueue = core.StrictFIFO, core.PreemptLowerPriority
		}
		m.object(0, core.QueueSet{Queue: q})
	}
	gpus := func() core.Resources {
		return core.MakeResources(map[string]core.Amount{core.GPU: 3 + core.Amount(r.IntN(2))})
	}
	for i := range racks * wide { // one for each node; some end soon
		work := time.Duration(60+r.IntN(300)) * time.Second
		if r.IntN(5) < 2 {
			work = time.Duration(5+r.IntN(20)) * time.Second
		}
		m.crowdJob(
			r,
			core.Key{Namespace: "crowd", Name: fmt.Sprint("crowd", i)},
			0,
			work,
			core.PodSet{Name: "main", Count: 1, Requests: gpus()},
		)
	}
	for i := range 1 + r.IntN(3) {
		p := core.PodSet{Name: "main", Count: int32(wide - r.IntN(2)), Requests: gpus()} //nolint:gosec // a few
		p.Topology.Required = "rack"
		work := time.Duration(5+r.IntN(60)) * time.Second
		m.crowdJob(r, core.Key{Namespace: "gangs", Name: fmt.Sprint("gang", i)}, 5+r.IntN(end), work, p)
	}
}

func (m *maker) crowdJob(r *rand.Rand, key core.Key, second int, work time.Duration, p core.PodSet) {
	at := time.Duration(second) * time.Second
	j := &sim.Job{
		Key:     key,
		UID:     fmt.Sprintf("u%02d", len(m.jobs)),
		Queue:   "q",
		Work:    work,
		Submit:  at,
		PodSets: []core.PodSet{p},
	}
	if r.IntN(4) == 0 {
		j.Priority = r.Int32N(3)
	}
	m.jobs = append(m.jobs, j.Key)
	m.at(at, sim.Op{Job: j})
}

// interruptions lets jobs whose nodes fail keep the others for a while.
func (m *maker) interruptions(r *rand.Rand, end int) {
	m.world.Engine.KeepNodes = true
	m.world.Cluster.KeepNodes = time.Duration(r.IntN(30)) * time.Second
	var nodes []core.Node
	for _, op := range m.world.Script {
		if set, is := op.Object.(core.NodeSet); is && set.Node.State == core.NodeReady {
			nodes = append(nodes, set.Node)
		}
	}
	for range r.IntN(5) {
		if len(nodes) == 0 {
			return
		}
		n := nodes[r.IntN(len(nodes))]
		at := time.Duration(r.IntN(end*1000)) * time.Millisecond
		lost := n
		lost.State = core.NodeLost
		m.object(at, core.NodeSet{Node: lost})
		m.object(at+time.Duration(1+r.IntN(20_000))*time.Millisecond, core.NodeSet{Node: n})
	}
}

// enlarged are resource groups with more quota than nodes can hold.
func enlarged(groups []core.ResourceGroup) []core.ResourceGroup {
	out := slices.Clone(groups)
	for i := range out {
		out[i].Flavors = slices.Clone(out[i].Flavors)
		for k := range out[i].Flavors {
			f := &out[i].Flavors[k]
			f.Quotas = slices.Clone(f.Quotas)
			for n := range f.Quotas {
				f.Quotas[n].Nominal = f.Quotas[n].Nominal.Add(1000)
			}
		}
	}
	return out
}

// atOnce is one change that is written one object after the other: jobs that get one
// priority, queues and cohorts that get other quotas.
func (m *maker) atOnce(t time.Duration) {
	to := m.Int32N(4)
	for _, job := range m.jobs {
		if t += m.pause(); m.odds(50) {
			m.at(t, sim.Op{Change: &sim.JobEdit{Key: job, Priority: new(to)}})
		}
	}
	for _, q := range m.queues {
		if t += m.pause(); m.odds(30) {
			m.editQueue(t, q)
		}
	}
	if len(m.cohorts) > 0 && m.odds(30) {
		m.editCohort(t+m.pause(), m.IntN(len(m.cohorts)))
	}
}

// pause is what lies between two writes of one change.
func (m *maker) pause() time.Duration { return time.Duration(m.upTo(60)) * time.Millisecond }

func (m *maker) policies() {
	if m.odds(30) {
		all := []core.FairStrategy{core.LessThanOrEqualToFinalShare, core.LessThanInitialShare}
		m.world.Engine.FairSharing = &core.FairSharing{
			Strategies:        pick(m, nil, all[:1], all[1:], all),
			NonBorrowingFirst: m.odds(20), ReclaimNominal: m.odds(20),
		}
	}
	m.world.Engine.BlockAdmission = m.odds(10)
	if m.byUsage = m.odds(15); m.byUsage {
		m.world.Engine.AdmissionFairSharing = core.AdmissionFairSharing{
			HalfLife: pick(m, 10*time.Second, time.Minute), Sampling: pick(m, 2*time.Second, 20*time.Second),
		}
		if m.odds(30) {
			m.world.Engine.AdmissionFairSharing.Weights = map[string]core.Weight{
				core.CPU: core.WeightOne * core.Weight(m.upTo(2)),
			}
		}
	}
}

// rules has the controllers' own rules hold in half of the worlds.
func (m *maker) rules() {
	if m.odds(50) && !m.hostile {
		return
	}
	m.world.Lifecycle = &sim.Lifecycle{Pods: m.hostile}
	if m.hostile {
		m.world.Lifecycle.LongestEnd = longestEnd
	}
	if !m.world.Engine.BlockAdmission && m.odds(30) {
		return // an engine that waits for pods before it admits others has a limit for it
	}
	p := &sim.PodsReady{
		Timeout: time.Duration(1+m.IntN(15)) * time.Second, Recovery: time.Duration(m.upTo(15)) * time.Second,
		Base: time.Duration(m.upTo(6)) * time.Second, Max: 20 * time.Second, Creation: m.odds(30),
	}
	if m.odds(60) {
		p.Limit = new(m.Int32N(4))
	} else { // a job that may come back for ever has to start in time some day
		p.Base, p.Timeout = max(p.Base, time.Second), p.Timeout+12*time.Second
	}
	m.world.Lifecycle.PodsReady = p
}

// clusterModel is an ideal world, a real one, or a bad one.
func (m *maker) clusterModel() {
	e := &m.world.Cluster
	switch m.IntN(3) {
	case 0:
		e.Stop = sim.Always(pick(m, 0, time.Second))
	case 1:
		e.Write, e.Observe = sim.Span{Max: 100 * time.Millisecond}, sim.Span{Max: 50 * time.Millisecond}
		e.Start, e.Stop = sim.Span{Min: time.Second, Max: 3 * time.Second}, sim.Span{Max: 5 * time.Second}
		e.Detect = sim.Always(time.Second)
	default:
		e.Write, e.Observe = sim.Span{Max: 3 * time.Second}, sim.Span{Max: 3 * time.Second}
		e.Start, e.Stop = sim.Span{Max: 3 * time.Second}, sim.Span{Max: 15 * time.Second}
		e.Detect = sim.Span{Max: 5 * time.Second}
		e.Refuse, e.Repeat = pick(m, 0, 0.05), pick(m, 0, 0.2)
	}
	if m.odds(15) {
		m.world.Faults.Restarts = time.Duration(10+m.IntN(60)) * time.Second
	}
}

func (m *maker) at(t time.Duration, op sim.Op) {
	op.At = t
	m.world.Script = append(m.world.Script, op)
}

func (m *maker) object(t time.Duration, ev core.Event) { m.at(t, sim.Op{Object: ev}) }

// madeFlavors are those of every world.
func madeFlavors() []core.Flavor {
	return []core.Flavor{
		{Name: "c"},
		{Name: "x", NodeLabels: map[string]string{"kind": "x"}},
		{
			Name:       "y",
			NodeLabels: map[string]string{"kind": "y"},
			Taints:     []core.Taint{{Key: "y", Effect: core.NoSchedule}},
		},
	}
}

func (m *maker) makeFlavors() {
	for _, f := range madeFlavors() {
		m.object(0, core.FlavorSet{Flavor: f})
	}
	m.flavors = pick(m, []string{"x"}, []string{"x"}, []string{"x", "y"}, []string{"y", "x"})
}

func (m *maker) weight() *core.Weight {
	if m.odds(60) {
		return nil
	}
	return new(core.WeightOne * core.Weight(m.upTo(3)))
}

func (m *maker) quota( //nolint:revive // limits are for members of cohorts only
	name string,
	most int,
	limits bool,
) core.Quota {
	q := core.Quota{Resource: name, Nominal: core.Amount(m.upTo(most))}
	if limits && m.odds(30) {
		q.Borrowing = new(core.Amount(m.upTo(4)))
	}
	if limits && m.odds(30) {
		q.Lending = new(core.Amount(m.upTo(int(q.Nominal))))
	}
	return q
}

func (m *maker) groups(limits bool) []core.ResourceGroup {
	g := core.ResourceGroup{Covered: []string{core.GPU}}
	for _, f := range m.flavors {
		g.Flavors = append(
			g.Flavors,
			core.FlavorQuotas{Flavor: f, Quotas: []core.Quota{m.quota(core.GPU, 6, limits)}},
		)
	}
	out := []core.ResourceGroup{g}
	if m.odds(40) {
		out = append(out, core.ResourceGroup{
			Covered: []string{core.CPU},
			Flavors: []core.FlavorQuotas{{Flavor: "c", Quotas: []core.Quota{m.quota(core.CPU, 10, limits)}}},
		})
	}
	return out
}

// makeTree makes cohorts, each below an earlier one or none, and queues.
func (m *maker) makeTree() {
	for i := range m.upTo(4) {
		m.cohorts = append(m.cohorts, fmt.Sprintf("h%d", i))
		m.editCohort(0, i)
	}
	for i := range 1 + m.upTo(4) {
		name := fmt.Sprintf("q%d", i)
		m.queues = append(m.queues, name)
		m.object(0, core.NamespaceSet{Namespace: core.Namespace{Name: name}})
		m.localQueues[name] = pick(m, []string{"q"}, []string{"q", "r"})
		for _, localQueue := range m.localQueues[name] {
			d := core.LocalQueue{Namespace: name, Name: localQueue, Queue: name}
			if m.byUsage {
				d.Weight = m.weight()
			}
			m.object(0, core.LocalQueueSet{LocalQueue: d})
		}
		m.editQueue(0, name)
	}
	some := 12
	if m.world.Lifecycle != nil {
		some = 30
	}
	for _, q := range slices.Concat(m.queues, m.queues) {
		if m.odds(some) {
			m.world.Checks = append(m.world.Checks, sim.Check{
				Queue: q, Answer: sim.Span{Max: time.Duration(m.upTo(10)) * time.Second},
				Retry: pick(m, 0, 0.3), Reject: pick(m, 0, 0.1), Backoff: time.Duration(m.upTo(20)) * time.Second,
				Revoke: pick(m, 0, 0.2, 0.4), Repeat: pick(m, 0, 0, 0.3),
			})
		}
	}
}

func (m *maker) editCohort(t time.Duration, i int) {
	c := core.Cohort{Name: m.cohorts[i], Weight: m.weight()}
	if i > 0 && m.odds(70) {
		c.Parent = m.cohorts[m.IntN(i)]
	}
	if m.odds(30) {
		c.Groups = m.groups(c.Parent != "")
	}
	m.object(t, core.CohortSet{Cohort: c})
}

func (m *maker) editQueue(t time.Duration, name string) {
	q := core.Queue{
		Name:       name,
		Namespaces: new(core.Selector),
		Weight:     m.weight(),
		Strategy:   pick(m, core.BestEffortFIFO, core.BestEffortFIFO, core.StrictFIFO),
	}
	*q.Namespaces = core.Selector{}
	if len(m.cohorts) > 0 && m.odds(85) {
		q.Cohort = pick(m, m.cohorts...)
	}
	q.Groups = m.groups(q.Cohort != "")
	q.UsageBased = m.byUsage && m.odds(60)
	p := &q.Preemption
	p.WithinQueue = pick(m, core.PreemptNever, core.PreemptLowerPriority, core.PreemptLowerOrNewerEqualPrio)
	p.Reclaim = pick(m, core.PreemptNever, core.PreemptLowerPriority, core.PreemptAny)
	p.WhileBorrow = core.PreemptNever
	if p.Reclaim != core.PreemptNever && m.odds(50) {
		p.WhileBorrow = core.PreemptLowerPriority
		if m.odds(50) {
			p.MaxPriority = new(int32(1))
		}
	}
	f := &q.Fungibility
	f.PreemptTriesNext, f.BorrowTriesNext = m.odds(66), m.odds(50)
	f.PreferPreemption = f.PreemptTriesNext && f.BorrowTriesNext && m.odds(50)
	m.specs[name] = q
	m.object(t, core.QueueSet{Queue: q})
}

func (m *maker) makeNode(name string) {
	n := core.Node{Name: name, State: core.NodeReady, Labels: map[string]string{"kind": pick(m, "x", "x", "y")}}
	n.Allocatable = core.MakeResources(
		map[string]core.Amount{core.GPU: core.Amount(m.upTo(4)), core.CPU: 6, core.Pods: 5},
	)
	m.nodes[name] = n
	m.object(0, core.NodeSet{Node: n})
}

// moment is a time that often coincides with others.
func (m *maker) moment(end int) time.Duration {
	return time.Duration(m.IntN(end))*time.Second + pick(m, 0, 0, 500*time.Millisecond)
}

// refuse has nodes refuse some jobs by rules that the engine does not know.
func (m *maker) refuse(j *sim.Job) {
	if m.world.Lifecycle == nil || m.hostile || m.sharing.IntN(6) > 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if m.sharing.IntN(2) == 0 {
			j.Refusing = append(
				j.Refusing,
				core.NodeRefusal{Node: name, Most: m.sharing.Int32N(2), Why: "a rule of the cluster"},
			)
		}
	}
	j.RefusingFor = time.Duration(1+m.sharing.IntN(20)) * time.Minute
}

// runtimes gives some queues a minimum runtime.
func (m *maker) runtimes(r *rand.Rand) {
	minimum := map[string]time.Duration{}
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if ev, is := op.Object.(core.QueueSet); is {
			d, known := minimum[ev.Queue.Name]
			if !known || r.IntN(3) == 0 { // it is changed with others
				d = []time.Duration{0, time.Minute, 5 * time.Minute, 20 * time.Minute}[r.IntN(4)]
				minimum[ev.Queue.Name] = d
			}
			ev.Queue.MinimumRuntime = d
			op.Object = ev
		}
	}
}

// racks puts nodes into ragged racks and blocks, and has pods of some jobs be near to each other.
func (m *maker) racks(r *rand.Rand) {
	labels := map[string]map[string]string{}
	of := func(node string) map[string]string {
		if labels[node] == nil {
			labels[node] = map[string]string{}
			if r.IntN(8) > 0 {
				labels[node]["block"] = fmt.Sprint("b", r.IntN(2))
			}
			if r.IntN(8) > 0 {
				labels[node]["rack"] = fmt.Sprint("r", r.IntN(2))
			}
		}
		return labels[node]
	}
	levels := [][]string{nil, {"block", "rack"}, {"block", "rack"}, {"rack"}}
	topology := map[string][]string{"x": levels[r.IntN(4)], "y": levels[r.IntN(4)]}
	requests := []core.TopologyRequest{
		{Required: "rack"},
		{Required: "rack"},
		{Required: "block"},
		{Preferred: "rack"},
		{Required: "block", Preferred: "rack"},
		{Slices: []core.PodSetSlice{{Level: "rack", Size: 2}}},
		{Required: "block", Slices: []core.PodSetSlice{{Level: "rack", Size: 1}}},
	}
	for i := range m.world.Script {
		op := &m.world.Script[i]
		switch ev := op.Object.(type) {
		case core.NodeSet:
			ev.Node.Labels = maps.Clone(ev.Node.Labels)
			maps.Copy(ev.Node.Labels, of(ev.Node.Name))
			op.Object = ev
		case core.FlavorSet:
			if is := topology[ev.Flavor.Name]; is != nil {
				ev.Flavor.Topology = core.Topology{Name: "t", Levels: is}
				op.Object = ev
			}
		}
		if op.Job == nil || r.IntN(3) == 0 {
			continue
		}
		j := *op.Job
		j.PodSets = slices.Clone(j.PodSets)
		is := requests[r.IntN(len(requests))]
		for k := range j.PodSets {
			p := &j.PodSets[k]
			if p.Topology = is; len(is.Slices) > 0 {
				p.MinCount = 0
				p.Count += p.Count % is.Slices[0].Size
			}
		}
		op.Job = &j
	}
}

// together has pod sets of some jobs be in one domain with others, some of them within a wider one.
func (m *maker) together(r *rand.Rand) {
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if op.Job == nil || len(op.Job.PodSets) < 2 || r.IntN(3) == 0 {
			continue
		}
		j := *op.Job
		j.PodSets = slices.Clone(j.PodSets)
		for k := range j.PodSets {
			p := &j.PodSets[k]
			if r.IntN(5) > 0 {
				p.Parents, p.Topology.Parents = []string{"all"}, []string{"block"}
			}
			if r.IntN(3) == 0 {
				p.Parents = append(p.Parents, "part")
				p.Topology.Parents = append(slices.Clip(p.Topology.Parents), "rack")
			}
			if p.Topology.Required != "" && r.IntN(3) == 0 {
				p.Group = "with " + p.Topology.Required
			}
		}
		op.Job = &j
	}
}

// evenly has pods of some jobs have equal shares of as many domains as do.
func (m *maker) evenly(r *rand.Rand) {
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if op.Job == nil || r.IntN(8) > 0 {
			continue
		}
		j := *op.Job
		j.PodSets = slices.Clone(j.PodSets)
		level := []string{"rack", "block", core.HostnameLabel}[r.IntN(3)]
		for k := range j.PodSets {
			j.PodSets[k].Topology.Spread, j.PodSets[k].Topology.Balanced = level, ""
		}
		op.Job = &j
	}
}

// avoid has jobs avoid nodes, as after an attempt that failed there: most some, and some all of them.
func (m *maker) avoid(r *rand.Rand) {
	names := slices.Sorted(maps.Keys(m.nodes))
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if op.Job == nil || r.IntN(2) == 0 {
			continue
		}
		all := r.IntN(4) == 0
		var avoided []string
		for _, name := range names {
			if all || r.IntN(3) == 0 {
				avoided = append(avoided, name)
			}
		}
		j := *op.Job
		j.PodSets = slices.Clone(j.PodSets)
		for k := range j.PodSets {
			j.PodSets[k].Filter.Avoided = avoided
		}
		op.Job = &j
	}
}

// spread has pods of some jobs keep apart in racks and blocks, spread over these, or want equal shares of them.
func (m *maker) spread(r *rand.Rand) {
	limits := []core.Limit{
		{Name: "apart in racks", Own: true, Count: 2, Most: 3, Level: "rack"},
		{Name: "apart in blocks", Own: true, Count: 1, Most: 2, Level: "block"},
		{Name: "spread over racks", Own: true, Count: 1, Skew: 1, Level: "rack"},
		{Name: "spread over blocks", Own: true, Count: 1, Skew: 2, Level: "block"},
		{Name: "spread over two blocks", Own: true, Count: 1, Skew: 1, Level: "block", MinDomains: 2},
		{Name: "spread over racks that serve", Own: true, Count: 1, Skew: 1, Level: "rack", Tolerated: true},
		{Name: "spread over all racks", Own: true, Count: 1, Skew: 2, Level: "rack", Unselected: true},
		{Name: "spread among all over racks", Count: 1, Skew: 2, Level: "rack"},
		{Name: "apart from all in racks", Count: 1, Most: 2, Level: "rack"},
	}
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if op.Job == nil || r.IntN(5) > 0 {
			continue
		}
		j := *op.Job
		j.PodSets = slices.Clone(j.PodSets)
		limit, balanced := limits[r.IntN(len(limits))], r.IntN(4) == 0
		for k := range j.PodSets {
			p := &j.PodSets[k]
			if balanced {
				p.Topology.Balanced = "rack"
				continue
			}
			p.Limits = append(slices.Clip(p.Limits), limit)
		}
		op.Job = &j
	}
}

// limit keeps some pods from sharing nodes: by a port, by what keeps pods like them away, or as
// they spread.
func (m *maker) limit(p *core.PodSet) {
	limits := []core.Limit{
		{Name: "host port 80/TCP", Count: 1, Most: 1},
		{Name: "affinity", Count: 9, Most: 9},
		{Name: "affinity", Count: 1, Most: 9},
		{Name: "spread", Own: true, Count: 1, Most: 1},
	}
	if m.sharing.IntN(8) == 0 {
		p.Limits = []core.Limit{limits[m.sharing.IntN(len(limits))]}
	}
}

func (m *maker) makeJob(second int) {
	q := pick(m, m.queues...)
	n := len(m.jobs)
	j := &sim.Job{
		Key: core.Key{
			Namespace: q,
			Name:      fmt.Sprintf("j%d", n),
		},
		UID:        fmt.Sprintf("u%02d", n),
		Queue:      pick(m, m.localQueues[q]...),
		Priority:   pick[int32](m, 0, 0, 1, 2),
		Work:       time.Duration(5+m.IntN(60)) * time.Second,
		Checkpoint: pick(m, 0, 0, 10*time.Second),
	}
	for i := range pick(m, 1, 1, 2) {
		p := core.PodSet{Name: fmt.Sprintf("s%d", i), Count: 1 + m.Int32N(3)}
		if m.odds(15) {
			p.MinCount = 1 + m.Int32N(p.Count)
		}
		ask := map[string]core.Amount{core.GPU: core.Amount(m.upTo(3))}
		if m.odds(30) {
			ask[core.CPU] = core.Amount(m.upTo(3))
		}
		p.Requests = core.MakeResources(ask)
		if m.odds(50) {
			p.Filter.Tolerations = []core.Toleration{{Key: "y"}}
		}
		m.limit(&p)
		j.PodSets = append(j.PodSets, p)
	}
	m.refuse(j)
	m.jobs = append(m.jobs, j.Key)
	t := time.Duration(second) * time.Second
	j.Submit = t
	m.at(t, sim.Op{Job: j})
	m.lifecycle(j)
}

// makeAlike submits more jobs like some that there are.
func (m *maker) makeAlike() {
	var jobs []sim.Op
	for _, op := range m.world.Script {
		if op.Job != nil {
			jobs = append(jobs, op)
		}
	}
	for range 1 + m.upTo(2) {
		like := pick(m, jobs...)
		for range 3 + m.upTo(5) {
			n, j := len(m.jobs), *like.Job
			j.Key.Name, j.UID = fmt.Sprintf("j%d", n), fmt.Sprintf("u%02d", n)
			m.jobs = append(m.jobs, j.Key)
			j.Submit += time.Duration(m.upTo(5)) * time.Second
			m.at(j.Submit, sim.Op{Job: &j})
		}
	}
}

// otherDoors gives each namespace a local queue that leads to the queue of another one,
// and has some jobs name a queue that is not there.
func (m *maker) otherDoors() {
	for i, name := range m.queues {
		to := m.queues[(i+1)%len(m.queues)]
		m.object(0, core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "other", Queue: to}})
	}
	for i := range m.world.Script {
		if op := &m.world.Script[i]; op.Job != nil && m.odds(8) {
			j := *op.Job
			j.Queue, op.Job = "nowhere", &j
		}
	}
}

// misfits has jobs choose nodes that their flavors, or all nodes, are not, or have volumes that only
// such nodes reach, and takes from queues
// for a while what they need: the right of their namespace, a flavor, a check.
func (m *maker) misfits(end int) {
	choices := []core.Requirement{
		{Key: "kind", Operator: core.In, Values: []string{"y"}},
		{Key: "kind", Operator: core.In, Values: []string{"z"}},
		{Key: "disk", Operator: core.In, Values: []string{"fast"}},
	}
	for i := range m.world.Script {
		op := &m.world.Script[i]
		if op.Job == nil || !m.odds(30) {
			continue
		}
		j := *op.Job
		j.PodSets = slices.Clone(j.PodSets)
		filter := &j.PodSets[m.IntN(len(j.PodSets))].Filter
		switch r := pick(m, choices...); {
		case m.odds(70):
			filter.Must = core.Selector{r}
		case i%2 == 0:
			filter.Terms = []core.Selector{{r}}
		default:
			filter.Volumes = []core.Volume{{Claim: "data", Terms: []core.Selector{{r}}}}
		}
		op.Job = &j
	}
	if m.odds(50) {
		m.otherDoors()
	}
	for range 1 + m.upTo(3) {
		t := m.moment(end)
		was := m.specs[pick(m, m.queues...)]
		q := was
		switch m.IntN(3) {
		case 0:
			q.Namespaces = &core.Selector{{Key: "team", Operator: core.Exists}}
		case 1:
			q.Inactive = "check c is missing"
		default:
			f := pick(m, madeFlavors()...)
			m.object(t, core.FlavorGone{Name: f.Name})
			m.object(t+m.moment(30), core.FlavorSet{Flavor: f})
			continue
		}
		m.object(t, core.QueueSet{Queue: q})
		m.object(t+m.moment(30), core.QueueSet{Queue: was})
	}
}

// lifecycle closes gates before a job, and lets some of its pods end early.
func (m *maker) lifecycle(j *sim.Job) {
	opened := func() time.Duration { return j.Submit + m.moment(40) }
	if m.odds(8) {
		j.GatedBy = "example.com/gate"
		m.at(opened(), sim.Op{Change: &sim.JobEdit{Key: j.Key, GatedBy: new("")}})
	}
	if m.odds(8) {
		j.PreemptionGate = "example.com/gate"
		m.at(opened(), sim.Op{Change: &sim.JobEdit{Key: j.Key, PreemptionGate: new("")}})
	}
	if m.world.Lifecycle != nil && m.odds(12) {
		j.Stuck = 1 + m.IntN(3)
	}
	if m.world.Lifecycle != nil && m.odds(12) {
		j.Limit = time.Duration(1+m.IntN(40)) * time.Second
	}
	if m.hostile {
		j.Grace, j.Eager = m.grace(), m.odds(50)
	}
	if m.odds(15) && !m.hostile {
		j.EarlyPods, j.EarlyAfter = 1+m.Int32N(2), m.moment(20)
	}
}

// trouble is one thing that goes wrong, or that is changed.
func (m *maker) trouble(t time.Duration) {
	job := pick(m, m.jobs...)
	switch m.IntN(16) {
	case 0:
		m.at(t, sim.Op{Restart: true})
	case 1:
		m.at(t, sim.Op{Refuse: true})
	case 2:
		m.at(t, sim.Op{Delete: &job})
	case 3:
		m.at(t, sim.Op{Change: &sim.JobEdit{Key: job, Priority: new(m.Int32N(4))}})
	case 4:
		m.at(t, sim.Op{Change: &sim.JobEdit{Key: job, Held: new("deactivated")}})
		m.at(t+m.moment(30), sim.Op{Change: &sim.JobEdit{Key: job, Held: new("")}})
	case 5:
		m.editQueue(t, pick(m, m.queues...))
	case 6:
		if len(m.cohorts) > 0 {
			m.editCohort(t, m.IntN(len(m.cohorts)))
		}
	case 7:
		q := m.specs[pick(m, m.queues...)]
		q.Stop = pick(m, core.Hold, core.HoldAndDrain)
		m.object(t, core.QueueSet{Queue: q})
		q.Stop = core.StopNone
		m.object(t+m.moment(30), core.QueueSet{Queue: q})
	case 8:
		m.at(t, sim.Op{Finish: &job})
	case 9:
		m.circle(t)
	case 10:
		q := pick(m, m.queues...)
		d := core.LocalQueue{
			Namespace: q,
			Name:      pick(m, m.localQueues[q]...),
			Queue:     q,
			Stop:      pick(m, core.Hold, core.HoldAndDrain),
		}
		m.object(t, core.LocalQueueSet{LocalQueue: d})
		d.Stop = core.StopNone
		m.object(t+m.moment(30), core.LocalQueueSet{LocalQueue: d})
	case 11:
		m.at(t, sim.Op{Change: &sim.JobEdit{Key: job, PreemptionGate: new("example.com/gate")}})
		m.at(t+m.moment(30), sim.Op{Change: &sim.JobEdit{Key: job, PreemptionGate: new("")}})
	default:
		m.nodeTrouble(t)
	}
}

// grace is how long a container goes on that ignores the signal to end.
func (m *maker) grace() time.Duration {
	return pick(m, 0, time.Second, 10*time.Second, 30*time.Second, 2*time.Minute)
}

// longestEnd is how long deleted pods may go on, which is more than those take that nobody keeps.
const longestEnd = 3 * time.Minute

// tenant is one action of the owner of a job.
func (m *maker) tenant(t time.Duration) {
	a := sim.Act{Key: pick(m, m.jobs...), N: 1 + m.Int32N(3), Grace: m.grace()}
	switch m.IntN(10) {
	case 0, 1, 2:
		a.Action = sim.DeletePods
		if m.odds(30) { // to keep what is borrowed
			a.Grace = time.Hour // far above the longest, and few enough moments for a world to come to rest
		}
		for range m.upTo(3) { // again and again
			m.at(t+m.moment(10), sim.Op{Act: new(a)})
		}
	case 3:
		a.Action = sim.PinPods
		if m.odds(50) {
			m.at(t+m.moment(60), sim.Op{Act: &sim.Act{Key: a.Key, Action: sim.UnpinPods}})
		}
	case 4, 5:
		a.Action, a.N = sim.ScaleTo, m.Int32N(6)
	case 6:
		a.Action = sim.ForgePods
	case 7:
		a.Action = sim.Reapply
	case 8:
		m.at(t, sim.Op{Delete: &a.Key})
		return
	default:
		a.Action = sim.DeleteForeground
	}
	m.at(t, sim.Op{Act: &a})
}

// circle puts a cohort below itself or one that may stand below it, and back.
func (m *maker) circle(t time.Duration) {
	if len(m.cohorts) == 0 {
		return
	}
	c := core.Cohort{Name: pick(m, m.cohorts...), Parent: pick(m, m.cohorts...)}
	m.object(t, core.CohortSet{Cohort: c})
	c.Parent = ""
	m.object(t+m.moment(30), core.CohortSet{Cohort: c})
}

func (m *maker) nodeTrouble(t time.Duration) {
	if len(m.nodes) == 0 {
		return
	}
	n := m.nodes[fmt.Sprintf("n-%d", m.IntN(len(m.nodes)))]
	if m.odds(10) {
		m.object(t, core.NodeGone{Name: n.Name})
	} else {
		bad := n
		bad.State = pick(m, core.NodeWarned, core.NodeClosed, core.NodeLost, core.NodeLost, core.NodeEvicted)
		m.object(t, core.NodeSet{Node: bad})
	}
	if m.odds(80) {
		m.object(t+m.moment(40), core.NodeSet{Node: n})
	}
}
