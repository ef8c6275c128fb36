package ungating

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// Pods of a gang that another scheduler binds are told their nodes by the rules by which
// mlbatch's scheduler binds its own. What differs is that a pod that was told its node cannot
// be told another: it counts as bound from then on.

// release is a pod that may be scheduled.
type release struct {
	pod *corev1.Pod
	// node is the only one that it may have; "" leaves the choice to its scheduler.
	node string
	// rank is what it is told of its rank in its group; "" if nothing is.
	rank string
}

// stray is a pod that was told a node which its job does not have there any more.
type stray struct {
	pod *corev1.Pod
	why string
}

// outcome is what is to be done with the pods of a gang.
type outcome struct {
	releases []release
	strays   []stray
	// waits says why pods that could be told a node are not; "" if none are.
	waits string
}

// waiting reports whether a pod waits for nothing but its node.
func waiting(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 1 &&
		podmeta.Unplaced(p)
}

// told is the node that a pod was told, "" if it was told none. It comes last in each of the
// alternatives that its author has: one who names other nodes in them was told none by us.
func told(p *corev1.Pod) (node string) {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil ||
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if empty(t) {
			continue
		}
		if len(t.MatchFields) == 0 {
			return ""
		}
		last := t.MatchFields[len(t.MatchFields)-1]
		if last.Key != metav1.ObjectNameField || last.Operator != corev1.NodeSelectorOpIn ||
			len(last.Values) != 1 ||
			node != "" && node != last.Values[0] {
			return ""
		}
		node = last.Values[0]
	}
	return node
}

// empty reports whether an alternative matches no node, which those do that ask for nothing.
func empty(t corev1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
}

// plan says which pods of a gang are told which nodes. earlier are nodes that pods were told
// and that are not seen yet. It depends on nothing but its arguments, and not on the order of
// the pods.
func plan(
	g gang.Gang,
	pods []*corev1.Pod,
	earlier map[types.UID]string,
	schedulers jobs.Schedulers,
	ranked map[string]bool,
) outcome {
	var members []gang.Member
	free, by := map[types.UID]*corev1.Pod{}, map[types.UID]*corev1.Pod{}
	for _, p := range pods {
		m, takesPart := gang.Read(g, p)
		if !takesPart {
			continue
		}
		if m.State == gang.Pending {
			node, is := earlier[p.UID]
			switch {
			case is:
				m.State, m.Node = gang.Bound, node
			case waiting(p):
				free[p.UID] = p
			case len(p.Spec.SchedulingGates) > 0:
				continue // it is looked at when something else lets it go
			case !schedulers.Own(p.Spec.SchedulerName), told(p) != "":
				m.State, m.Node = gang.Bound, told(p)
			}
		}
		by[p.UID] = p
		members = append(members, m)
	}
	slices.SortFunc(members, gang.ByRank)
	var out outcome
	if g.Admitted {
		out.strays = strays(g, members, by)
	}
	if len(free) == 0 {
		return out
	}
	d := gang.Decide(g, members)
	if d.Act == gang.Hold {
		out.waits = d.Why
		return out
	}
	next := members
	if d.Act == gang.Together {
		if next = gang.Quorum(g, members, ""); next == nil {
			out.waits = fmt.Sprintf("%s starts as a whole: pods of an earlier attempt have not ended", g.Key)
			return out
		}
	}
	assigned := gang.Assign(g, members, next)
	full := map[string]bool{} // sets without room: a tenant may have any number of pods too many
	for _, m := range next {
		if m.State != gang.Pending || full[m.Set] {
			continue
		}
		node, has := assigned[m.UID]
		if !has {
			out.waits, full[m.Set] = refusal(g, members, m), true
			if d.Act == gang.Together {
				out.releases = nil
				return out
			}
			continue
		}
		if p := free[m.UID]; p != nil {
			out.releases = append(out.releases, release{pod: p, node: node})
		}
	}
	ranks(g, ranked, members, by, out.releases)
	return out
}

// refusal says why a member has no place.
func refusal(g gang.Gang, members []gang.Member, m gang.Member) string {
	s, known := g.Find(m.Set)
	if !known {
		return fmt.Sprintf("%s has no pod set %q (label %s)", g.Key, m.Set, kueue.PodSetLabel)
	}
	return gang.Full(g, s, members)
}

// strays are pods that were told a node which the plan does not have for them, because it
// takes no work any more, and that are not bound to it.
func strays(g gang.Gang, members []gang.Member, pods map[types.UID]*corev1.Pod) []stray {
	var out []stray
	for _, s := range g.Sets {
		if s.Places == nil {
			continue
		}
		room := map[string]int32{}
		for _, p := range s.Places {
			room[p.Node] += p.Count
		}
		in := func(m gang.Member) bool { return m.Set == s.Name && m.State == gang.Bound && m.Node != "" }
		for _, m := range members {
			if in(m) && pods[m.UID].Spec.NodeName != "" {
				room[m.Node]--
			}
		}
		for _, m := range members {
			if !in(m) || pods[m.UID].Spec.NodeName != "" {
				continue
			}
			if room[m.Node]--; room[m.Node] < 0 {
				out = append(
					out,
					stray{pods[m.UID], fmt.Sprintf("its job was given other nodes than %s, which it waits for", m.Node)},
				)
			}
		}
	}
	return out
}

// placed returns a pod that may be scheduled, on a node if one is named, with its rank if it has one.
func placed(p *corev1.Pod, node, rank string) *corev1.Pod {
	out := p.DeepCopy()
	if rank != "" {
		metav1.SetMetaDataLabel(&out.ObjectMeta, sakkara.RankLabel, rank)
	}
	out.Spec.SchedulingGates = slices.DeleteFunc(
		out.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool { return g.Name == kueue.TopologyGate },
	)
	if node == "" {
		return out
	}
	if out.Spec.Affinity == nil {
		out.Spec.Affinity = &corev1.Affinity{}
	}
	if out.Spec.Affinity.NodeAffinity == nil {
		out.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &out.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	here := corev1.NodeSelectorRequirement{
		Key:      metav1.ObjectNameField,
		Operator: corev1.NodeSelectorOpIn,
		Values:   []string{node},
	}
	if *required == nil || len((*required).NodeSelectorTerms) == 0 {
		*required = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{here}}},
		}
		return out
	}
	// Terms are alternatives, so it goes into each of them. An empty one matches no node, and would
	// match this one then; the API server refuses that, too.
	for i := range (*required).NodeSelectorTerms {
		if t := &(*required).NodeSelectorTerms[i]; !empty(*t) {
			t.MatchFields = append(t.MatchFields, here)
		}
	}
	return out
}
