package worldfile

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

const (
	defaultFlavor = "default-flavor"
	// The admission modes of a ClusterQueue.
	noUsage, usageBased = "NoAdmissionFairSharing", "UsageBasedAdmissionFairSharing"
	doorName            = "default-queue"
	// defaultPriority is what MLBatch gives to jobs that ask for none.
	defaultPriority = 5
	defaultPerPod   = 8
	day             = 24 * time.Hour
)

// builder makes a World of a File.
type builder struct {
	file    *File
	world   sim.World
	flavors map[string]bool
	// multi says that quotas must name their flavor.
	multi  bool
	covers bool // quotas cover cpu or memory
	queues map[string]core.Queue
	doors  map[string][]string // local queues of each team
	tree   map[string]core.Cohort
	nodes  map[string]core.Node
}

// Build makes a world of a file. Trace is the text of the file's trace; nil if it
// has none.
func Build(f *File, trace io.Reader) (*sim.World, error) {
	b := &builder{
		file: f, flavors: map[string]bool{}, queues: map[string]core.Queue{}, doors: map[string][]string{},
		tree: map[string]core.Cohort{}, nodes: map[string]core.Node{},
	}
	b.world.Name, b.world.Seed = cmp.Or(f.Name, "world"), 1
	if f.Seed != nil {
		b.world.Seed = *f.Seed
	}
	b.world.Horizon = time.Duration(f.Horizon)
	var traced []traceJob
	if f.Trace != nil {
		if trace == nil {
			return nil, fmt.Errorf("trace.file %q was not opened", f.Trace.File)
		}
		var err error
		if traced, err = readTrace(f.Trace, trace); err != nil {
			return nil, fmt.Errorf("trace %s: %w", f.Trace.File, err)
		}
	}
	if err := b.start(traced); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		b.edge, b.engine, b.makeFlavors, b.makeCohorts, b.makeTeams, b.makeNodes, b.makeJobs,
		func() error { return b.replay(traced) }, b.script, b.complete,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &b.world, nil
}

func (b *builder) start(traced []traceJob) error {
	b.world.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if len(traced) > 0 {
		b.world.Start = traced[0].at
	}
	if b.file.Start == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, b.file.Start); err == nil {
			b.world.Start = at
			return nil
		}
	}
	return fmt.Errorf("start %q is no time: write it like 2026-01-01 or 2026-01-01T08:00:00Z", b.file.Start)
}

func (b *builder) edge() error {
	e := b.file.Edge
	for _, s := range []struct {
		name string
		from *Between
		to   *sim.Span
	}{
		{"write", e.Write, &b.world.Edge.Write},
		{"observe", e.Observe, &b.world.Edge.Observe},
		{"start", e.Start, &b.world.Edge.Start},
		{"stop", e.Stop, &b.world.Edge.Stop},
		{"detect", e.Detect, &b.world.Edge.Detect},
	} {
		if s.from != nil {
			*s.to = sim.Span{Min: time.Duration(s.from.Min), Max: time.Duration(s.from.Max)}
		}
	}
	for name, v := range map[string]float64{"refused": e.Refused, "repeated": e.Repeated} {
		if v < 0 || v > 0.9 {
			return fmt.Errorf("edge.%s is %g: it is a share from 0 to 0.9", name, v)
		}
	}
	b.world.Edge.Refuse, b.world.Edge.Repeat = e.Refused, e.Repeated
	f := b.file.Faults
	b.world.Faults = sim.Faults{MTBF: time.Duration(f.MTBF), MTTR: time.Duration(f.MTTR), Restarts: time.Duration(f.Restarts)}
	if f.MTBF > 0 && f.MTTR == 0 {
		return fmt.Errorf("faults.mtbf is given without faults.mttr: say how long a repair takes, for example mttr: 4h")
	}
	return nil
}

// engine sets the policies that hold for the whole cluster.
func (b *builder) engine() error {
	b.world.Engine.BlockAdmission = b.file.Engine.BlockAdmission
	if err := b.pastUsage(); err != nil {
		return err
	}
	f := b.file.Engine.FairSharing
	if f == nil || (f.Enable != nil && !*f.Enable) {
		return nil
	}
	out := core.DefaultFairSharing()
	for _, rule := range []struct{ from, to *bool }{{f.NonBorrowingFirst, &out.NonBorrowingFirst}, {f.ReclaimNominal, &out.ReclaimNominal}} {
		if rule.from != nil {
			*rule.to = *rule.from
		}
	}
	if len(f.Strategies) > 0 {
		out.Strategies = nil
	}
	for _, s := range f.Strategies {
		strategy, err := oneOf("engine.fairSharing.preemptionStrategies", s, core.LessThanOrEqualToFinalShare, core.LessThanInitialShare)
		if err != nil {
			return err
		}
		out.Strategies = append(out.Strategies, strategy)
	}
	b.world.Engine.FairSharing = out
	return nil
}

// pastUsage says how past usage counts.
func (b *builder) pastUsage() error {
	f := b.file.Engine.AdmissionFairSharing
	if f == nil {
		return nil
	}
	out := core.AdmissionFairSharing{HalfLife: time.Duration(f.HalfLife), Sampling: time.Duration(f.Sampling)}
	for _, name := range sortedKeys(f.Weights) {
		v := f.Weights[name]
		w, err := weight(&v, fmt.Sprintf("engine.admissionFairSharing.resourceWeights[%s]", name))
		if err != nil {
			return err
		}
		if out.Weights == nil {
			out.Weights = map[string]core.Weight{}
		}
		out.Weights[name] = *w
	}
	b.world.Engine.AdmissionFairSharing = out
	return nil
}

// weight is a share of what nobody owns.
func weight(w *float64, where string) (*core.Weight, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // not given is a value
	}
	if *w < 0 || *w > 1e9 {
		return nil, fmt.Errorf("%s.weight is %g: it must be from 0 to 1e9", where, *w)
	}
	return new(core.Weight(math.Round(*w * float64(core.WeightOne)))), nil
}

func (b *builder) add(ev core.Event) { b.world.Objects = append(b.world.Objects, ev) }

func (b *builder) makeFlavors() error {
	if len(b.file.Flavors) == 0 {
		b.file.Flavors = []Flavor{{Name: defaultFlavor}}
	}
	for i, f := range b.file.Flavors {
		if f.Name == "" || b.flavors[f.Name] {
			return fmt.Errorf("flavors[%d].name %q is empty or used twice: give each flavor its own name", i, f.Name)
		}
		b.flavors[f.Name] = true
		b.add(core.FlavorSet{Flavor: core.Flavor{Name: f.Name, NodeLabels: f.NodeLabels, Taints: taints(f.Taints)}})
	}
	b.multi = len(b.file.Flavors) > 1
	return nil
}

func taints(in []Taint) (out []core.Taint) {
	for _, t := range in {
		out = append(out, core.Taint{Key: t.Key, Value: t.Value, Effect: core.NoSchedule})
	}
	return out
}

func (b *builder) makeCohorts() error {
	for i, c := range b.file.Cohorts {
		if c.Name == "" {
			return fmt.Errorf("cohorts[%d] has no name", i)
		}
		if _, twice := b.tree[c.Name]; twice {
			return fmt.Errorf("cohorts[%d].name %q is used twice", i, c.Name)
		}
		groups, err := b.groups(c.Quotas, fmt.Sprintf("cohorts[%d] (%s)", i, c.Name))
		if err != nil {
			return err
		}
		cohort := core.Cohort{Name: c.Name, Parent: c.Parent, Groups: groups}
		if cohort.Weight, err = weight(c.Weight, fmt.Sprintf("cohorts[%d] (%s)", i, c.Name)); err != nil {
			return err
		}
		b.tree[c.Name] = cohort
		b.add(core.CohortSet{Cohort: cohort})
	}
	return nil
}

func (b *builder) makeTeams() error {
	if len(b.file.Teams) == 0 {
		return fmt.Errorf("there are no teams: list at least one, for example\nteams:\n- {name: red, gpus: 8}")
	}
	for i, t := range b.file.Teams {
		where := fmt.Sprintf("teams[%d] (%s)", i, t.Name)
		if t.Name == "" {
			return fmt.Errorf("teams[%d] has no name", i)
		}
		if _, twice := b.queues[t.Name]; twice {
			return fmt.Errorf("%s: the name is used twice", where)
		}
		q, err := b.team(t, where)
		if err != nil {
			return err
		}
		b.queues[t.Name] = q
		b.add(core.NamespaceSet{Namespace: core.Namespace{Name: t.Name}})
		b.add(core.QueueSet{Queue: q})
		if err := b.makeDoors(t, where); err != nil {
			return err
		}
		if err := b.check(t, where); err != nil {
			return err
		}
		team := sim.Team{Name: t.Name, Queue: t.Name}
		if t.Weight != nil {
			team.Weight = *t.Weight
		}
		b.world.Teams = append(b.world.Teams, team)
	}
	return nil
}

// makeDoors makes a team's local queues; the first is for jobs that name none.
func (b *builder) makeDoors(t Team, where string) error {
	doors := t.LocalQueues
	if len(doors) == 0 {
		doors = []LocalQueue{{Name: doorName}}
	}
	for i, d := range doors {
		at := fmt.Sprintf("%s.localQueues[%d]", where, i)
		if d.Name == "" || slices.Contains(b.doors[t.Name], d.Name) {
			return fmt.Errorf("%s.name %q is empty or used twice: give each local queue its own name", at, d.Name)
		}
		w, err := weight(d.Weight, at)
		if err != nil {
			return err
		}
		b.doors[t.Name] = append(b.doors[t.Name], d.Name)
		b.add(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: t.Name, Name: d.Name, Queue: t.Name, Weight: w}})
	}
	return nil
}

// check makes a team's admission check.
func (b *builder) check(t Team, where string) error {
	c := t.Check
	if c == nil {
		return nil
	}
	if c.Retry < 0 || c.Reject < 0 || c.Retry > 0.9 || c.Retry+c.Reject > 1 {
		return fmt.Errorf("%s.admissionCheck: retry is %g and reject %g: they are shares from 0, retry to 0.9, together to 1", where, c.Retry, c.Reject)
	}
	b.world.Checks = append(b.world.Checks, sim.Check{
		Queue: t.Name, Answer: sim.Span{Min: time.Duration(c.Answer.Min), Max: time.Duration(c.Answer.Max)},
		Retry: c.Retry, Reject: c.Reject, Backoff: time.Duration(c.Backoff),
	})
	return nil
}

// oneOf checks a word against those allowed; "" is the first.
func oneOf[T ~string](where, got string, allowed ...T) (T, error) {
	if got == "" {
		return allowed[0], nil
	}
	if i := slices.Index(allowed, T(got)); i >= 0 {
		return allowed[i], nil
	}
	return "", fmt.Errorf("%s: %q is not known: use one of %v", where, got, allowed)
}

func (b *builder) team(t Team, where string) (core.Queue, error) {
	all := core.Selector{}
	q := core.Queue{Name: t.Name, Cohort: t.Cohort, Namespaces: &all}
	quotas := t.Quotas
	if t.GPUs != nil {
		if len(quotas) > 0 {
			return q, fmt.Errorf("%s: gpus and quotas are both given: gpus is short for quotas, use one", where)
		}
		quotas = gpuQuota(*t.GPUs)
	}
	var err error
	if q.Groups, err = b.groups(quotas, where); err != nil {
		return q, err
	}
	if q.Weight, err = weight(t.Weight, where); err != nil {
		return q, err
	}
	check := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	q.Strategy, e = oneOf(where+".strategy", t.Strategy, core.BestEffortFIFO, core.StrictFIFO)
	check(e)
	q.Stop, e = oneOf(where+".stopPolicy", t.Stop, core.StopNone, core.Hold, core.HoldAndDrain)
	check(e)
	mode, e := oneOf(where+".admissionMode", t.AdmissionMode, noUsage, usageBased)
	check(e)
	q.UsageBased = mode == usageBased
	p := t.Preemption
	q.Preemption.WithinQueue, e = oneOf(where+".preemption.withinClusterQueue", p.WithinQueue, core.PreemptLowerPriority, core.PreemptNever, core.PreemptLowerOrNewerEqualPrio)
	check(e)
	q.Preemption.Reclaim, e = oneOf(where+".preemption.reclaimWithinCohort", p.Reclaim, core.PreemptAny, core.PreemptNever, core.PreemptLowerPriority)
	check(e)
	q.Preemption.WhileBorrow = core.PreemptNever
	if w := p.WhileBorrow; w != nil {
		q.Preemption.WhileBorrow, e = oneOf(where+".preemption.borrowWithinCohort.policy", w.Policy, core.PreemptNever, core.PreemptLowerPriority)
		check(e)
		q.Preemption.MaxPriority = w.MaxPriority
	}
	type word string
	borrow, e := oneOf(where+".flavorFungibility.whenCanBorrow", t.Fungibility.WhenCanBorrow, word("MayStopSearch"), "TryNextFlavor")
	check(e)
	preempt, e := oneOf(where+".flavorFungibility.whenCanPreempt", t.Fungibility.WhenCanPreempt, word("TryNextFlavor"), "MayStopSearch")
	check(e)
	prefer, e := oneOf(where+".flavorFungibility.preference", t.Fungibility.Preference, word("BorrowingOverPreemption"), "PreemptionOverBorrowing")
	check(e)
	q.Fungibility = core.Fungibility{
		BorrowTriesNext: borrow == "TryNextFlavor", PreemptTriesNext: preempt == "TryNextFlavor",
		PreferPreemption: prefer == "PreemptionOverBorrowing",
	}
	return q, err
}

func gpuQuota(n int64) []Quota {
	return []Quota{{Resources: map[string]Limit{core.GPU: {Nominal: Quantity(fmt.Sprint(n))}}}}
}

// groups turns quotas into resource groups: flavors that list the same resources
// are alternatives of one group.
func (b *builder) groups(quotas []Quota, where string) ([]core.ResourceGroup, error) {
	var out []core.ResourceGroup
	for i, q := range quotas {
		at := fmt.Sprintf("%s.quotas[%d]", where, i)
		name := q.Flavor
		if name == "" {
			if b.multi {
				return nil, fmt.Errorf("%s names no flavor, and there are several", at)
			}
			name = b.file.Flavors[0].Name
		}
		if !b.flavors[name] {
			return nil, fmt.Errorf("%s.flavor %q does not exist: add it to flavors", at, name)
		}
		fq, covered, err := quotasOf(name, q, at)
		if err != nil {
			return nil, err
		}
		if slices.Contains(covered, core.CPU) || slices.Contains(covered, core.Memory) {
			b.covers = true
		}
		k := slices.IndexFunc(out, func(g core.ResourceGroup) bool {
			return slices.ContainsFunc(covered, func(r string) bool { return slices.Contains(g.Covered, r) })
		})
		switch {
		case k < 0:
			out = append(out, core.ResourceGroup{Covered: covered, Flavors: []core.FlavorQuotas{fq}})
		case !slices.Equal(out[k].Covered, covered):
			return nil, fmt.Errorf("%s lists the resources %v and another flavor %v: flavors that share a resource must list the same resources", at, covered, out[k].Covered)
		case slices.ContainsFunc(out[k].Flavors, func(f core.FlavorQuotas) bool { return f.Flavor == name }):
			return nil, fmt.Errorf("%s lists flavor %s twice", at, name)
		default:
			out[k].Flavors = append(out[k].Flavors, fq)
		}
	}
	return out, nil
}

func quotasOf(flavor string, q Quota, at string) (core.FlavorQuotas, []string, error) {
	fq := core.FlavorQuotas{Flavor: flavor}
	covered := make([]string, 0, len(q.Resources))
	for _, name := range sortedKeys(q.Resources) {
		l := q.Resources[name]
		covered = append(covered, name)
		quota := core.Quota{Resource: name}
		var err error
		if quota.Nominal, err = l.Nominal.amount(name); err != nil {
			return fq, nil, fmt.Errorf("%s.resources[%s]: %w", at, name, err)
		}
		for _, limit := range []struct {
			from *Quantity
			to   **core.Amount
		}{{l.Borrowing, &quota.Borrowing}, {l.Lending, &quota.Lending}} {
			if limit.from == nil {
				continue
			}
			a, err := limit.from.amount(name)
			if err != nil {
				return fq, nil, fmt.Errorf("%s.resources[%s]: %w", at, name, err)
			}
			*limit.to = &a
		}
		if quota.Lending != nil && *quota.Lending > quota.Nominal {
			return fq, nil, fmt.Errorf("%s.resources[%s]: lendingLimit is above nominalQuota", at, name)
		}
		fq.Quotas = append(fq.Quotas, quota)
	}
	if len(covered) == 0 {
		return fq, nil, fmt.Errorf("%s has no resources", at)
	}
	return fq, covered, nil
}

func (b *builder) makeNodes() error {
	for i, n := range b.file.Nodes {
		if n.Name == "" || n.Count < 1 {
			return fmt.Errorf("nodes[%d] needs a name and a count of at least 1", i)
		}
		cpu, err := n.CPU.amount(core.CPU)
		if err != nil {
			return fmt.Errorf("nodes[%d].cpu: %w", i, err)
		}
		memory, err := n.Memory.amount(core.Memory)
		if err != nil {
			return fmt.Errorf("nodes[%d].memory: %w", i, err)
		}
		size := map[string]core.Amount{core.GPU: core.Amount(n.GPUs), core.CPU: cpu, core.Memory: memory}
		size[core.Pods] = core.Amount(cmp.Or(n.Pods, 110))
		for k := range n.Count {
			node := core.Node{
				Name: fmt.Sprintf("%s-%d", n.Name, k), Labels: n.Labels, Taints: taints(n.Taints),
				Allocatable: core.MakeResources(size), State: core.NodeReady,
			}
			if _, twice := b.nodes[node.Name]; twice {
				return fmt.Errorf("nodes[%d]: there are two nodes %s: give them other names", i, node.Name)
			}
			b.nodes[node.Name] = node
			b.add(core.NodeSet{Node: node})
		}
	}
	return nil
}

// complete sorts what must be sorted, and chooses what is reported: GPUs, or in a
// world without GPU quotas, cores.
func (b *builder) complete() error {
	slices.SortStableFunc(b.world.Jobs, func(x, y sim.Job) int { return cmp.Compare(x.Submit, y.Submit) })
	slices.SortStableFunc(b.world.Script, func(x, y sim.Op) int { return cmp.Compare(x.At, y.At) })
	if len(b.world.Jobs) == 0 {
		return fmt.Errorf("there are no jobs: add jobs or a trace")
	}
	covered := map[string]bool{}
	for _, q := range b.queues {
		for _, g := range q.Groups {
			for _, r := range g.Covered {
				covered[r] = true
			}
		}
	}
	b.world.Unit = core.GPU
	if !covered[core.GPU] && covered[core.CPU] {
		b.world.Unit = core.CPU
	}
	return nil
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
