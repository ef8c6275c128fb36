package bench_test

import (
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// shape is the size of a job.
type shape struct {
	pods, gpus int32
	// seconds is how long its pods sleep.
	seconds int
}

// kind is a way to submit a job.
type kind struct {
	name      string
	namespace string
	// object makes the job of a name.
	object func(name string, s shape) client.Object
	list   func() client.ObjectList
	// done reports whether the job of a watch event has succeeded.
	done func(runtime.Object) bool
}

// kinds are measured in this order.
func kinds() []kind {
	return []kind{
		{
			name: "Job", namespace: team,
			object: func(name string, s shape) client.Object { return job(name, s) },
			list:   func() client.ObjectList { return &batchv1.JobList{} },
			done:   jobComplete,
		},
		{
			name: "AppWrapper", namespace: team,
			object: func(name string, s shape) client.Object { return appWrapper(name, s) },
			list:   func() client.ObjectList { return &aw.AppWrapperList{} },
			done: func(o runtime.Object) bool {
				w, ok := o.(*aw.AppWrapper)
				return ok && w.Status.Phase == aw.AppWrapperSucceeded
			},
		},
	}
}

// bare is a Job that knows of no queue: Kubernetes alone, for comparison. All its
// pods fit at once.
func bare() kind {
	return kind{
		name: "Bare", namespace: metav1.NamespaceDefault,
		object: func(name string, s shape) client.Object {
			s.gpus = 0
			j := plainJob(name, s)
			j.Namespace = metav1.NamespaceDefault
			return j
		},
		list: func() client.ObjectList { return &batchv1.JobList{} },
		done: jobComplete,
	}
}

func jobComplete(o runtime.Object) bool {
	j, ok := o.(*batchv1.Job)
	if !ok {
		return false
	}
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// job is a batch/v1 Job in the team's queue.
func job(name string, s shape) *batchv1.Job {
	j := plainJob(name, s)
	j.Namespace = team
	j.Labels = map[string]string{kueue.QueueNameLabel: queue}
	return j
}

// appWrapper wraps the same job.
func appWrapper(name string, s shape) *aw.AppWrapper {
	raw, err := json.Marshal(plainJob(name, s))
	if err != nil {
		panic(err) // a Job can always be encoded
	}
	return &aw.AppWrapper{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: team,
			Name:      name,
			Labels:    map[string]string{kueue.QueueNameLabel: queue},
		},
		Spec: aw.AppWrapperSpec{
			Components: []aw.AppWrapperComponent{{Template: runtime.RawExtension{Raw: raw}}},
		},
	}
}

func plainJob(name string, s shape) *batchv1.Job {
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Parallelism: new(s.pods), Completions: new(s.pods),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{
					Name: "work", Image: "busybox:1.36", Command: []string{"sh", "-c", fmt.Sprintf("sleep %d", s.seconds)},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
						"nvidia.com/gpu": *resource.NewQuantity(int64(s.gpus), resource.DecimalSI),
					}},
				}},
			}},
		},
	}
}
