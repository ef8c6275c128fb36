package queues

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// shortOf is a resource of a flavor of which some that is promised is missing.
type shortOf struct {
	flavor string
	nodehealth.Capacity
}

// setShort says of a ClusterQueue that some of what is promised of what it has a quota of is missing, and how much of its
// own is cut for that. The condition is there only while it is so.
func setShort(
	conditions *[]metav1.Condition,
	q *kueue.ClusterQueue,
	short []shortOf,
	load *core.Load,
	now time.Time,
) {
	if load == nil {
		return
	}
	var said []string
	reason := convert.ReasonQuotaKept
	for _, g := range convert.Queue(q).Groups {
		for _, f := range g.Flavors {
			for _, own := range f.Quotas {
				i := slices.IndexFunc(short, func(s shortOf) bool {
					return s.flavor == f.Flavor && s.Resource == own.Resource
				})
				if i < 0 || own.Nominal == 0 {
					continue
				}
				text := func(a core.Amount) string {
					quantity := convert.Quantity(own.Resource, a)
					return quantity.String()
				}
				line := fmt.Sprintf(
					"of %s %s of flavor %s that are promised %s are left while nodes are out of service",
					text(short[i].Promised), own.Resource, f.Flavor, text(short[i].Left(short[i].Promised)),
				)
				cut := load.Cut[core.FlavorResource{Flavor: f.Flavor, Resource: own.Resource}]
				if cut > 0 {
					reason = convert.ReasonQuotaCut
					line += fmt.Sprintf(", and the queue has %s of its %s", text(own.Nominal.Sub(cut)), text(own.Nominal))
				}
				said = append(said, line)
			}
		}
	}
	if len(said) == 0 {
		apimeta.RemoveStatusCondition(conditions, convert.CapacityShort)
		return
	}
	text := strings.Join(said, "; ")
	setCondition(conditions, metav1.Condition{
		Type: convert.CapacityShort, Status: metav1.ConditionTrue, Reason: reason,
		Message: strings.ToUpper(text[:1]) + text[1:], ObservedGeneration: q.Generation,
	}, now)
}
