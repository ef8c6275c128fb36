package inquiry

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
)

// Advice: what would let a workload start. It is looked for in a copy of what matters of
// the engine. A candidate is first tried with the workload alone, which is judged with
// the change in place: what does not help then does not help at all. It is offered only
// if it is then followed in another copy, with all that come before the workload taking
// their part, and the workload is admitted there or gets a reservation (trial.go). What
// has to be submitted again stands behind all others of its priority.

// Bounds of what is tried.
const (
	// mostNodesTried bounds nodes that are tried one by one, mostHolders how many others
	// a workload is told to wait for, and mostLeft requirements that are left out.
	mostNodesTried = 12
	mostHolders    = 12
	mostLeft       = 6
	// mostRuntimes bounds how many ends of minimum runtimes are tried.
	mostRuntimes = 8
	// mostRelocating bounds of how many queues it is tried whether their workloads could be relocated.
	mostRelocating = 8
	// mostQueues bounds how many other queues are offered.
	mostQueues = 3
	// mostNamed bounds how many of the workloads that leave are named.
	mostNamed = 5
	// mostBefore bounds how many others a workload is told to wait for that asks for another level.
	mostBefore = 3
	// mostLooks bounds what one question costs, in judgements.
	mostLooks = 2000
)

// adviser tries candidates for one workload.
type adviser struct {
	*question
	rehearsal *cycle.Rehearsal
	workload  core.Workload // as it is told
	why       core.Reason
	offers    []core.Advice
	// looks is how many more judgements the question may cost, trials how much more may be copied
	// for trials.
	looks, trials int
}

// advise adds what would help.
func (q *question) advise(higher []int64) {
	if q.copied == nil || !q.advises {
		return
	}
	r, err := q.copied.Rehearse(q.key, q.at, q.found.Reason)
	if err != nil {
		return
	}
	a := &adviser{question: q, rehearsal: r, why: q.found.Reason, looks: mostLooks, trials: mostTried}
	a.workload, _ = r.View().Told(q.key)
	if q.grouped {
		a.looks-- // as it is, it was judged
	}
	a.seek(higher)
	q.found.Advice, q.found.Cut = a.offers, a.spent()
}

// spent reports whether the question may cost nothing more.
func (a *adviser) spent() bool { return a.looks <= 0 || a.trials < 0 }

// advisable reports whether there is anything to try for a workload that waits for a
// reason.
func advisable(f cycle.Diagnosis) bool {
	switch why := f.Reason; why.Code {
	case core.WaitingForPreempted:
		return true
	case core.Suspended, core.OnHold:
		return true
	case core.Misconfigured:
		return why.Cause != core.PodsInvalid && (why.Cause != core.ResourceUncovered || f.Grouped)
	case core.WaitingForQuota, core.ExceedsMaxQuota, core.NoMatchingFlavor, core.TopologyPlacementFailed:
		return f.Grouped
	case core.AdmissionGated:
		return why.Cause != core.PreemptionGated || f.Grouped
	case core.WaitingForPodsReady:
		return true
	case core.PendingEvaluation: // in a moment it is known
	}
	return false
}

// seek tries what could help a workload for which there is something to try.
func (a *adviser) seek(higher []int64) {
	switch a.why.Code {
	case core.WaitingForPreempted:
		a.follow(core.Advice{Kind: core.AwaitLeaving, Keys: a.why.Holders}, nil)
	case core.Suspended:
		a.resume()
		a.elsewhere()
	case core.OnHold:
		a.release()
	case core.Misconfigured:
		a.smaller(a.why.Resource)
		a.elsewhere()
	case core.AdmissionGated:
		if a.why.Cause == core.PreemptionGated {
			a.others()
		}
		a.gate()
	case core.WaitingForPodsReady:
		a.unreadyEnd()
	default:
		a.runtimeEnds()
		a.relocation()
		a.others()
		a.itself()
		a.priority(higher)
		a.borrowing()
		a.nodesBack()
		a.gate()
		a.elsewhere()
	}
}

// try offers an advice if it helps with a change.
func (a *adviser) try(offer core.Advice, c cycle.Assumption) bool {
	anew := c.Anew
	if c.Open { // it is another one by that
		anew = &cycle.Submission{}
	}
	return a.helps(c) && a.follow(offer, anew)
}

// follow offers an advice if it is shown to help; anew is the workload as it is submitted
// again, nil if it is not.
func (a *adviser) follow(offer core.Advice, anew *cycle.Submission) bool {
	preempts, ok := a.shown(offer, anew)
	if ok {
		offer.Preempts = preempts
		a.offers = append(a.offers, offer)
	}
	return ok
}

// helps reports whether the workload, if it were alone, could start with a change.
func (a *adviser) helps(c cycle.Assumption) bool {
	if a.spent() {
		return false
	}
	a.looks--
	return a.rehearsal.Starts(c)
}

// resume tries to let a stopped queue go on.
func (a *adviser) resume() {
	if a.why.Cause != core.QueueStopped {
		return
	}
	offer := core.Advice{Kind: core.ResumeLocal, Queue: a.why.Queue}
	if a.why.Detail == "ClusterQueue" {
		offer.Kind = core.ResumeQueue
	}
	a.follow(offer, nil)
}

// release tries to end a hold, or to let a back-off pass.
func (a *adviser) release() {
	if a.why.Cause == core.BackingOff {
		a.follow(core.Advice{Kind: core.AwaitBackOff}, nil)
		return
	}
	a.follow(core.Advice{Kind: core.Release, Detail: []string{a.why.Detail}}, nil)
}

// unreadyEnd tries the end of those whose pods are not ready, if they are few.
func (a *adviser) unreadyEnd() {
	unready := a.rehearsal.Unready()
	if len(unready) == 0 || len(unready) > mostHolders {
		return
	}
	a.follow(core.Advice{Kind: core.WaitFor, Keys: unready}, nil)
}

// elsewhere tries the other local queues of the namespace that lead to other queues, by name.
func (a *adviser) elsewhere() {
	offered := 0
	for _, name := range a.rehearsal.OtherQueues() {
		anew := a.anew()
		anew.LocalQueue = name
		if a.try(core.Advice{Kind: core.OtherQueue, Queue: name}, cycle.Assumption{Anew: anew}) {
			offered++
		}
		if offered == mostQueues {
			return
		}
	}
}

// anew is the workload submitted again as it is.
func (a *adviser) anew() *cycle.Submission {
	return &cycle.Submission{
		LocalQueue: a.workload.Queue,
		PodSets:    a.workload.PodSets,
		Priority:   a.workload.Priority,
	}
}

// others tries what becomes of it when others go.
func (a *adviser) others() {
	if leaving := a.rehearsal.View().Leaving(); len(leaving) > 0 {
		offer := core.Advice{Kind: core.AwaitLeaving, Keys: leaving[:min(len(leaving), mostNamed)]}
		if a.try(offer, cycle.Assumption{Gone: leaving}) {
			return
		}
	}
	holding := a.holding()
	if len(holding) == 0 || !a.helps(cycle.Assumption{Gone: holding}) {
		return
	}
	if _, ok := a.shown(core.Advice{Kind: core.WaitFor, Keys: holding}, nil); !ok {
		return // others come first, whichever of them ends
	}
	for i := range holding {
		if a.waitFor(holding[i : i+1]) {
			return
		}
	}
	fewest := true
	for n := 2; n <= len(holding); n++ {
		switch list := holding[:n]; {
		case !a.helps(cycle.Assumption{Gone: list}):
		case fewest && a.waitFor(a.fewest(list)), a.waitFor(list):
			return
		default:
			fewest = false // others come first; more must end
		}
	}
}

// waitFor offers the end of others if it helps.
func (a *adviser) waitFor(others []core.Key) bool {
	return a.try(core.Advice{Kind: core.WaitFor, Keys: others}, cycle.Assumption{Gone: others})
}

// fewest is a list of workloads of which, if the asked one is alone with them, all have to end.
func (a *adviser) fewest(list []core.Key) []core.Key {
	for i := len(list) - 1; i >= 0 && len(list) > 1; i-- {
		if less := slices.Delete(slices.Clone(list), i, i+1); a.helps(cycle.Assumption{Gone: less}) {
			list = less
		}
	}
	return list
}

// runtimeEnds tries to wait until workloads that it may stop have run for their minimum runtime.
func (a *adviser) runtimeEnds() {
	for _, at := range a.rehearsal.Protected(mostRuntimes) {
		if a.try(core.Advice{Kind: core.AwaitRuntime, At: at}, cycle.Assumption{At: at}) {
			return
		}
	}
}

// relocation tries to wait until one more workload may be relocated, or to let those of another queue be.
func (a *adviser) relocation() {
	if !a.why.LacksNodes() {
		return
	}
	if at := a.rehearsal.NextRelocation(); !at.IsZero() &&
		a.try(core.Advice{Kind: core.AwaitRelocation, At: at}, cycle.Assumption{At: at}) {
		return
	}
	for _, name := range a.rehearsal.NotRelocating(mostRelocating) {
		if a.try(core.Advice{Kind: core.AllowRelocation, Queue: name}, cycle.Assumption{Relocating: name}) {
			return
		}
	}
}

// holding are the workloads in the way whose end may help: not those that never end by themselves.
func (a *adviser) holding() []core.Key {
	var out []core.Key
	for _, h := range a.rehearsal.InTheWay(mostHolders) {
		if !h.Endless {
			out = append(out, h.Key)
		}
	}
	return out
}

// itself tries changes of the workload.
func (a *adviser) itself() {
	set := a.podSet()
	if set < 0 {
		if len(a.workload.PodSets) != 1 {
			return
		}
		set = 0
	}
	a.nearness(set)
	a.fewer(set)
	resource := a.why.Resource
	if resource == "" && a.found.Nodes != nil {
		resource = a.found.Nodes.Resource
	}
	if resource != "" && resource != core.Pods {
		a.smallerSet(set, resource, 1)
	}
	a.tolerations(set)
	a.requirements(set)
}

// podSet is the index of the pod set that the reason is about, -1 if there is none.
func (a *adviser) podSet() int {
	return slices.IndexFunc(a.workload.PodSets, func(p core.PodSet) bool { return p.Name == a.why.PodSet })
}

// changed is the workload submitted again with one pod set changed.
func (a *adviser) changed(set int, change func(*core.PodSet)) cycle.Assumption {
	anew := a.anew()
	anew.PodSets = slices.Clone(anew.PodSets)
	change(&anew.PodSets[set])
	return cycle.Assumption{Anew: anew}
}

// largest is the largest number from least up to most that helps; 0 if least does not.
func largest(least, most int64, helps func(int64) bool) int64 {
	if most < least || !helps(least) {
		return 0
	}
	for least < most {
		if at := most - (most-least)/2; helps(at) {
			least = at
		} else {
			most = at - 1
		}
	}
	return least
}

// most offers the largest number up to a limit that helps.
func (a *adviser) most(limit int64, offer func(int64) core.Advice, with func(int64) cycle.Assumption) {
	tried := func(n int64) bool { return a.try(offer(n), with(n)) }
	n := largest(1, limit, func(n int64) bool { return a.helps(with(n)) })
	if n == 0 || tried(n) {
		return
	}
	// Others come first; less may be left for it.
	found := len(a.offers)
	largest(1, n-1, tried)
	if len(a.offers) > found { // the last that helped is the largest
		a.offers = slices.Delete(a.offers, found, len(a.offers)-1)
	}
}

// fewer tries fewer pods.
func (a *adviser) fewer(set int) {
	p := &a.workload.PodSets[set]
	offer := func(n int64) core.Advice {
		return core.Advice{
			Kind:   core.FewerPods,
			PodSet: p.Name,
			Count:  int32(n), //nolint:gosec // below what it was
		}
	}
	a.most(int64(p.Count)-1, offer, func(n int64) cycle.Assumption {
		return a.changed(set, func(p *core.PodSet) {
			p.Count = offer(n).Count
			p.MinCount = min(p.MinCount, p.Count)
		})
	})
}

// nearness tries to loosen the level of which one domain must hold the pods: the narrowest wider one that helps and, if
// none does, no more than to prefer it. Where neither helps, both are tried once others have ended that are fewer than what
// it would have to wait for anyway. A level that the topology lacks is replaced by the narrowest of it that helps.
func (a *adviser) nearness(set int) {
	p := &a.workload.PodSets[set]
	level := p.Topology.Required
	misnamed := a.why.Cause == core.LevelMissing
	if level == "" || !a.why.LacksNodes() && (!misnamed || a.why.Detail != level) {
		return
	}
	f, _ := a.rehearsal.View().Flavor(a.why.Flavor)
	var offers []core.Advice
	at := slices.Index(f.Topology.Levels, level)
	if at < 0 && (misnamed || level == core.HostnameLabel) {
		at = len(f.Topology.Levels)
	}
	for i := at - 1; i >= 0; i-- {
		offers = append(offers, core.Advice{Kind: core.RequireLevel, Level: f.Topology.Levels[i]})
	}
	if !misnamed {
		offers = append(offers, core.Advice{Kind: core.PreferLevel, Level: level})
	}
	with := core.LoosenedWith(a.workload.PodSets, p.Name)
	for i := range offers {
		offers[i].PodSet, offers[i].Instead, offers[i].Affinity = p.Name, level, p.Topology.AnyLabel
		offers[i].Detail = with
		if a.try(offers[i], a.loosened(set, offers[i])) {
			return
		}
	}
	holding := a.holding()
	most := min(len(holding), mostBefore, a.awaited()-1)
	for n := 1; n <= most; n++ {
		for _, offer := range offers {
			offer.Keys = holding[:n]
			c := a.loosened(set, offer)
			c.Gone = offer.Keys
			if a.try(offer, c) {
				return
			}
		}
	}
}

// awaited is for how many others it is told to wait, if it changes nothing; more than any number if that does not help.
func (a *adviser) awaited() int {
	for _, offer := range a.offers {
		if offer.Kind == core.WaitFor {
			return len(offer.Keys)
		}
	}
	return mostHolders
}

// loosened is the workload submitted again with another level for the pods of a set, and of those that must be in one
// domain with them.
func (a *adviser) loosened(set int, offer core.Advice) cycle.Assumption {
	anew := a.anew()
	anew.PodSets = core.Loosen(anew.PodSets, a.workload.PodSets[set].Name, offer)
	return cycle.Assumption{Anew: anew}
}

// smaller tries pods that do not ask for a resource at all.
func (a *adviser) smaller(resource string) {
	if set := a.podSet(); set >= 0 {
		a.smallerSet(set, resource, 0)
	}
}

// smallerSet tries pods that ask for less of a resource, in whole units of it: the
// most that helps, or none of it at all if least is 0.
func (a *adviser) smallerSet(set int, resource string, least int64) {
	p := &a.workload.PodSets[set]
	u := unit(resource, p.Requests.Of(resource))
	with := func(n int64) cycle.Assumption {
		return a.changed(set, func(p *core.PodSet) { ask(p, resource, core.Amount(n).Mul(int64(u))) })
	}
	offer := func(n int64) core.Advice {
		return core.Advice{
			Kind:     core.SmallerPods,
			PodSet:   p.Name,
			Resource: resource,
			Amount:   core.Amount(n).Mul(int64(u)),
		}
	}
	if least == 0 {
		a.try(offer(0), with(0))
		return
	}
	a.most(int64((p.Requests.Of(resource)-1)/u), offer, with)
}

// unit is in what steps less is asked of a resource: whole cores and GiB where it asks
// for more than a few of them, pieces of other things.
func unit(resource string, asked core.Amount) core.Amount {
	const gib, mib = core.Amount(1 << 30), core.Amount(1 << 20)
	switch {
	case resource == core.CPU && asked > 2000:
		return 1000
	case resource == core.CPU:
		return 100
	case asked > 2*gib:
		return gib
	case asked > 2*mib:
		return mib
	}
	return 1
}

// ask changes what one pod asks for, and what it counts against quota.
func ask(p *core.PodSet, resource string, amount core.Amount) {
	p.Requests = p.Requests.With(resource, amount)
	if p.Quota != nil {
		p.Quota = p.Quota.With(resource, amount)
	}
}

// tolerations tries to tolerate the taints of flavors, and of nodes, in the way.
func (a *adviser) tolerations(set int) {
	p := &a.workload.PodSets[set]
	for _, t := range a.found.Tried {
		f, is := a.rehearsal.View().Flavor(t.Flavor)
		if t.Why.Cause == core.UntoleratedTaint && t.PodSet == p.Name && is {
			a.tolerate(set, t.Flavor, slices.DeleteFunc(slices.Clone(f.Taints), func(taint core.Taint) bool {
				_, bad := core.Untolerated(
					[]core.Taint{taint},
					append(slices.Clone(p.Filter.Tolerations), f.Tolerations...),
				)
				return !bad
			}))
		}
	}
	for _, taint := range a.rehearsal.Taints(mostLeft) {
		a.tolerate(set, "", []core.Taint{taint})
	}
}

func (a *adviser) tolerate(set int, flavor string, taints []core.Taint) {
	offer := core.Advice{Kind: core.Tolerate, PodSet: a.workload.PodSets[set].Name, Flavor: flavor}
	for _, t := range taints {
		offer.Detail = append(offer.Detail, t.String())
	}
	a.try(offer, a.changed(set, func(p *core.PodSet) {
		p.Filter.Tolerations = slices.Clone(p.Filter.Tolerations)
		for _, t := range taints {
			p.Filter.Tolerations = append(
				p.Filter.Tolerations,
				core.Toleration{Key: t.Key, Value: t.Value, Effect: t.Effect},
			)
		}
	}))
}

// requirements tries to leave out what the pods require of labels: one thing, else all.
func (a *adviser) requirements(set int) {
	p := &a.workload.PodSets[set]
	helped := false
	var all []string
	for i, r := range p.Filter.Must {
		all = append(all, r.String())
		if i >= mostLeft {
			continue
		}
		helped = a.leaveOut(set, []string{r.String()}, func(f *core.Filter) {
			f.Must = slices.Delete(slices.Clone(f.Must), i, i+1)
		}) || helped
	}
	if len(p.Filter.Terms) > 0 {
		all = append(all, p.Filter.TermsText())
		helped = a.leaveOut(set, all[len(all)-1:], func(f *core.Filter) { f.Terms = nil }) || helped
	}
	if !helped && len(all) > 1 {
		a.leaveOut(set, all, func(f *core.Filter) { f.Must, f.Terms = nil, nil })
	}
}

func (a *adviser) leaveOut(set int, what []string, change func(*core.Filter)) bool {
	offer := core.Advice{Kind: core.DropSelector, PodSet: a.workload.PodSets[set].Name, Detail: what}
	return a.try(offer, a.changed(set, func(p *core.PodSet) { change(&p.Filter) }))
}

// priority tries the priorities there are above its own, lowest first.
func (a *adviser) priority(all []int64) {
	all = slices.Compact(slices.Sorted(slices.Values(all)))
	for _, p := range all {
		anew := a.anew()
		anew.Priority = p
		if p > a.workload.Priority &&
			a.try(core.Advice{Kind: core.RaisePriority, Priority: p}, cycle.Assumption{Anew: anew}) {
			return
		}
	}
}

// borrowing tries to let the queue evict while it borrows, if that is what it may not.
func (a *adviser) borrowing() {
	q, _ := a.rehearsal.View().Queue(a.found.Queue)
	if !a.why.LacksQuota() || a.rehearsal.View().Shares() || preempt.Allows(q.Preemption.WhileBorrow) ||
		!preempt.Allows(q.Preemption.Reclaim) {
		return
	}
	a.follow(core.Advice{Kind: core.PreemptBorrowing, Queue: q.Name}, nil)
}

// nodesBack tries nodes that are out of service, one by one, then all that are
// cordoned, then all; and nodes without the pods that no queue knows.
func (a *adviser) nodesBack() {
	down := a.rehearsal.Down(mostNodesTried)
	cordoned := slices.DeleteFunc(slices.Clone(down), func(n core.Node) bool { return n.Why != core.Cordoned })
	helped := false
	for _, n := range down {
		if !helped {
			helped = a.bringOne(n)
		}
	}
	if !helped && len(cordoned) > 1 {
		helped = a.bring(core.Uncordon, cordoned)
	}
	if !helped && len(down) > 1 && len(cordoned) < len(down) {
		a.bring(core.RepairNode, down)
	}
	for _, h := range a.rehearsal.Foreign(mostNodesTried) {
		if a.try(
			core.Advice{Kind: core.RemovePods, Nodes: []string{h.Node}, Resource: h.Resource},
			cycle.Assumption{Cleared: h.Node},
		) {
			return
		}
	}
}

func (a *adviser) bringOne(n core.Node) bool {
	if n.Why == core.Cordoned {
		return a.bring(core.Uncordon, []core.Node{n})
	}
	return a.bring(core.RepairNode, []core.Node{n})
}

func (a *adviser) bring(kind core.AdviceKind, nodes []core.Node) bool {
	offer := core.Advice{Kind: kind}
	for i := range nodes {
		offer.Nodes = append(offer.Nodes, nodes[i].Name)
		if kind == core.RepairNode {
			offer.Detail = append(offer.Detail, nodes[i].Why)
		}
	}
	return a.try(offer, cycle.Assumption{Ready: offer.Nodes})
}

// gate tries to open the gate that keeps the workload from admission, or from evicting.
func (a *adviser) gate() {
	if a.why.Code == core.AdmissionGated && a.why.Cause != core.PreemptionGated {
		a.follow(core.Advice{Kind: core.OpenGate, Detail: []string{a.why.Detail}}, nil)
		return
	}
	if gate := a.workload.PreemptionGate; gate != "" {
		a.try(core.Advice{Kind: core.OpenGate, Detail: []string{gate}}, cycle.Assumption{Open: true})
	}
}
