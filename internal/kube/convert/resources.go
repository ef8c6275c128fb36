// Package convert translates Kubernetes objects to core values and back. It is
// the only place that does, and the only one where quantities, label selectors
// and affinities of Kubernetes are read. It makes copies at the border and
// changes nothing it is given.
package convert

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Amount returns q in base units of the named resource. Fractions of a base
// unit count as a whole one; what does not fit becomes core.Unlimited.
func Amount(name corev1.ResourceName, q resource.Quantity) core.Amount {
	scale := resource.Scale(0)
	limit := int64(math.MaxInt64)
	if name == corev1.ResourceCPU {
		scale, limit = resource.Milli, math.MaxInt64/1000
	}
	if q.Cmp(*resource.NewQuantity(limit, resource.DecimalSI)) >= 0 {
		return core.Unlimited
	}
	if q.Cmp(*resource.NewQuantity(-limit, resource.DecimalSI)) <= 0 {
		return -core.Unlimited
	}
	q = q.DeepCopy()
	q.RoundUp(scale) // ScaledValue by itself goes wrong with more digits than an int64 holds
	return core.Amount(q.ScaledValue(scale))
}

// Quantity is the inverse of Amount. It is spelled as it is spelled again
// when it is read and written: bytes that are no whole number of Ki are decimal.
func Quantity(name string, a core.Amount) resource.Quantity {
	switch name {
	case core.CPU:
		if a == core.Unlimited {
			return *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
		}
		return *resource.NewMilliQuantity(int64(a), resource.DecimalSI)
	case core.Memory, string(corev1.ResourceEphemeralStorage):
		if a%1024 == 0 {
			return *resource.NewQuantity(int64(a), resource.BinarySI)
		}
	}
	return *resource.NewQuantity(int64(a), resource.DecimalSI)
}

// Resources translates a resource list.
func Resources(list corev1.ResourceList) core.Resources {
	m := make(map[string]core.Amount, len(list))
	for name, q := range list {
		m[string(name)] = Amount(name, q)
	}
	return core.MakeResources(m)
}

// ResourceList is the inverse of Resources.
func ResourceList(r core.Resources) corev1.ResourceList {
	out := make(corev1.ResourceList, len(r))
	for _, q := range r {
		out[corev1.ResourceName(q.Resource)] = Quantity(q.Resource, q.Amount)
	}
	return out
}
