package cache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// podRecord is what the world keeps of one pod.
type podRecord struct {
	workload core.Key // zero if it belongs to none
	podSet   string
	node     string // "" until bound
	requests core.Resources
	limits   []core.Limit
	// settled pods run or succeeded; live ones hold quota, and their node if they
	// have one; leaving ones do so although they were deleted.
	settled, live, leaving bool
	// succeeded pods ended well. created tells those of this admission from those of
	// earlier ones.
	succeeded bool
	created   time.Time
}

func record(p *corev1.Pod) podRecord {
	state := convert.PodState(p)
	r := podRecord{
		node:    p.Spec.NodeName,
		live:    state.HoldsQuota(),
		leaving: state.Deleting && state.HoldsPlace(),

		succeeded: p.Status.Phase == corev1.PodSucceeded,
		created:   p.CreationTimestamp.Time,
		settled: p.Spec.NodeName != "" && p.Status.Phase != corev1.PodFailed &&
			(p.DeletionTimestamp == nil || p.Status.Phase == corev1.PodSucceeded),
	}
	if w := convert.WorkloadOf(p); w != (core.Key{}) {
		r.workload, r.podSet = w, convert.PodSetOf(p)
	}
	r.requests, r.limits = convert.PodRequests(&p.Spec).With(core.Pods, 1), convert.PodLimits(p)
	return r
}

// podTable indexes pods by node and by workload.
type podTable struct {
	pods       map[Ref]podRecord
	byNode     map[string]map[Ref]bool
	byWorkload map[core.Key]map[Ref]bool
}

func newPodTable() podTable {
	return podTable{
		pods:       map[Ref]podRecord{},
		byNode:     map[string]map[Ref]bool{},
		byWorkload: map[core.Key]map[Ref]bool{},
	}
}

// set replaces what is known of a pod (nil: deleted) and reports the old and
// the new record.
func (t *podTable) set(r Ref, p *corev1.Pod) (was, is podRecord) {
	was = t.pods[r]
	if was.node != "" {
		drop(t.byNode, was.node, r)
	}
	if was.workload != (core.Key{}) {
		drop(t.byWorkload, was.workload, r)
	}
	if p == nil {
		delete(t.pods, r)
		return was, podRecord{}
	}
	is = record(p)
	t.pods[r] = is
	if is.node != "" {
		put(t.byNode, is.node, r)
	}
	if is.workload != (core.Key{}) {
		put(t.byWorkload, is.workload, r)
	}
	return was, is
}

// live counts the unfinished pods of a workload.
func (t *podTable) live(k core.Key) int {
	n := 0
	for r := range t.byWorkload[k] {
		if t.pods[r].live {
			n++
		}
	}
	return n
}

// ending reports whether all pods of an admission have succeeded, and none is left
// that has not ended.
func (t *podTable) ending(k core.Key, w *core.Workload) bool {
	succeeded := map[string]int32{}
	for r := range t.byWorkload[k] {
		p := t.pods[r]
		if p.live {
			return false
		}
		if p.succeeded && !p.created.Before(w.Reserved) {
			succeeded[p.podSet]++
		}
	}
	all := int32(0)
	for i := range w.Admission.PodSets {
		ps := &w.Admission.PodSets[i]
		if succeeded[ps.Name] < ps.Count {
			return false
		}
		all += ps.Count
	}
	return all > 0
}

// settled lists where pods of a workload run or succeeded, and where deleted ones
// have not ended yet: their replacement waits for them, unless their node does
// not answer and may never say that they ended. Once one of them was deleted there, the
// others will be: they all get other nodes together, so that they stay together.
func (t *podTable) settled(k core.Key, answers func(node string) bool) []core.PodSetPlaces {
	var left map[string]bool
	for r := range t.byWorkload[k] {
		if p := t.pods[r]; p.leaving && !answers(p.node) {
			if left == nil {
				left = map[string]bool{}
			}
			left[p.node] = true
		}
	}
	return t.places(k, func(p podRecord) bool {
		if left[p.node] {
			return p.succeeded
		}
		return p.settled || p.leaving
	})
}

// ended lists where pods of a workload succeeded and will not be replaced, or were given back: of
// says how many per pod set, and a place that another pod of the workload has taken since does not
// count. Of pods that left no trace, since their job was made smaller or they were removed, it is
// the last places of the plan that no pod has (gang.Open).
func (t *podTable) ended(k core.Key, of map[string]int32, plan *core.Admission) []core.PodSetPlaces {
	if len(of) == 0 {
		return nil
	}
	live := map[string]map[string]int32{}
	for _, ps := range t.places(k, func(p podRecord) bool { return p.live }) {
		live[ps.Name] = map[string]int32{}
		for _, p := range ps.Places {
			live[ps.Name][p.Node] = p.Count
		}
	}
	settled := map[string][]core.Place{}
	for _, ps := range t.places(k, func(p podRecord) bool { return p.settled && !p.live }) {
		settled[ps.Name] = ps.Places
	}
	if plan == nil {
		return nil
	}
	var out []core.PodSetPlaces
	for _, ps := range plan.PodSets {
		if places := given(ps.Places, of[ps.Name], live[ps.Name], settled[ps.Name]); len(places) > 0 {
			out = append(out, core.PodSetPlaces{Name: ps.Name, Places: places})
		}
	}
	slices.SortFunc(out, func(a, b core.PodSetPlaces) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// given are the places of a pod set that so many pods gave back: those where pods settled, then
// the last that are left.
func given(planned []core.Place, n int32, live map[string]int32, settled []core.Place) []core.Place {
	free, back := map[string]int32{}, map[string]int32{}
	for _, p := range planned {
		free[p.Node] += p.Count
	}
	take := func(node string, most int32) {
		taken := max(min(most, n, free[node]-live[node]-back[node]), 0)
		back[node] += taken
		n -= taken
	}
	for _, p := range settled {
		take(p.Node, p.Count)
	}
	for _, p := range slices.Backward(planned) {
		take(p.Node, p.Count)
	}
	var out []core.Place
	for _, node := range slices.Sorted(maps.Keys(back)) {
		if back[node] > 0 {
			out = append(out, core.Place{Node: node, Count: back[node]})
		}
	}
	return out
}

// places counts the bound pods of a workload that match, by pod set and node.
func (t *podTable) places(k core.Key, match func(podRecord) bool) []core.PodSetPlaces {
	counts := map[string]map[string]int32{}
	for r := range t.byWorkload[k] {
		p := t.pods[r]
		if p.node == "" || !match(p) {
			continue
		}
		if counts[p.podSet] == nil {
			counts[p.podSet] = map[string]int32{}
		}
		counts[p.podSet][p.node]++
	}
	out := make([]core.PodSetPlaces, 0, len(counts))
	for name, nodes := range counts {
		ps := core.PodSetPlaces{Name: name}
		for node, n := range nodes {
			ps.Places = append(ps.Places, core.Place{Node: node, Count: n})
		}
		slices.SortFunc(ps.Places, func(a, b core.Place) int { return cmp.Compare(a.Node, b.Node) })
		out = append(out, ps)
	}
	slices.SortFunc(out, func(a, b core.PodSetPlaces) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// foreign sums what unfinished pods use on a node, and take of limits, beyond the planned places.
// planned returns how many pods of a pod set the engine placed on the node.
func (t *podTable) foreign(node string, planned func(core.Key, string) int32) (core.Resources, []core.Limit) {
	type group struct {
		workload core.Key
		podSet   string
	}
	covered := map[group]int32{}
	var sum core.Resources
	var limits []core.Limit
	refs := make([]Ref, 0, len(t.byNode[node]))
	for r := range t.byNode[node] {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, r := range refs {
		p := t.pods[r]
		if !p.live {
			continue
		}
		if p.workload != (core.Key{}) {
			g := group{p.workload, p.podSet}
			if covered[g] < planned(p.workload, p.podSet) {
				covered[g]++
				continue
			}
		}
		sum = sum.Plus(p.requests)
		limits = append(limits, p.limits...)
	}
	return sum, merged(limits)
}

// merged adds up limits of one name, in order of names.
func merged(limits []core.Limit) []core.Limit {
	slices.SortStableFunc(limits, func(a, b core.Limit) int { return cmp.Compare(a.Name, b.Name) })
	var out []core.Limit
	for _, l := range limits {
		if n := len(out); n > 0 && out[n-1].Name == l.Name {
			out[n-1].Count += l.Count
			continue
		}
		out = append(out, l)
	}
	return out
}

func put[K comparable](m map[K]map[Ref]bool, k K, r Ref) {
	if m[k] == nil {
		m[k] = map[Ref]bool{}
	}
	m[k][r] = true
}

func drop[K comparable](m map[K]map[Ref]bool, k K, r Ref) {
	delete(m[k], r)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}
