package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
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
	// mostQueues bounds how many other queues are offered.
	mostQueues = 3
)

// adviser tries candidates for one workload.
type adviser struct {
	*question
	inquiry  *inquiry
	workload *workload
	why      core.Reason
	found    []core.Advice
	// trials is how much more may be copied for trials.
	trials int
}

// spent reports whether the question may cost nothing more.
func (a *adviser) spent() bool { return a.looks <= 0 || a.trials < 0 }

// advisable reports whether there is anything to try for a workload that waits for a
// reason.
func advisable(w *workload, why core.Reason) bool {
	switch why.Code {
	case core.WaitingForPreempted:
		return true
	case core.Suspended, core.OnHold:
		return true
	case core.Misconfigured:
		return why.Cause != core.PodsInvalid && (why.Cause != core.ResourceUncovered || w.group != nil)
	case core.WaitingForQuota, core.ExceedsMaxQuota, core.NoMatchingFlavor, core.TopologyPlacementFailed:
		return w.group != nil
	case core.AdmissionGated:
		return why.Cause != core.PreemptionGated || w.group != nil
	case core.WaitingForPodsReady:
		return true
	case core.PendingEvaluation: // in a moment it is known
	}
	return false
}

// advise tries what could help a workload for which there is something to try.
func (a *adviser) advise(higher []int64) {
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
		a.others()
		a.itself()
		a.priority(higher)
		a.borrowing()
		a.nodesBack()
		a.gate()
		a.elsewhere()
	}
}

// try offers an advice if it helps: change makes the change and returns the workload as
// it is then.
func (a *adviser) try(offer core.Advice, change func() *workload) bool {
	anew, ok := a.alone(change)
	return ok && a.follow(offer, anew)
}

// follow offers an advice if it is shown to help; anew is the workload as it is submitted
// again, nil if it is not.
func (a *adviser) follow(offer core.Advice, anew *equivalence) bool {
	preempts, ok := a.shown(offer, anew)
	if ok {
		offer.Preempts = preempts
		a.found = append(a.found, offer)
	}
	return ok
}

// helps reports whether the workload, if it were alone, could start with a change.
func (a *adviser) helps(change func() *workload) bool {
	_, ok := a.alone(change)
	return ok
}

// alone is helps, and takes the change back. anew is the workload's equivalence class if it is
// submitted again.
func (a *adviser) alone(change func() *workload) (anew *equivalence, ok bool) {
	if a.spent() {
		return nil, false
	}
	defer a.back(a.mark())
	w := change()
	if w != a.workload {
		anew = w.equivalence
	}
	return anew, a.verdict(w).kind != refuse
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
	var unready []*workload
	for _, w := range a.workloads {
		if w.unready && !w.obs.endless {
			unready = append(unready, w)
		}
	}
	if len(unready) == 0 || len(unready) > mostHolders {
		return
	}
	slices.SortFunc(unready, compareWorkloads)
	a.follow(core.Advice{Kind: core.WaitFor, Keys: keysOf(unready)}, nil)
}

// elsewhere tries the other local queues of the namespace that lead to other queues, by name.
func (a *adviser) elsewhere() {
	w := a.workload
	offered := 0
	for _, d := range a.sortedLocalQueues() {
		if d.key.namespace != w.Key.Namespace || d == w.localQueue || d.queue == nil || d.queue == w.localQueue.queue || d.closed != nil {
			continue
		}
		if a.try(core.Advice{Kind: core.OtherQueue, Queue: d.key.name}, func() *workload { return a.submittedTo(d) }) {
			offered++
		}
		if offered == mostQueues {
			return
		}
	}
}

// submittedTo is the workload submitted again to another local queue.
func (a *adviser) submittedTo(d *localQueue) *workload {
	n := a.instead(a.workload, a.workload.equivalence.podSets, a.workload.Priority)
	n.localQueue, n.group.queue = d, d.queue
	return n
}

// others tries what becomes of it when others go.
func (a *adviser) others() {
	if len(a.admissions.leaving) > 0 {
		offer := core.Advice{Kind: core.AwaitLeaving, Keys: keysOf(a.admissions.leaving[:min(len(a.admissions.leaving), maxHolders)])}
		if a.try(offer, func() *workload { return a.without(a.admissions.leaving) }) {
			return
		}
	}
	holding := a.holding()
	all := core.Advice{Kind: core.WaitFor, Keys: keysOf(holding)}
	if len(holding) == 0 || !a.helps(func() *workload { return a.without(holding) }) {
		return
	}
	if _, ok := a.shown(all, nil); !ok {
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
		case !a.helps(func() *workload { return a.without(list) }):
		case fewest && a.waitFor(a.fewest(list)), a.waitFor(list):
			return
		default:
			fewest = false // others come first; more must end
		}
	}
}

// waitFor offers the end of others if it helps.
func (a *adviser) waitFor(others []*workload) bool {
	return a.try(core.Advice{Kind: core.WaitFor, Keys: keysOf(others)}, func() *workload { return a.without(others) })
}

func keysOf(workloads []*workload) []core.Key {
	var keys []core.Key
	for _, w := range workloads {
		keys = append(keys, w.Key)
	}
	return keys
}

// fewest is a list of workloads of which, if the asked one is alone with them, all have to end.
func (a *adviser) fewest(list []*workload) []*workload {
	for i := len(list) - 1; i >= 0 && len(list) > 1; i-- {
		less := slices.Delete(slices.Clone(list), i, i+1)
		if a.helps(func() *workload { return a.without(less) }) {
			list = less
		}
	}
	return list
}

// without thinks of others as gone.
func (a *adviser) without(others []*workload) *workload {
	for _, x := range others {
		a.gone(x)
	}
	return a.workload
}

// holding are the workloads in the way whose end may help: not those that never end by themselves.
func (a *adviser) holding() []*workload {
	return slices.DeleteFunc(a.inTheWay(), func(w *workload) bool { return w.obs.endless })
}

// inTheWay are the workloads that hold the quota or the nodes that are short.
func (a *adviser) inTheWay() []*workload {
	var out []*workload
	switch {
	case a.why.LacksQuota() && a.why.Cause != core.BehindStrict && a.why.Cause != core.QuotaClaimed:
		for _, c := range a.quotaHolders(a.workload.group.queue.node, a.why, mostHolders) {
			out = append(out, a.byID[c.ID])
		}
	case a.why.LacksNodes():
		if c := a.class; c != nil {
			for _, h := range a.nodeHolders(c, mostHolders) {
				if x := a.workloads[h.Key]; x != nil && x.State() == running && !slices.Contains(out, x) {
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// itself tries changes of the workload.
func (a *adviser) itself() {
	set := a.workload.equivalence.podSet(a.why.PodSet)
	if set < 0 {
		if len(a.workload.equivalence.podSets) != 1 {
			return
		}
		set = 0
	}
	a.fewer(set)
	resource := a.why.Resource
	if resource == "" {
		if c := a.class; c != nil {
			resource = a.nodes.Survey(c).Resource
		}
	}
	if resource != "" && resource != core.Pods {
		a.smallerSet(set, resource, 1)
	}
	a.tolerations(set)
	a.requirements(set)
}

// changed is the workload submitted again with one pod set changed.
func (a *adviser) changed(set int, change func(*core.PodSet)) *workload {
	sets := slices.Clone(a.workload.equivalence.podSets)
	change(&sets[set])
	return a.instead(a.workload, sets, a.workload.Priority)
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
func (a *adviser) most(limit int64, offer func(int64) core.Advice, with func(int64) func() *workload) {
	tried := func(n int64) bool { return a.try(offer(n), with(n)) }
	n := largest(1, limit, func(n int64) bool { return a.helps(with(n)) })
	if n == 0 || tried(n) {
		return
	}
	// Others come first; less may be left for it.
	found := len(a.found)
	largest(1, n-1, tried)
	if len(a.found) > found { // the last that helped is the largest
		a.found = slices.Delete(a.found, found, len(a.found)-1)
	}
}

// fewer tries fewer pods.
func (a *adviser) fewer(set int) {
	p := &a.workload.equivalence.podSets[set]
	offer := func(n int64) core.Advice {
		return core.Advice{Kind: core.FewerPods, PodSet: p.Name, Count: int32(n)} //nolint:gosec // below what it was
	}
	a.most(int64(p.Count)-1, offer, func(n int64) func() *workload {
		return func() *workload {
			return a.changed(set, func(p *core.PodSet) {
				p.Count = offer(n).Count
				p.MinCount = min(p.MinCount, p.Count)
			})
		}
	})
}

// smaller tries pods that do not ask for a resource at all.
func (a *adviser) smaller(resource string) {
	if set := a.workload.equivalence.podSet(a.why.PodSet); set >= 0 {
		a.smallerSet(set, resource, 0)
	}
}

// smallerSet tries pods that ask for less of a resource, in whole units of it: the
// most that helps, or none of it at all if least is 0.
func (a *adviser) smallerSet(set int, resource string, least int64) {
	p := &a.workload.equivalence.podSets[set]
	u := unit(resource, p.Requests.Of(resource))
	with := func(n int64) func() *workload {
		return func() *workload {
			return a.changed(set, func(p *core.PodSet) { ask(p, resource, core.Amount(n).Mul(int64(u))) })
		}
	}
	offer := func(n int64) core.Advice {
		return core.Advice{Kind: core.SmallerPods, PodSet: p.Name, Resource: resource, Amount: core.Amount(n).Mul(int64(u))}
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
	p := &a.workload.equivalence.podSets[set]
	for _, t := range a.attempts(a.workload) {
		f := a.flavors[t.Flavor]
		if t.Why.Cause == core.UntoleratedTaint && t.PodSet == p.Name && f != nil {
			a.tolerate(set, t.Flavor, slices.DeleteFunc(slices.Clone(f.spec.Taints), func(taint core.Taint) bool {
				_, bad := core.Untolerated([]core.Taint{taint}, append(slices.Clone(p.Filter.Tolerations), f.spec.Tolerations...))
				return !bad
			}))
		}
	}
	if c := a.class; c != nil {
		for _, taint := range a.nodes.TaintsInTheWay(c, mostLeft) {
			a.tolerate(set, "", []core.Taint{taint})
		}
	}
}

func (a *adviser) tolerate(set int, flavor string, taints []core.Taint) {
	offer := core.Advice{Kind: core.Tolerate, PodSet: a.workload.equivalence.podSets[set].Name, Flavor: flavor}
	for _, t := range taints {
		offer.Detail = append(offer.Detail, t.String())
	}
	a.try(offer, func() *workload {
		return a.changed(set, func(p *core.PodSet) {
			p.Filter.Tolerations = slices.Clone(p.Filter.Tolerations)
			for _, t := range taints {
				p.Filter.Tolerations = append(p.Filter.Tolerations, core.Toleration{Key: t.Key, Value: t.Value, Effect: t.Effect})
			}
		})
	})
}

// requirements tries to leave out what the pods require of labels: one thing, else all.
func (a *adviser) requirements(set int) {
	p := &a.workload.equivalence.podSets[set]
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
	offer := core.Advice{Kind: core.DropSelector, PodSet: a.workload.equivalence.podSets[set].Name, Detail: what}
	return a.try(offer, func() *workload { return a.changed(set, func(p *core.PodSet) { change(&p.Filter) }) })
}

// priority tries the priorities there are above its own, lowest first.
func (a *adviser) priority(all []int64) {
	all = slices.Compact(slices.Sorted(slices.Values(all)))
	for _, p := range all {
		if p > a.workload.Priority && a.try(core.Advice{Kind: core.RaisePriority, Priority: p}, func() *workload {
			return a.instead(a.workload, a.workload.equivalence.podSets, p)
		}) {
			return
		}
	}
}

// borrowing tries to let the queue evict while it borrows, if that is what it may not.
func (a *adviser) borrowing() {
	q := a.workload.group.queue
	may := &q.spec.Preemption
	if !a.why.LacksQuota() || a.opt.FairSharing != nil || preempt.Allows(may.WhileBorrow) || !preempt.Allows(may.Reclaim) {
		return
	}
	a.follow(core.Advice{Kind: core.PreemptBorrowing, Queue: q.name}, nil)
}

// nodesBack tries nodes that are out of service, one by one, then all that are
// cordoned, then all; and nodes without the pods that no queue knows.
func (a *adviser) nodesBack() {
	c := a.class
	if c == nil {
		return
	}
	down := a.nodes.Down(c, mostNodesTried)
	cordoned := slices.DeleteFunc(slices.Clone(down), func(n *place.Node) bool { return n.Spec().Why != core.Cordoned })
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
	for _, o := range a.nodes.Occupied(c, mostNodesTried) {
		r, amount := a.nodes.TakenByOthers(o)
		if amount > 0 && a.try(core.Advice{Kind: core.RemovePods, Nodes: []string{o.Name()}, Resource: r}, func() *workload {
			a.undo = append(a.undo, a.nodes.Clear(o.Node))
			return a.workload
		}) {
			return
		}
	}
}

func (a *adviser) bringOne(n *place.Node) bool {
	if n.Spec().Why == core.Cordoned {
		return a.bring(core.Uncordon, []*place.Node{n})
	}
	return a.bring(core.RepairNode, []*place.Node{n})
}

func (a *adviser) bring(kind core.AdviceKind, nodes []*place.Node) bool {
	offer := core.Advice{Kind: kind}
	for _, n := range nodes {
		offer.Nodes = append(offer.Nodes, n.Name())
		if kind == core.RepairNode {
			offer.Detail = append(offer.Detail, n.Spec().Why)
		}
	}
	return a.try(offer, func() *workload {
		for _, n := range nodes {
			a.undo = append(a.undo, a.nodes.Suppose(n, core.NodeReady))
		}
		return a.workload
	})
}

// gate tries to open the gate that keeps the workload from admission, or from evicting.
func (a *adviser) gate() {
	if a.why.Code == core.AdmissionGated && a.why.Cause != core.PreemptionGated {
		a.follow(core.Advice{Kind: core.OpenGate, Detail: []string{a.why.Detail}}, nil)
		return
	}
	if gate := a.workload.equivalence.gate; gate != "" {
		a.try(core.Advice{Kind: core.OpenGate, Detail: []string{gate}}, func() *workload {
			return a.as(a.workload, &equivalence{priority: a.workload.Priority, podSets: a.workload.equivalence.podSets}, a.workload.Time)
		})
	}
}
