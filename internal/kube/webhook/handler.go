package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// jobHandler answers for the jobs of one kind. What it does is the same for all;
// what is special about the kind is in its value.
type jobHandler struct {
	kind   *jobs.Kind
	counts func(client.Object) bool // among the jobs of a namespace
	// makes reports whether an owner is a job of which others are parts.
	makes        func(owner *metav1.OwnerReference) bool
	kinds        jobs.Kinds // all that there are
	scope        jobs.Scope
	limits       limited
	policy       lifecycle.Policy
	off          bool // jobs of the kind do not wait for admission
	gates        gateRules
	defaultClass bool // name the default WorkloadPriorityClass
	defaultQueue string
	decoder      admission.Decoder
	cluster      Cluster
	clock        clock.PassiveClock
	// schedulers say which one the pods have.
	schedulers jobs.Schedulers
	// writesPodGroups: PodGroups of Kubernetes are written for groups of pods, and these name them.
	writesPodGroups bool
	// composites: pods of PodGroups that are within one CompositePodGroup are one group.
	composites bool
	// For kinds that are made of components: what passed a trial, and what a team may
	// make that way.
	passed  passed
	allowed []schema.GroupKind
	// never says which jobs can never start.
	never Never
}

// namesNoQueue is what the author of something is told that waits for a queue.
func namesNoQueue(kind, namespace string) string {
	return fmt.Sprintf(
		"the %s is held and does not run, because it names no queue: set the label %s to a LocalQueue of namespace %s",
		kind,
		kueue.QueueNameLabel,
		namespace,
	)
}

// hasNoRights is what the author of a job is told that is made here, where nothing can be made.
const hasNoRights = "the %s does not run: namespace %s is no team's and has no LocalQueue, so that mlbatch has no rights in it: ask an administrator for either (mlbatch team create)"

// queueOf is the queue of a new job: the one it names, or else the default one of
// its namespace. A kind that is only ever queued has the installation's before that
// one. Where the namespace has neither, the installation's is named, so that the
// refusal names it too.
func (h *jobHandler) queueOf(ctx context.Context, job metav1.Object, namespace string) (string, error) {
	name, named := job.GetLabels()[kueue.QueueNameLabel]
	if name != "" || named && h.kind.Queueing.OnlyQueued {
		return name, nil
	}
	otherwise := ""
	if h.kind.Queueing.OnlyQueued {
		otherwise = h.defaultQueue
	}
	for _, name := range []string{otherwise, string(kueue.DefaultLocalQueueName)} {
		if name == "" {
			continue
		}
		ok, err := h.cluster.exists(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &kueue.LocalQueue{})
		if ok || err != nil {
			return name, err
		}
	}
	return otherwise, nil
}

// templates are the pod templates of a job that are not those of its components.
func (h *jobHandler) templates(job jobs.Object) []jobs.PodTemplate {
	if h.kind.Queueing.Templates == nil {
		return nil
	}
	return h.kind.Queueing.Templates(job)
}

// queues reports whether a job that exists waits for admission here.
func (h *jobHandler) queues(ctx context.Context, job jobs.Object, namespace string) (bool, error) {
	if h.off || !h.kind.Ours(job) {
		return false, nil
	}
	return h.cluster.covers(ctx, h.scope, namespace, job.GetLabels()[kueue.QueueNameLabel])
}

// forged refuses what only an admission writes into templates: pods with the Workload
// of a running job would take its places, whatever they ask for. was are the templates
// before a change, nil of a new job. Operators make jobs of what was admitted.
func (h *jobHandler) forged(
	ctx context.Context,
	req admission.Request,
	was, is []jobs.PodTemplate,
) (field.ErrorList, error) {
	var errs field.ErrorList
	for i, t := range is {
		before := &corev1.PodTemplateSpec{}
		if i < len(was) {
			before = was[i].Template
		}
		for _, e := range podmeta.ValidateInjected(before, t.Template) {
			e.Field = t.Path + "." + e.Field
			errs = append(errs, e)
		}
	}
	if len(errs) == 0 {
		return nil, nil
	}
	if operator, err := h.cluster.byOperator(ctx, req); operator || err != nil {
		return nil, err
	}
	if admits, err := h.cluster.mayAdmit(ctx, req); admits || err != nil {
		return nil, err
	}
	return errs, nil
}

// checkPriority refuses a PriorityClass that pods may not have.
func (h *jobHandler) checkPriority(ctx context.Context, t jobs.PodTemplate) (field.ErrorList, error) {
	name := t.Template.Spec.PriorityClassName
	if name == "" {
		return nil, nil
	}
	return h.cluster.checkPriorityClass(
		ctx,
		h.limits.Limits,
		name,
		field.NewPath(t.Path, "spec", "priorityClassName"),
	)
}

// Pods says which pods are queued by themselves.
type Pods struct {
	// Off: outside the namespaces of teams only those are that an object of a kind in
	// Parents made.
	Off bool
	// Parents are the kinds, as package serving calls them, whose pods are queued one
	// by one.
	Parents []string
}

// podHandler answers for pods.
type podHandler struct {
	*jobHandler
	pods Pods
}

func newPodHandler(base *jobHandler, pods Pods) *podHandler { return &podHandler{base, pods} }
