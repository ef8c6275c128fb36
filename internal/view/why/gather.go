package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appwrapper "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	grouped "github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// Gather fetches what there is to know about a job, whichever of its objects
// was named. What the user may not read is left out, except the object itself.
//
// Whether a workload that waits could start is asked of a controller, through ask.
func Gather(
	ctx context.Context,
	c client.Reader,
	ask Asker,
	ref view.Ref,
	now time.Time,
) (JobObjects, error) {
	p, err := FindAny(ctx, c, ref)
	if err != nil {
		return JobObjects{}, err
	}
	p.Now = now
	for _, fill := range []func(context.Context, client.Reader) error{p.findQueue, p.findNamespace, p.findOthers, p.findEvents} {
		if err := fill(ctx, c); err != nil {
			return JobObjects{}, err
		}
	}
	if w := p.Workload; w != nil && IsWaiting(w) {
		p.Answer, p.Unanswered = ask.Explanation(ctx, w.Namespace, w.Name)
	}
	return p, p.gatherPart(ctx, c, ask)
}

// Find fetches a job, its Workload and its pods, whichever of its objects was named.
func Find(ctx context.Context, c client.Reader, ref view.Ref) (JobObjects, error) {
	named, err := resolve(ctx, c, ref)
	if err != nil {
		return JobObjects{}, err
	}
	var p JobObjects
	if err := p.climb(ctx, c, named); err != nil {
		return JobObjects{}, err
	}
	if root := named.ref; p.Asked != root {
		p.Through = root
	}
	if err := p.findWorkload(ctx, c); err != nil {
		return JobObjects{}, err
	}
	p.findRecovery(ctx, c)
	return p, p.findPods(ctx, c)
}

// found is an object that carries the name of the question.
type found struct {
	ref    view.Ref
	object client.Object
}

func empty(k view.Kind) client.Object {
	if job := gather.KindOf(k); job != nil {
		return job.New()
	}
	switch k {
	case view.KindWorkload:
		return &kueue.Workload{}
	case view.KindPodGroup:
		return &podgroup.PodGroup{}
	case view.KindDeployment:
		return &appsv1.Deployment{}
	case view.KindPod:
		return &corev1.Pod{}
	default: // a kind of job, found above
		return nil
	}
}

// resolve finds the one object that ref means.
func resolve(ctx context.Context, c client.Reader, ref view.Ref) (found, error) {
	asked := Kinds()
	switch {
	case gather.IsSet(ref.Kind):
		return found{}, missing(ctx, c, ref, []view.Kind{ref.Kind})
	case ref.Kind != "":
		asked = []view.Kind{ref.Kind}
	}
	var all []found
	var forbidden error
	for i, r := range readEach(ctx, c, asked, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}) {
		switch k, err := asked[i], r.err; {
		case err == nil:
			all = append(all, found{view.Ref{Kind: k, Namespace: ref.Namespace, Name: ref.Name}, r.object})
		case apierrors.IsForbidden(err):
			forbidden = cmp.Or(forbidden, err)
		case !apierrors.IsNotFound(err) && !apimeta.IsNoMatchError(err):
			return found{}, fmt.Errorf("read %s %s/%s: %w", k, ref.Namespace, ref.Name, err)
		}
	}
	roots := slices.DeleteFunc(slices.Clone(all), func(f found) bool { return ownedByAny(f, all) })
	switch {
	case len(roots) == 1:
		return roots[0], nil
	case len(roots) > 1:
		var names []string
		for _, f := range roots {
			names = append(names, string(f.ref.Kind))
		}
		return found{}, fmt.Errorf(
			"%s/%s is the name of several objects (%s): say which with --kind",
			ref.Namespace,
			ref.Name,
			strings.Join(names, ", "),
		)
	case forbidden != nil:
		return found{}, fmt.Errorf("you may not read %s: %w", ref, forbidden)
	}
	return found{}, missing(ctx, c, ref, asked)
}

// reading is an object, or why there is none.
type reading struct {
	object client.Object
	err    error
}

// readEach reads the object of a name of each kind, all at a time: there are twenty kinds and more, and an
// API server that has much to do takes half a second for each.
func readEach(ctx context.Context, c client.Reader, asked []view.Kind, name types.NamespacedName) []reading {
	out := make([]reading, len(asked))
	var all sync.WaitGroup
	for i, k := range asked {
		all.Go(func() {
			o := empty(k)
			out[i] = reading{o, c.Get(ctx, name, o)}
		})
	}
	all.Wait()
	return out
}

func ownedByAny(f found, all []found) bool {
	owner := metav1.GetControllerOf(f.object)
	return owner != nil && slices.ContainsFunc(all, func(o found) bool { return o.object.GetUID() == owner.UID })
}

// missing is the error for a name that nothing has. It proposes names that
// begin alike, because job names are generated.
func missing(ctx context.Context, c client.Reader, ref view.Ref, asked []view.Kind) error {
	const most = 5
	var like []string
	for _, k := range kinds.All() {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(k.ListGVK())
		if err := c.List(ctx, &list, client.InNamespace(ref.Namespace)); err != nil {
			continue
		}
		for i := range list.Items {
			if o := &list.Items[i]; strings.HasPrefix(o.Name, ref.Name) && metav1.GetControllerOf(o) == nil {
				like = append(like, k.GVK().Kind+" "+ref.Namespace+"/"+o.Name)
			}
		}
	}
	text := fmt.Sprintf(
		"there is no job %s/%s, and nothing else of this name that has pods",
		ref.Namespace,
		ref.Name,
	)
	if len(asked) == 1 {
		text = fmt.Sprintf("there is no %s %s/%s", asked[0], ref.Namespace, ref.Name)
	}
	for _, k := range serving() {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(k)
		if (len(asked) > 1 || asked[0] == view.Kind(k.Kind)) &&
			c.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, o) == nil {
			text = servedAs(ctx, c, k.Kind, o)
		}
	}
	if err := c.Get(
		ctx,
		types.NamespacedName{Name: ref.Namespace},
		&corev1.Namespace{},
	); apierrors.IsNotFound(
		err,
	) {
		text = "there is no namespace " + ref.Namespace
	}
	slices.Sort(like)
	if len(like) > most {
		like = like[:most]
	}
	if len(like) > 0 {
		text += "; did you mean " + strings.Join(like, ", ") + "?"
	}
	return &MissingError{text}
}

// servedAs says of an object that is no job what to ask about instead.
func servedAs(ctx context.Context, c client.Reader, kind string, o *metav1.PartialObjectMetadata) string {
	const most = 3
	title := fmt.Sprintf("%s %s/%s", kind, o.Namespace, o.Name)
	if kind == "CronJob" {
		return title + " makes Jobs, and they are queued: ask about one of those that kubectl get jobs -n " + o.Namespace + " lists"
	}
	var list kueue.WorkloadList
	err := c.List(
		ctx,
		&list,
		client.InNamespace(o.Namespace),
		client.MatchingLabels{kueue.JobUIDLabel: string(o.UID)},
	)
	if err != nil || o.UID == "" || kind == "ReplicaSet" {
		return "the pods of " + title + " are queued by themselves or in groups: ask about one of them, or about its Workload"
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	switch n := len(names); {
	case n == 0:
		return title + " has no Workload of its own: ask about one of its pods; if there are none, kubectl get events -n " + o.Namespace + " tells why"
	case n > most:
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	return "the pods of " + title + " are queued as Workload " + strings.Join(
		names,
		", ",
	) + ": mlbatch why " + o.Namespace + "/" + names[0] + " tells more"
}

// serving are kinds of which no object is a job, but what it makes is.
func serving() []schema.GroupVersionKind {
	out := []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		batchv1.SchemeGroupVersion.WithKind("CronJob"),
	}
	for _, k := range grouped.Grouped() {
		out = append(out, k.GVK)
	}
	return out
}

// MissingError says that nothing has the name that was asked for.
type MissingError struct{ text string }

// Error is a sentence with proposals.
func (e *MissingError) Error() string { return e.text }

// nesting is how many objects own one another at most: references may go in circles.
const nesting = 10

// ownerOf names what an object belongs to: its controller or, for pods, the job whose
// label or annotation they carry. The UID is "" where only the name is known.
func ownerOf(f found) (view.Ref, types.UID) {
	owner := metav1.GetControllerOf(f.object)
	if owner != nil && slices.Contains(Kinds(), view.Kind(owner.Kind)) {
		return view.Ref{Kind: view.Kind(owner.Kind), Namespace: f.ref.Namespace, Name: owner.Name}, owner.UID
	}
	pod, is := f.object.(*corev1.Pod)
	if !is {
		return view.Ref{}, ""
	}
	for _, by := range []struct {
		kind view.Kind
		name string
	}{
		{view.KindAppWrapper, pod.Labels[appwrapper.AppWrapperLabel]},
		{view.KindWorkload, gather.WorkloadOf(pod)},
		{view.KindPodGroup, podgroup.Named(pod.Labels)},
	} {
		if by.name != "" {
			return view.Ref{Kind: by.kind, Namespace: f.ref.Namespace, Name: by.name}, ""
		}
	}
	return view.Ref{}, ""
}

// IsWaiting reports whether a workload waits for quota.
func IsWaiting(w *kueue.Workload) bool {
	return w.Status.Admission == nil && !isTrue(w.Status.Conditions, kueue.WorkloadFinished)
}

// findRecovery reads what is remembered of a job whose pods mlbatch makes. Who may not read it is told the
// rest.
func (p *JobObjects) findRecovery(ctx context.Context, c client.Reader) {
	k := gather.KindOf(p.Asked.Kind)
	if p.Other == nil || k == nil || k.Running.Operator == nil {
		return
	}
	var stored recovery.JobRecovery
	if c.Get(
		ctx,
		types.NamespacedName{Namespace: p.Other.GetNamespace(), Name: string(p.Other.GetUID())},
		&stored,
	) == nil {
		p.Recovery = stored.Of(p.Other)
	}
}

// Root is the object of the job itself; nil if the user may not read it.
func (p *JobObjects) Root() client.Object {
	switch {
	case p.AppWrapper != nil:
		return p.AppWrapper
	case p.Job != nil:
		return p.Job
	case p.Other != nil:
		return p.Other
	case p.PodGroup != nil:
		return p.PodGroup
	case p.Deployment != nil:
		return p.Deployment
	case p.Pod != nil:
		return p.Pod
	case p.Set != nil:
		return p.Set
	case p.Workload != nil:
		return p.Workload
	}
	return nil
}

// climb goes from the named object up to the job that was queued.
func (p *JobObjects) climb(ctx context.Context, c client.Reader, f found) error {
	for range nesting {
		p.Asked = f.ref
		p.see(f.object)
		above, uid := ownerOf(f)
		if above == (view.Ref{}) || p.queuedItself(ctx, c, f) {
			return nil
		}
		up := found{above, empty(above.Kind)}
		err := c.Get(ctx, types.NamespacedName{Namespace: up.ref.Namespace, Name: up.ref.Name}, up.object)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) ||
			err == nil && uid != "" && up.object.GetUID() != uid {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s, which owns %s: %w", up.ref, f.ref, err)
		}
		f = up
	}
	return nil
}

// queuedItself reports whether a job that another object owns is queued by itself: then the question
// is about it, and not about what is above it.
func (*JobObjects) queuedItself(ctx context.Context, c client.Reader, f found) bool {
	if gather.KindOf(f.ref.Kind) == nil {
		return false
	}
	var list kueue.WorkloadList
	err := c.List(
		ctx,
		&list,
		client.InNamespace(f.ref.Namespace),
		client.MatchingLabels{kueue.JobUIDLabel: string(f.object.GetUID())},
	)
	return err == nil && f.object.GetUID() != "" && len(list.Items) > 0
}

// see notes an object on the way up; what is part of another one is forgotten, but for
// the Workload.
func (p *JobObjects) see(o client.Object) {
	p.Job, p.Other, p.PodGroup, p.Deployment, p.Pod = nil, nil, nil, nil, nil
	if w, is := o.(*kueue.Workload); is {
		p.Workload = w
		return
	}
	p.setRoot(o)
}

// findWorkload finds the Workload of the job, the unfinished one if it has had
// several.
func (p *JobObjects) findWorkload(ctx context.Context, c client.Reader) error {
	if p.Workload != nil {
		return nil
	}
	var root client.Object
	switch {
	case p.AppWrapper != nil:
		root = p.AppWrapper
	case p.Job != nil:
		root = p.Job
	case p.Other != nil:
		root = p.Other
	case p.Pod != nil && gather.Held(p.Pod):
		root = p.Pod
	default:
		return nil // nothing of the kind is queued
	}
	var list kueue.WorkloadList
	err := c.List(
		ctx,
		&list,
		client.InNamespace(root.GetNamespace()),
		client.MatchingLabels{kueue.JobUIDLabel: string(root.GetUID())},
	)
	if err := gather.Readable(err); err != nil {
		return fmt.Errorf("list workloads of %s: %w", p.Asked, err)
	}
	slices.SortFunc(list.Items, func(a, b kueue.Workload) int {
		return cmp.Or(
			cmp.Compare(gather.Rank(&a), gather.Rank(&b)),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	if len(list.Items) > 0 {
		p.Workload = &list.Items[0]
	}
	return nil
}

func (p *JobObjects) findQueue(ctx context.Context, c client.Reader) error {
	if p.Workload == nil || p.Workload.Spec.QueueName == "" {
		return nil
	}
	var q kueue.LocalQueue
	err := c.Get(
		ctx,
		types.NamespacedName{Namespace: p.Workload.Namespace, Name: string(p.Workload.Spec.QueueName)},
		&q,
	)
	if err == nil {
		p.LocalQueue = &q
	}
	return gather.Readable(err)
}

func (p *JobObjects) findNamespace(ctx context.Context, c client.Reader) error {
	var ns corev1.Namespace
	err := c.Get(ctx, types.NamespacedName{Name: p.Asked.Namespace}, &ns)
	p.Team = err == nil && ns.Labels[kueue.TeamNamespaceLabel] == "true"
	return gather.Readable(err)
}

func (p *JobObjects) findPods(ctx context.Context, c client.Reader) error {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(p.Asked.Namespace)); err != nil {
		return gather.Readable(err)
	}
	for i := range list.Items {
		if p.owns(&list.Items[i]) {
			p.Pods = append(p.Pods, list.Items[i])
		}
	}
	slices.SortFunc(p.Pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// owns reports whether a pod belongs to the job.
func (p *JobObjects) owns(pod *corev1.Pod) bool {
	groups := gather.Grouped(p.Asked.Kind)
	switch {
	case p.Asked.Kind == view.KindGroup:
		return gather.GroupOf(pod) == p.Asked.Name
	case p.Set != nil && groups != nil:
		return pod.Labels[groups.NameLabel] == p.Asked.Name
	case p.Set != nil:
		return metav1.IsControlledBy(pod, p.Set)
	case p.AppWrapper != nil:
		return pod.Labels[appwrapper.AppWrapperLabel] == p.AppWrapper.Name
	case p.Job != nil:
		return pod.Labels[batchv1.JobNameLabel] == p.Job.Name
	case p.Other != nil: // its pods may be those of objects that it made
		return metav1.IsControlledBy(pod, p.Other) ||
			p.Workload != nil && pod.Annotations[kueue.WorkloadAnnotation] == p.Workload.Name
	case p.Pod != nil:
		return pod.UID == p.Pod.UID && pod.Name == p.Pod.Name
	case p.PodGroup != nil:
		return podgroup.Named(pod.Labels) == p.PodGroup.Name
	case p.Deployment != nil:
		s, err := metav1.LabelSelectorAsSelector(p.Deployment.Spec.Selector)
		return err == nil && !s.Empty() && s.Matches(labels.Set(pod.Labels))
	}
	return p.Workload != nil && pod.Annotations[kueue.WorkloadAnnotation] == p.Workload.Name
}

// findOthers looks at the other workloads of the namespace, and whose jobs they are.
func (p *JobObjects) findOthers(ctx context.Context, c client.Reader) error {
	w := p.Workload
	if w == nil || gather.Rank(w) != 0 {
		return nil
	}
	var all kueue.WorkloadList
	if err := c.List(ctx, &all, client.InNamespace(w.Namespace)); err != nil {
		return gather.Readable(err)
	}
	p.Jobs = map[string]string{}
	for i := range all.Items {
		o := &all.Items[i]
		p.Jobs[o.Namespace+"/"+o.Name] = o.Namespace + "/" + gather.JobName(o)
	}
	return nil
}
