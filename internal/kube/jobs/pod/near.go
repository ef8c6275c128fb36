package pod

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// near fills in how near to each other the pods of sets want to be, and by which label they tell their ranks.
func (u *Unit) near(sets []kueue.PodSet) {
	ranked := u.Ranked()
	near := maps.Clone(u.Near)
	together := jobs.Outer{Required: near[kueue.PodSetRequiredTopologyAnnotation], Group: jobs.AllSets}
	delete(near, kueue.PodSetRequiredTopologyAnnotation)
	for i := range sets {
		if len(near) > 0 {
			notes := maps.Clone(sets[i].Template.Annotations)
			if notes == nil {
				notes = map[string]string{}
			}
			maps.Copy(notes, near)
			sets[i].Template.Annotations = notes
		}
	}
	index := ""
	if len(sets) == 1 { // an index counts all pods of a group
		index = cmp.Or(
			sets[0].Template.Annotations[kueue.PodGroupPodIndexLabelAnnotation],
			kueue.PodGroupPodIndexLabel,
		)
		if ranked {
			index = sakkara.RankLabel
		}
	}
	jobs.Near(sets, index)
	u.gang.nearTo(sets, index)
	together.Index = index
	together.Around(sets)
	if ranked && len(sets) == 1 && sets[0].TopologyRequest == nil {
		sets[0].TopologyRequest = &kueue.PodSetTopologyRequest{PodIndexLabel: &index}
	}
}

// Ranked reports whether the pods are told their ranks, as Sakkara tells those that ask for it.
func (u *Unit) Ranked() bool {
	if u.Alone() || u.Owned || len(u.Pods) == 0 {
		return false
	}
	return u.OfPodGroup() == podmeta.SakkaraGroup ||
		u.OfPodGroup() != "" && slices.Contains(sakkara.Schedulers(), u.Pods[0].Spec.SchedulerName)
}

// Rank writes into pods that start which rank each has among all pods of the unit: in the order of their names, the
// master first, those ranks that no other has. The place of a rank is that of its number (package gang).
func (u *Unit) Rank(start []*corev1.Pod, sets []kueue.PodSet) {
	taken := map[int]bool{}
	for _, p := range u.Pods {
		starts := slices.ContainsFunc(start, func(o *corev1.Pod) bool { return o.UID == p.UID && o.Name == p.Name })
		if n, err := strconv.Atoi(
			p.Labels[sakkara.RankLabel],
		); err == nil && u.counts(p) && !starts &&
			!podmeta.Gated(p) {
			taken[n] = true
		}
	}
	start = slices.SortedFunc(
		slices.Values(start),
		func(a, b *corev1.Pod) int { return sakkara.Compare(a.Name, b.Name) },
	)
	next := u.firstRanks(sets)
	for _, p := range start {
		at := Role(p)
		for taken[next[at]] {
			next[at]++
		}
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[sakkara.RankLabel] = strconv.Itoa(next[at])
		next[at]++
	}
}

// firstRanks is where the ranks of each pod set begin: that of the master has the first.
func (u *Unit) firstRanks(sets []kueue.PodSet) map[kueue.PodSetReference]int {
	leader := kueue.PodSetReference("")
	for _, p := range u.Pods {
		if leader == "" && sakkara.Master(p.Name) {
			leader = Role(p)
		}
	}
	out, n := map[kueue.PodSetReference]int{}, 0
	for _, first := range []bool{true, false} {
		for i := range sets {
			if (sets[i].Name == leader) == first {
				out[sets[i].Name] = n
				n += int(sets[i].Count)
			}
		}
	}
	return out
}
