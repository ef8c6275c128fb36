package webhook

import (
	"context"
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// tryMembers has the API server check one member of each role of a new job that is run here,
// as try does with components: a job none of whose members could be created would hold quota
// and never run. The parts of a job were tried with it.
func (h *jobHandler) tryMembers(ctx context.Context, job jobs.Object) (field.ErrorList, []string) {
	if h.cluster.Trial == nil || metav1.GetControllerOf(job) != nil {
		return nil, nil
	}
	const anyone = "any"
	like, _ := job.DeepCopyObject().(jobs.Object)
	like.SetName(anyone)
	like.SetUID(anyone)
	alike := h.firstMembers(like)
	job, _ = job.DeepCopyObject().(jobs.Object)
	job.SetUID(notCreatedYet)
	ctx, cancel := context.WithTimeout(ctx, trialSeconds*time.Second)
	defer cancel()
	t := trials{client: h.cluster.Trial, reader: h.cluster.Live}
	for i, first := range h.firstMembers(job) {
		called := names{first.object.GetName(), job.GetName()}
		text, err := alike[i].object.MarshalJSON()
		if err != nil {
			continue // as is said where it is read
		}
		known := sha256.Sum256(text)
		if h.passed.has(known, called) && t.nameIsFree(ctx, first.object, first.at) {
			continue
		}
		errs, warnings := len(t.errs), len(t.warnings)
		t.create(ctx, first.object, first.at)
		for _, e := range t.errs[errs:] {
			e.Field = strings.Replace(e.Field, first.at.String()+first.below, first.at.String()+".", 1)
		}
		if first.pod != nil && len(t.errs) == errs {
			t.create(ctx, first.pod, first.at)
		}
		if t.silent(errs, warnings) {
			h.passed.add(known, called)
		}
	}
	return t.errs, t.warnings
}

// firstMember is one of a role, and where its author wrote it.
type firstMember struct {
	object *unstructured.Unstructured
	at     *field.Path
	// below is where what its author wrote is in the object, which has more around it.
	below string
	// role is which of the plan's it is of.
	role int
	// pod is what the member makes, if the API server does not look at that with the member: a
	// Job may be made where its pods may not. nil if there is none.
	pod *unstructured.Unstructured
}

// podOf is a pod as something makes it of a template; nil if it cannot be written.
func podOf(
	t *corev1.PodTemplateSpec,
	maker metav1.Object,
	gvk schema.GroupVersionKind,
) *unstructured.Unstructured {
	p := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: t.Spec}
	p.Name, p.GenerateName, p.Namespace = "", maker.GetName()+"-", maker.GetNamespace()
	owner := metav1.NewControllerRef(maker, gvk)
	owner.UID, owner.BlockOwnerDeletion = notCreatedYet, nil
	p.OwnerReferences = []metav1.OwnerReference{*owner}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		return nil
	}
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return o
}

// firstMembers are those of all roles that have any; none of a job that has no plan, which
// is refused for what it is.
func (h *jobHandler) firstMembers(job jobs.Object) []firstMember {
	plan, err := h.kind.Running.Operator.Compile(job)
	if err != nil {
		return nil
	}
	made := h.accounts(job, plan)
	var out []firstMember
	for i := range plan.Roles {
		if plan.Roles[i].Count == 0 {
			continue
		}
		o, child, err := h.firstMember(job, plan, i)
		if err != nil {
			continue // as is said where it is made
		}
		var pod *unstructured.Unstructured
		if j, is := child.(*batchv1.Job); is {
			pod = podOf(&j.Spec.Template, j, batchv1.SchemeGroupVersion.WithKind("Job"))
		}
		for _, x := range []*unstructured.Unstructured{o, pod} {
			if x == nil {
				continue
			}
			if name, _, _ := unstructured.NestedString(
				x.Object,
				"spec",
				"serviceAccountName",
			); slices.Contains(
				made,
				name,
			) {
				unstructured.RemoveNestedField(x.Object, "spec", "serviceAccountName") // it is made before the pod
			}
		}
		at, below := h.whereWritten(job, plan.Roles[i].Name), "."
		switch {
		case i < len(plan.Where) && plan.Where[i] != "":
			at = field.NewPath(plan.Where[i])
		case plan.MakeOf(plan.Roles[i].Name) != nil:
			below = ".spec.template." // of a Job
		}
		out = append(out, firstMember{o, at, below, i, pod})
		out = append(out, h.further(job, child)...)
	}
	return out
}

// further are the first members of a member which is itself made of what it says: nobody else
// looks at them before the job runs. They are as its author wrote them in the job, whose
// templates are those of the member, in the same order.
func (h *jobHandler) further(job, child jobs.Object) []firstMember {
	i := slices.IndexFunc(h.kinds, func(k jobs.Kind) bool {
		return child != nil && k.Running.Operator != nil && reflect.TypeOf(k.New()) == reflect.TypeOf(child)
	})
	if i < 0 {
		return nil
	}
	in := *h
	in.kind = &h.kinds[i]
	child.SetUID(job.GetUID())
	out, written := in.firstMembers(child), h.templates(job)
	for n := range out {
		if role := out[n].role; role < len(written) {
			if out[n].at = field.NewPath(written[role].Path); out[n].object.GetKind() != "Pod" {
				out[n].below = ".spec.template." // of a Job
			}
		}
	}
	return out
}

// firstMember is that of a role as it will be made, and what it is if it is no pod.
func (h *jobHandler) firstMember(
	job jobs.Object,
	plan *jobs.Plan,
	role int,
) (o *unstructured.Unstructured, child jobs.Object, err error) {
	x, gvk := podplan.Member{Role: plan.Roles[role].Name}, corev1.SchemeGroupVersion.WithKind("Pod")
	var member runtime.Object
	if plan.MakeOf(x.Role) == nil {
		member, err = plan.Pod(job, h.kind.GVK(), x, &podplan.RetryState{}, nil)
	} else {
		if child, err = plan.Child(job, h.kind.GVK(), x, &podplan.RetryState{}, nil); err == nil {
			gvk, err = h.kind.Running.Operator.KindOf(child)
		}
		member = child
	}
	if err != nil {
		return nil, nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(member)
	if err != nil {
		return nil, nil, fmt.Errorf("write the first of role %s: %w", x.Role, err)
	}
	o = &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(gvk)
	return o, child, nil
}

// accounts are the ServiceAccounts that are made for a job.
func (h *jobHandler) accounts(job jobs.Object, plan *jobs.Plan) []string {
	if h.kind.Running.Operator.Artifacts == nil {
		return nil
	}
	all, err := h.kind.Running.Operator.Artifacts(job, plan, &jobs.Progress{})
	if err != nil {
		return nil // as is said when it starts
	}
	var out []string
	for i := range all {
		if a, is := all[i].Object.(*corev1.ServiceAccount); is {
			out = append(out, a.Name)
		}
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
	return field.NewPath(h.kind.Admission.Bulk)
}
