package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// DryRun is how far a change goes.
type DryRun string

// Dry runs.
const (
	Real   DryRun = ""
	Client DryRun = "client" // nothing is sent
	Server DryRun = "server" // the API server checks it and changes nothing
)

// Result is what was done to a job.
type Result struct {
	Kind      view.Kind `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Action is what was done, in one word such as "cancelled"; "unchanged" if it was so
	// already.
	Action string `json:"action"`
	// Message is a sentence about it.
	Message string `json:"message"`
	// DryRun is "client" or "server" if nothing was changed.
	DryRun DryRun `json:"dryRun,omitempty"`
}

// Unchanged is the action of a result where nothing had to be done.
const Unchanged = "unchanged"

// Actor changes jobs.
type Actor struct {
	Client client.WithWatch
	DryRun DryRun
}

func (a *Actor) result(t *Target, action, format string, args ...any) *Result {
	return &Result{
		Kind: t.Asked.Kind, Namespace: t.Asked.Namespace, Name: t.Asked.Name,
		Action: action, Message: fmt.Sprintf(format, args...), DryRun: a.DryRun,
	}
}

// patch changes fields of an object.
func (a *Actor) patch(ctx context.Context, o client.Object, fields map[string]any) error {
	if a.DryRun == Client {
		return nil
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("write the change: %w", err)
	}
	var options []client.PatchOption
	if a.DryRun == Server {
		options = append(options, client.DryRunAll)
	}
	into := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has its type
	return a.Client.Patch(ctx, into, client.RawPatch(types.MergePatchType, data), options...)
}

// Cancel deletes a job with all that belongs to it. It waits until its pods are gone if wait
// says so.
func (a *Actor) Cancel(ctx context.Context, t *Target, wait bool) (*Result, error) { //nolint:revive // a fact
	objects := []client.Object{t.Object()}
	switch {
	case t.group():
		objects = nil
		for i := range t.Pods {
			objects = append(objects, &t.Pods[i])
		}
	case t.Object() == nil:
		return nil, fmt.Errorf("you may not read the object of %s, which is what would be deleted", t.title())
	case t.Asked.Kind == view.KindWorkload:
		return nil, fmt.Errorf(
			"%s is not the job itself but stands for it, and no job was found: kubectl delete workload deletes it",
			t.title(),
		)
	}
	for _, o := range objects {
		if err := a.delete(ctx, o); err != nil {
			return nil, fmt.Errorf("delete %s: %w", t.title(), err)
		}
	}
	if wait && a.DryRun == Real {
		if err := a.gone(ctx, t); err != nil {
			return nil, fmt.Errorf("%s is cancelled, but not gone yet: %w", t.title(), err)
		}
		return a.result(t, "cancelled", "%s is cancelled, and its pods are gone.", t.title()), nil
	}
	text := "%s is cancelled."
	if j := t.Facts(); t.Set == nil && (j.Stage == view.Ended || j.Stage == view.Finished) {
		text = "%s, which has ended, is deleted."
	}
	return a.result(t, "cancelled", text, t.title()), nil
}

func (a *Actor) delete(ctx context.Context, o client.Object) error {
	if a.DryRun == Client {
		return nil
	}
	options := []client.DeleteOption{
		client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: new(o.GetUID())},
	}
	if a.DryRun == Server {
		options = append(options, client.DryRunAll)
	}
	return client.IgnoreNotFound(a.Client.Delete(ctx, o, options...))
}

// gone waits until a job that was deleted and its pods are gone.
func (a *Actor) gone(ctx context.Context, t *Target) error {
	return Follow(
		ctx,
		a.Client,
		t,
		true,
		func(gone bool) (bool, error) { return (gone || t.group()) && len(t.Pods) == 0, nil },
	)
}

// held reports whether a Workload is held back.
func held(w *kueue.Workload) bool { return !ptr.Deref(w.Spec.Active, true) }

// Hold keeps a job from starting until it is released. One that runs is stopped only if stop
// says so.
func (a *Actor) Hold(ctx context.Context, t *Target, stop bool) (*Result, error) {
	w, err := a.holdable(t)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return a.suspend(ctx, t, true, stop)
	}
	switch j := t.Facts(); {
	case held(w):
		return a.result(t, Unchanged, "%s is held already.", t.title()), nil
	case j.Stage == view.Admitted && !stop:
		return nil, fmt.Errorf(
			"%s runs: --stop ends its pods, gives back what it has and holds it; what it did since it last saved its state is lost",
			t.title(),
		)
	case w.Status.Admission != nil && len(t.Pods) > 0 && podsAreJob(t):
		return nil, fmt.Errorf(
			"the pods of %s were started and are all there is of it: stopped, they would be gone for good. mlbatch cancel does that",
			t.title(),
		)
	}
	if err := a.setActive(ctx, t, w, false); err != nil {
		return nil, err
	}
	return a.result(t, "held", "%s is held: mlbatch release %s lets it queue again.", t.title(), t.name()), nil
}

// podsAreJob reports whether pods are the job, which nothing makes again.
func podsAreJob(t *Target) bool { return t.group() || t.Asked.Kind == view.KindPod }

// holdable is the Workload by which a job is held, nil if it has none.
func (a *Actor) holdable(t *Target) (*kueue.Workload, error) {
	j := t.Facts()
	switch {
	case t.Asked.Kind == CronJob:
		return nil, fmt.Errorf(
			"%s makes Jobs, which are held one by one: to let it make none, kubectl patch cronjob %s -n %s -p '{\"spec\":{\"suspend\":true}}'",
			t.title(),
			t.Asked.Name,
			t.Asked.Namespace,
		)
	case t.Set != nil, t.Deployment != nil:
		return nil, fmt.Errorf(
			"the pods of %s are queued by themselves: mlbatch scale %s 0 stops them all, and leaves it to be scaled up again",
			t.title(),
			t.name(),
		)
	case j.Stage == view.Ended, j.Stage == view.Finished:
		return nil, fmt.Errorf("%s has ended (%s)", t.title(), j.State)
	case j.Stage == view.Foreign:
		return nil, fmt.Errorf("%s is managed by %s, as its managedBy says", t.title(), j.Manager)
	case t.Workload == nil && j.Stage == view.NotRecorded:
		return nil, fmt.Errorf(
			"%s has just been submitted and has no Workload yet, by which it would be held: try again",
			t.title(),
		)
	}
	return t.Workload, nil
}

// setActive lets a Workload be queued, or not. What an administrator holds, only
// administrators release: those who may do more to Workloads than members of a team.
func (a *Actor) setActive(ctx context.Context, t *Target, w *kueue.Workload, active bool) error {
	change := map[string]any{"spec": map[string]any{"active": active}}
	by, marked := w.Annotations[kueue.HeldByAnnotation]
	admin, who := a.admin(ctx, w.Namespace)
	switch {
	case active && marked && admin:
		change["metadata"] = map[string]any{"annotations": map[string]any{kueue.HeldByAnnotation: nil}}
	case active && marked:
		return fmt.Errorf("%s is held by %s: ask for its release", t.title(), why.Holder(by))
	case !active && admin:
		change["metadata"] = map[string]any{"annotations": map[string]any{kueue.HeldByAnnotation: who}}
	}
	err := a.patch(ctx, w, change)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf(
			"you may not hold or release jobs in namespace %s, for which the right to patch workloads is needed (the role mlbatch-edit has it): %w",
			w.Namespace,
			err,
		)
	}
	return err
}

// admin reports whether the user may do anything to Workloads, and who he is. Where that cannot
// be asked, he may not.
func (a *Actor) admin(ctx context.Context, namespace string) (may bool, who string) {
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: kueue.GroupVersion.Group, Resource: "workloads", Verb: "update", Namespace: namespace,
		}},
	}
	if err := a.Client.Create(ctx, review); err != nil || !review.Status.Allowed {
		return false, ""
	}
	if who, err := cli.WhoAmI(ctx, a.Client); err == nil && who != "" {
		return true, who
	}
	return true, kueue.HeldBySomeAdministrator
}

// Release lets a job that is held queue again.
func (a *Actor) Release(ctx context.Context, t *Target) (*Result, error) {
	w, err := a.holdable(t)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return a.suspend(ctx, t, false, false)
	}
	if !held(w) {
		if j := t.Facts(); j.State == view.Held {
			return nil, fmt.Errorf(
				"%s is not held by anybody but waits for what it lacks (%s): mlbatch why %s says what",
				t.title(),
				j.Reason,
				t.name(),
			)
		}
		return a.result(t, Unchanged, "%s is not held.", t.title()), nil
	}
	if err := a.setActive(ctx, t, w, true); err != nil {
		return nil, err
	}
	return a.result(t, "released", "%s is released and queues again.", t.title()), nil
}

// suspend holds or releases a job that no queue rules, by the field of its kind.
func (a *Actor) suspend( //nolint:revive // a fact
	ctx context.Context,
	t *Target,
	hold, stop bool,
) (*Result, error) {
	kind := gather.KindOf(t.Asked.Kind)
	root := t.Object()
	if root == nil || kind == nil || len(kind.Queueing.SuspendPath) == 0 {
		return nil, fmt.Errorf(
			"%s is in no queue and has nothing by which it could be held: mlbatch cancel ends it",
			t.title(),
		)
	}
	is := kind.Queueing.Suspended(t.job())
	action, text := "held", "%s, which is in no queue, is suspended: mlbatch release %s lets it go on."
	if !hold {
		action, text = "released", "%s is no longer suspended (mlbatch hold %s suspends it)."
	}
	switch {
	case is == hold && t.Facts().State == view.Held:
		return nil, fmt.Errorf(
			"%s is held because it names no queue: kubectl label %s %s -n %s %s=QUEUE puts it into one",
			t.title(),
			strings.ToLower(string(t.Asked.Kind)),
			t.Asked.Name,
			t.Asked.Namespace,
			kueue.QueueNameLabel,
		)
	case is == hold:
		return a.result(
			t,
			Unchanged,
			"%s is %s already.",
			t.title(),
			map[bool]string{true: "suspended", false: "not suspended"}[hold],
		), nil
	case hold && len(t.Pods) > 0 && !stop:
		return nil, fmt.Errorf(
			"%s runs: --stop ends its pods and suspends it; what it did since it last saved its state is lost",
			t.title(),
		)
	}
	fields := map[string]any{}
	at := fields
	for _, name := range kind.Queueing.SuspendPath[:len(kind.Queueing.SuspendPath)-1] {
		next := map[string]any{}
		at[name], at = next, next
	}
	at[kind.Queueing.SuspendPath[len(kind.Queueing.SuspendPath)-1]] = hold
	if err := a.patch(ctx, root, fields); err != nil {
		return nil, fmt.Errorf("suspend %s: %w", t.title(), err)
	}
	return a.result(t, action, text, t.title(), t.name()), nil
}

// Requeue makes a job that has quota give it back and queue again. It is held in between, for as
// long as the controller takes to see that.
func (a *Actor) Requeue(ctx context.Context, t *Target) (*Result, error) {
	w, err := a.holdable(t)
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return nil, fmt.Errorf("%s is in no queue", t.title())
	case held(w):
		return nil, fmt.Errorf("%s is held: mlbatch release %s lets it queue again", t.title(), t.name())
	case w.Status.Admission == nil:
		return a.result(t, Unchanged, "%s is queued already.", t.title()), nil
	case podsAreJob(t):
		return nil, fmt.Errorf(
			"the pods of %s were started and are all there is of it: stopped, they would be gone for good, and nothing would queue again",
			t.title(),
		)
	case t.Facts().Stage == view.Evicted:
		return a.result(
			t,
			Unchanged,
			"%s is being stopped already (%s), and queues again then.",
			t.title(),
			t.Facts().Reason,
		), nil
	}
	text := "%s gives back what it has and queues again."
	if a.DryRun != Real {
		return a.result(
				t,
				"requeued",
				text,
				t.title(),
			), a.patch(
				ctx,
				w,
				map[string]any{"spec": map[string]any{"active": false}},
			)
	}
	if err := a.setActive(ctx, t, w, false); err != nil {
		return nil, err
	}
	err = Follow(ctx, a.Client, t, false, func(gone bool) (bool, error) {
		if gone || t.Workload == nil {
			return false, errors.New("it was deleted meanwhile")
		}
		c := apimeta.FindStatusCondition(t.Workload.Status.Conditions, kueue.WorkloadEvicted)
		return c != nil && c.Status == metav1.ConditionTrue &&
			strings.HasPrefix(c.Reason, kueue.ReasonDeactivated), nil
	})
	if err != nil {
		return nil, fmt.Errorf(
			"%s is held and not queued again: mlbatch release %s does that: %w",
			t.title(),
			t.name(),
			err,
		)
	}
	if err := a.setActive(ctx, t, t.Workload, true); err != nil {
		return nil, fmt.Errorf(
			"%s is held and not queued again: mlbatch release %s does that: %w",
			t.title(),
			t.name(),
			err,
		)
	}
	return a.result(t, "requeued", text, t.title()), nil
}

// Prioritize gives a job a WorkloadPriorityClass, running or not.
func (a *Actor) Prioritize(ctx context.Context, t *Target, class string) (*Result, error) {
	root := t.Object()
	j := t.Facts()
	switch {
	case root == nil:
		return nil, fmt.Errorf("you may not read the object of %s, whose label would say the class", t.title())
	case t.Set == nil && (j.Stage == view.Ended || j.Stage == view.Finished):
		return nil, fmt.Errorf("%s has ended (%s)", t.title(), j.State)
	case j.Stage == view.Foreign,
		t.Set == nil && t.Workload == nil && j.State == view.Unmanaged && t.Deployment == nil:
		return nil, fmt.Errorf("%s is in no queue, where a priority would matter", t.title())
	case t.group(), t.Asked.Kind == view.KindWorkload:
		return nil, fmt.Errorf(
			"%s is no object with a label of its own: kubectl label pod -l %s=%s -n %s %s=%s sets it for its pods",
			t.title(),
			kueue.PodGroupNameLabel,
			t.Asked.Name,
			t.Asked.Namespace,
			kueue.PriorityClassLabel,
			class,
		)
	case t.Workload != nil && t.Workload.Spec.PriorityClassRef != nil && t.Workload.Spec.PriorityClassRef.Kind == "PriorityClass" && t.Workload.Status.Admission != nil:
		return nil, fmt.Errorf(
			"%s has the priority of its pods' PriorityClass %s, which cannot change while they run: set it when the job is submitted again",
			t.title(),
			t.Workload.Spec.PriorityClassRef.Name,
		)
	case root.GetLabels()[kueue.PriorityClassLabel] == class:
		return a.result(t, Unchanged, "%s has the class %s already.", t.title(), class), nil
	}
	var known kueue.WorkloadPriorityClass
	err := a.Client.Get(ctx, client.ObjectKey{Name: class}, &known)
	value := ""
	switch {
	case apierrors.IsNotFound(err):
		return nil, a.noClass(ctx, class)
	case err == nil:
		value = fmt.Sprintf(" (%d)", known.Value)
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("read WorkloadPriorityClass %s: %w", class, err)
	}
	fields := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{kueue.PriorityClassLabel: class}},
	}
	if err := a.patch(ctx, root, fields); err != nil {
		return nil, fmt.Errorf("give %s another class: %w", t.title(), err)
	}
	return a.result(
		t,
		"reprioritized",
		"%s has the class %s%s now.%s",
		t.title(),
		class,
		value,
		ofPods(t.Workload),
	), nil
}

// ofPods says which PriorityClass the pods of a job have besides: it is another one, which no label
// changes.
func ofPods(w *kueue.Workload) string {
	if w == nil {
		return ""
	}
	var classes []string
	for i := range w.Spec.PodSets {
		if class := w.Spec.PodSets[i].Template.Spec.PriorityClassName; class != "" &&
			!slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
	if len(classes) == 0 {
		return ""
	}
	when := "have"
	if w.Status.Admission != nil {
		when = "keep"
	}
	return fmt.Sprintf(
		" Queues go by that; its pods %s the PriorityClass %s, by which a node that is short of memory chooses whom to end.",
		when,
		strings.Join(classes, ", "),
	)
}

// noClass says which classes there are.
func (a *Actor) noClass(ctx context.Context, class string) error {
	var list kueue.WorkloadPriorityClassList
	if err := a.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("there is no WorkloadPriorityClass %s", class)
	}
	if err := a.Client.Get(ctx, client.ObjectKey{Name: class}, &schedulingv1.PriorityClass{}); err == nil {
		return fmt.Errorf(
			"there is no WorkloadPriorityClass %[1]s, only a PriorityClass of pods, which a job has for good: cancel it and submit it with --pod-priority %[1]s",
			class,
		)
	}
	if len(list.Items) == 0 {
		return fmt.Errorf(
			"there is no WorkloadPriorityClass %s, nor any other: an administrator makes them (kueue.x-k8s.io/v1beta2)",
			class,
		)
	}
	var names []string
	for i := range list.Items {
		names = append(names, fmt.Sprintf("%s (%d)", list.Items[i].Name, list.Items[i].Value))
	}
	return fmt.Errorf("there is no WorkloadPriorityClass %s: there are %s", class, strings.Join(names, ", "))
}
