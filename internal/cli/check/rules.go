package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Rule is a question to a cluster.
type Rule struct {
	Name     string
	Severity finding.Severity
	// Asks says what it looks for.
	Asks string
	find func(v *audit) []found
}

// found is what a rule found.
type found struct{ object, message string }

// Rules are all, in the order in which their findings are told.
func Rules() []Rule {
	return []Rule{
		{
			"node-out",
			finding.Warning,
			"a node with GPUs is out of service: a health label or taint, a cordon, not ready",
			nodesOut,
		},
		{"over-quota", finding.Warning, "queues of teams have more quota than nodes in service offer", overQuota},
		{
			"slack-total",
			finding.Warning,
			"the quotas of teams and of the slack queue are together not what all nodes have of GPUs",
			slackTotal,
		},
		{
			"slack-adjusted",
			finding.Note,
			"the slack queue lends less than its quota, as nodes are out of service",
			slackAdjusted,
		},
		{
			"gpus-outside",
			finding.Note,
			"pods have GPUs in a namespace without LocalQueue, where no quota counts them",
			gpusOutside,
		},
		{
			"no-queue",
			finding.Warning,
			"a Workload names no LocalQueue, or one that is not there: it waits for ever",
			noQueue,
		},
		{"not-ready", finding.Warning, "a job was admitted some time ago, and its pods do not all run", notReady},
		{"evicted", finding.Note, "a job was evicted and has not started again", evicted},
		{"too-large", finding.Warning, "a pod asks for more than any node has, in service or not", tooLarge},
		{
			"out-of-proportion",
			finding.Note,
			"a pod with GPUs asks for more of another resource for each GPU than nodes have: GPUs beside it stay unused",
			outOfProportion,
		},
		{"lone-rdma", finding.Note, "a job of one pod asks for RDMA, which only several need", loneRDMA},
		{
			"priority",
			finding.Note,
			"a job has another priority class than default-priority and low-priority",
			priority,
		},
		{
			"other-scheduler",
			finding.Warning,
			"a pod with GPUs in a team's namespace that no queue counts is placed by Kubernetes' own scheduler, which knows no gangs and no plan",
			otherScheduler,
		},
		{
			"no-scheduler",
			finding.Warning,
			"no scheduler has looked at a pod that may be bound: none answers to the name that it has",
			noScheduler,
		},
	}
}

func nodesOut(v *audit) []found {
	var out []found
	for i := range v.nodes {
		n := &v.nodes[i]
		if g := gpus(n.Allocatable); g > 0 && n.State != core.NodeReady {
			out = append(
				out,
				found{
					"node " + n.Name,
					fmt.Sprintf("its GPUs (%d) are out of service: %s", int64(g), cmp.Or(n.Why, string(n.State))),
				},
			)
		}
	}
	return out
}

func overQuota(v *audit) []found {
	var out []found
	for i := range v.capacity {
		c := &v.capacity[i]
		s := &c.sums
		if in := s.total.Sub(
			s.out,
		); v.reads("nodes", "ClusterQueues", "ResourceFlavors") && !s.onDemand &&
			s.teams > in {
			is := view.Amounts(c.Resource, c.Teams, text(c.Resource, in), c.Total)
			out = append(
				out,
				found{
					c.title(),
					fmt.Sprintf("teams have a quota of %s, and nodes in service offer %s (of %s)", is[0], is[1], is[2]),
				},
			)
		}
	}
	return out
}

// title names what a line is about.
func (c *Capacity) title() string { return "flavor " + c.Flavor + ", " + c.Resource }

func slackTotal(v *audit) []found {
	var out []found
	for i := range v.capacity {
		c := &v.capacity[i]
		s := &c.sums
		if both := s.teams.Add(
			s.slack,
		); v.reads("nodes", "ClusterQueues", "ResourceFlavors") && s.hasSlack && !s.onDemand && view.IsGPU(c.Resource) &&
			both != s.total {
			out = append(
				out,
				found{
					c.title(),
					fmt.Sprintf(
						"teams have %s and %s has %s, together %s: nodes have %s",
						c.Teams,
						v.Slack,
						c.Slack,
						text(c.Resource, both),
						c.Total,
					),
				},
			)
		}
	}
	return out
}

func slackAdjusted(v *audit) []found {
	var out []found
	for i := range v.capacity {
		if c, s := &v.capacity[i], &v.capacity[i].sums; s.hasSlack && s.lent < s.slack {
			out = append(
				out,
				found{c.title(), fmt.Sprintf("%s lends %s of its %s", v.Slack, text(c.Resource, s.lent), c.Slack)},
			)
		}
	}
	return out
}

func gpusOutside(v *audit) []found {
	if !v.reads("LocalQueues") {
		return nil
	}
	var out []found
	for i := range v.Pods {
		p := &v.Pods[i]
		if g := gpus(
			convert.PodRequests(&p.Spec),
		); g > 0 && holds(p) && v.teams[p.Namespace] == nil &&
			!skipped(p.Namespace) {
			out = append(
				out,
				found{
					"pod " + p.Namespace + "/" + p.Name,
					fmt.Sprintf("has %s on %s that no quota counts", gpuCount(g), p.Spec.NodeName),
				},
			)
		}
	}
	return sorted(out)
}

func gpuCount(n core.Amount) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", int64(n))
}

func sorted(all []found) []found {
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.object, b.object) })
	return all
}

// each asks about every job that has not ended.
func (v *audit) each(ask func(w *kueue.Workload) string) []found {
	var out []found
	for i := range v.Workloads {
		w := &v.Workloads[i]
		if skipped(w.Namespace) || apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished) ||
			w.DeletionTimestamp != nil {
			continue
		}
		if message := ask(w); message != "" {
			name := "workload " + w.Namespace + "/" + w.Name
			if owner := metav1.GetControllerOf(w); owner != nil {
				name = strings.ToLower(owner.Kind) + " " + w.Namespace + "/" + owner.Name
			}
			out = append(out, found{name, message})
		}
	}
	return sorted(out)
}

func noQueue(v *audit) []found {
	return v.each(func(w *kueue.Workload) string {
		switch {
		case w.Spec.QueueName == "":
			return "names no queue: set the label " + kueue.QueueNameLabel
		case v.reads("LocalQueues") && !v.teams[w.Namespace][string(w.Spec.QueueName)]:
			return fmt.Sprintf("its queue %s is not there", w.Spec.QueueName)
		}
		return ""
	})
}

func notReady(v *audit) []found {
	return v.each(func(w *kueue.Workload) string {
		admitted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
		if admitted == nil || admitted.Status != metav1.ConditionTrue ||
			apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadPodsReady) {
			return ""
		}
		since := v.now.Sub(admitted.LastTransitionTime.Time)
		if since < v.patience || v.runs(w) {
			return ""
		}
		return fmt.Sprintf("was admitted %s ago, and its pods do not all run", since.Round(1e9))
	})
}

// runs reports whether as many pods of a Workload run, or have succeeded, as were admitted: no
// condition says so where nobody asks for it, nor of what serves.
func (v *audit) runs(w *kueue.Workload) bool {
	if w.Status.Admission == nil {
		return false
	}
	wanted := 0
	for i := range w.Status.Admission.PodSetAssignments {
		wanted += int(ptr.Deref(w.Status.Admission.PodSetAssignments[i].Count, 0))
	}
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Namespace == w.Namespace && p.Annotations[kueue.WorkloadAnnotation] == w.Name &&
			(p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded) {
			wanted--
		}
	}
	return wanted <= 0 && len(w.Status.Admission.PodSetAssignments) > 0
}

func evicted(v *audit) []found {
	return v.each(func(w *kueue.Workload) string {
		e := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
		if e == nil || e.Status != metav1.ConditionTrue {
			return ""
		}
		return "was evicted: " + cmp.Or(e.Message, e.Reason)
	})
}

// fits reports whether a node has what a pod asks for.
func fits(asked, node core.Resources) bool {
	return !slices.ContainsFunc(asked, func(r core.Quantity) bool { return r.Amount > node.Of(r.Resource) })
}

func tooLarge(v *audit) []found {
	if len(v.nodes) == 0 {
		return nil
	}
	return v.each(func(w *kueue.Workload) string {
		for i := range w.Spec.PodSets {
			ps := &w.Spec.PodSets[i]
			asked := convert.PodRequests(&ps.Template.Spec)
			if ps.Count == 0 ||
				slices.ContainsFunc(v.nodes, func(n core.Node) bool { return fits(asked, n.Allocatable) }) ||
				v.provisioned() {
				continue
			}
			for _, r := range asked {
				most := v.most(r.Resource)
				if r.Amount > most {
					return fmt.Sprintf(
						"a pod of %s asks for %s of %s, and no node has more than %s",
						ps.Name,
						text(r.Resource, r.Amount),
						r.Resource,
						text(r.Resource, most),
					)
				}
			}
			return fmt.Sprintf("no node has all that a pod of %s asks for together", ps.Name)
		}
		return ""
	})
}

// most is the most that a node has of a resource.
func (v *audit) most(resource string) core.Amount {
	out := core.Amount(0)
	for i := range v.nodes {
		out = max(out, v.nodes[i].Allocatable.Of(resource))
	}
	return out
}

// provisioned reports whether nodes may be made that are not there yet.
func (v *audit) provisioned() bool {
	return slices.ContainsFunc(v.Flavors, func(f kueue.ResourceFlavor) bool { return convert.NodesOnDemand(&f) })
}

func outOfProportion(v *audit) []found {
	return v.each(func(w *kueue.Workload) string {
		for i := range w.Spec.PodSets {
			ps := &w.Spec.PodSets[i]
			asked := convert.PodRequests(&ps.Template.Spec)
			g := gpus(asked)
			if g == 0 || v.proportionate(asked, g) {
				continue
			}
			for _, r := range asked {
				if share := v.share(r.Resource, g); share >= 0 && r.Amount > share {
					return fmt.Sprintf(
						"a pod of %s asks for %s of %s with %s; the share of as many on a node is %s",
						ps.Name,
						text(r.Resource, r.Amount),
						r.Resource,
						gpuCount(g),
						text(r.Resource, share),
					)
				}
			}
		}
		return ""
	})
}

// proportionate reports whether some node has as much for each of its GPUs.
func (v *audit) proportionate(asked core.Resources, g core.Amount) bool {
	large := false
	for i := range v.nodes {
		n := &v.nodes[i]
		of := gpus(n.Allocatable)
		if of < g {
			continue
		}
		large = true
		if !slices.ContainsFunc(asked, func(r core.Quantity) bool {
			return !view.IsGPU(r.Resource) && r.Resource != "pods" &&
				r.Amount > shareOf(n.Allocatable.Of(r.Resource), g, of)
		}) {
			return true
		}
	}
	return !large // too large, which is another finding
}

// share is the most of a resource that goes with so many GPUs; -1 of GPUs themselves.
func (v *audit) share(resource string, g core.Amount) core.Amount {
	out := core.Amount(-1)
	if view.IsGPU(resource) || resource == "pods" {
		return out
	}
	for i := range v.nodes {
		n := &v.nodes[i]
		if of := gpus(n.Allocatable); of >= g {
			out = max(out, shareOf(n.Allocatable.Of(resource), g, of))
		}
	}
	return out
}

// shareOf is g of's of an amount; amounts are below 2^53, so that nothing is lost that matters.
func shareOf(a, g, of core.Amount) core.Amount {
	return core.Amount(float64(a) * float64(g) / float64(of))
}

func loneRDMA(v *audit) []found {
	return v.each(func(w *kueue.Workload) string {
		pods := int32(0)
		for i := range w.Spec.PodSets {
			pods += w.Spec.PodSets[i].Count
		}
		if pods != 1 {
			return ""
		}
		for i := range w.Spec.PodSets {
			for _, r := range convert.PodRequests(&w.Spec.PodSets[i].Template.Spec) {
				if isRDMA(r.Resource) && r.Amount > 0 {
					return fmt.Sprintf("its only pod asks for %s of %s", text(r.Resource, r.Amount), r.Resource)
				}
			}
		}
		return ""
	})
}

// isRDMA reports whether a resource is network for GPUs of several pods.
func isRDMA(resource string) bool {
	_, name, extended := strings.Cut(resource, "/")
	return extended &&
		slices.ContainsFunc(
			[]string{"gdr", "rdma", "roce", "hca"},
			func(part string) bool { return strings.Contains(name, part) },
		)
}

func priority(v *audit) []found {
	return v.each(func(w *kueue.Workload) string {
		if w.Spec.PriorityClassRef == nil {
			return ""
		}
		switch name := w.Spec.PriorityClassRef.Name; name {
		case "", "default-priority", "low-priority":
			return ""
		default:
			return "has the priority class " + name
		}
	})
}

func otherScheduler(v *audit) []found {
	var out []found
	for i := range v.Pods {
		p := &v.Pods[i]
		counted := p.Annotations[kueue.WorkloadAnnotation] != "" // it is told its node
		if v.teams[p.Namespace] != nil && !counted && p.Spec.SchedulerName == corev1.DefaultSchedulerName &&
			gpus(convert.PodRequests(&p.Spec)) > 0 &&
			p.DeletionTimestamp == nil &&
			p.Status.Phase != "Succeeded" &&
			p.Status.Phase != "Failed" {
			out = append(
				out,
				found{"pod " + p.Namespace + "/" + p.Name, "asks for GPUs, and default-scheduler places it"},
			)
		}
	}
	return sorted(out)
}

// noScheduler finds pods that wait for a scheduler which is not there. One that is says at
// once of each pod why it has no node.
func noScheduler(v *audit) []found {
	var out []found
	for i := range v.Pods {
		p := &v.Pods[i]
		looked := slices.ContainsFunc(
			p.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled },
		)
		if p.Spec.NodeName != "" || looked || len(p.Spec.SchedulingGates) > 0 || p.DeletionTimestamp != nil ||
			convert.PodState(p).Ended {
			continue
		}
		if since := v.now.Sub(p.CreationTimestamp.Time); since >= v.patience {
			out = append(
				out,
				found{
					"pod " + p.Namespace + "/" + p.Name,
					fmt.Sprintf(
						"has waited for scheduler %s for %s, which has not looked at it",
						p.Spec.SchedulerName,
						since.Round(1e9),
					),
				},
			)
		}
	}
	return sorted(out)
}
