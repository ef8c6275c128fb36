package convert

import (
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// Flavor translates a ResourceFlavor.
func Flavor(f *kueue.ResourceFlavor) core.Flavor {
	return core.Flavor{
		Name:        f.Name,
		NodeLabels:  maps.Clone(f.Spec.NodeLabels),
		Taints:      Taints(f.Spec.NodeTaints),
		Tolerations: Tolerations(f.Spec.Tolerations),
		Topology:    core.Topology{Name: string(ptr.Deref(f.Spec.TopologyName, ""))},
	}
}

// NodesOnDemand reports whether a flavor says that its nodes are made when pods ask
// for them.
func NodesOnDemand(f *kueue.ResourceFlavor) bool {
	return f.Annotations[kueue.NodesOnDemandAnnotation] == "true"
}

// Provisioned lists the flavors of a queue whose nodes are made on demand, sorted:
// an admission check makes them, or the flavor says so. controller names the one
// that answers a check, "" if there is no such check.
func Provisioned(
	q *kueue.ClusterQueue,
	controller func(check string) string,
	onDemand func(flavor string) bool,
) []string {
	var out []string
	for _, g := range q.Spec.ResourceGroups {
		for _, f := range g.Flavors {
			if onDemand(string(f.Name)) || makesNodes(q, f.Name, controller) {
				out = append(out, string(f.Name))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func makesNodes(
	q *kueue.ClusterQueue,
	flavor kueue.ResourceFlavorReference,
	controller func(check string) string,
) bool {
	if q.Spec.AdmissionChecksStrategy == nil {
		return false
	}
	return slices.ContainsFunc(
		q.Spec.AdmissionChecksStrategy.AdmissionChecks,
		func(c kueue.AdmissionCheckStrategyRule) bool {
			return controller(string(c.Name)) == kueue.ProvisioningRequestControllerName &&
				(len(c.OnFlavors) == 0 || slices.Contains(c.OnFlavors, flavor))
		},
	)
}

// Cohort translates a Cohort.
func Cohort(c *kueue.Cohort) core.Cohort {
	return core.Cohort{
		Name:   c.Name,
		Parent: string(c.Spec.ParentName),
		Groups: groups(c.Spec.ResourceGroups),
		Weight: weight(c.Spec.FairSharing),
	}
}

// Queue translates a ClusterQueue. Whether its admission checks can be answered
// is left to the caller, which knows them.
func Queue(q *kueue.ClusterQueue) core.Queue {
	out := core.Queue{
		Name:       q.Name,
		Cohort:     string(q.Spec.CohortName),
		Groups:     groups(q.Spec.ResourceGroups),
		Strategy:   core.BestEffortFIFO,
		Stop:       core.StopPolicy(ptr.Deref(q.Spec.StopPolicy, kueue.StopPolicyNone)),
		Namespaces: selector(q.Spec.NamespaceSelector),
		Weight:     weight(q.Spec.FairSharing),
		// whenCanPreempt defaults to TryNextFlavor, whenCanBorrow to MayStopSearch.
		Fungibility: core.Fungibility{PreemptTriesNext: true},
		Preemption: core.Preemption{
			WithinQueue: core.PreemptNever, Reclaim: core.PreemptNever, WhileBorrow: core.PreemptNever,
		},
	}
	if q.Spec.QueueingStrategy == kueue.StrictFIFO {
		out.Strategy = core.StrictFIFO
	}
	if a := q.Spec.AdmissionScope; a != nil {
		out.UsageBased = a.AdmissionMode == kueue.UsageBasedAdmissionFairSharing
	}
	if q.DeletionTimestamp != nil {
		out.Inactive = "the ClusterQueue is being deleted"
	}
	if d, says := kueue.MinimumRuntimeOf(q.Annotations); says {
		out.MinimumRuntime = d
	}
	out.RelocationsPerHour = kueue.RelocationsPerHourOf(q.Annotations)
	if f := q.Spec.FlavorFungibility; f != nil {
		out.Fungibility = core.Fungibility{
			BorrowTriesNext:  f.WhenCanBorrow == kueue.TryNextFlavor,
			PreemptTriesNext: f.WhenCanPreempt == kueue.TryNextFlavor || f.WhenCanPreempt == "",
			PreferPreemption: ptr.Deref(f.Preference, kueue.BorrowingOverPreemption) == kueue.PreemptionOverBorrowing,
		}
	}
	if p := q.Spec.Preemption; p != nil {
		out.Preemption.WithinQueue = policy(string(p.WithinClusterQueue))
		out.Preemption.Reclaim = policy(string(p.ReclaimWithinCohort))
		if b := p.BorrowWithinCohort; b != nil {
			out.Preemption.WhileBorrow = policy(string(b.Policy))
			out.Preemption.MaxPriority = b.MaxPriorityThreshold
		}
	}
	out.Preemption.LeastLost = kueue.LeastLostWorkOf(q.Annotations)
	return out
}

// LocalQueue translates a LocalQueue.
func LocalQueue(q *kueue.LocalQueue) core.LocalQueue {
	out := core.LocalQueue{
		Namespace: q.Namespace,
		Name:      q.Name,
		Queue:     string(q.Spec.ClusterQueue),
		Stop:      core.StopPolicy(ptr.Deref(q.Spec.StopPolicy, kueue.StopPolicyNone)),
		Weight:    weight(q.Spec.FairSharing),
	}
	if f := q.Status.FairSharing; f != nil && f.AdmissionFairSharingStatus != nil {
		out.Consumed = consumed(f.AdmissionFairSharingStatus.ConsumedResources)
		out.ConsumedAt = f.AdmissionFairSharingStatus.LastUpdate.Time
	}
	return out
}

// consumed reads past usage: thousandths of base units.
func consumed(list corev1.ResourceList) core.Resources {
	m := make(map[string]core.Amount, len(list))
	for name, q := range list {
		a := core.Unlimited
		if q.CmpInt64(math.MaxInt64/1_000_000) < 0 {
			a = core.Amount(q.ScaledValue(thousandth(string(name))))
		}
		if a > 0 {
			m[string(name)] = a
		}
	}
	return core.MakeResources(m)
}

// ConsumedStatus is what the API remembers of past usage, which is in thousandths
// of base units.
func ConsumedStatus(used core.Resources, at time.Time) *kueue.AdmissionFairSharingStatus {
	list := corev1.ResourceList{}
	for _, u := range used {
		list[corev1.ResourceName(u.Resource)] = *resource.NewScaledQuantity(int64(u.Amount), thousandth(u.Resource))
	}
	return &kueue.AdmissionFairSharingStatus{ConsumedResources: list, LastUpdate: metav1.NewTime(at)}
}

// thousandth is the scale of a thousandth of a resource's base unit.
func thousandth(name string) resource.Scale {
	if name == core.CPU {
		return resource.Micro
	}
	return resource.Milli
}

// weight is a weight in billionths, rounded up; nil if none is given.
func weight(f *kueue.FairSharing) *core.Weight {
	if f == nil || f.Weight == nil {
		return nil
	}
	w := f.Weight.DeepCopy()
	if w.CmpInt64(int64(core.HeaviestWeight/core.WeightOne)) > 0 {
		return new(core.HeaviestWeight)
	}
	return new(core.Weight(w.ScaledValue(resource.Nano)))
}

func policy(s string) core.PreemptionPolicy {
	if s == "" {
		return core.PreemptNever
	}
	return core.PreemptionPolicy(s)
}

func groups(in []kueue.ResourceGroup) []core.ResourceGroup {
	out := make([]core.ResourceGroup, 0, len(in))
	for _, g := range in {
		var og core.ResourceGroup
		for _, r := range g.CoveredResources {
			og.Covered = append(og.Covered, string(r))
		}
		for _, f := range g.Flavors {
			of := core.FlavorQuotas{Flavor: string(f.Name)}
			for _, r := range f.Resources {
				q := core.Quota{Resource: string(r.Name), Nominal: Amount(r.Name, r.NominalQuota)}
				if r.BorrowingLimit != nil {
					q.Borrowing = new(Amount(r.Name, *r.BorrowingLimit))
				}
				if r.LendingLimit != nil {
					q.Lending = new(Amount(r.Name, *r.LendingLimit))
				}
				of.Quotas = append(of.Quotas, q)
			}
			og.Flavors = append(og.Flavors, of)
		}
		out = append(out, og)
	}
	return out
}
