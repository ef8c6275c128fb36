package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Import brings a cluster over.
type Import struct {
	Client client.Client
	System System
	// Namespace is where what there was is written down.
	Namespace string
	// Now is the time.
	Now func() time.Time
	// Timeout bounds each wait.
	Timeout time.Duration
	// Tell is told of each step that was done.
	Tell func(StepState)
}

// StepState is a step, and what is left of it.
type StepState struct {
	Name string `json:"name"`
	Says string `json:"says"`
}

// stepView is what a step looks at.
type stepView struct {
	*Picture
	journal *journal
	held    bool
}

// step is one thing to do.
type step struct {
	name string
	// left says what there is to do; "" for nothing.
	left func(*stepView) string
	do   func(*Import, context.Context, *stepView) error
	// outside: an administrator does it.
	outside bool
}

// steps are all of them, in their order. At no time do two controllers admit, and no write fails
// because a webhook is called that nobody answers, but for the moment between a program's end and
// the removal of its webhooks.
func steps() []step {
	return []step{
		{name: "record", left: toRecord, do: (*Import).record},
		{
			name: "hold",
			left: toHold,
			do:   func(m *Import, ctx context.Context, _ *stepView) error { return m.hold(ctx) },
		},
		{name: "lift", left: toLift, do: (*Import).lift},
		// While the old conversion answers.
		{name: "rewrite", left: toRewrite, do: (*Import).rewrite},
		{name: "stop", left: toStop, do: (*Import).stop},
		{name: "unhook", left: toUnhook, do: (*Import).unhook},
		// Where the program was stopped before: what needs no conversion.
		{name: "rewrite", left: toRewrite, do: (*Import).rewrite},
		{name: "mark", left: toMark, do: (*Import).mark},
		{name: "install", left: toInstall, outside: true},
		{name: "answer", left: toAnswer, do: (*Import).answered},
		{name: "restore", left: toRewrite, do: (*Import).rewrite},
		{
			name: "open",
			left: toOpen,
			do:   func(m *Import, ctx context.Context, _ *stepView) error { return m.open(ctx) },
		},
	}
}

// ImportResult says how an import ended.
type ImportResult struct {
	// Next is what an administrator does before it goes on; "" if it is done.
	Next string `json:"next,omitempty"`
	// Did are the steps that were done.
	Did []StepState `json:"did"`
}

// Run does what is left. It may be called again at any time.
func (m *Import) Run(ctx context.Context) (ImportResult, error) {
	out := ImportResult{Did: []StepState{}}
	for _, s := range steps() {
		v, err := m.look(ctx)
		if err != nil {
			return out, err
		}
		left := s.left(v)
		if left == "" {
			continue
		}
		if s.outside {
			out.Next = left
			return out, nil
		}
		if err := s.do(m, ctx, v); err != nil {
			return out, fmt.Errorf(
				"%s (%s): %w; nothing is lost: mlbatch import %s goes on from here",
				s.name,
				left,
				err,
				m.System,
			)
		}
		did := StepState{s.name, left}
		out.Did = append(out.Did, did)
		m.Tell(did)
	}
	return out, nil
}

// Left lists what is left to do, as far as it can be told now.
func (m *Import) Left(ctx context.Context, p *Picture) ([]StepState, error) {
	v, err := m.see(ctx, p)
	if err != nil {
		return nil, err
	}
	out := []StepState{}
	for _, s := range steps() {
		if left := s.left(
			v,
		); left != "" &&
			!slices.ContainsFunc(out, func(o StepState) bool { return o.Says == left }) {
			out = append(out, StepState{s.name, left})
		}
	}
	return out, nil
}

func (m *Import) look(ctx context.Context) (*stepView, error) {
	p, err := Take(ctx, m.Client, m.System, m.Now())
	if err != nil {
		return nil, err
	}
	return m.see(ctx, p)
}

func (m *Import) see(ctx context.Context, p *Picture) (*stepView, error) {
	v := &stepView{Picture: p}
	var err error
	if v.journal, err = readJournal(ctx, m.Client, m.Namespace); err != nil {
		return nil, err
	}
	v.held, err = m.holds(ctx)
	return v, err
}

// await waits until something is so.
func (m *Import) await(ctx context.Context, missing string, is wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, m.Timeout, true, is)
	if wait.Interrupted(err) {
		return fmt.Errorf("%s after %s", missing, m.Timeout)
	}
	return err //nolint:wrapcheck // it says what it read
}

// toRecord: what will be removed is not all written down.
func toRecord(v *stepView) string {
	j := *v.journal
	if !v.somethingLeft() || !j.note(v.Picture) {
		return ""
	}
	return fmt.Sprintf(
		"write down what there is, for the way back: ConfigMap %s/%s",
		v.journal.namespace,
		JournalName,
	)
}

// somethingLeft reports whether there is anything of the old system that has to go.
func (v *stepView) somethingLeft() bool {
	return len(v.Mutating)+len(v.Validating)+len(v.APIServices) > 0 ||
		slices.ContainsFunc(v.Programs, func(r Program) bool { return r.runs() && v.needs(r) == "" })
}

func (m *Import) record(ctx context.Context, v *stepView) error {
	v.journal.note(v.Picture)
	return v.journal.write(ctx, m.Client)
}

// toHold: between Kueue and mlbatch nobody holds jobs.
func toHold(v *stepView) string {
	if v.Installed || v.held || !v.journal.exists && !v.somethingLeft() {
		return ""
	}
	return "refuse jobs that would start unqueued, until mlbatch queues them: ValidatingAdmissionPolicy " + HoldName
}

// behind are the definitions of which objects may be stored in an old version, and can be written
// again: somebody converts them or nobody has to, and nobody is asked who does not answer.
func (v *stepView) behind() []*apiextensionsv1.CustomResourceDefinition {
	converts := v.Installed ||
		slices.ContainsFunc(
			v.Programs,
			func(r Program) bool { return r.name == kueueName && r.Deployment.Status.ReadyReplicas > 0 },
		)
	unasked := len(v.Mutating)+len(v.Validating) == 0
	var out []*apiextensionsv1.CustomResourceDefinition
	for i := range v.Definitions {
		d := &v.Definitions[i]
		same := d.Spec.Conversion == nil || d.Spec.Conversion.Strategy == apiextensionsv1.NoneConverter
		if stored := d.Status.StoredVersions; (converts || same && unasked) &&
			(len(stored) != 1 || stored[0] != storage(d)) {
			out = append(out, d)
		}
	}
	return out
}

// storage is the version in which objects are stored.
func storage(d *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// toRewrite: objects are stored in an old version, and can be written in the newest.
func toRewrite(v *stepView) string {
	behind := v.behind()
	if len(behind) == 0 {
		return ""
	}
	names := make([]string, len(behind))
	for i, d := range behind {
		names[i] = d.Name
	}
	return "write objects that are stored in an old version once more, in the newest: " + some(names)
}

// rewrite stores all objects of a definition in its newest version. An object that somebody else
// writes at the same moment is stored so by them.
func (m *Import) rewrite(ctx context.Context, v *stepView) error {
	for _, d := range v.behind() {
		l := &unstructured.UnstructuredList{}
		l.SetAPIVersion(d.Spec.Group + "/" + storage(d))
		l.SetKind(d.Spec.Names.ListKind)
		if err := m.Client.List(ctx, l); err != nil {
			return fmt.Errorf("list %s: %w", d.Name, err)
		}
		for i := range l.Items {
			o := &l.Items[i]
			lifted(o)
			err := m.Client.Update(ctx, o)
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("write %s %s/%s again: %w", d.Spec.Names.Kind, o.GetNamespace(), o.GetName(), err)
			}
		}
		next := d.DeepCopy()
		next.Status.StoredVersions = []string{storage(d)}
		if err := m.Client.Status().Patch(
			ctx,
			next,
			client.MergeFromWithOptions(d, client.MergeFromWithOptimisticLock{}),
		); err != nil {
			return fmt.Errorf("say in %s that nothing old is stored: %w", d.Name, err)
		}
	}
	if v.Installed && v.journal.exists && !v.journal.rewritten {
		v.journal.rewritten = true
		return v.journal.write(ctx, m.Client)
	}
	return nil
}

// toStop: a program runs, or leads.
func toStop(v *stepView) string {
	var names []string
	for _, r := range v.Programs {
		if v.needs(r) == "" && (r.runs() || v.leads(r) != nil) {
			names = append(names, r.name+" (Deployment "+r.Where()+")")
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "stop " + strings.Join(names, ", ") + ", and wait until it is gone and leads no more"
}

// stop ends programs one after the other: none that admits is left when one that makes pods goes.
func (m *Import) stop(ctx context.Context, v *stepView) error {
	for _, r := range v.Programs {
		if v.needs(r) != "" {
			continue
		}
		if ptr.Deref(r.Deployment.Spec.Replicas, 1) > 0 {
			if err := m.scale(ctx, &r.Deployment, 0); err != nil {
				return err
			}
		}
		if err := m.gone(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (m *Import) scale(ctx context.Context, d *appsv1.Deployment, n int32) error {
	next := d.DeepCopy()
	next.Spec.Replicas = &n
	if err := m.Client.Patch(ctx, next, client.MergeFrom(d)); err != nil {
		return fmt.Errorf("scale Deployment %s/%s to %d: %w", d.Namespace, d.Name, n, err)
	}
	return nil
}

// gone waits until a program has no pods, and holds no lease by which it could still lead.
func (m *Import) gone(ctx context.Context, r Program) error {
	selector, err := metav1.LabelSelectorAsSelector(r.Deployment.Spec.Selector)
	if err != nil {
		return fmt.Errorf("read the selector of Deployment %s: %w", r.Where(), err)
	}
	why := ""
	err = m.await(ctx, "it is not gone", func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		if err := m.Client.List(
			ctx,
			&pods,
			client.InNamespace(r.Deployment.Namespace),
			client.MatchingLabelsSelector{Selector: selector},
		); err != nil {
			return false, fmt.Errorf("list pods of %s: %w", r.name, err)
		}
		if len(pods.Items) > 0 {
			why = "pod " + pods.Items[0].Namespace + "/" + pods.Items[0].Name + " is still there"
			return false, nil
		}
		p := &Picture{System: m.System, Now: m.Now()}
		if err := p.programs(ctx, m.Client); err != nil {
			return false, err
		}
		for _, x := range p.Programs {
			if x.Where() == r.Where() && ptr.Deref(x.Deployment.Spec.Replicas, 1) > 0 {
				return false, fmt.Errorf(
					"somebody has started Deployment %s again: find out who (an operator, Argo CD, a HorizontalPodAutoscaler), and stop that first",
					r.Where(),
				)
			}
		}
		if l := p.leads(r); l != nil {
			why = fmt.Sprintf("lease %s/%s is held by %s", l.Namespace, l.Name, ptr.Deref(l.Spec.HolderIdentity, ""))
			return false, nil
		}
		return true, nil
	})
	if err != nil && why != "" {
		return fmt.Errorf("%s: %w: %s", r.name, err, why)
	}
	return err
}

// toUnhook: the API server calls webhooks that nobody answers.
func toUnhook(v *stepView) string {
	var names []string
	for i := range v.Mutating {
		names = append(names, "MutatingWebhookConfiguration "+v.Mutating[i].Name)
	}
	for i := range v.Validating {
		names = append(names, "ValidatingWebhookConfiguration "+v.Validating[i].Name)
	}
	for i := range v.APIServices {
		names = append(names, "APIService "+v.APIServices[i].GetName())
	}
	if len(names) == 0 {
		return ""
	}
	return "remove who is asked and does not answer any more: " + strings.Join(names, ", ")
}

func (m *Import) unhook(ctx context.Context, v *stepView) error {
	var all []client.Object
	each(v.Mutating, func(o *admissionregistrationv1.MutatingWebhookConfiguration) { all = append(all, o) })
	each(v.Validating, func(o *admissionregistrationv1.ValidatingWebhookConfiguration) { all = append(all, o) })
	each(v.APIServices, func(o *unstructured.Unstructured) { all = append(all, o) })
	for _, o := range all {
		uid := o.GetUID()
		if err := client.IgnoreNotFound(m.Client.Delete(ctx, o, client.Preconditions{UID: &uid})); err != nil {
			return fmt.Errorf("remove %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// toMark: pods that run do not say whose they are.
func toMark(v *stepView) string {
	var what []string
	if n := len(v.marks()); n > 0 {
		what = append(what, fmt.Sprintf("%d pods", n))
	}
	if n := len(v.wrapperMarks()); n > 0 {
		what = append(what, fmt.Sprintf("%d AppWrappers", n))
	}
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"write on %s that run which Workload they belong to (annotation %s, label %s), so that their quota is free when they have ended and not before",
		strings.Join(what, " and "),
		kueue.WorkloadAnnotation,
		kueue.PodSetLabel,
	)
}

// markWrapper has an AppWrapper give to pods that it makes again whose they are.
func (m *Import) markWrapper(ctx context.Context, name types.NamespacedName, workload string) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(aw.GroupVersion.WithKind(aw.AppWrapperKind))
	if err := m.Client.Get(ctx, name, u); err != nil {
		return client.IgnoreNotFound(err)
	}
	components, _, _ := unstructured.NestedSlice(u.Object, "spec", "components")
	statuses, _, _ := unstructured.NestedSlice(u.Object, "status", "componentStatus")
	for i := range min(len(components), len(statuses)) {
		c, isObject := components[i].(map[string]any)
		s, hasStatus := statuses[i].(map[string]any)
		if !isObject || !hasStatus {
			continue
		}
		sets, _, _ := unstructured.NestedSlice(s, "podSets")
		infos, _, _ := unstructured.NestedSlice(c, "podSetInfos")
		for len(infos) < len(sets) {
			infos = append(infos, map[string]any{})
		}
		infos = infos[:len(sets)]
		for n := range infos {
			if info, is := infos[n].(map[string]any); is {
				unstructured.RemoveNestedField(
					info,
					"labels",
					kueue.PodSetLabel,
				) // the AppWrapper's own name of it is given
				if err := unstructured.SetNestedField(
					info,
					workload,
					"annotations",
					kueue.WorkloadAnnotation,
				); err != nil {
					return fmt.Errorf("read podSetInfos: %w", err)
				}
			}
		}
		c["podSetInfos"] = infos
		components[i] = c
	}
	if err := unstructured.SetNestedSlice(u.Object, components, "spec", "components"); err != nil {
		return fmt.Errorf("write podSetInfos: %w", err)
	}
	return client.IgnoreNotFound(m.Client.Update(ctx, u))
}

func (m *Import) mark(ctx context.Context, v *stepView) error {
	for name, workload := range v.wrapperMarks() {
		if err := retry.RetryOnConflict(
			retry.DefaultRetry,
			func() error { return m.markWrapper(ctx, name, workload) },
		); err != nil {
			return fmt.Errorf("mark AppWrapper %s: %w", name, err)
		}
	}
	pods := make(map[types.NamespacedName]*corev1.Pod, len(v.Pods))
	for i := range v.Pods {
		pods[types.NamespacedName{Namespace: v.Pods[i].Namespace, Name: v.Pods[i].Name}] = &v.Pods[i]
	}
	for _, mark := range v.marks() {
		err := m.Client.Patch(
			ctx,
			pods[mark.Pod].DeepCopy(),
			client.RawPatch(types.MergePatchType, mark.patch(pods[mark.Pod].UID)),
		)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("mark pod %s: %w", mark.Pod, err)
		}
	}
	return nil
}

// toInstall: mlbatch is not there.
func toInstall(v *stepView) string {
	if v.Installed {
		return ""
	}
	return "mlbatch install, and then again: mlbatch import " + string(v.System)
}

// toAnswer: it is there, and jobs are still held for it.
func toAnswer(v *stepView) string {
	if !v.Installed || !v.held {
		return ""
	}
	return "wait until mlbatch answers"
}

// answered waits until mlbatch judges what is created.
func (m *Import) answered(ctx context.Context, _ *stepView) error {
	var last error
	err := m.await(ctx, "mlbatch does not answer", func(ctx context.Context) (bool, error) {
		last = m.Client.Create(
			ctx,
			&kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: trialName}},
			client.DryRunAll,
		)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// toOpen: mlbatch queues jobs.
func toOpen(v *stepView) string {
	if !v.Installed || !v.held {
		return ""
	}
	return "let jobs in again: remove ValidatingAdmissionPolicy " + HoldName
}
