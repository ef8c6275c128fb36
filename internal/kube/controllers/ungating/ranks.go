package ungating

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// Pods of a job that are a group of Sakkara's are told their ranks among all of the group when they are let go, before
// their containers start: a pod's rank is the place that it has in the order of its gang's places, so that neighbours
// are near to each other. mlbatch's scheduler binds those that it binds by the same order, and need not be told nodes.

// unseenPause is how long to wait for the cache to show ranks that pods were told: no two have one.
const unseenPause = 100 * time.Millisecond

// ranked are the pod sets whose pods are told ranks: the label of those of a group in their templates.
func ranked(w *kueue.Workload) map[string]bool {
	out := map[string]bool{}
	for i := range w.Spec.PodSets {
		if ps := &w.Spec.PodSets[i]; ps.Template.Labels[sakkara.MemberLabel] != "" {
			out[string(ps.Name)] = true
		}
	}
	return out
}

// ranks gives pods that are let go their ranks, and leaves the nodes of those to mlbatch's scheduler that it binds. The
// pod set with the master is first.
func ranks(
	g gang.Gang,
	in map[string]bool,
	members []gang.Member,
	by map[types.UID]*corev1.Pod,
	out []release,
) {
	if len(in) == 0 {
		return
	}
	leader := ""
	for _, s := range g.Sets {
		for _, m := range members {
			if leader == "" && in[s.Name] && m.Set == s.Name && sakkara.Master(m.Name) {
				leader = s.Name
			}
		}
	}
	next := 0
	for _, first := range []bool{true, false} {
		for _, s := range g.Sets {
			if in[s.Name] && (s.Name == leader) == first {
				rankSet(s, next, members, by, out)
				next += s.Count
			}
		}
	}
}

// How a rank is used.
const (
	rankUnused = iota
	rankSpent  // by a pod that succeeded
	rankHeld
)

// rankSet is ranks for one pod set, whose ranks begin with first.
func rankSet(s gang.Set, first int, members []gang.Member, by map[types.UID]*corev1.Pod, out []release) {
	var nodes []string
	for _, p := range s.Places {
		for range p.Count {
			nodes = append(nodes, p.Node)
		}
	}
	used := make([]int, max(s.Count, len(nodes), len(members)))
	own := map[types.UID]gang.Member{}
	for _, m := range members {
		if m.Set != s.Name {
			continue
		}
		own[m.UID] = m
		n, err := strconv.Atoi(by[m.UID].Labels[sakkara.RankLabel])
		if at := n - first; err == nil && at >= 0 && at < len(used) && m.State != gang.Failed {
			if used[at] = rankHeld; m.State == gang.Succeeded {
				used[at] = rankSpent
			}
		}
	}
	for i := range out {
		x := &out[i]
		m, is := own[x.pod.UID]
		if !is || x.pod.Labels[sakkara.RankLabel] != "" {
			continue
		}
		at := rankOf(m, x.node, nodes, used)
		if at >= 0 {
			used[at], x.rank = rankHeld, strconv.Itoa(first+at)
		}
	}
}

// rankOf is the number that a pod itself tells, if no other has it, or that of a place on its node, or the first that
// is left; -1 if none is.
func rankOf(m gang.Member, node string, nodes []string, used []int) int {
	if m.Rank >= 0 && m.Rank < len(used) && used[m.Rank] < rankHeld {
		return m.Rank
	}
	for _, most := range []int{rankUnused, rankSpent} {
		for at := range used {
			if used[at] <= most && node != "" && at < len(nodes) && nodes[at] == node {
				return at
			}
		}
		for at := range used {
			if used[at] <= most {
				return at
			}
		}
	}
	return -1
}
