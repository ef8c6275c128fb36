package webhook

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// tryPods has the API server check one pod of each role of a new job whose pods are made
// here, as try does with components: a job none of whose pods could be created would
// hold quota and never run. The parts of a job were tried with it.
func (h *jobHandler) tryPods(ctx context.Context, job jobs.Object) (field.ErrorList, []string) {
	if h.cluster.Trial == nil || metav1.GetControllerOf(job) != nil {
		return nil, nil
	}
	const anyone = "any"
	like, _ := job.DeepCopyObject().(jobs.Object)
	like.SetName(anyone)
	like.SetUID(anyone)
	alike := h.firstPods(like)
	job, _ = job.DeepCopyObject().(jobs.Object)
	job.SetUID(notCreatedYet)
	ctx, cancel := context.WithTimeout(ctx, trialSeconds*time.Second)
	defer cancel()
	t := trials{client: h.cluster.Trial, reader: h.cluster.Live}
	for i, pod := range h.firstPods(job) {
		called := names{pod.object.GetName(), job.GetName()}
		text, err := alike[i].object.MarshalJSON()
		if err != nil {
			continue // as is said where it is read
		}
		known := sha256.Sum256(text)
		if h.passed.has(known, called) && t.nameIsFree(ctx, pod.object, pod.at) {
			continue
		}
		errs, warnings := len(t.errs), len(t.warnings)
		t.create(ctx, pod.object, pod.at)
		if t.silent(errs, warnings) {
			h.passed.add(known, called)
		}
	}
	return t.errs, t.warnings
}

// firstPod is one of a role, and where its author wrote it.
type firstPod struct {
	object *unstructured.Unstructured
	at     *field.Path
}

// firstPods are those of all roles that have any; none of a job that has no plan, which
// is refused for what it is.
func (h *jobHandler) firstPods(job jobs.Object) []firstPod {
	plan, err := h.kind.Operated.Compile(job)
	if err != nil {
		return nil
	}
	var out []firstPod
	for i := range plan.Roles {
		role := &plan.Roles[i]
		if role.Count == 0 {
			continue
		}
		pod, err := plan.Pod(job, h.kind.GVK(), podplan.Member{Role: role.Name}, &podplan.Memory{}, nil)
		if err != nil {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			continue
		}
		o := &unstructured.Unstructured{Object: content}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		out = append(out, firstPod{o, h.whereWritten(job, role.Name)})
	}
	return out
}

// whereWritten is the path of a role's template.
func (h *jobHandler) whereWritten(job jobs.Object, role string) *field.Path {
	all := h.templates(job)
	for _, t := range all {
		if len(all) == 1 || strings.Contains(strings.ToLower(t.Path), "."+strings.ToLower(role)+".") {
			return field.NewPath(t.Path)
		}
	}
	return field.NewPath(h.kind.Bulk)
}
