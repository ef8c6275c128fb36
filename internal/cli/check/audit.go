package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// audit is a cluster as the rules look at it.
type audit struct {
	*Cluster
	now      time.Time
	patience time.Duration
	nodes    []core.Node
	capacity []Capacity
	queues   []Queue
	// teams are the namespaces with LocalQueues, by their queues.
	teams map[string]map[string]bool
}

// sums are the amounts of a Capacity.
type sums struct {
	total, out, outside, teams, slack, lent, used, borrowed core.Amount
	hasSlack, onDemand                                      bool
}

func newAudit(c *Cluster, now time.Time, patience time.Duration) *audit {
	v := &audit{Cluster: c, now: now, patience: patience, teams: map[string]map[string]bool{}}
	for i := range c.Nodes {
		v.nodes = append(v.nodes, convert.Node(&c.Nodes[i]))
	}
	slices.SortFunc(v.nodes, func(a, b core.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range c.LocalQueues {
		q := &c.LocalQueues[i]
		if v.teams[q.Namespace] == nil {
			v.teams[q.Namespace] = map[string]bool{}
		}
		v.teams[q.Namespace][q.Name] = true
	}
	v.sum()
	return v
}

// reads reports whether the user may read all of these kinds.
func (v *audit) reads(kinds ...string) bool {
	return !slices.ContainsFunc(kinds, func(k string) bool { return slices.Contains(v.Unread, k) })
}

// sum adds up quotas and nodes, by flavor and resource.
func (v *audit) sum() {
	all := map[core.FlavorResource]*sums{}
	for i := range v.Queues {
		q := &v.Queues[i]
		is := view.ClusterQueueOf(
			q,
			apimeta.FindStatusCondition(q.Status.Conditions, kueue.ClusterQueueActive),
			view.LoadOf(q.Status),
		)
		for _, f := range is.Flavors {
			for _, own := range f.Quotas {
				key := core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}
				if all[key] == nil {
					all[key] = &sums{}
				}
				v.add(all[key], q.Name, own, &is, key)
			}
		}
	}
	flavors := map[string]*kueue.ResourceFlavor{}
	for i := range v.Flavors {
		flavors[v.Flavors[i].Name] = &v.Flavors[i]
	}
	outside := v.outside()
	for _, key := range slices.SortedFunc(maps.Keys(all), byFlavor) {
		s := all[key]
		f := flavors[key.Flavor]
		s.onDemand = f != nil && convert.NodesOnDemand(f)
		for i := range v.nodes {
			n := &v.nodes[i]
			if f != nil && !has(n.Labels, f.Spec.NodeLabels) {
				continue
			}
			amount := n.Allocatable.Of(key.Resource)
			s.total = s.total.Add(amount)
			if n.State != core.NodeReady {
				s.out = s.out.Add(amount)
			}
			s.outside = s.outside.Add(outside[n.Name].Of(key.Resource))
		}
		v.capacity = append(v.capacity, v.line(key, s))
	}
	slices.SortFunc(v.queues, func(a, b Queue) int {
		return cmp.Or(
			cmp.Compare(a.Name, b.Name),
			byFlavor(
				core.FlavorResource{Flavor: a.Flavor, Resource: a.Resource},
				core.FlavorResource{Flavor: b.Flavor, Resource: b.Resource},
			),
		)
	})
}

// byFlavor orders GPUs first.
func byFlavor(a, b core.FlavorResource) int {
	last := func(r core.FlavorResource) int {
		if view.IsGPU(r.Resource) {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.Flavor, b.Flavor),
		cmp.Compare(last(a), last(b)),
		cmp.Compare(a.Resource, b.Resource),
	)
}

func has(labels, want map[string]string) bool {
	for k, value := range want {
		if labels[k] != value {
			return false
		}
	}
	return true
}

// add counts the quota of one queue.
func (v *audit) add(s *sums, queue string, own core.Quota, is *view.ClusterQueue, key core.FlavorResource) {
	used := is.Reserved[key]
	if queue == v.Slack {
		s.hasSlack, s.slack, s.lent = true, s.slack.Add(own.Nominal), own.Nominal
		if own.Lending != nil {
			s.lent = min(*own.Lending, own.Nominal)
		}
		return
	}
	s.teams, s.used = s.teams.Add(own.Nominal), s.used.Add(used)
	s.borrowed = s.borrowed.Add(is.Borrowed(own, used))
	v.queues = append(v.queues, Queue{
		Name:     queue,
		Flavor:   key.Flavor,
		Resource: key.Resource,
		Quota:    text(key.Resource, own.Nominal),
		Used:     text(key.Resource, used),
		Admitted: is.Admitted,
		Waiting:  is.Waiting(),
	})
}

func text(resource string, a core.Amount) string {
	q := convert.Quantity(resource, a)
	return q.String()
}

func (v *audit) line(key core.FlavorResource, s *sums) Capacity {
	say := func(a core.Amount) string { return text(key.Resource, a) }
	out := Capacity{
		Flavor:   key.Flavor,
		Resource: key.Resource,
		Total:    say(s.total),
		Out:      say(s.out),
		Teams:    say(s.teams),
		Used:     say(s.used),
		Borrowed: say(s.borrowed),
		sums:     *s,
	}
	if v.reads("pods", "LocalQueues") && v.Namespace == "" {
		out.Outside = new(say(s.outside))
	}
	if s.hasSlack {
		out.Slack, out.Adjusted = say(s.slack), say(s.slack.Sub(s.lent))
	}
	return out
}

// outside is what pods have on nodes that belong to no team, by node.
func (v *audit) outside() map[string]core.Resources {
	out := map[string]core.Resources{}
	for i := range v.Pods {
		p := &v.Pods[i]
		if holds(p) && v.teams[p.Namespace] == nil {
			out[p.Spec.NodeName] = out[p.Spec.NodeName].Plus(convert.PodRequests(&p.Spec)).
				With("pods", out[p.Spec.NodeName].Of("pods")+1)
		}
	}
	return out
}

// holds reports whether a pod is on a node and has not ended.
func holds(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// gpus is how many GPUs there are in a list.
func gpus(r core.Resources) core.Amount {
	n := core.Amount(0)
	for _, one := range r {
		if view.IsGPU(one.Resource) {
			n = n.Add(one.Amount)
		}
	}
	return n
}

// skipped are namespaces of the platform.
func skipped(namespace string) bool { return strings.HasPrefix(namespace, "openshift-") }
