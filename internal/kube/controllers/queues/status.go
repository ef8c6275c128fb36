package queues

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// mostFlavors is how many flavors a status can list.
const mostFlavors = 64

// queueStatus returns the status that a ClusterQueue should have. While the
// tally is not known (nil), the numbers stay as they are.
func queueStatus(q *kueue.ClusterQueue, active metav1.Condition, t *Tally, now time.Time) kueue.ClusterQueueStatus {
	s := q.Status.DeepCopy()
	setCondition(&s.Conditions, active, now)
	if t == nil {
		return *s
	}
	s.PendingWorkloads = t.Pending + t.Inadmissible
	s.ReservingWorkloads = t.Reserving
	s.AdmittedWorkloads = t.Admitted
	s.FlavorsReservation = queueUsage(q, t.Reserved)
	s.FlavorsUsage = queueUsage(q, t.Used)
	s.FairSharing = nil
	if t.Share != nil {
		s.FairSharing = &kueue.FairSharingStatus{WeightedShare: t.Share.Rounded}
	}
	return *s
}

// queueUsage lists what is used of every flavor and resource of the spec, in
// its order.
func queueUsage(q *kueue.ClusterQueue, used map[core.FlavorResource]core.Amount) []kueue.FlavorUsage {
	var out []kueue.FlavorUsage
	for _, f := range flavorsOf(q) {
		u := kueue.FlavorUsage{Name: f.Name}
		for _, r := range f.Resources {
			total := used[core.FlavorResource{Flavor: string(f.Name), Resource: string(r.Name)}]
			borrowed := core.Amount(0)
			if q.Spec.CohortName != "" {
				borrowed = max(0, total.Sub(convert.Amount(r.Name, r.NominalQuota)))
			}
			u.Resources = append(u.Resources, kueue.ResourceUsage{
				Name: r.Name, Total: convert.Quantity(string(r.Name), total), Borrowed: convert.Quantity(string(r.Name), borrowed),
			})
		}
		out = append(out, u)
	}
	return out[:min(len(out), mostFlavors)]
}

// localQueueStatus returns the status that a LocalQueue should have. While the
// tally is not known (nil), the numbers stay as they are. behind is its
// ClusterQueue; nil if there is none.
func localQueueStatus(q *kueue.LocalQueue, behind *kueue.ClusterQueue, active metav1.Condition, t *Tally, now time.Time) kueue.LocalQueueStatus {
	s := q.Status.DeepCopy()
	setCondition(&s.Conditions, active, now)
	if t == nil {
		return *s
	}
	s.PendingWorkloads = t.Pending + t.Inadmissible
	s.ReservingWorkloads = t.Reserving
	s.AdmittedWorkloads = t.Admitted
	s.FlavorsReservation = localQueueUsage(behind, t.Reserved)
	s.FlavorsUsage = localQueueUsage(behind, t.Used)
	remember(s, behind, t)
	return *s
}

// remember keeps past usage for the next start of the controller, of every
// resource of the queue.
func remember(s *kueue.LocalQueueStatus, behind *kueue.ClusterQueue, t *Tally) {
	if t.ConsumedAt.IsZero() {
		return
	}
	if s.FairSharing == nil {
		s.FairSharing = &kueue.LocalQueueFairSharingStatus{}
	}
	now := convert.ConsumedStatus(t.Consumed, t.ConsumedAt)
	for _, f := range flavorsOf(behind) {
		for _, r := range f.Resources {
			if _, used := now.ConsumedResources[r.Name]; !used {
				now.ConsumedResources[r.Name] = resource.Quantity{Format: resource.DecimalSI}
			}
		}
	}
	old := s.FairSharing.AdmissionFairSharingStatus
	if old == nil || old.LastUpdate.Unix() != now.LastUpdate.Unix() || !equality.Semantic.DeepEqual(old.ConsumedResources, now.ConsumedResources) {
		s.FairSharing.AdmissionFairSharingStatus = now
	}
}

func localQueueUsage(behind *kueue.ClusterQueue, used map[core.FlavorResource]core.Amount) []kueue.LocalQueueFlavorUsage {
	var out []kueue.LocalQueueFlavorUsage
	for _, f := range flavorsOf(behind) {
		u := kueue.LocalQueueFlavorUsage{Name: f.Name}
		for _, r := range f.Resources {
			total := used[core.FlavorResource{Flavor: string(f.Name), Resource: string(r.Name)}]
			u.Resources = append(u.Resources, kueue.LocalQueueResourceUsage{Name: r.Name, Total: convert.Quantity(string(r.Name), total)})
		}
		out = append(out, u)
	}
	return out[:min(len(out), mostFlavors)]
}

// flavorsOf lists the flavors of a ClusterQueue in the order of its spec.
func flavorsOf(q *kueue.ClusterQueue) []kueue.FlavorQuotas {
	if q == nil {
		return nil
	}
	var out []kueue.FlavorQuotas
	for _, g := range q.Spec.ResourceGroups {
		out = append(out, g.Flavors...)
	}
	return out
}

func setCondition(all *[]metav1.Condition, c metav1.Condition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	apimeta.SetStatusCondition(all, c)
}

// queueGauge is what the gauges show of a ClusterQueue.
func queueGauge(q *kueue.ClusterQueue, around surroundings, active metav1.Condition, t Tally) metrics.Queue {
	out := metrics.Queue{
		Name: q.Name, Cohort: string(q.Spec.CohortName), Cohorts: around.cohorts, Status: metrics.StatusActive,
		Pending: t.Pending, Inadmissible: t.Inadmissible, Reserving: t.Reserving, Admitted: t.Admitted,
	}
	if t.Share != nil {
		out.Share = &t.Share.Exact
	}
	switch {
	case active.Reason == kueue.ReasonTerminating:
		out.Status = metrics.StatusTerminating
	case active.Status != metav1.ConditionTrue:
		out.Status = metrics.StatusPending
	}
	for _, f := range flavorsOf(q) {
		for _, r := range f.Resources {
			fr := core.FlavorResource{Flavor: string(f.Name), Resource: string(r.Name)}
			row := metrics.QueueResource{
				FlavorResource: fr, Nominal: convert.Amount(r.Name, r.NominalQuota), Reserved: t.Reserved[fr], Used: t.Used[fr],
			}
			if r.BorrowingLimit != nil {
				row.Borrowing = new(convert.Amount(r.Name, *r.BorrowingLimit))
			}
			if r.LendingLimit != nil {
				row.Lending = new(convert.Amount(r.Name, *r.LendingLimit))
			}
			out.Resources = append(out.Resources, row)
		}
	}
	return out
}

// localQueueGauge is what the gauges show of a LocalQueue.
func localQueueGauge(q *kueue.LocalQueue, behind *kueue.ClusterQueue, active metav1.Condition, t Tally) metrics.LocalQueue {
	out := metrics.LocalQueue{
		Namespace: q.Namespace, Name: q.Name, ClusterQueue: string(q.Spec.ClusterQueue), Labels: q.Labels, Active: string(active.Status),
		Pending: t.Pending, Inadmissible: t.Inadmissible, Reserving: t.Reserving, Admitted: t.Admitted,
	}
	for _, f := range flavorsOf(behind) {
		for _, r := range f.Resources {
			fr := core.FlavorResource{Flavor: string(f.Name), Resource: string(r.Name)}
			out.Resources = append(out.Resources, metrics.LocalQueueResource{FlavorResource: fr, Reserved: t.Reserved[fr], Used: t.Used[fr]})
		}
	}
	return out
}
