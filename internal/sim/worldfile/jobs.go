package worldfile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// maxJobs bounds how many jobs a group makes, against a slip of the pen.
const maxJobs = 5_000_000

// makeJobs draws the jobs of all groups. Each group draws from a sequence of its
// own, so that editing one leaves the others as they were.
func (b *builder) makeJobs() error {
	var errs []error
	for i := range b.file.Jobs {
		g := &b.file.Jobs[i]
		if g.Name == "" {
			errs = append(errs, wrong(fmt.Sprintf("jobs[%d]", i), "has no name"))
		}
		where := fmt.Sprintf("jobs[%d] (%s)", i, g.Name)
		for k := range i {
			if b.file.Jobs[k].Name == g.Name {
				errs = append(errs, wrong(where, "the name is used twice"))
			}
		}
		errs = append(
			errs,
			b.group(g, where, rand.New(rand.NewPCG(b.world.Seed, uint64(i)+1))), //nolint:gosec // not for secrets
		)
	}
	return errors.Join(errs...)
}

// arrivals says when the jobs of a group come.
func arrivals(g *Jobs, where string, horizon time.Duration, r *rand.Rand) ([]time.Duration, error) {
	until := cmp.Or(g.Until, Duration(horizon))
	a := g.Arrival
	switch {
	case a.Every > 0 && a.Mean > 0:
		return nil, wrong(where+".arrival", "every and poisson are both given, use one")
	case g.Count < 0 || a.Burst < 0:
		return nil, wrong(where, "count and arrival.burst cannot be negative")
	case g.Count == 0 && until == 0:
		return nil, wrong(where, "say how many jobs by count, or until when they come by until")
	case g.Count == 0 && a.Every == 0 && a.Mean == 0:
		return nil, wrong(
			where+".arrival",
			"without count, say how often jobs come: {every: 10m} or {poisson: 10m}",
		)
	}
	limit := maxJobs + 1
	if g.Count > 0 {
		limit = min(limit, g.Count)
	}
	var out []time.Duration
	at := float64(g.From)
	for len(out) < limit {
		if until > 0 && at > float64(until) {
			break
		}
		for range max(1, a.Burst) {
			if len(out) < limit {
				out = append(out, time.Duration(at))
			}
		}
		if at += float64(a.Every); a.Mean > 0 {
			at += r.ExpFloat64() * float64(a.Mean)
		}
	}
	if len(out) > maxJobs {
		return nil, wrong(where, "more than %d jobs", maxJobs)
	}
	return out, nil
}

func (b *builder) group(g *Jobs, where string, r *rand.Rand) error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	times, err := arrivals(g, where, b.world.Horizon, r)
	note(err)
	teams, weights, err := b.teamsOf(g, where)
	note(err)
	cpu, err := g.CPU.amount(core.CPU)
	if err != nil {
		note(because(where+".cpuPerPod", err))
	}
	memory, err := g.Memory.amount(core.Memory)
	if err != nil {
		note(because(where+".memoryPerPod", err))
	}
	note(g.distributions(where))
	note(b.checkLifecycle(g, teams, where))
	topology, err := g.Topology.request(where + ".topology")
	note(err)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s := shapes{
		perPod: cmp.Or(g.GPUsPerPod, defaultPerPod),
		cpu:    cpu,
		memory: memory,
		known:  map[int64][]core.PodSet{},
	}
	s.filter, s.least, s.topology = filterOf(g), g.MinPods, topology
	for i, at := range times {
		team := teams[pick(r, weights)]
		gpus := int64(1)
		if g.GPUs != nil {
			gpus = int64(math.Round(g.GPUs.draw(r)))
		}
		priority := int32(defaultPriority)
		if g.Priority != nil {
			priority = int32(max(math.MinInt32, min(math.MaxInt32, math.Round(g.Priority.draw(r)))))
		}
		work := max(0, g.Duration.draw(r))
		if gpus < 0 || work > maxWork {
			return wrong(
				where,
				"job %d drew %d GPUs for %.0f s: bound the distributions by min and max",
				i,
				gpus,
				work,
			)
		}
		j := sim.Job{
			Queue:    g.LocalQueue,
			Key:      core.Key{Namespace: team, Name: fmt.Sprintf("%s-%d", g.Name, i)},
			Priority: priority, PodSets: s.of(gpus), Submit: at,
			Work: time.Duration(work * float64(time.Second)), Checkpoint: time.Duration(g.Checkpoint),
		}
		if !g.Silent {
			j.Reports = b.reports(j.Checkpoint)
		}
		b.lifecycle(&j, g)
		b.job(j)
	}
	return nil
}

// distributions checks what a group's jobs are drawn from.
func (g *Jobs) distributions(where string) error {
	var errs []error
	if g.Duration == nil {
		errs = append(errs, wrong(where, "has no duration: say how long its jobs run, for example duration: 1h"))
	}
	for _, d := range []struct {
		name string
		from *Distribution
	}{{"duration", g.Duration}, {"gpus", g.GPUs}, {"priority", g.Priority}} {
		if d.from != nil {
			errs = append(errs, d.from.check(where+"."+d.name))
		}
	}
	if g.GPUsPerPod < 0 {
		errs = append(errs, wrong(where+".gpusPerPod", "cannot be negative"))
	}
	if g.Until > 0 && g.From > g.Until {
		errs = append(errs, wrong(where+".from", "is after until: no job would come"))
	}
	return errors.Join(errs...)
}

// gateName keeps the gates of jobs in world files.
const gateName = "example.com/gate"

// lifecycle closes a job's gates until they are opened, and says which pods end early.
func (b *builder) lifecycle(j *sim.Job, g *Jobs) {
	if g.GatedFor > 0 {
		j.GatedBy = gateName
		b.at(Duration(j.Submit)+g.GatedFor, sim.Op{Change: &sim.JobEdit{Key: j.Key, GatedBy: new("")}})
	}
	if g.PreemptionGatedFor > 0 {
		j.PreemptionGate = gateName
		b.at(
			Duration(j.Submit)+g.PreemptionGatedFor,
			sim.Op{Change: &sim.JobEdit{Key: j.Key, PreemptionGate: new("")}},
		)
	}
	if g.Early != nil {
		j.EarlyPods, j.EarlyAfter = g.Early.Pods, time.Duration(g.Early.After)
	}
}

func (b *builder) checkLifecycle(g *Jobs, teams []string, where string) error {
	for _, team := range teams {
		if g.LocalQueue != "" && !slices.Contains(b.localQueues[team], g.LocalQueue) {
			return wrong(
				where+".localQueue",
				"team %s has no local queue %q, only %v",
				team,
				g.LocalQueue,
				b.localQueues[team],
			)
		}
	}
	if g.MinPods < 0 || (g.Early != nil && g.Early.Pods < 1) {
		return wrong(where, "minPods cannot be negative, and endEarly.pods must be at least 1")
	}
	return nil
}

// maxWork is ten years, in seconds.
const maxWork = 10 * 365 * 24 * 3600

// job completes and adds a job.
func (b *builder) job(j sim.Job) {
	j.Queue = cmp.Or(j.Queue, b.localQueues[j.Key.Namespace][0])
	j.UID = fmt.Sprintf("%09d", len(b.world.Jobs)) // ties go by the order of creation
	b.world.Jobs = append(b.world.Jobs, j)
}

func (b *builder) teamsOf(g *Jobs, where string) (names []string, weights []float64, err error) {
	if (g.Team == "") == (len(g.Teams) == 0) {
		return nil, nil, wrong(where, "give either team, or teams with weights")
	}
	teams := g.Teams
	if g.Team != "" {
		teams = map[string]float64{g.Team: 1}
	}
	for _, name := range sortedKeys(teams) {
		if _, ok := b.queues[name]; !ok {
			return nil, nil, wrong(where, "there is no team %q", name)
		}
		if teams[name] < 0 {
			return nil, nil, wrong(fmt.Sprintf("%s.teams[%s]", where, name), "is negative")
		}
		names = append(names, name)
		weights = append(weights, teams[name])
	}
	return names, weights, nil
}

func filterOf(g *Jobs) core.Filter {
	var f core.Filter
	for _, k := range sortedKeys(g.NodeSelector) {
		f.Must = append(f.Must, core.Requirement{Key: k, Operator: core.In, Values: []string{g.NodeSelector[k]}})
	}
	for _, k := range g.Tolerations {
		f.Tolerations = append(f.Tolerations, core.Toleration{Key: k, Exists: true})
	}
	return f
}

// request is how near the pods must be. Any label of nodes is a level, as where there are no Topologies.
func (n *Near) request(where string) (core.TopologyRequest, error) {
	out := core.TopologyRequest{Required: n.Required, Preferred: n.Preferred, Balanced: n.Balanced}
	for i, s := range n.Slices {
		switch at := fmt.Sprintf("%s.slices[%d]", where, i); {
		case s.Level == "" || s.Size < 1:
			return out, wrong(at, "needs a level, and a size of at least 1")
		case i > 0 && n.Slices[i-1].Size%s.Size != 0:
			return out, wrong(
				at+".size",
				"is %d: the size before it, %d, must be a multiple",
				s.Size,
				n.Slices[i-1].Size,
			)
		case i == mostSlices:
			return out, wrong(at, "is one too many: there are %d layers at most", mostSlices)
		}
		out.Slices = append(out.Slices, core.PodSetSlice{Level: s.Level, Size: s.Size})
	}
	return out, nil
}

// mostSlices is how many layers of slices there are.
const mostSlices = 3

// levels are the labels of nodes that it names.
func (n *Near) levels() (out []string) {
	for _, level := range []string{n.Required, n.Preferred, n.Balanced} {
		if level != "" {
			out = append(out, level)
		}
	}
	for _, s := range n.Slices {
		out = append(out, s.Level)
	}
	return out
}

// shapes makes pod sets; jobs of one size share them.
type shapes struct {
	perPod      int64
	cpu, memory core.Amount
	filter      core.Filter
	topology    core.TopologyRequest
	least       int32 // pods that a job can do with; 0 for all
	known       map[int64][]core.PodSet
}

// of splits GPUs into equal pods, as few as nodes allow.
func (s *shapes) of(gpus int64) []core.PodSet {
	if p := s.known[gpus]; p != nil {
		return p
	}
	each, pods := split(gpus, s.perPod)
	ask := map[string]core.Amount{}
	for name, a := range map[string]core.Amount{core.GPU: core.Amount(each), core.CPU: s.cpu, core.Memory: s.memory} {
		if a > 0 {
			ask[name] = a
		}
	}
	p := []core.PodSet{
		{
			Name:     "main",
			Count:    int32(pods), //nolint:gosec // GPUs fit
			Requests: core.MakeResources(ask),
			Filter:   s.filter,
			Topology: s.topology.For(int32(pods)), //nolint:gosec // GPUs fit
		},
	}
	if s.least > 0 {
		p[0].MinCount = min(s.least, p[0].Count)
	}
	s.known[gpus] = p
	return p
}

// split divides GPUs evenly over as few pods as possible.
func split(gpus, perPod int64) (each, pods int64) {
	if gpus <= perPod {
		return gpus, 1
	}
	for each = perPod; each > 1; each-- {
		if gpus%each == 0 {
			return each, gpus / each
		}
	}
	return 1, gpus
}
