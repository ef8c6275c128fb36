package convert

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// CapacityAnnotation on a ResourceFlavor says how its capacity stands, and whether quotas are cut for it.
const CapacityAnnotation = "mlbatch.dev/capacity"

// CapacityShort is the condition of a ClusterQueue that more is promised of a flavor of its own than is healthy.
const CapacityShort = "mlbatch.dev/CapacityShort"

// Reasons of CapacityShort.
const (
	ReasonQuotaCut  = "QuotaCut"  // its quota is cut for now
	ReasonQuotaKept = "QuotaKept" // its quota stays, and is not all there
)

// capacity is a resource in the annotation.
type capacity struct {
	Resource   string            `json:"resource"`
	Planned    resource.Quantity `json:"planned"`
	Present    resource.Quantity `json:"present"`
	Healthy    resource.Quantity `json:"healthy"`
	Promised   resource.Quantity `json:"promised"`
	OnDemand   bool              `json:"onDemand,omitempty"`
	LostSince  *time.Time        `json:"lostSince,omitempty"`
	ShortSince *time.Time        `json:"shortSince,omitempty"`
	Cut        bool              `json:"cut,omitempty"`
	Spares     int               `json:"spares,omitempty"`
}

// Capacities are what the annotation of a flavor says; nothing if it has none, or it cannot be read.
func Capacities(f *kueue.ResourceFlavor) []nodehealth.Capacity {
	all, _ := CapacitiesOf(f)
	return all
}

// CapacitiesOf is Capacities, and whether the annotation is there and can be read.
func CapacitiesOf(f *kueue.ResourceFlavor) (is []nodehealth.Capacity, says bool) {
	var all []capacity
	if f == nil || json.Unmarshal([]byte(f.Annotations[CapacityAnnotation]), &all) != nil {
		return nil, false
	}
	out := make([]nodehealth.Capacity, len(all))
	for i, c := range all {
		name := corev1.ResourceName(c.Resource)
		out[i] = nodehealth.Capacity{
			Resource: c.Resource,
			Planned:  Amount(name, c.Planned), Present: Amount(name, c.Present),
			Healthy: Amount(name, c.Healthy), Promised: Amount(name, c.Promised),
			OnDemand: c.OnDemand, Cut: c.Cut, Spares: c.Spares,
		}
		if c.LostSince != nil {
			out[i].LostSince = *c.LostSince
		}
		if c.ShortSince != nil {
			out[i].ShortSince = *c.ShortSince
		}
	}
	return out, true
}

// CapacitiesText is what the annotation says.
func CapacitiesText(all []nodehealth.Capacity) (string, error) {
	out := make([]capacity, len(all))
	for i, c := range all {
		out[i] = capacity{
			Resource: c.Resource,
			Planned:  Quantity(c.Resource, c.Planned), Present: Quantity(c.Resource, c.Present),
			Healthy: Quantity(c.Resource, c.Healthy), Promised: Quantity(c.Resource, c.Promised),
			OnDemand: c.OnDemand, Cut: c.Cut, Spares: c.Spares,
		}
		if !c.LostSince.IsZero() {
			out[i].LostSince = &all[i].LostSince
		}
		if !c.ShortSince.IsZero() {
			out[i].ShortSince = &all[i].ShortSince
		}
	}
	text, err := json.Marshal(out)
	return string(text), err
}
