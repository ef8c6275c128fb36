package queues

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// mostFlavors is how many flavors a status can list.
const mostFlavors = 64

// queueStatus returns the status that a ClusterQueue should have. While it is not
// known how full it is (nil), the numbers stay as they are.
func queueStatus(
	q *kueue.ClusterQueue,
	active metav1.Condition,
	load *core.Load,
	now time.Time,
) kueue.ClusterQueueStatus {
	s := q.Status.DeepCopy()
	setCondition(&s.Conditions, active, now)
	if load == nil {
		return *s
	}
	f := view.ClusterQueueOf(q, &active, *load)
	s.PendingWorkloads = clip(f.Waiting())
	s.ReservingWorkloads = clip(f.Reserving)
	s.AdmittedWorkloads = clip(f.Admitted)
	s.FlavorsReservation = queueUsage(&f, f.Reserved)
	s.FlavorsUsage = queueUsage(&f, f.Used)
	s.FairSharing = nil
	if f.Share != nil {
		s.FairSharing = &kueue.FairSharingStatus{WeightedShare: f.Share.Rounded}
	}
	return *s
}

// clip is a count as the API has room for it.
func clip(n int) int32 { return int32(min(n, 1<<31-1)) } //nolint:gosec // bounded on this line

// queueUsage lists what is used of every flavor and resource of the spec, in
// its order.
func queueUsage(q *view.ClusterQueue, used map[core.FlavorResource]core.Amount) []kueue.FlavorUsage {
	var out []kueue.FlavorUsage
	for _, f := range q.Flavors {
		u := kueue.FlavorUsage{Name: kueue.ResourceFlavorReference(f.Flavor)}
		for _, r := range f.Quotas {
			total := used[core.FlavorResource{Flavor: f.Flavor, Resource: r.Resource}]
			u.Resources = append(u.Resources, kueue.ResourceUsage{
				Name: corev1.ResourceName(r.Resource), Total: convert.Quantity(r.Resource, total),
				Borrowed: convert.Quantity(r.Resource, q.Borrowed(r, total)),
			})
		}
		out = append(out, u)
	}
	return out[:min(len(out), mostFlavors)]
}

// localQueueStatus returns the status that a LocalQueue should have. While it is not
// known how full it is (nil), the numbers stay as they are. behind is its
// ClusterQueue; nil if there is none.
func localQueueStatus(
	q *kueue.LocalQueue,
	behind *kueue.ClusterQueue,
	active metav1.Condition,
	load *core.Load,
	now time.Time,
) kueue.LocalQueueStatus {
	s := q.Status.DeepCopy()
	setCondition(&s.Conditions, active, now)
	if load == nil {
		return *s
	}
	f := view.LocalQueueOf(q, behind, active, *load)
	s.PendingWorkloads = clip(f.Waiting())
	s.ReservingWorkloads = clip(f.Reserving)
	s.AdmittedWorkloads = clip(f.Admitted)
	s.FlavorsReservation = localQueueUsage(f.Flavors, f.Reserved)
	s.FlavorsUsage = localQueueUsage(f.Flavors, f.Used)
	remember(s, &f)
	return *s
}

// remember keeps past usage for the next start of the controller, of every
// resource of the queue.
func remember(s *kueue.LocalQueueStatus, q *view.LocalQueue) {
	if q.ConsumedAt.IsZero() {
		return
	}
	if s.FairSharing == nil {
		s.FairSharing = &kueue.LocalQueueFairSharingStatus{}
	}
	now := convert.ConsumedStatus(q.Consumed, q.ConsumedAt)
	for _, f := range q.Flavors {
		for _, r := range f.Quotas {
			name := corev1.ResourceName(r.Resource)
			if _, used := now.ConsumedResources[name]; !used {
				now.ConsumedResources[name] = resource.Quantity{Format: resource.DecimalSI}
			}
		}
	}
	old := s.FairSharing.AdmissionFairSharingStatus
	if old == nil || old.LastUpdate.Unix() != now.LastUpdate.Unix() ||
		!equality.Semantic.DeepEqual(old.ConsumedResources, now.ConsumedResources) {
		s.FairSharing.AdmissionFairSharingStatus = now
	}
}

func localQueueUsage(
	flavors []core.FlavorQuotas,
	used map[core.FlavorResource]core.Amount,
) []kueue.LocalQueueFlavorUsage {
	var out []kueue.LocalQueueFlavorUsage
	for _, f := range flavors {
		u := kueue.LocalQueueFlavorUsage{Name: kueue.ResourceFlavorReference(f.Flavor)}
		for _, r := range f.Quotas {
			total := used[core.FlavorResource{Flavor: f.Flavor, Resource: r.Resource}]
			u.Resources = append(
				u.Resources,
				kueue.LocalQueueResourceUsage{
					Name:  corev1.ResourceName(r.Resource),
					Total: convert.Quantity(r.Resource, total),
				},
			)
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
