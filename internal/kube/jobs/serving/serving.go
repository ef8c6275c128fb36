// Package serving knows the kinds of Kubernetes that make pods, or Jobs, and are not
// jobs themselves: Deployments, ReplicaSets, StatefulSets and CronJobs. Nothing holds
// them back; what they make waits in a queue. This package says what their templates
// have to carry for that. The pods of a Deployment are queued one by one, those of a
// StatefulSet as a group that never ends. It also lists the kinds of others whose objects consist of
// several such groups (Grouped).
package serving

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/leaderworkerset"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Kind is a kind that makes pods or Jobs.
type Kind struct {
	GVK      schema.GroupVersionKind
	Resource string
	// Framework is the kind's name in configurations, and the mark on its pods.
	Framework string
	// Template is where its template is, by fields.
	Template []string
	// Jobs: it makes Jobs, which are queued as others are.
	Jobs bool
	// Group: its pods are one group.
	Group bool
	// Stays: pods that there are stay as they are when the template changes.
	Stays bool
}

// All are the kinds.
func All() []Kind {
	apps := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}
	}
	return []Kind{
		{
			GVK:       apps("Deployment"),
			Resource:  "deployments",
			Framework: "deployment",
			Template:  []string{"spec", "template"},
		},
		{
			GVK:       apps("StatefulSet"),
			Resource:  "statefulsets",
			Framework: "statefulset",
			Template:  []string{"spec", "template"},
			Group:     true,
		},
		{
			GVK:       apps("ReplicaSet"),
			Resource:  "replicasets",
			Framework: "replicaset",
			Template:  []string{"spec", "template"},
			Stays:     true,
		},
		{
			GVK:       schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "CronJob"},
			Resource:  "cronjobs",
			Framework: "batch/job",
			Template:  []string{"spec", "jobTemplate"},
			Jobs:      true,
		},
	}
}

// Grouped are the kinds of objects that consist of groups of pods.
func Grouped() []jobs.GroupedKind { return slices.Clone(groupedKinds) }

// groupedKinds are built once: handlers of pods ask for them.
var groupedKinds = []jobs.GroupedKind{leaderworkerset.Kind()} //nolint:gochecknoglobals // nobody writes it

// GroupedKind is that of Grouped with a framework, or with a mark on its pods; nil if there is none.
func GroupedKind(framework string) *jobs.GroupedKind {
	return grouped(func(k *jobs.GroupedKind) bool { return k.Framework == framework })
}

// GroupedNamed is that of Grouped whose objects are of a kind; nil if there is none.
func GroupedNamed(kind string) *jobs.GroupedKind {
	return grouped(func(k *jobs.GroupedKind) bool { return k.GVK.Kind == kind })
}

// GroupedOf is that of Grouped which an object is of; nil if it is of none.
func GroupedOf(o any) *jobs.GroupedKind {
	return grouped(func(k *jobs.GroupedKind) bool { return k.Is(o) })
}

// GroupedPod is that of Grouped in whose groups a pod with such labels is; nil if it is in none.
func GroupedPod(labels map[string]string) *jobs.GroupedKind {
	return grouped(func(k *jobs.GroupedKind) bool { return labels[k.PodIndexLabel] != "" })
}

func grouped(is func(*jobs.GroupedKind) bool) *jobs.GroupedKind {
	all := Grouped()
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// Frameworks are the names of kinds in configurations that are only served here, and
// that of pods.
func Frameworks() []string {
	out := []string{podmeta.Framework}
	for _, k := range Grouped() {
		out = append(out, k.Framework)
	}
	for _, k := range All() {
		if !k.Jobs {
			out = append(out, k.Framework)
		}
	}
	return out
}

// Counted reports whether pods with this mark belong to something that knows how many
// there are.
func Counted(mark string) bool {
	for _, k := range All() {
		if k.Group && k.Framework == mark {
			return true
		}
	}
	return GroupedKind(mark) != nil
}

// Entry is a label or an annotation of a template.
type Entry struct {
	// Map is "labels" or "annotations".
	Map, Key, Value string
}

// Marks are what the template of an object has to carry.
//
// Pods of a StatefulSet whose template names a group and its size are members of that group, with
// whatever else is in it, and not a group of their own.
func (k *Kind) Marks(o map[string]any) []Entry {
	u := unstructured.Unstructured{Object: o}
	name, labels := u.GetName(), u.GetLabels()
	var out []Entry
	for _, key := range []string{kueue.QueueNameLabel, kueue.PriorityClassLabel} {
		if v := labels[key]; v != "" {
			out = append(out, Entry{"labels", key, v})
		}
	}
	if k.Jobs || k.Group && k.joins(o) {
		return out
	}
	out = append(out, Entry{"annotations", kueue.PodSuspendingParentAnnotation, k.Framework})
	if k.Group && name != "" { // without, its pods are queued one by one
		out = append(out,
			Entry{"labels", kueue.PodGroupNameLabel, podmeta.StatefulSetGroup(name)},
			Entry{"annotations", kueue.PodGroupFastAdmissionAnnotation, "true"},
			Entry{"annotations", kueue.PodGroupServingAnnotation, "true"},
			Entry{"annotations", kueue.PodGroupPodIndexLabelAnnotation, "apps.kubernetes.io/pod-index"})
	}
	return out
}

// joins reports whether a template says itself of which group its pods are.
func (k *Kind) joins(o map[string]any) bool {
	group, _, _ := unstructured.NestedString(o, k.at("metadata", "labels", kueue.PodGroupNameLabel)...)
	size, _, _ := unstructured.NestedString(
		o,
		k.at("metadata", "annotations", kueue.PodGroupTotalCountAnnotation)...)
	parent, _, _ := unstructured.NestedString(
		o,
		k.at("metadata", "annotations", kueue.PodSuspendingParentAnnotation)...)
	return group != "" && size != "" && parent != k.Framework
}

// Together reports whether the pods of an object are admitted together, as a job or as a group that
// its controller makes. Others are queued one by one, or in the groups that they name.
func (k *Kind) Together(o map[string]any) bool { return k.Jobs || k.Group && !k.joins(o) }

// Part reports whether an object is a part of a job that is queued: our controllers
// have put the name of its Workload into its template.
func (k *Kind) Part(o map[string]any) bool {
	name, _, err := unstructured.NestedString(o, k.at("metadata", "annotations", kueue.WorkloadAnnotation)...)
	return err == nil && name != ""
}

func (k *Kind) at(fields ...string) []string {
	return append(append([]string(nil), k.Template...), fields...)
}

// template is that of an object, as it is written.
func (k *Kind) template(o map[string]any) any {
	t, _, _ := unstructured.NestedFieldNoCopy(o, k.Template...)
	return t
}

// Pods is where the template of the pods is, by fields: of Jobs it is inside their own.
func (k *Kind) Pods() []string {
	if k.Jobs {
		return k.at("spec", "template")
	}
	return k.Template
}

// Path is where a field of the template is.
func (k *Kind) Path(fields ...string) *field.Path {
	return field.NewPath(k.Template[0], append(append([]string(nil), k.Template[1:]...), fields...)...)
}

// Validate refuses what a user may not write into a template, since only an admission
// does: with the Workload of a running job, pods would take its places. was is the
// object before the change, nil for a new one.
func (k *Kind) Validate(was, is map[string]any) field.ErrorList {
	var errs field.ErrorList
	labels, annotations := podmeta.Injected()
	for _, part := range []struct {
		name string
		keys []string
	}{{"labels", labels}, {"annotations", annotations}} {
		for _, key := range part.keys {
			old, _, _ := unstructured.NestedString(was, k.at("metadata", part.name, key)...)
			now, _, _ := unstructured.NestedString(is, k.at("metadata", part.name, key)...)
			if now != old {
				errs = append(
					errs,
					field.Forbidden(k.Path("metadata", part.name).Key(key), "the admission of a job writes it: remove it"),
				)
			}
		}
	}
	// Those of pods are judged with their template.
	before, _, _ := unstructured.NestedSlice(was, k.at("metadata", "finalizers")...)
	if list, _, _ := unstructured.NestedSlice(
		is,
		k.at("metadata", "finalizers")...); k.Jobs && len(list) > 0 &&
		!reflect.DeepEqual(before, list) {
		errs = append(
			errs,
			field.Forbidden(k.Path("metadata", "finalizers"), "they would keep Jobs that have to go: remove them"),
		)
	}
	if was == nil {
		return errs
	}
	if k.Part(was) && !k.SamePods(was, is) {
		errs = append(
			errs,
			field.Forbidden(k.Path(), "the job that this is a part of was admitted with it: change the job"),
		)
	}
	if k.Jobs {
		return errs
	}
	from, _, _ := unstructured.NestedString(was, "metadata", "labels", kueue.QueueNameLabel)
	to, _, _ := unstructured.NestedString(is, "metadata", "labels", kueue.QueueNameLabel)
	if replicas, ok, _ := unstructured.NestedInt64(
		was,
		"spec",
		"replicas",
	); from != to && (k.Group || to == "") &&
		(!ok || replicas > 0) {
		does := map[bool]string{true: "removed", false: "changed"}[to == ""]
		errs = append(
			errs,
			field.Forbidden(
				field.NewPath("metadata", "labels").Key(kueue.QueueNameLabel),
				"cannot be "+does+" while there are pods: scale to 0 first",
			),
		)
	}
	return errs
}

// Queue is that of an object, or else that of its template; "" is none.
func (k *Kind) Queue(o map[string]any) string {
	own, _, _ := unstructured.NestedString(o, "metadata", "labels", kueue.QueueNameLabel)
	inner, _, _ := unstructured.NestedString(o, k.at("metadata", "labels", kueue.QueueNameLabel)...)
	return cmp.Or(own, inner)
}

// SamePods reports whether a change leaves the pods of an object as they are.
func (k *Kind) SamePods(was, is map[string]any) bool {
	return reflect.DeepEqual(k.template(was), k.template(is))
}

// Classes are the WorkloadPriorityClasses of an object's pods before and after a change, and why a
// first one is of no use to pods that are there already; "" if it is. told is what else its author should
// know.
func (k *Kind) Classes(was, is map[string]any) (from, to, cure, told string) {
	own := func(o map[string]any) string {
		c, _, _ := unstructured.NestedString(o, "metadata", "labels", kueue.PriorityClassLabel)
		return c
	}
	inner := func(o map[string]any) string {
		c, _, _ := unstructured.NestedString(o, k.at("metadata", "labels", kueue.PriorityClassLabel)...)
		return c
	}
	from, to = cmp.Or(own(was), inner(was)), cmp.Or(own(is), inner(is))
	if own(was) != "" && own(is) == "" && inner(was) == inner(is) {
		to = "" // what is in the template was written there for its object
	}
	replicas, says, _ := unstructured.NestedInt64(was, "spec", "replicas")
	if k.Jobs || from == to || says && replicas == 0 {
		return from, to, "", ""
	}
	if k.Stays {
		return from, to, "", "the pods that there are keep the WorkloadPriorityClass that they have"
	}
	if k.Group { // its pods are one job
		cure = "cannot be given while there are pods: scale to 0 first"
	}
	return from, to, cure, "the pods are made anew, one after the other, to have the WorkloadPriorityClass"
}

// Explain is what the author of an object without a queue is told.
func (k *Kind) Explain(namespace string) string {
	what := "Pods"
	if k.Jobs {
		what = "Jobs"
	}
	how := "set the label %s to a LocalQueue of namespace %s"
	if k.Group { // whose queue cannot change while there are pods
		how = "scale it to 0, " + how + ", and scale it up"
	}
	return fmt.Sprintf(
		"the %s of the %s are held and do not run, because it names no queue: "+how,
		what,
		k.GVK.Kind,
		kueue.QueueNameLabel,
		namespace,
	)
}
