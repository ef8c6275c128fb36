package nodehealth

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Patient is a node to be judged.
type Patient struct {
	Name string
	// UID tells a node from another one of the same name.
	UID string
	// Pools are the flavors that it serves, sorted.
	Pools []string
	// Testing says that its health label speaks of a test.
	Testing bool
	// Found is what is wrong with it, worst first (Findings).
	Found []Finding
	// Testable says that it is of those that have GPUs which a deep test asks for, and UnderTest that one runs which no queue knows.
	Testable, UnderTest bool
	// Down is since when it does not answer, zero if it does, has not done so yet, or was taken out of service by hand.
	// Returned is since when it answers if it did not before, zero as Down is.
	Down, Returned time.Time
	// Lost are the jobs that lost what they did when it failed.
	Lost []LostJob
	Evidence
}

// Halt is a pool of which no more nodes are taken out of service for a while.
type Halt struct {
	// Pool is the flavor; "" for nodes that serve none.
	Pool string
	// Nodes that look bad and stay in service, sorted.
	Nodes []string
	// Taken of Of nodes were taken out within the hour; Most may be.
	Taken, Of, Most int
	// Until is when the next one may be taken out.
	Until time.Time
}

// Verdict is what came of a look at all nodes.
type Verdict struct {
	Healths map[string]Health
	Halts   []Halt
	// Unknown is how many nodes look bad and are not remembered, since too many are.
	Unknown int
	// Next is when to look again if nothing changes; zero for never.
	Next time.Time
}

// breakerWindow is the time within which the breaker counts.
const breakerWindow = time.Hour

// Judge is how all nodes are after a look at them. was is what it said the last time; lifted is when somebody last
// said that nodes may be taken out of service again, whatever was taken until then.
//
// Times that are still to come are not believed, whoever wrote them: what is remembered is of now, what is found has no
// time, and what speaks for a node or for all has not been said yet.
//
// No more than the policy's share of a pool is taken out of service within an hour; what else looks bad stays in
// service, held, and is only avoided. Those that are worst go first, then by name.
func Judge(policy Policy, was map[string]Health, patients []Patient, lifted, now time.Time) Verdict {
	v := Verdict{Healths: map[string]Health{}}
	was, patients, lifted = v.until(now, was, patients, lifted)
	size := map[string]int{}
	there := make(map[string]bool, len(patients))
	for _, p := range patients {
		there[p.Name] = true
		for _, pool := range p.pools() {
			size[pool]++
		}
	}
	for name, h := range was { // what the breaker counts outlives the node
		if !there[name] && now.Before(h.Taken.Add(breakerWindow)) {
			v.Healths[name] = Health{Pools: h.Pools, Taken: h.Taken}
		}
	}
	down := v.down(policy, patients, size, now)
	v.remember(policy, was, patients, down, now)
	v.limit(policy, was, size, lifted, now)
	for i := range patients {
		p := &patients[i]
		if h, known := v.Healths[p.Name]; known {
			v.Healths[p.Name] = h.blame(p, down[p.Name], now)
		}
	}
	for _, h := range v.Healths {
		if len(h.Faults) > 0 {
			v.due(now.Add(lookAtFaults), now)
		}
		v.due(h.Taken.Add(breakerWindow), now)
		for _, p := range h.Parts {
			if at := p.due(policy); !at.IsZero() {
				v.due(at, now)
			}
		}
	}
	return v
}

// until is what Judge is given as far as it is not of a time to come, with when to look at the rest.
func (v *Verdict) until(
	now time.Time,
	was map[string]Health,
	patients []Patient,
	lifted time.Time,
) (map[string]Health, []Patient, time.Time) {
	past := func(at time.Time) time.Time {
		if at.After(now) {
			v.due(at, now)
			return time.Time{}
		}
		return at
	}
	before := make(map[string]Health, len(was))
	for name, h := range was {
		before[name] = h.until(now)
	}
	patients = slices.Clone(patients)
	for i := range patients {
		p := &patients[i]
		p.DeepPassed, p.Cleared, p.Forgotten = past(p.DeepPassed), past(p.Cleared), past(p.Forgotten)
		p.Down, p.Returned = past(p.Down), past(p.Returned)
		p.Found = slices.Clone(p.Found)
		for k := range p.Found {
			p.Found[k].Since = past(p.Found[k].Since)
		}
	}
	return before, patients, past(lifted)
}

// remember notes how the patients are, as far as there is room: first those that the breaker counts, then the worst and
// those that wait for a test, then those with the most faults, and of equal ones those that are remembered already.
func (v *Verdict) remember(
	policy Policy,
	was map[string]Health,
	patients []Patient,
	down map[string]bool,
	now time.Time,
) {
	type entry struct {
		name           string
		counted, known bool
		level, points  int
		Health
		// blamed is with the fault that it has if it is not held in service.
		blamed Health
	}
	var all []entry
	for _, p := range patients {
		old, known := was[p.Name]
		e := entry{name: p.Name, known: known, Health: p.next(policy, old, now)}
		e.counted = now.Before(e.Taken.Add(breakerWindow))
		for _, part := range e.Parts {
			e.level = max(e.level, part.Level.rank())
		}
		if e.Testing || !e.Untested.IsZero() { // one that is not remembered is used untested
			e.level = max(e.level, 1)
		}
		e.blamed = e.Health
		e.blamed.Held = time.Time{}
		e.blamed = e.blamed.blame(&p, down[p.Name], now)
		e.points = e.blamed.Points(now)
		if len(e.Parts) > 0 || e.Testing || e.counted || !e.Untested.IsZero() || !e.DeepPassed.IsZero() ||
			len(e.Faults) > 0 || down[p.Name] {
			all = append(all, e)
		}
	}
	first := func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case a:
			return -1
		}
		return 1
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(first(a.counted, b.counted), cmp.Compare(b.level, a.level), cmp.Compare(b.points, a.points),
			first(a.known, b.known), cmp.Compare(a.name, b.name))
	})
	bytes := 0
	for name, h := range v.Healths {
		bytes += len(name) + h.size(now)
	}
	for i, e := range all {
		bytes += len(e.name) + e.blamed.size(now)
		if len(v.Healths) >= policy.Most || bytes > mostBytes {
			for _, unknown := range all[i:] {
				if unknown.level > 0 { // that it was bad some weeks ago is no loss
					v.Unknown++
				}
			}
			return
		}
		v.Healths[e.name] = e.Health
	}
}

func (v *Verdict) due(at, now time.Time) {
	if at.After(now) && (v.Next.IsZero() || at.Before(v.Next)) {
		v.Next = at
	}
}

// pools are those that the breaker counts the node in.
func (p *Patient) pools() []string { return countedIn(p.Pools) }

func countedIn(pools []string) []string {
	if len(pools) == 0 {
		return []string{""}
	}
	return pools
}

// next is how a node is, the breaker left aside.
func (p *Patient) next(policy Policy, was Health, now time.Time) Health {
	if was.UID != p.UID {
		was = Health{Taken: was.Taken}
	}
	h := Health{
		UID: p.UID, Pools: p.Pools, Testing: p.Testing, Taken: was.Taken, Held: was.Held, UnderTest: p.UnderTest,
		Failing: was.Failing,
	}
	for _, f := range was.Faults {
		if now.Before(f.At.Add(faultsCount)) {
			h.Faults = append(h.Faults, f)
		}
	}
	evidence := p.Evidence
	if was.DeepPassed.After(evidence.DeepPassed) {
		evidence.DeepPassed = was.DeepPassed
	}
	found := map[string][]Finding{}
	for _, f := range p.Found {
		if evidence.Overrules(
			f,
		) { // what says that it passed may be deleted before what it passed on is said no more
			h.DeepPassed = evidence.DeepPassed
			continue
		}
		f.told = "" // which is not remembered
		found[f.Resource] = append(found[f.Resource], f)
	}
	parts := map[string]Part{}
	for _, part := range was.Parts {
		parts[part.Of] = part
	}
	for of := range found {
		if _, known := parts[of]; !known {
			parts[of] = Part{Of: of}
		}
	}
	for _, of := range slices.Sorted(maps.Keys(parts)) {
		part := parts[of].Next(found[of], evidence, policy, now)
		if !part.forgettable(policy, now) {
			h.Parts = append(h.Parts, part)
		}
	}
	tests := Tested(policy.TestFlavors, p.Pools)
	// Who waits for a test goes on to: GPUs may be gone for a moment only, and the labels that make it of a flavor.
	if p.Testable && tests || !was.Untested.IsZero() && (tests || len(p.Pools) == 0) {
		h.Untested = h.returned(was, evidence, policy)
	}
	if len(h.Parts) > mostParts { // the worst, in the order of their names
		byLevel := slices.SortedStableFunc(slices.Values(h.Parts), func(a, b Part) int {
			return cmp.Compare(b.Level.rank(), a.Level.rank())
		})
		h.Parts = slices.SortedFunc(slices.Values(byLevel[:mostParts]), func(a, b Part) int {
			return cmp.Compare(a.Of, b.Of)
		})
	}
	return h
}

// limit holds in service what would be too many.
func (v *Verdict) limit(policy Policy, was map[string]Health, size map[string]int, lifted, now time.Time) {
	taken := map[string]int{}
	counts := func(h Health) bool {
		return !h.Taken.IsZero() && h.Taken.After(lifted) && now.Before(h.Taken.Add(breakerWindow))
	}
	var asking []string
	for _, name := range slices.Sorted(maps.Keys(v.Healths)) {
		h := v.Healths[name]
		if counts(h) {
			for _, pool := range countedIn(h.Pools) {
				taken[pool]++
			}
		}
		old := was[name]
		switch {
		case !h.out():
			h.Held = time.Time{}
			v.Healths[name] = h
		case (!old.out() || !old.Held.IsZero() || old.UID != h.UID) && h.bad():
			asking = append(asking, name)
		}
	}
	slices.SortStableFunc(asking, func(a, b string) int {
		return cmp.Compare(v.Healths[b].worst().Level.rank(), v.Healths[a].worst().Level.rank())
	})
	halts := map[string]*Halt{}
	for _, name := range asking {
		h := v.Healths[name]
		full, again := "", counts(h)
		ok := true
		for _, pool := range countedIn(h.Pools) {
			used := taken[pool]
			if again {
				used-- // itself
			}
			if used >= policy.budget(size[pool]) {
				full, ok = pool, false
				break
			}
		}
		if ok {
			if !again {
				for _, pool := range countedIn(h.Pools) {
					taken[pool]++
				}
			}
			h.Taken, h.Held = now, time.Time{}
			v.Healths[name] = h
			continue
		}
		if h.Held.IsZero() {
			h.Held = now
		}
		v.Healths[name] = h
		if halts[full] == nil {
			halts[full] = &Halt{Pool: full, Of: size[full], Most: policy.budget(size[full])}
		}
		halts[full].Nodes = append(halts[full].Nodes, name)
	}
	for _, pool := range slices.Sorted(maps.Keys(halts)) {
		halt := halts[pool]
		slices.Sort(halt.Nodes)
		halt.Taken = taken[pool]
		for _, h := range v.Healths {
			at := h.Taken.Add(breakerWindow)
			if counts(h) && slices.Contains(countedIn(h.Pools), pool) &&
				(halt.Until.IsZero() || at.Before(halt.Until)) {
				halt.Until = at
			}
		}
		v.Halts = append(v.Halts, *halt)
	}
}

// budget is how many nodes of a pool of a size may be taken out within an hour.
func (p Policy) budget(size int) int {
	if p.Percent <= 0 {
		return 0
	}
	return max(size*p.Percent/100, 1)
}
