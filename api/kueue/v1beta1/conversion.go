package v1beta1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Annotations that keep what one version cannot hold, so that reading and
// writing an object through the other version changes nothing. Each holds the
// JSON of the fields in question. What is kept is believed only where it agrees
// with the converted object, since that may have been edited in between.
const (
	// OnlyV1beta1Annotation on a v1beta2 object keeps what only v1beta1 has.
	OnlyV1beta1Annotation = "mlbatch.dev/v1beta1-only"
	// OnlyV1beta2Annotation on a v1beta1 object keeps what only v1beta2 has.
	OnlyV1beta2Annotation = "mlbatch.dev/v1beta2-only"
)

// keep writes v to the annotation, unless it is the zero value.
func keep[T any](o metav1.Object, annotation string, v T) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("keep what the other version cannot hold: %w", err)
	}
	if string(data) == "{}" {
		return nil
	}
	all := o.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[annotation] = string(data)
	o.SetAnnotations(all)
	return nil
}

// recall reads what keep wrote and removes the annotation. An annotation that
// cannot be read is as good as none: an error would make the object unreadable
// for everyone.
func recall[T any](o metav1.Object, annotation string) T {
	var v, none T
	all := o.GetAnnotations()
	data, ok := all[annotation]
	if !ok {
		return none
	}
	delete(all, annotation)
	if len(all) == 0 {
		o.SetAnnotations(nil)
	}
	if json.Unmarshal([]byte(data), &v) != nil {
		return none
	}
	return v
}

// ConvertTo writes the Cohort to out, which is of the hub version.
func (in *Cohort) ConvertTo(out *v1beta2.Cohort) error {
	src := in.DeepCopy()
	out.ObjectMeta, out.Spec, out.Status = src.ObjectMeta, src.Spec, src.Status
	return nil
}

// ConvertFrom fills the Cohort from the hub version.
func (in *Cohort) ConvertFrom(hub *v1beta2.Cohort) error {
	src := hub.DeepCopy()
	in.ObjectMeta, in.Spec, in.Status = src.ObjectMeta, src.Spec, src.Status
	return nil
}

// ConvertTo writes the ResourceFlavor to out, which is of the hub version.
func (in *ResourceFlavor) ConvertTo(out *v1beta2.ResourceFlavor) error {
	src := in.DeepCopy()
	out.ObjectMeta, out.Spec = src.ObjectMeta, src.Spec
	return nil
}

// ConvertFrom fills the ResourceFlavor from the hub version.
func (in *ResourceFlavor) ConvertFrom(hub *v1beta2.ResourceFlavor) error {
	src := hub.DeepCopy()
	in.ObjectMeta, in.Spec = src.ObjectMeta, src.Spec
	return nil
}

// ConvertTo writes the Topology to out, which is of the hub version.
func (in *Topology) ConvertTo(out *v1beta2.Topology) error {
	src := in.DeepCopy()
	out.ObjectMeta, out.Spec = src.ObjectMeta, src.Spec
	return nil
}

// ConvertFrom fills the Topology from the hub version.
func (in *Topology) ConvertFrom(hub *v1beta2.Topology) error {
	src := hub.DeepCopy()
	in.ObjectMeta, in.Spec = src.ObjectMeta, src.Spec
	return nil
}

// ConvertTo writes the WorkloadPriorityClass to out, which is of the hub
// version.
func (in *WorkloadPriorityClass) ConvertTo(out *v1beta2.WorkloadPriorityClass) error {
	src := in.DeepCopy()
	out.ObjectMeta, out.Value, out.Description = src.ObjectMeta, src.Value, src.Description
	return nil
}

// ConvertFrom fills the WorkloadPriorityClass from the hub version.
func (in *WorkloadPriorityClass) ConvertFrom(hub *v1beta2.WorkloadPriorityClass) error {
	src := hub.DeepCopy()
	in.ObjectMeta, in.Value, in.Description = src.ObjectMeta, src.Value, src.Description
	return nil
}
