package cycle_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// split divides k:v,k:v.
func split(s string) map[string]string {
	m := map[string]string{}
	for kv := range strings.SplitSeq(s, ",") {
		k, v, _ := strings.Cut(kv, ":")
		m[k] = v
	}
	return m
}

func port(number string) core.Limit {
	return core.Limit{Name: "host port " + number + "/TCP", Count: 1, Most: 1}
}

func taint(s string) core.Taint {
	p := strings.Split(s, ":")
	return core.Taint{Key: p[0], Value: p[1], Effect: core.TaintEffect(p[2])}
}

func toleration(s string) core.Toleration {
	p := strings.Split(s, ":")
	return core.Toleration{Key: p[0], Value: p[1], Effect: core.TaintEffect(p[2])}
}

func (s *script) flavor(name string, args []string) error {
	f := core.Flavor{Name: name}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch k {
		case "labels":
			f.NodeLabels = split(v)
		case "topology":
			f.Topology = core.Topology{Name: "t", Levels: strings.Split(v, ",")}
		case "taint":
			f.Taints = append(f.Taints, taint(v))
		case "tolerate":
			f.Tolerations = append(f.Tolerations, toleration(v))
		default:
			return fmt.Errorf("unknown %s", a)
		}
	}
	s.apply(core.FlavorSet{Flavor: f})
	return nil
}

// groups reads FLAVOR/RESOURCE=NOMINAL[+BORROWING][-LENDING] words; a "|" starts
// another resource group.
func groups(args []string) (out []core.ResourceGroup, rest []string, err error) {
	fresh := true
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		flavor, resource, ok := strings.Cut(k, "/")
		if a == "|" {
			fresh = true
			continue
		}
		if !ok {
			rest = append(rest, a)
			continue
		}
		if fresh {
			out = append(out, core.ResourceGroup{})
			fresh = false
		}
		g := &out[len(out)-1]
		if n := len(g.Flavors); n == 0 || g.Flavors[n-1].Flavor != flavor {
			g.Flavors = append(g.Flavors, core.FlavorQuotas{Flavor: flavor})
		}
		fq := &g.Flavors[len(g.Flavors)-1]
		q := core.Quota{Resource: long(resource)}
		v, lending, lends := strings.Cut(v, "-")
		v, borrowing, borrows := strings.Cut(v, "+")
		if q.Nominal, err = parseAmount(resource, v); err != nil {
			return nil, nil, err
		}
		if lends {
			l, _ := parseAmount(resource, lending)
			q.Lending = &l
		}
		if borrows {
			b, _ := parseAmount(resource, borrowing)
			q.Borrowing = &b
		}
		fq.Quotas = append(fq.Quotas, q)
		if len(g.Flavors) == 1 {
			g.Covered = append(g.Covered, q.Resource)
		}
	}
	return out, rest, nil
}

// options makes the engine anew; it was told nothing yet.
func (s *script) setOptions(args []string) error {
	if len(s.queues)+len(s.nodes)+len(s.cohorts) > 0 {
		return fmt.Errorf("must come first")
	}
	var o cycle.Options
	fair := core.DefaultFairSharing()
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch {
		case a == "ignoreundeclared":
			o.IgnoreUndeclared = true
		case k == "halflife":
			o.AdmissionFairSharing.HalfLife, _ = time.ParseDuration(v)
		case k == "sampling":
			o.AdmissionFairSharing.Sampling, _ = time.ParseDuration(v)
		case k == "stabilization":
			o.StabilizationWindow, _ = time.ParseDuration(v)
		case a == "keepnodes":
			o.KeepNodes = true
		case a == "blockadmission":
			o.BlockAdmission = true
		case a == "fair":
			o.FairSharing = fair
		case a == "strategies=":
			fair.Strategies = nil
		case k == "strategies":
			fair.Strategies = nil
			for name := range strings.SplitSeq(v, ",") {
				fair.Strategies = append(fair.Strategies, core.FairStrategy(name))
			}
		case a == "nonborrowing=off":
			fair.NonBorrowingFirst = false
		case a == "nominal=off":
			fair.ReclaimNominal = false
		default:
			return fmt.Errorf("unknown %s", a)
		}
	}
	s.options, s.engine = o, cycle.New(o)
	return nil
}

// weight reads a decimal number.
func weight(s string) (*core.Weight, error) {
	whole, rest, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole+(rest + "000000000")[:9], 10, 64)
	return new(core.Weight(n)), err
}

func (s *script) cohort(name string, args []string) error {
	g, rest, err := groups(args)
	c := core.Cohort{Name: name, Groups: g, Parent: pairs(rest)["parent"]}
	if w, ok := pairs(rest)["weight"]; ok {
		if c.Weight, err = weight(w); err != nil {
			return err
		}
	}
	s.cohorts[name] = true
	s.apply(core.CohortSet{Cohort: c})
	return err
}

// queue defines a queue, and on first sight a LocalQueue "q" for it in the
// namespace of the same name.
func (s *script) queue(name string, args []string) error {
	q, known := s.queues[name]
	if !known {
		all := core.Selector{}
		q = core.Queue{Name: name, Strategy: core.BestEffortFIFO, Namespaces: &all}
		q.Fungibility.PreemptTriesNext = true
		s.apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
	}
	g, rest, err := groups(args)
	if err != nil {
		return err
	}
	if g != nil {
		q.Groups = g
	}
	for k, v := range pairs(rest) {
		switch k {
		case "cohort":
			q.Cohort = v
		case "strict":
			q.Strategy = core.StrictFIFO
		case "stop":
			q.Stop = core.StopPolicy(v)
		case "weight":
			if q.Weight, err = weight(v); err != nil {
				return err
			}
		case "within":
			q.Preemption.WithinQueue = core.PreemptionPolicy(v)
		case "minimum":
			if q.MinimumRuntime, err = time.ParseDuration(v); err != nil {
				return err
			}
		case "relocations":
			n, err := strconv.ParseInt(v, 10, 32)
			if err != nil {
				return err
			}
			q.RelocationsPerHour = int32(n)
		case "reclaim":
			q.Preemption.Reclaim = core.PreemptionPolicy(v)
		case "whileborrow":
			p, limit, has := strings.Cut(v, ":")
			q.Preemption.WhileBorrow = core.PreemptionPolicy(p)
			if n, err := strconv.Atoi(limit); has && err == nil {
				q.Preemption.MaxPriority = new(int32(n))
			}
		case "preemptstops":
			q.Fungibility.PreemptTriesNext = false
		case "borrownext":
			q.Fungibility.BorrowTriesNext = true
		case "preferpreemption":
			q.Fungibility.PreferPreemption = true
		case "usage":
			q.UsageBased = true
		case "provisioned":
			q.Provisioned = strings.Split(v, ",")
		case "namespaces":
			q.Namespaces = &core.Selector{{Key: v, Operator: core.Exists}}
		default:
			return fmt.Errorf("unknown %s", k)
		}
	}
	s.queues[name] = q
	s.apply(core.QueueSet{Queue: q})
	return nil
}

func (s *script) local(key string, args []string) error {
	k, p := parseKey(key), pairs(args)
	q := core.LocalQueue{
		Namespace: k.Namespace,
		Name:      k.Name,
		Queue:     p["queue"],
		Stop:      core.StopPolicy(p["stop"]),
	}
	if w, ok := p["weight"]; ok {
		var err error
		if q.Weight, err = weight(w); err != nil {
			return err
		}
	}
	s.apply(core.LocalQueueSet{LocalQueue: q})
	return nil
}

// node defines NAME or NAME-FIRST..LAST; words not given stay as they were.
func (s *script) node(name string, args []string) error {
	base, last, many := strings.Cut(name, "..")
	if many {
		i := strings.LastIndexByte(base, '-')
		from, err1 := strconv.Atoi(base[i+1:])
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("not a range")
		}
		for n := from; n <= to; n++ {
			if err := s.node(base[:i+1]+strconv.Itoa(n), args); err != nil {
				return err
			}
		}
		return nil
	}
	n, known := s.nodes[name]
	if !known {
		n = core.Node{Name: name, State: core.NodeReady, Labels: map[string]string{core.HostnameLabel: name}}
		n.Allocatable = n.Allocatable.With(core.Pods, 100)
	}
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		switch {
		case isResource(k):
			amount, err := parseAmount(k, v)
			if err != nil {
				return err
			}
			n.Allocatable = n.Allocatable.With(long(k), amount)
		case k == "state":
			n.State, n.Why = core.NodeState(v), ""
		case k == "why":
			n.Why = v
		case k == "taint":
			n.Taints = append(n.Taints, taint(v))
		case k == "labels":
			maps.Copy(n.Labels, split(v))
		case k == "foreign":
			r, x, _ := strings.Cut(v, ":")
			amount, err := parseAmount(r, x)
			if err != nil {
				return err
			}
			n.Foreign = n.Foreign.With(long(r), amount)
		case k == "port": // that pods of others have; 0 for none any more
			if n.ForeignLimits = nil; v != "0" {
				n.ForeignLimits = []core.Limit{port(v)}
			}
		default:
			return fmt.Errorf("unknown %s", a)
		}
	}
	s.nodes[name] = n
	s.apply(core.NodeSet{Node: n})
	return nil
}

// job defines a job. Words before the first "set=" describe the pod set main.
func (s *script) job(key string, args []string) error {
	k := parseKey(key)
	s.now = s.now.Add(time.Second)
	w := &core.Workload{Key: k, UID: k.String(), Queue: "q", Created: s.now, QueueTime: s.now}
	p := core.PodSet{Name: "main", Count: 1}
	named := false
	for _, a := range args {
		f, v, _ := strings.Cut(a, "=")
		n, _ := strconv.Atoi(v)
		switch {
		case f == "set":
			if named {
				w.PodSets = append(w.PodSets, p)
			}
			named = true
			p = core.PodSet{Name: v, Count: 1}
		case f == "pods":
			p.Count = int32(n)
		case f == "group":
			p.Group = v
		case f == "within": // LEVEL:GROUP,...
			for parent := range strings.SplitSeq(v, ",") {
				level, name, _ := strings.Cut(parent, ":")
				p.Topology.Parents, p.Parents = append(p.Topology.Parents, level), append(p.Parents, name)
			}
		case f == "least":
			p.MinCount = int32(n)
		case isResource(f):
			amount, err := parseAmount(f, v)
			if err != nil {
				return err
			}
			p.Requests = p.Requests.With(long(f), amount)
		case f == "counts": // RES:N,RES:N or none
			p.Quota = core.Resources{}
			for r, n := range split(v) {
				if r == "none" {
					continue
				}
				amount, err := parseAmount(r, n)
				if err != nil {
					return err
				}
				p.Quota = p.Quota.With(long(r), amount)
			}
		case f == "minimum":
			d, err := time.ParseDuration(v)
			if err != nil {
				return err
			}
			w.MinimumRuntime = &d
		case f == "gatedby":
			w.GatedBy = v
		case f == "gate":
			w.PreemptionGate = v
		case f == "invalid":
			w.Invalid = v
		case f == "priority":
			w.Priority = int64(n)
		case f == "queue":
			w.Queue = v
		case f == "select":
			for lk, lv := range split(v) {
				p.Filter.Must = append(p.Filter.Must, core.Requirement{Key: lk, Operator: core.In, Values: []string{lv}})
			}
		case f == "volume": // on nodes with k:v
			for lk, lv := range split(v) {
				p.Filter.Volumes = []core.Volume{
					{Claim: "data", Terms: []core.Selector{{{Key: lk, Operator: core.In, Values: []string{lv}}}}},
				}
			}
		case f == "apartin": // LEVEL:MOST
			level, most, _ := strings.Cut(v, ":")
			k, _ := strconv.Atoi(most)
			p.Limits = append(p.Limits, core.Limit{
				Name: "the required podAntiAffinity per " + level, Own: true, Count: 1, Most: int32(k), Level: level,
			})
		case f == "spreadover": // LEVEL:SKEW
			level, skew, _ := strings.Cut(v, ":")
			k, _ := strconv.Atoi(skew)
			p.Limits = append(p.Limits, core.Limit{
				Name: "the topologySpreadConstraint per " + level, Own: true, Count: 1, Level: level, Skew: int32(k),
			})
		case f == "spreadamong": // LEVEL:SKEW, with pods of all workloads
			level, skew, _ := strings.Cut(v, ":")
			k, _ := strconv.Atoi(skew)
			p.Limits = append(p.Limits, core.Limit{
				Name: "the topologySpreadConstraint per " + level, Count: 1, Level: level, Skew: int32(k),
			})
		case f == "balance":
			p.Topology.Balanced = v
		case f == "scatter":
			p.Topology.Spread = v
		case f == "near":
			p.Topology.Required = v
		case f == "anylabel":
			p.Topology.AnyLabel = true
		case f == "prefer":
			p.Topology.Preferred = v
		case f == "slice": // LEVEL:SIZE, coarse to fine
			level, size, _ := strings.Cut(v, ":")
			k, _ := strconv.Atoi(size)
			p.Topology.Slices = append(p.Topology.Slices, core.PodSetSlice{Level: level, Size: int32(k)})
		case f == "port":
			p.Limits = append(p.Limits, port(v))
		case f == "domain": // pods of a ComputeDomain, of whose channels a node has one
			p.Limits = append(p.Limits, core.Limit{Name: "ComputeDomain channel", Count: 1, Most: 1})
		case f == "apart":
			p.Limits = append(p.Limits, core.Limit{Name: "the required podAntiAffinity over " + v, Count: 9, Most: 9})
		case f == "spread":
			p.Limits = append(p.Limits, core.Limit{Name: "the spread over nodes", Own: true, Count: 1, Most: int32(n)})
		case f == "refused": // NODE:MOST,...
			p.Filter.Refused = append(p.Filter.Refused, refusals(v)...)
		case f == "tolerate":
			p.Filter.Tolerations = append(p.Filter.Tolerations, toleration(v))
		default:
			return fmt.Errorf("unknown %s", a)
		}
	}
	w.PodSets = append(w.PodSets, p)
	s.workloads[k] = w
	s.tell(w)
	return nil
}

// refusals reads NODE:MOST,...
func refusals(text string) (out []core.NodeRefusal) {
	for node, most := range split(text) { // sorted below
		m, _ := strconv.Atoi(most)
		out = append(
			out,
			core.NodeRefusal{Node: node, Most: int32(m), Why: "node(s) had volume node affinity conflict"},
		)
	}
	slices.SortFunc(out, func(a, b core.NodeRefusal) int { return strings.Compare(a.Node, b.Node) })
	return out
}
