package gather

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
)

// OtherJob is what a job of another kind than Job says of itself; nil if there is none, or the kind is
// none of jobs.
func OtherJob(kind view.Kind, o jobs.Object) *view.Other {
	k := KindOf(kind)
	if o == nil || k == nil {
		return nil
	}
	x := &view.Other{Queue: o.GetLabels()[kueue.QueueNameLabel]}
	if !k.Ours(o) {
		x.Manager = managerOf(k, o)
	}
	if f, err := k.Read(o); err == nil && f.Finished != nil {
		name := view.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		message := strings.TrimPrefix(f.Finished.Message, name.String()+" failed: ")
		x.Ended, x.Succeeded, x.Message, x.At = true, f.Finished.Success, message, o.GetCreationTimestamp().Time
		if k.Running.Operator != nil {
			if ended := k.Running.Operator.StateOfStatus(o).Ended; !ended.IsZero() {
				x.At = ended
			}
		}
	}
	return x
}

// managerOf is the controller that a job names, beside the field that suspends it.
func managerOf(k *jobs.Kind, o jobs.Object) string {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return "another controller"
	}
	at := append(slices.Clone(k.Queueing.SuspendPath[:len(k.Queueing.SuspendPath)-1]), "managedBy")
	name, _, _ := unstructured.NestedString(raw, at...)
	return cmp.Or(name, "another controller")
}

// KindOf is what is known of a kind of job; nil if it is none.
func KindOf(k view.Kind) *jobs.Kind {
	all := kinds.All()
	for i := range all {
		if all[i].GVK().Kind == string(k) {
			return &all[i]
		}
	}
	return nil
}

// Held reports whether a pod is queued by itself.
func Held(pod *corev1.Pod) bool { return pod.Labels[kueue.ManagedLabel] == "true" }

// WorkloadOf names the Workload that a pod belongs to; "" for one that is queued alone,
// which is the job of its Workload itself.
func WorkloadOf(pod *corev1.Pod) string {
	if Held(pod) {
		return GroupOf(pod)
	}
	return pod.Annotations[kueue.WorkloadAnnotation]
}

// GroupOf is the group that a pod is queued with, whose name its Workload has; "" if
// it is queued alone, or with its job.
func GroupOf(pod *corev1.Pod) string {
	if !Held(pod) {
		return ""
	}
	return pod.Labels[kueue.PodGroupNameLabel]
}

// Set is an object that is no job but makes pods or Jobs, and its kind.
type Set struct {
	Kind   view.Kind
	Object client.Object
}

// Sets are empty objects; one that consists of groups comes before the StatefulSet that it makes, which has
// its name.
func Sets() []Set {
	var out []Set
	for _, k := range serving.Grouped() {
		out = append(out, Set{view.Kind(k.GVK.Kind), k.New()})
	}
	return append(out,
		Set{view.KindStatefulSet, &appsv1.StatefulSet{}},
		Set{view.KindReplicaSet, &appsv1.ReplicaSet{}},
		Set{view.KindCronJob, &batchv1.CronJob{}},
		Set{view.KindDaemonSet, &appsv1.DaemonSet{}},
	)
}

// ListOfGroups is an empty list of objects that consist of groups of pods.
func ListOfGroups(k *jobs.GroupedKind) (client.ObjectList, error) { return listOf(k.GVK) }

// Grouped is the kind of objects that consist of groups of pods, as LeaderWorkerSets do; nil if k is none.
func Grouped(k view.Kind) *jobs.GroupedKind { return serving.GroupedNamed(string(k)) }

// IsSet reports whether objects of a kind make pods or Jobs, and are no jobs.
func IsSet(k view.Kind) bool {
	return slices.ContainsFunc(Sets(), func(s Set) bool { return s.Kind == k })
}

// submittedAs is the object that a user made and a pod that is queued by itself, or in a group, is
// part of: a Deployment, a StatefulSet, a LeaderWorkerSet, or the pod itself.
func submittedAs(w *kueue.Workload, pod *corev1.Pod) (view.Kind, string) {
	if kind, name := convert.Owner(w); kind.Kind != string(view.KindPod) && name != "" {
		return view.Kind(kind.Kind), name
	}
	if GroupOf(pod) != "" {
		return view.KindPod, w.Name // which has the name of the group
	}
	return MadeBy(pod)
}

// MadeBy is what a pod belongs to that is queued by itself: a ReplicaSet of a Deployment has the
// name of that and of its version, which the pod's label repeats.
func MadeBy(pod *corev1.Pod) (view.Kind, string) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return view.KindPod, pod.Name
	}
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" &&
		owner.Kind == string(view.KindReplicaSet) {
		if name, is := strings.CutSuffix(owner.Name, "-"+hash); is {
			return view.KindDeployment, name
		}
	}
	if IsSet(view.Kind(owner.Kind)) {
		return view.Kind(owner.Kind), owner.Name
	}
	return view.KindPod, pod.Name
}

// WantedOf is how many pods the group of a pod is to have, as it says.
func WantedOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Annotations[kueue.PodGroupTotalCountAnnotation], "its")
}

// Described reports whether something else than the pods says how many a group has: a PodGroup or a ConfigMap.
func Described(pod *corev1.Pod) bool { return pod.Annotations[podmeta.PodGroupKindAnnotation] != "" }

// ListOf is an empty list of jobs of a kind.
func ListOf(k *jobs.Kind) (client.ObjectList, error) { return listOf(k.GVK()) }

func listOf(gvk schema.GroupVersionKind) (client.ObjectList, error) {
	made, err := scheme.New().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	list, is := made.(client.ObjectList)
	if err != nil || !is {
		return nil, fmt.Errorf("list %s: %w", strings.ToLower(gvk.Kind), err)
	}
	return list, nil
}

// JobName is what people know a Workload by.
func JobName(w *kueue.Workload) string {
	_, name := convert.Owner(w)
	return cmp.Or(name, w.Name)
}
