package kubeflow

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Bounds are those of a job's number of workers: fields of the object, which may be
// filled in.
type Bounds struct {
	Least, Most **int32
	// Metrics are what an autoscaler chooses the number by; without any there is none.
	Metrics []autoscalingv2.MetricSpec
}

func (v *Variant) bounds(j api.Job) *Bounds {
	if v.Elastic == nil {
		return nil
	}
	return v.Elastic(j)
}

// fillBounds fills in what is missing: the number of workers that there is.
func (v *Variant) fillBounds(j api.Job) {
	b, worker := v.bounds(j), (*j.Roles())[api.RoleWorker]
	if b == nil || worker == nil {
		return
	}
	n := ptr.Deref(worker.Replicas, 1)
	if *b.Least == nil {
		*b.Least = new(min(n, ptr.Deref(*b.Most, n)))
	}
	if *b.Most == nil {
		*b.Most = new(max(n, **b.Least))
	}
}

// checkBounds finds what is wrong with them.
func (v *Variant) checkBounds(r *Reading) field.ErrorList {
	b := v.bounds(r.Job)
	if b == nil {
		return nil
	}
	at := field.NewPath("spec", "elasticPolicy")
	if r.Role(api.RoleWorker) == nil {
		return field.ErrorList{
			field.Forbidden(at, "it is about the number of workers: add the role Worker, or remove it"),
		}
	}
	var errs field.ErrorList
	for _, bound := range []struct {
		name string
		n    int32
	}{{"minReplicas", **b.Least}, {"maxReplicas", **b.Most}} {
		if bound.n < 1 || bound.n > mostPods {
			errs = append(
				errs,
				field.Invalid(at.Child(bound.name), bound.n, fmt.Sprintf("use a number from 1 to %d", mostPods)),
			)
		}
	}
	if **b.Least > **b.Most {
		errs = append(
			errs,
			field.Invalid(
				at.Child("minReplicas"),
				**b.Least,
				fmt.Sprintf("use at most %d, which is maxReplicas", **b.Most),
			),
		)
	}
	return errs
}

// artifacts are the autoscaler that changes how many workers there are, of the name of the
// job, if its author says by what.
func (v *Variant) artifacts(j api.Job) ([]jobs.Artifact, error) {
	r := v.read(j)
	b := v.bounds(r.Job)
	if b == nil || len(b.Metrics) == 0 {
		return nil, nil
	}
	return []jobs.Artifact{{Object: &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{
			Name:   j.GetName(),
			Labels: map[string]string{api.JobNameLabel: j.GetName(), api.OperatorNameLabel: v.operator()},
		},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: v.gvk().GroupVersion().String(),
				Kind:       v.Kind,
				Name:       j.GetName(),
			},
			MinReplicas: *b.Least,
			MaxReplicas: **b.Most,
			Metrics:     b.Metrics,
		},
	}}}, nil
}
