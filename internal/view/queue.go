package view

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// QueueState is what a ClusterQueue can do.
type QueueState string

// The states of a ClusterQueue.
const (
	QueueUnknown     QueueState = ""            // no controller has said
	QueuePending     QueueState = "pending"     // it cannot admit
	QueueActive      QueueState = "active"      // it can
	QueueTerminating QueueState = "terminating" // it is being deleted
)

// ClusterQueue is a ClusterQueue in typed amounts, as status and metrics are made of it.
type ClusterQueue struct {
	Name string
	// Cohorts are those above the queue, the nearest first, as far as they are known.
	Cohorts []string
	State   QueueState
	// Reason is why it is in that state, as its condition Active has it.
	Reason string
	// Short is the reason of its condition convert.CapacityShort; "" if what was promised to it is healthy.
	Short string
	// Flavors are its quotas, in the order of the spec.
	Flavors []core.FlavorQuotas
	core.Load
}

// ClusterQueueOf is a ClusterQueue that is as active says, nil if that is not known, and as
// full as load.
func ClusterQueueOf(q *kueue.ClusterQueue, active *metav1.Condition, load core.Load) ClusterQueue {
	out := ClusterQueue{Name: q.Name, Flavors: Flavors(q), Load: load}
	if q.Spec.CohortName != "" {
		out.Cohorts = []string{string(q.Spec.CohortName)}
	}
	if active == nil {
		return out
	}
	out.Reason = active.Reason
	switch {
	case active.Reason == kueue.ReasonTerminating:
		out.State = QueueTerminating
	case active.Status != metav1.ConditionTrue:
		out.State = QueuePending
	default:
		out.State = QueueActive
	}
	return out
}

// Cohort is the one that it is in, "" for none.
func (q *ClusterQueue) Cohort() string {
	if len(q.Cohorts) == 0 {
		return ""
	}
	return q.Cohorts[0]
}

// Borrowed is how much of an amount of one of its quotas is not its own: what is
// above the nominal quota, if another queue could lend.
func (q *ClusterQueue) Borrowed(of core.Quota, amount core.Amount) core.Amount {
	if q.Cohort() == "" {
		return 0
	}
	return max(0, amount.Sub(of.Nominal))
}

// Sum is how much of a resource is reserved in the queue, and how much is its own,
// of all flavors together.
func (q *ClusterQueue) Sum(resource string) (reserved, nominal core.Amount) {
	for _, f := range q.Flavors {
		for _, own := range f.Quotas {
			if own.Resource == resource {
				reserved = reserved.Add(q.Reserved[core.FlavorResource{Flavor: f.Flavor, Resource: resource}])
				nominal = nominal.Add(own.Nominal)
			}
		}
	}
	return reserved, nominal
}

// Flavors are the quotas of a ClusterQueue in the order of its spec; none of nil.
func Flavors(q *kueue.ClusterQueue) []core.FlavorQuotas {
	if q == nil {
		return nil
	}
	var out []core.FlavorQuotas
	for _, g := range convert.Queue(q).Groups {
		out = append(out, g.Flavors...)
	}
	return out
}

// LoadOf is how full a ClusterQueue was when its status was written. That says
// neither which are parked nor the exact share.
func LoadOf(s kueue.ClusterQueueStatus) core.Load {
	return core.Load{
		Pending: int(s.PendingWorkloads), Reserving: int(s.ReservingWorkloads), Admitted: int(s.AdmittedWorkloads),
		Reserved: amounts(s.FlavorsReservation), Used: amounts(s.FlavorsUsage),
	}
}

func amounts(usage []kueue.FlavorUsage) map[core.FlavorResource]core.Amount {
	out := map[core.FlavorResource]core.Amount{}
	for _, f := range usage {
		for _, r := range f.Resources {
			out[core.FlavorResource{Flavor: string(f.Name), Resource: string(r.Name)}] = convert.Amount(
				r.Name,
				r.Total,
			)
		}
	}
	return out
}

// LocalQueue is a LocalQueue.
type LocalQueue struct {
	Namespace, Name string
	// Queue is the ClusterQueue that it leads to.
	Queue string
	// Labels are those of the object.
	Labels map[string]string
	// Active is the status of its condition of that name.
	Active metav1.ConditionStatus
	// Flavors are the quotas of its ClusterQueue, none if there is no such queue.
	Flavors []core.FlavorQuotas
	core.Load
}

// LocalQueueOf is a LocalQueue that is as active says and as full as load. behind is
// its ClusterQueue; nil if there is none.
func LocalQueueOf(
	q *kueue.LocalQueue,
	behind *kueue.ClusterQueue,
	active metav1.Condition,
	load core.Load,
) LocalQueue {
	return LocalQueue{
		Namespace: q.Namespace, Name: q.Name, Queue: string(q.Spec.ClusterQueue), Labels: q.Labels,
		Active: active.Status, Flavors: Flavors(behind), Load: load,
	}
}
