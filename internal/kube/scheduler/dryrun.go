package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// dryRun assigns the pods of a gang one after another to copies of the nodes, by
// the same filters that decide for real.
type dryRun struct {
	plugin *gangPlugin
	infos  fwk.NodeInfoLister
	// copies are the nodes that have been given pods here.
	copies   map[string]fwk.NodeInfo
	assigned []assignment
	// order is every node, best first, for pods without planned places.
	order []string
	// full names, by class of pods, the nodes that took no more of them, and why.
	full map[string]map[string]string
	// found is what planned nodes answered.
	found found
	// uneven says that a node refused a pod because others of its job are not spread alike: it may take it once more of
	// these have places.
	uneven bool
}

// marker tells this plugin's own PreFilter that it is a dry run.
type marker struct{}

// Clone returns the value itself.
func (m marker) Clone() fwk.StateData { return m }

// dryRun finds an assignment for every pod that has to start together, or says why
// there is none for one of them, and what planned nodes answered.
func (p *gangPlugin) dryRun(
	ctx context.Context,
	v view,
	first types.UID,
) (map[types.UID]assignment, string, found) {
	r := &dryRun{
		plugin: p,
		infos:  p.handle.SnapshotSharedLister().NodeInfos(),
		copies: map[string]fwk.NodeInfo{},
		full:   map[string]map[string]string{},
	}
	for _, s := range p.reservations.assignedElsewhere(v.gang.Key) {
		r.assign(s)
	}
	pods := v.quorum(first)
	if len(pods) == 0 {
		return nil, v.gang.Key.String() + " starts as a whole: its pods give back the nodes of an earlier attempt", found{}
	}
	placed := make(map[types.UID]bool, len(pods))
	for _, p := range pods {
		placed[p.UID] = true
	}
	next := slices.DeleteFunc(slices.Clone(v.members), func(m gang.Member) bool { return !placed[m.UID] })
	planned := gang.Assign(v.gang, v.members, next)
	assignments, firstWhy := map[types.UID]assignment{}, ""
	for left := r.alternating(pods, planned); len(left) > 0; {
		var again []*corev1.Pod
		if again, firstWhy = r.pass(ctx, v, left, planned, assignments); !r.uneven || len(again) == len(left) {
			break
		}
		left = again
	}
	if firstWhy != "" {
		return nil, fmt.Sprintf(
			"%s starts as a whole: %d of %d pods fit; %s",
			v.gang.Key,
			len(assignments),
			len(pods),
			firstWhy,
		), r.found
	}
	if _, ok := assignments[first]; !ok {
		return nil, v.gang.Key.String() + " has all the pods it needs; this pod follows when they have started", found{}
	}
	return assignments, "", found{}
}

// alternating orders pods that have to spread over domains by how manieth they are of the domain that is planned for
// them: so each finds the others spread.
func (r *dryRun) alternating(pods []*corev1.Pod, planned map[types.UID]string) []*corev1.Pod {
	if !slices.ContainsFunc(pods, spreads) {
		return pods
	}
	place, count := map[types.UID]int{}, map[string]int{}
	for _, p := range pods {
		for i := range p.Spec.TopologySpreadConstraints {
			c := &p.Spec.TopologySpreadConstraints[i]
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				continue
			}
			if info, err := r.infos.Get(planned[p.UID]); err == nil {
				domain := info.Node().Labels[c.TopologyKey]
				place[p.UID] = count[domain]
				count[domain]++
			}
			break
		}
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(place[a.UID], place[b.UID]) })
	return out
}

// spreads reports whether a pod must spread with others.
func spreads(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

// pass tries to assign pods, one after another, and returns those that no node took, and why the first of them has no
// place.
func (r *dryRun) pass(
	ctx context.Context,
	v view,
	pods []*corev1.Pod,
	planned map[types.UID]string,
	assignments map[types.UID]assignment,
) (left []*corev1.Pod, firstWhy string) {
	r.found, r.uneven = found{}, false
	clear(r.full)
	for _, pod := range pods {
		name := gang.SetOf(v.gang, pod)
		var why string
		node, has := planned[pod.UID]
		switch s, known := v.gang.Find(name); {
		case known && !has:
			why = gang.Full(v.gang, s, v.members)
		case node != "":
			node, why = r.planned(ctx, pod, node, func() int32 {
				return boundTo(v.members, name, node) + r.given(v.gang, name, node)
			}, name)
		default:
			node = r.free(ctx, pod)
			if node == "" && firstWhy == "" {
				node, why = r.anywhere(ctx, pod)
			}
		}
		if node == "" {
			if firstWhy == "" {
				firstWhy = fmt.Sprintf("no place for pod %s: %s", pod.Name, why)
			}
			left = append(left, pod)
			continue
		}
		assignments[pod.UID] = assignment{pod: pod, node: node}
		r.assign(assignments[pod.UID])
	}
	return left, firstWhy
}

// planned tries the node that a pod is given by the plan. A node that takes no more of the set is not tried again: its
// pods are alike.
func (r *dryRun) planned(
	ctx context.Context,
	pod *corev1.Pod,
	planned string,
	taken func() int32,
	set string,
) (node, why string) {
	full := r.fullFor("set " + set)
	if why, is := full[planned]; is {
		return "", why
	}
	bad, plugin := r.prepare(ctx, pod)(planned)
	if bad == "" {
		return planned, ""
	}
	r.found.add(set, planned, taken(), plugin, bad)
	full[planned] = fmt.Sprintf("planned node %s: %s", planned, bad)
	return "", full[planned]
}

// fullFor are the nodes that take no more pods of a class, and why.
func (r *dryRun) fullFor(class string) map[string]string {
	if r.full[class] == nil {
		r.full[class] = map[string]string{}
	}
	return r.full[class]
}

// given counts the pods of a pod set that were assigned to a node here.
func (r *dryRun) given(g gang.Gang, set, node string) int32 {
	n := int32(0)
	for _, a := range r.assigned {
		if k, ok := gang.KeyOf(a.pod); ok && k == g.Key && a.node == node && gang.SetOf(g, a.pod) == set {
			n++
		}
	}
	return n
}

// free assigns a pod to the best node that takes it, passing over nodes that
// were full for its like.
func (r *dryRun) free(ctx context.Context, pod *corev1.Pod) (node string) {
	if r.order == nil {
		r.order = r.ranked(pod)
	}
	full, try := r.fullFor(classOf(pod)), r.prepare(ctx, pod)
	for _, n := range r.order {
		if _, is := full[n]; is {
			continue
		}
		bad, _ := try(n)
		if bad == "" {
			return n
		}
		full[n] = bad
	}
	return ""
}

// anywhere looks at every node for a pod, full for its like or not, and says
// why none takes it.
func (r *dryRun) anywhere(ctx context.Context, pod *corev1.Pod) (node, why string) {
	try := r.prepare(ctx, pod)
	reasons := map[string]int{}
	for _, n := range r.order {
		bad, _ := try(n)
		if bad == "" {
			return n, ""
		}
		reasons[bad]++
	}
	return "", histogram(reasons)
}

// prepare runs the PreFilters of a pod once and returns a function that tells
// why a node does not take the pod, "" if it does, and which plugin says so of this node; "" if it
// is about none in particular, such as a volume that is being made.
func (r *dryRun) prepare(ctx context.Context, pod *corev1.Pod) func(node string) (why, plugin string) {
	never := func(status *fwk.Status) func(string) (string, string) {
		return func(string) (string, string) { return cmp.Or(status.Message(), "refused without a reason"), "" }
	}
	state := framework.NewCycleState()
	state.Write(dryRunKey, marker{})
	pre, status, _ := r.plugin.rules.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return never(status)
	}
	for _, s := range r.assigned {
		info, err := framework.NewPodInfo(s.pod)
		if err != nil {
			continue
		}
		if status := r.plugin.handle.RunPreFilterExtensionAddPod(
			ctx,
			state,
			pod,
			info,
			r.copies[s.node],
		); !status.IsSuccess() {
			return never(status)
		}
	}
	return func(node string) (string, string) {
		if !pre.AllNodes() && !pre.NodeNames.Has(node) {
			return "node(s) excluded by the pod itself", names.NodeAffinity
		}
		info, err := r.node(node)
		if err != nil {
			return "node is not in the cluster", names.NodeName
		}
		status := r.plugin.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
		if status.IsSuccess() {
			return "", ""
		}
		r.uneven = r.uneven || status.Plugin() == names.PodTopologySpread
		return cmp.Or(strings.Join(status.Reasons(), ", "), "refused without a reason"), status.Plugin()
	}
}

// node returns the copy of a node if pods were assigned to it, else the node.
func (r *dryRun) node(name string) (fwk.NodeInfo, error) {
	if c, ok := r.copies[name]; ok {
		return c, nil
	}
	return r.infos.Get(name)
}

// assign adds a pod to the copy of its node. Assignments to nodes that have gone
// take no room.
func (r *dryRun) assign(s assignment) {
	info, err := r.node(s.node)
	if err != nil {
		return
	}
	pod := s.pod.DeepCopy()
	pod.Spec.NodeName = s.node
	podInfo, err := framework.NewPodInfo(pod)
	if err != nil {
		return
	}
	if _, ok := r.copies[s.node]; !ok {
		info = info.Snapshot()
		r.copies[s.node] = info
	}
	info.AddPodInfo(podInfo)
	r.assigned = append(r.assigned, assignment{pod: pod, node: s.node})
}

// ranked lists the nodes for a gang: healthy before suspect ones, then those
// with the fewest free GPUs, or for pods without GPUs the least free CPU, so
// that whole nodes stay whole; then by name.
func (r *dryRun) ranked(pod *corev1.Pod) []string {
	infos, err := r.infos.List()
	if err != nil {
		return nil
	}
	free := freeCPU
	if asksForGPU(pod) {
		free = freeGPU
	}
	type rank struct {
		name    string
		suspect int
		free    int64
	}
	ranks := make([]rank, 0, len(infos))
	for _, i := range infos {
		if i.Node() == nil {
			continue
		}
		k := rank{name: i.Node().Name, free: free(i)}
		if nodehealth.MarkedState(i.Node().Labels) == core.NodeWarned {
			k.suspect = 1
		}
		ranks = append(ranks, k)
	}
	slices.SortFunc(ranks, func(a, b rank) int {
		return cmp.Or(
			cmp.Compare(a.suspect, b.suspect),
			cmp.Compare(a.free, b.free),
			strings.Compare(a.name, b.name),
		)
	})
	names := make([]string, len(ranks))
	for i, k := range ranks {
		names[i] = k.name
	}
	return names
}

// freeGPU is how many GPUs no pod on the node asks for.
func freeGPU(i fwk.NodeInfo) int64 {
	return i.GetAllocatable().GetScalarResources()[core.GPU] - i.GetRequested().GetScalarResources()[core.GPU]
}

// freeCPU is how many thousandths of a CPU no pod on the node asks for.
func freeCPU(i fwk.NodeInfo) int64 {
	return i.GetAllocatable().GetMilliCPU() - i.GetRequested().GetMilliCPU()
}

// classOf is the same for pods that are very likely alike. It only decides
// which nodes are tried first, so a wrong guess costs time and nothing else.
func classOf(pod *corev1.Pod) string {
	var b strings.Builder
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q := requests[name]
		fmt.Fprintf(&b, "%s=%s ", name, q.String())
	}
	for _, o := range pod.OwnerReferences {
		b.WriteString(string(o.UID))
	}
	return b.String()
}

// histogram writes "2 reason, 1 other", sorted.
func histogram(reasons map[string]int) string {
	words := make([]string, 0, len(reasons))
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		words = append(words, fmt.Sprintf("%d %s", reasons[reason], reason))
	}
	if len(words) == 0 {
		return "the cluster has no nodes"
	}
	return strings.Join(words, ", ")
}
