package view

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Share is what a queue or a team has of one resource of one flavor. Amounts are quantities, and absent where
// they are not known or have no meaning. Its JSON is stable.
// +kubebuilder:object:generate=true
type Share struct {
	// Flavor is the ResourceFlavor that the quota is of.
	Flavor string `json:"flavor"`
	// Resource is what amounts are of, such as nvidia.com/gpu.
	Resource string `json:"resource"`
	// Nominal is the quota of its own. Of a LocalQueue it is that of its ClusterQueue.
	Nominal string `json:"nominal,omitempty"`
	// Used is what its jobs have reserved.
	Used string `json:"used"`
	// QueueUsed is, of a LocalQueue, what all jobs of its ClusterQueue have reserved; Used is what its own have.
	QueueUsed string `json:"queueUsed,omitempty"`
	// Borrowed is how much of what is used is not its own, Lent how much of its own others have:
	// at most so much, where several lend.
	Borrowed string `json:"borrowed,omitempty"`
	Lent     string `json:"lent,omitempty"`
	// LentAtMost says that Lent is a bound.
	LentAtMost bool `json:"lentAtMost,omitempty"`
	// BorrowingLimit is how much more than its own it may use, LendingLimit how much of its own others may; ""
	// is without limit.
	BorrowingLimit string `json:"borrowingLimit,omitempty"`
	LendingLimit   string `json:"lendingLimit,omitempty"`
}

// AmountText is an amount of a resource as a quantity, to the last unit.
func AmountText(resource string, a core.Amount) string {
	if a == core.Unlimited {
		return anyAmount
	}
	q := convert.Quantity(resource, a)
	return cmp.Or(q.String(), "0")
}

// SharesOf are the quotas of a ClusterQueue, in the order of its spec, and what is used of them. lending is
// what is lent of a resource of a flavor; nil if that is not known.
func SharesOf(q *ClusterQueue, lending func(core.FlavorResource) Lending) []Share {
	var out []Share
	for _, f := range q.Flavors {
		for _, own := range f.Quotas {
			at := core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}
			text := func(a core.Amount) string { return AmountText(own.Resource, a) }
			s := Share{
				Flavor:   f.Flavor,
				Resource: own.Resource,
				Nominal:  text(own.Nominal),
				Used:     text(q.Reserved[at]),
			}
			if q.Cohort() != "" {
				s.Borrowed = text(q.Borrowed(own, q.Reserved[at]))
			}
			if q.Cohort() != "" && lending != nil {
				lent := lending(at).Queues[q.Name]
				s.Lent, s.LentAtMost = text(lent.Most), lent.AtMost()
			}
			if own.Borrowing != nil {
				s.BorrowingLimit = text(*own.Borrowing)
			}
			if own.Lending != nil {
				s.LendingLimit = text(*own.Lending)
			}
			out = append(out, s)
		}
	}
	return out
}

// SortShares sorts by flavor, GPUs before other resources.
func SortShares(shares []Share) {
	slices.SortStableFunc(shares, func(a, b Share) int {
		return gpusFirst(
			core.FlavorResource{Flavor: a.Flavor, Resource: a.Resource},
			core.FlavorResource{Flavor: b.Flavor, Resource: b.Resource},
		)
	})
}

// gpusFirst compares resources of flavors: by flavor, GPUs before other resources.
func gpusFirst(a, b core.FlavorResource) int {
	other := func(resource string) int {
		if IsGPU(resource) {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.Flavor, b.Flavor),
		cmp.Compare(other(a.Resource), other(b.Resource)),
		cmp.Compare(a.Resource, b.Resource),
	)
}

// MainResource is the resource that is told of if nobody says which: GPUs or, where there are none, the
// first; "" of none.
func MainResource(shares []Share) string {
	for _, s := range shares {
		if IsGPU(s.Resource) {
			return s.Resource
		}
	}
	if len(shares) > 0 {
		return shares[0].Resource
	}
	return ""
}

// SumOf is what shares have of a resource, of all flavors together, and how much of their own quota nobody
// uses. Amounts that are known of no flavor are absent.
func SumOf(shares []Share, resource string) (sum Share, unused string) {
	var nominal, used, queueUsed, borrowed, lent, left total
	for _, s := range shares {
		if s.Resource != resource {
			continue
		}
		used.add(resource, s.Used)
		queueUsed.add(resource, s.QueueUsed)
		borrowed.add(resource, s.Borrowed)
		lent.add(resource, s.Lent)
		if nominal.add(resource, s.Nominal) { // what one flavor has left is no use to another
			left.known = true
			left.amount = left.amount.Add(
				max(0, amountOf(resource, s.Nominal).Sub(amountOf(resource, cmp.Or(s.QueueUsed, s.Used)))),
			)
		}
		sum.LentAtMost = sum.LentAtMost || s.LentAtMost
	}
	sum.Resource, sum.Nominal, sum.Used, sum.QueueUsed = resource, nominal.text(
		resource,
	), used.text(
		resource,
	), queueUsed.text(
		resource,
	)
	sum.Borrowed, sum.Lent = borrowed.text(resource), lent.text(resource)
	return sum, left.text(resource)
}

// total is a sum of amounts that are known.
type total struct {
	amount core.Amount
	known  bool
}

// add adds an amount, and reports whether it is known: "" is not.
func (t *total) add(resource, text string) bool {
	if text == "" {
		return false
	}
	t.amount, t.known = t.amount.Add(amountOf(resource, text)), true
	return true
}

func (t *total) text(resource string) string {
	if !t.known {
		return ""
	}
	return AmountText(resource, t.amount)
}

// amountOf reads an amount of a view; what is no quantity, as that of a newer controller may be, is 0.
func amountOf(of, text string) core.Amount {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return convert.Amount(corev1.ResourceName(of), q)
}

// Kinds of queues.
const (
	KindClusterQueue = "ClusterQueue"
	KindCohort       = "Cohort"
	KindLocalQueue   = "LocalQueue"
)

// Queue is how a ClusterQueue, a Cohort or a LocalQueue stands. Its JSON is stable.
// +kubebuilder:object:generate=true
type Queue struct {
	// Kind is ClusterQueue, Cohort or LocalQueue.
	Kind string `json:"kind"`
	// Namespace is that of a LocalQueue.
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the queue or cohort.
	Name string `json:"name"`
	// Parent is the cohort of a ClusterQueue or Cohort, or the ClusterQueue of a LocalQueue; "" is none.
	Parent string `json:"parent,omitempty"`
	// Shares are its quotas and what is used of them. Those of a cohort are the sum of what is in it and of its
	// own.
	Shares []Share `json:"resources,omitempty"`
	// WeightedShare is the share by which fair sharing compares it with others, in thousandths; absent without
	// fair sharing.
	WeightedShare *int64 `json:"weightedShare,omitempty"`
	// Running is how many of its jobs are admitted, Waiting how many wait.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// State is active, or why it is not. Cohorts have none.
	State string `json:"state,omitempty"`
}

// Team is how a team stands: a namespace with a quota and people. Its JSON is stable.
// +kubebuilder:object:generate=true
type Team struct {
	// Name is that of its namespace.
	Name string `json:"name"`
	// LocalQueues are where it submits, ClusterQueue the one whose quota the usual of them uses.
	LocalQueues  []string `json:"localQueues,omitempty"`
	ClusterQueue string   `json:"clusterQueue,omitempty"`
	// Cohort is that of its ClusterQueue.
	Cohort string `json:"cohort,omitempty"`
	// State is that of its ClusterQueue, active or why not.
	State string `json:"state,omitempty"`
	// Shares are its quotas and what it has of them.
	Shares []Share `json:"resources,omitempty"`
	// Shared names other teams with the same quota, whose use is in these numbers.
	Shared []string `json:"sharedWith,omitempty"`
	// Running is how many of its jobs are admitted, Waiting how many wait.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// People may submit.
	People []string `json:"people,omitempty"`
	// Unread is what whoever asks may not read.
	Unread []string `json:"unread,omitempty"`
	// Deleting says that its namespace is on its way out.
	Deleting bool `json:"deleting,omitempty"`
}
