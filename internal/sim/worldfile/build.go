package worldfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
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
	localQueueName      = "default-queue"
	// defaultPriority is what MLBatch gives to jobs that ask for none.
	defaultPriority = 5
	defaultPerPod   = 8
	// defaultKeepNodes is what configurations have, too.
	defaultKeepNodes = 5 * time.Minute
	day              = 24 * time.Hour
)

// builder makes a World of a File.
type builder struct {
	file    *File
	world   sim.World
	flavors map[string]bool
	// multi says that quotas must name their flavor.
	multi       bool
	covers      bool // quotas cover cpu or memory
	queues      map[string]core.Queue
	localQueues map[string][]string // local queues of each team
	tree        map[string]core.Cohort
	nodes       map[string]core.Node
}

// Build makes a world of a file. Trace is the text of the file's trace; nil if it
// has none. The error has all that is wrong with the file.
func Build(f *File, trace io.Reader) (*sim.World, error) {
	b := &builder{
		file: f, flavors: map[string]bool{}, queues: map[string]core.Queue{}, localQueues: map[string][]string{},
		tree: map[string]core.Cohort{}, nodes: map[string]core.Node{},
	}
	b.world.Name, b.world.Seed = cmp.Or(f.Name, "world"), 1
	var errs []error
	traced, err := b.readTrace(trace)
	errs = append(errs, err)
	for _, step := range []func() error{
		b.bounds, func() error { return b.start(traced) },
		b.clusterModel, b.engine, b.makeFlavors, b.makeCohorts, b.makeTeams, b.makeNodes, b.makeJobs,
		func() error { return b.replay(traced) }, b.script, b.complete,
	} {
		errs = append(errs, step())
	}
	if problems := f.collect(errors.Join(errs...)); len(problems) > 0 {
		return nil, problems
	}
	return &b.world, nil
}

func (b *builder) readTrace(text io.Reader) ([]traceJob, error) {
	t := b.file.Trace
	if t == nil {
		return nil, nil
	}
	if text == nil {
		return nil, wrong("trace.file", "%q was not opened", t.File)
	}
	traced, err := readTrace(t, text)
	if err != nil {
		return nil, wrong("trace", "%s: %s", t.File, err)
	}
	return traced, nil
}

// bounds sets seed and horizon.
func (b *builder) bounds() error {
	var errs []error
	if s := b.file.Seed; s != nil {
		b.world.Seed = *s
		if *s == 0 {
			errs = append(errs, wrong("seed", "is 0: it must be at least 1; leave it out for 1"))
		}
	}
	if h := b.file.Horizon; h != nil {
		b.world.Horizon = time.Duration(*h)
		if *h == 0 {
			errs = append(
				errs,
				wrong("horizon", "is 0: nothing would happen; leave it out to go on until nothing can happen any more"),
			)
		}
	}
	return errors.Join(errs...)
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
	return wrong("start", "%q is no time: write it like 2026-01-01 or 2026-01-01T08:00:00Z", b.file.Start)
}

func (b *builder) clusterModel() error {
	e := b.file.ClusterModel
	for _, s := range []struct {
		name string
		from *Between
		to   *sim.Span
	}{
		{"write", e.Write, &b.world.Cluster.Write},
		{"observe", e.Observe, &b.world.Cluster.Observe},
		{"start", e.Start, &b.world.Cluster.Start},
		{"stop", e.Stop, &b.world.Cluster.Stop},
		{"detect", e.Detect, &b.world.Cluster.Detect},
	} {
		if s.from != nil {
			*s.to = sim.Span{Min: time.Duration(s.from.Min), Max: time.Duration(s.from.Max)}
		}
	}
	var errs []error
	share := func(name string, v float64) {
		if v < 0 || v > 0.9 {
			errs = append(errs, wrong("clusterModel."+name, "is %g: it is a share from 0 to 0.9", v))
		}
	}
	share("refused", e.Refused)
	share("repeated", e.Repeated)
	b.world.Cluster.Refuse, b.world.Cluster.Repeat = e.Refused, e.Repeated
	f := b.file.Faults
	b.world.Faults = sim.Faults{
		MTBF:     time.Duration(f.MTBF),
		MTTR:     time.Duration(f.MTTR),
		Restarts: time.Duration(f.Restarts),
	}
	if f.MTBF > 0 && f.MTTR == 0 {
		errs = append(
			errs,
			wrong("faults.mtbf", "is given without mttr: say how long a repair takes, for example mttr: 4h"),
		)
	}
	return errors.Join(errs...)
}

// engine sets the policies that hold for the whole cluster.
func (b *builder) engine() error {
	b.world.Engine.BlockAdmission = b.file.Engine.BlockAdmission
	b.world.Cluster.KeepNodes = defaultKeepNodes
	if d := b.file.Engine.KeepNodes; d != nil {
		b.world.Cluster.KeepNodes = time.Duration(*d)
	}
	b.world.Engine.KeepNodes = b.world.Cluster.KeepNodes > 0
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
		strategy, err := oneOf(
			"engine.fairSharing.preemptionStrategies",
			s,
			core.LessThanOrEqualToFinalShare,
			core.LessThanInitialShare,
		)
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

// weight is a share of what no team owns.
func weight(w *float64, where string) (*core.Weight, error) {
	if w == nil {
		return nil, nil //nolint:nilnil // not given is a value
	}
	if *w < 0 || *w > 1e9 {
		return nil, wrong(where+".weight", "is %g: it must be from 0 to 1e9", *w)
	}
	return new(core.Weight(math.Round(*w * float64(core.WeightOne)))), nil
}

func (b *builder) add(ev core.Event) { b.world.Objects = append(b.world.Objects, ev) }

func (b *builder) makeFlavors() error {
	if len(b.file.Flavors) == 0 {
		b.file.Flavors = []Flavor{{Name: defaultFlavor}}
	}
	var errs []error
	for i, f := range b.file.Flavors {
		if f.Name == "" || b.flavors[f.Name] {
			errs = append(
				errs,
				wrong(
					fmt.Sprintf("flavors[%d].name", i),
					"%q is empty or used twice: give each flavor its own name",
					f.Name,
				),
			)
		}
		b.flavors[f.Name] = true
		flavor := core.Flavor{Name: f.Name, NodeLabels: f.NodeLabels, Taints: taints(f.Taints)}
		if len(f.Topology) > 0 {
			errs = append(errs, levels(fmt.Sprintf("flavors[%d] (%s).topology", i, f.Name), f.Topology))
			flavor.Topology = core.Topology{Name: f.Name, Levels: f.Topology}
		}
		b.add(core.FlavorSet{Flavor: flavor})
	}
	b.multi = len(b.file.Flavors) > 1
	return errors.Join(errs...)
}

// levels checks the levels of a topology.
func levels(where string, names []string) error {
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return wrong(where, "%q is empty or listed twice: list labels of nodes, the widest first", name)
		}
	}
	return nil
}

func taints(in []Taint) (out []core.Taint) {
	for _, t := range in {
		out = append(out, core.Taint{Key: t.Key, Value: t.Value, Effect: core.NoSchedule})
	}
	return out
}

func (b *builder) makeCohorts() error {
	var errs []error
	for i, c := range b.file.Cohorts {
		if c.Name == "" {
			errs = append(errs, wrong(fmt.Sprintf("cohorts[%d]", i), "has no name"))
		}
		if _, twice := b.tree[c.Name]; twice {
			errs = append(errs, wrong(fmt.Sprintf("cohorts[%d].name", i), "%q is used twice", c.Name))
		}
		where := fmt.Sprintf("cohorts[%d] (%s)", i, c.Name)
		groups, err := b.groups(c.Quotas, where)
		w, e := weight(c.Weight, where)
		errs = append(errs, err, e)
		cohort := core.Cohort{Name: c.Name, Parent: c.Parent, Groups: groups, Weight: w}
		b.tree[c.Name] = cohort
		b.add(core.CohortSet{Cohort: cohort})
	}
	return errors.Join(errs...)
}

// reports is how often a job tells of its checkpoints, where anybody goes by that.
func (b *builder) reports(checkpoint time.Duration) time.Duration {
	for i := range b.file.Teams {
		if b.file.Teams[i].LeastLostWork > 0 {
			return checkpoint
		}
	}
	return 0
}

func (b *builder) makeTeams() error {
	if len(b.file.Teams) == 0 {
		return wrong("teams", "there are none: list at least one, for example teams: [{name: red, gpus: 8}]")
	}
	var errs []error
	for i, t := range b.file.Teams {
		where := fmt.Sprintf("teams[%d] (%s)", i, t.Name)
		if t.Name == "" {
			errs = append(errs, wrong(fmt.Sprintf("teams[%d]", i), "has no name"))
		}
		if _, twice := b.queues[t.Name]; twice {
			errs = append(errs, wrong(where, "the name is used twice"))
			continue
		}
		q, err := b.team(t, where)
		q.Provisioned = b.onDemand(q)
		b.queues[t.Name] = q
		b.add(core.NamespaceSet{Namespace: core.Namespace{Name: t.Name}})
		b.add(core.QueueSet{Queue: q})
		errs = append(errs, err, b.makeLocalQueues(t, where), b.check(t, where))
		team := sim.Team{Name: t.Name, Queue: t.Name}
		if t.Weight != nil {
			team.Weight = *t.Weight
		}
		b.world.Teams = append(b.world.Teams, team)
	}
	return errors.Join(errs...)
}

// onDemand lists the flavors of a queue whose nodes come when they are asked for.
func (b *builder) onDemand(q core.Queue) []string {
	var out []string
	for _, f := range b.file.Flavors {
		if f.OnDemand && slices.ContainsFunc(q.Groups, func(g core.ResourceGroup) bool {
			return slices.ContainsFunc(g.Flavors, func(fq core.FlavorQuotas) bool { return fq.Flavor == f.Name })
		}) {
			out = append(out, f.Name)
		}
	}
	slices.Sort(out)
	return out
}

// makeLocalQueues makes a team's local queues; the first is for jobs that name none.
func (b *builder) makeLocalQueues(t Team, where string) error {
	localQueues := t.LocalQueues
	if len(localQueues) == 0 {
		localQueues = []LocalQueue{{Name: localQueueName}}
	}
	for i, d := range localQueues {
		at := fmt.Sprintf("%s.localQueues[%d]", where, i)
		if d.Name == "" || slices.Contains(b.localQueues[t.Name], d.Name) {
			return wrong(at+".name", "%q is empty or used twice: give each local queue its own name", d.Name)
		}
		w, err := weight(d.Weight, at)
		if err != nil {
			return err
		}
		b.localQueues[t.Name] = append(b.localQueues[t.Name], d.Name)
		b.add(
			core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: t.Name, Name: d.Name, Queue: t.Name, Weight: w}},
		)
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
		return wrong(
			where+".admissionCheck",
			"retry is %g and reject %g: they are shares from 0, retry to 0.9, together to 1",
			c.Retry,
			c.Reject,
		)
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
	return "", wrong(where, "%q is not known: use one of %v", got, allowed)
}

func (b *builder) team(t Team, where string) (core.Queue, error) {
	all := core.Selector{}
	q := core.Queue{Name: t.Name, Cohort: t.Cohort, Namespaces: &all}
	quotas := t.Quotas
	if t.GPUs != nil {
		if len(quotas) > 0 {
			return q, wrong(where, "gpus and quotas are both given: gpus is short for quotas, use one")
		}
		quotas = gpuQuota(*t.GPUs)
	}
	var errs []error
	check := func(e error) { errs = append(errs, e) }
	var e error
	q.Groups, e = b.groups(quotas, where)
	check(e)
	q.Weight, e = weight(t.Weight, where)
	check(e)
	q.Strategy, e = oneOf(where+".strategy", t.Strategy, core.BestEffortFIFO, core.StrictFIFO)
	check(e)
	q.Stop, e = oneOf(where+".stopPolicy", t.Stop, core.StopNone, core.Hold, core.HoldAndDrain)
	check(e)
	mode, e := oneOf(where+".admissionMode", t.AdmissionMode, noUsage, usageBased)
	check(e)
	q.UsageBased = mode == usageBased
	q.MinimumRuntime, q.RelocationsPerHour = time.Duration(t.MinimumRuntime), t.RelocationsPerHour
	q.Preemption.LeastLost = time.Duration(t.LeastLostWork)
	if t.LeastLostWork < 0 {
		check(wrong(where+".leastLostWork", "cannot be negative"))
	}
	if t.RelocationsPerHour < 0 {
		check(wrong(where+".relocationsPerHour", "cannot be negative"))
	}
	p := t.Preemption
	q.Preemption.WithinQueue, e = oneOf(
		where+".preemption.withinClusterQueue",
		p.WithinQueue,
		core.PreemptLowerPriority,
		core.PreemptNever,
		core.PreemptLowerOrNewerEqualPrio,
	)
	check(e)
	q.Preemption.Reclaim, e = oneOf(
		where+".preemption.reclaimWithinCohort",
		p.Reclaim,
		core.PreemptAny,
		core.PreemptNever,
		core.PreemptLowerPriority,
	)
	check(e)
	q.Preemption.WhileBorrow = core.PreemptNever
	if w := p.WhileBorrow; w != nil {
		q.Preemption.WhileBorrow, e = oneOf(
			where+".preemption.borrowWithinCohort.policy",
			w.Policy,
			core.PreemptNever,
			core.PreemptLowerPriority,
		)
		check(e)
		q.Preemption.MaxPriority = w.MaxPriority
	}
	type word string
	borrow, e := oneOf(
		where+".flavorFungibility.whenCanBorrow",
		t.Fungibility.WhenCanBorrow,
		word("MayStopSearch"),
		"TryNextFlavor",
	)
	check(e)
	preempt, e := oneOf(
		where+".flavorFungibility.whenCanPreempt",
		t.Fungibility.WhenCanPreempt,
		word("TryNextFlavor"),
		"MayStopSearch",
	)
	check(e)
	prefer, e := oneOf(
		where+".flavorFungibility.preference",
		t.Fungibility.Preference,
		word("BorrowingOverPreemption"),
		"PreemptionOverBorrowing",
	)
	check(e)
	q.Fungibility = core.Fungibility{
		BorrowTriesNext: borrow == "TryNextFlavor", PreemptTriesNext: preempt == "TryNextFlavor",
		PreferPreemption: prefer == "PreemptionOverBorrowing",
	}
	return q, errors.Join(errs...)
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
				return nil, wrong(at, "names no flavor, and there are several")
			}
			name = b.file.Flavors[0].Name
		}
		if !b.flavors[name] {
			return nil, wrong(at+".flavor", "%q does not exist: add it to flavors", name)
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
			return nil, wrong(
				at,
				"lists the resources %v and another flavor %v: flavors that share a resource must list the same resources",
				covered,
				out[k].Covered,
			)
		case slices.ContainsFunc(out[k].Flavors, func(f core.FlavorQuotas) bool { return f.Flavor == name }):
			return nil, wrong(at, "lists flavor %s twice", name)
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
			return fq, nil, because(fmt.Sprintf("%s.resources[%s]", at, name), err)
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
				return fq, nil, because(fmt.Sprintf("%s.resources[%s]", at, name), err)
			}
			*limit.to = &a
		}
		if quota.Lending != nil && *quota.Lending > quota.Nominal {
			return fq, nil, wrong(fmt.Sprintf("%s.resources[%s]", at, name), "lendingLimit is above nominalQuota")
		}
		fq.Quotas = append(fq.Quotas, quota)
	}
	if len(covered) == 0 {
		return fq, nil, wrong(at, "has no resources")
	}
	return fq, covered, nil
}

// maxNodes is how many nodes a world can have: ten times the largest clusters.
const maxNodes = 200_000

func (b *builder) makeNodes() error {
	var errs []error
	left := maxNodes
	for i, n := range b.file.Nodes {
		if n.Count > left {
			return errors.Join(
				append(errs, wrong(fmt.Sprintf("nodes[%d].count", i), "makes more than %d nodes in all", maxNodes))...)
		}
		left -= max(0, n.Count)
	}
	for i, n := range b.file.Nodes {
		if n.Name == "" || n.Count < 1 {
			errs = append(errs, wrong(fmt.Sprintf("nodes[%d]", i), "needs a name and a count of at least 1"))
		}
		if n.GPUs < 0 || n.Pods < 0 {
			errs = append(errs, wrong(fmt.Sprintf("nodes[%d]", i), "gpus and pods cannot be negative"))
		}
		cpu, err := n.CPU.amount(core.CPU)
		if err != nil {
			errs = append(errs, because(fmt.Sprintf("nodes[%d].cpu", i), err))
		}
		memory, err := n.Memory.amount(core.Memory)
		if err != nil {
			errs = append(errs, because(fmt.Sprintf("nodes[%d].memory", i), err))
		}
		size := map[string]core.Amount{core.GPU: core.Amount(n.GPUs), core.CPU: cpu, core.Memory: memory}
		size[core.Pods] = core.Amount(cmp.Or(n.Pods, 110))
		for _, label := range sortedKeys(n.Domains) {
			if _, twice := n.Labels[label]; twice || n.Domains[label] < 1 || label == "" {
				errs = append(errs, wrong(
					fmt.Sprintf("nodes[%d].domains[%s]", i, label),
					"is %d: give a label that is not in labels, and how many nodes share a value, at least 1",
					n.Domains[label],
				))
			}
		}
		for k := range n.Count {
			node := core.Node{
				Name: fmt.Sprintf("%s-%d", n.Name, k), Labels: n.labelsOf(k), Taints: taints(n.Taints),
				Allocatable: core.MakeResources(size), State: core.NodeReady,
			}
			if _, twice := b.nodes[node.Name]; twice {
				errs = append(
					errs,
					wrong(fmt.Sprintf("nodes[%d]", i), "there are two nodes %s: give them other names", node.Name),
				)
				break
			}
			b.nodes[node.Name] = node
			b.add(core.NodeSet{Node: node})
		}
	}
	return errors.Join(errs...)
}

// labelsOf are the labels of the node with a number.
func (n *Nodes) labelsOf(number int) map[string]string {
	if len(n.Domains) == 0 {
		return n.Labels
	}
	out := maps.Clone(n.Labels)
	if out == nil {
		out = map[string]string{}
	}
	for label, size := range n.Domains { // each alone, so order does not matter
		out[label] = fmt.Sprintf("%s-%d", n.Name, number/max(1, size))
	}
	return out
}

// complete sorts what must be sorted, and chooses what is reported: GPUs, or in a
// world without GPU quotas, cores.
func (b *builder) complete() error {
	slices.SortStableFunc(b.world.Jobs, func(x, y sim.Job) int { return cmp.Compare(x.Submit, y.Submit) })
	slices.SortStableFunc(b.world.Script, func(x, y sim.Op) int { return cmp.Compare(x.At, y.At) })
	if len(b.file.Jobs) == 0 && b.file.Trace == nil {
		return wrong("jobs", "there are none: add jobs or a trace")
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
