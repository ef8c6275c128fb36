package visibility

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// asker is the user who asks one question: what they may see and do.
type asker struct {
	*handler
	user user.Info
	// may are answers that were given already.
	may map[string]bool
}

// right is something that one may be allowed to do.
type right struct{ verb, group, resource, namespace string }

// String is VERB RESOURCE.GROUP, as answers name rights.
func (r right) String() string {
	s := r.verb + " " + r.resource
	if r.group != "" {
		s += "." + r.group
	}
	return s
}

// can reports whether the asker has a right. An unknown user has none.
func (a *asker) can(ctx context.Context, r right) bool {
	if a.user == nil || a.rights == nil {
		return false
	}
	key := r.String() + " " + r.namespace
	if yes, known := a.may[key]; known {
		return yes
	}
	decision, _, err := a.rights.Authorize(ctx, authorizer.AttributesRecord{
		User:            a.user,
		Verb:            r.verb,
		APIGroup:        r.group,
		APIVersion:      "*",
		Resource:        r.resource,
		Namespace:       r.namespace,
		ResourceRequest: true,
	})
	yes := err == nil && decision == authorizer.DecisionAllow
	a.may[key] = yes
	return yes
}

// sees reports whether the asker may know the names of workloads in a namespace:
// all that may read them there.
func (a *asker) sees(ctx context.Context, namespace string) bool {
	return a.can(ctx, right{"get", kueue.GroupVersion.Group, workloads, namespace})
}

// stopsAt is until when a workload that is being stopped may save what it has done; nil if it may not.
func (a *asker) stopsAt(ctx context.Context, k core.Key) *metav1.Time {
	w := &kueue.Workload{}
	if a.workloads.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Name}, w) != nil {
		return nil
	}
	if at := convert.ToldUntil(w, a.clock.Now()); !at.IsZero() {
		return &metav1.Time{Time: at}
	}
	return nil
}

// reference names a workload as far as the asker may know it.
func (a *asker) reference(ctx context.Context, k core.Key) v1beta2.WorkloadReference {
	w := &kueue.Workload{}
	var out v1beta2.WorkloadReference
	known := a.workloads.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Name}, w) == nil
	if known {
		out.UID, out.ClusterQueue = w.UID, a.queueOf(w)
	}
	if !a.sees(ctx, k.Namespace) {
		return out
	}
	out.Namespace, out.Name = k.Namespace, k.Name
	if kind, name := convert.Owner(w); known && name != "" {
		out.Job = kind.Kind + "/" + name
	}
	return out
}

// queueOf is the ClusterQueue that a workload has quota of, or waits in.
func (a *asker) queueOf(w *kueue.Workload) string {
	if w.Status.Admission != nil {
		return string(w.Status.Admission.ClusterQueue)
	}
	queue, _, err := a.lines.QueueOf(w.Namespace, string(w.Spec.QueueName))
	if err != nil {
		return ""
	}
	return queue
}

// objects are all Workloads there are.
func (h *handler) objects(ctx context.Context) (map[core.Key]*kueue.Workload, error) {
	var all kueue.WorkloadList
	if err := h.workloads.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("list workloads: %w", err))
	}
	objects := make(map[core.Key]*kueue.Workload, len(all.Items))
	for i := range all.Items {
		o := &all.Items[i]
		objects[core.Key{Namespace: o.Namespace, Name: o.Name}] = o
	}
	return objects, nil
}

// strangers are pods on a node that no queue knows, use a resource, and that the
// asker may read.
func (a *asker) strangers(ctx context.Context, node, resource string) []string {
	var all corev1.PodList
	if err := a.workloads.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // names are a courtesy
	}
	var out []string
	for i := range all.Items {
		p := &all.Items[i]
		if p.Spec.NodeName != node || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed ||
			convert.PodRequests(&p.Spec).Of(resource) == 0 || convert.WorkloadOf(p) != (core.Key{}) ||
			!a.can(ctx, right{"get", "", "pods", p.Namespace}) {
			continue
		}
		out = append(out, p.Namespace+"/"+p.Name)
	}
	slices.Sort(out)
	return out
}

// outOfService are nodes that the slack queue lends less for.
func (a *asker) outOfService(ctx context.Context, l core.Lender) []v1beta2.DownNode {
	var all corev1.NodeList
	var flavor kueue.ResourceFlavor
	if a.workloads.List(ctx, &all, client.UnsafeDisableDeepCopy) != nil ||
		a.workloads.Get(ctx, client.ObjectKey{Name: l.Flavor}, &flavor) != nil {
		return nil
	}
	var remembered *corev1.ConfigMap
	if a.health != nil {
		remembered = a.health(ctx)
	}
	healths, _ := convert.Healths(remembered)
	var out []v1beta2.DownNode
	for i := range all.Items {
		n := convert.NodeWith(&all.Items[i], healths[all.Items[i].Name])
		matches := true
		for k, v := range flavor.Spec.NodeLabels {
			matches = matches && n.Labels[k] == v
		}
		if _, has := n.Allocatable.Lookup(l.Resource); matches && has && !n.State.TakesWork() {
			out = append(out, v1beta2.DownNode{Name: n.Name, Why: n.Why})
		}
	}
	slices.SortFunc(out, func(x, y v1beta2.DownNode) int { return cmp.Compare(x.Name, y.Name) })
	return out[:min(len(out), mostDown)]
}

const mostDown = 10

// priorityClass is a way to get a priority.
type priorityClass struct {
	name  string
	value int32
}

// priorityClasses are the priority classes that jobs may name, of both kinds, lowest first.
func (h *handler) priorityClasses(ctx context.Context) ([]priorityClass, error) {
	var pods schedulingv1.PriorityClassList
	var own kueue.WorkloadPriorityClassList
	if err := cmp.Or(h.workloads.List(ctx, &pods), h.workloads.List(ctx, &own)); err != nil {
		return nil, fmt.Errorf("list priority classes: %w", err)
	}
	var out []priorityClass
	for i := range pods.Items {
		if c := &pods.Items[i]; !strings.HasPrefix(c.Name, "system-") { // these are for Kubernetes itself
			out = append(out, priorityClass{c.Name, c.Value})
		}
	}
	for i := range own.Items {
		out = append(out, priorityClass{own.Items[i].Name, own.Items[i].Value})
	}
	slices.SortFunc(out, func(a, b priorityClass) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.name, b.name))
	})
	return slices.Compact(out), nil
}

// advice fills in names and rights.
func (a *asker) advice(
	ctx context.Context,
	w *kueue.Workload,
	v core.Advice,
	classes []priorityClass,
) v1beta2.Advice {
	out := v1beta2.Advice{
		Kind: string(
			v.Kind,
		),
		PodSet:   v.PodSet,
		Count:    v.Count,
		Resource: v.Resource,
		Flavor:   v.Flavor,
		Priority: shown(v.Priority),
		Queue:    v.Queue,
		Nodes:    v.Nodes,
		Detail:   v.Detail,
		Level:    v.Level,
		Instead:  v.Instead,
		Affinity: v.Affinity,
		Preempts: v.Preempts,
	}
	if !v.At.IsZero() {
		out.At = new(metav1.NewTime(v.At))
	}
	if v.Kind == core.SmallerPods {
		out.Amount = quantity(v.Resource, v.Amount)
	}
	if v.Kind == core.RaisePriority {
		for _, c := range classes {
			if int64(c.value) == v.Priority {
				out.PriorityClasses = append(out.PriorityClasses, c.name)
			}
		}
	}
	for _, k := range v.Keys {
		out.Workloads = append(out.Workloads, a.reference(ctx, k))
	}
	if v.Kind == core.RemovePods {
		for _, n := range v.Nodes {
			out.Pods = append(out.Pods, a.strangers(ctx, n, v.Resource)...)
		}
	}
	needs := a.needs(w, v.Kind)
	out.Allowed = needs == (right{}) || a.can(ctx, needs)
	if needs != (right{}) {
		out.Needs = needs.String()
	}
	return out
}

// needs is the right that it takes to follow an advice; zero for none.
func (a *asker) needs(w *kueue.Workload, k core.AdviceKind) right {
	group := kueue.GroupVersion.Group
	switch k {
	case core.FewerPods, core.SmallerPods, core.Tolerate, core.DropSelector, core.RaisePriority, core.OtherQueue,
		core.RequireLevel, core.PreferLevel:
		return ofJob(w)
	case core.Uncordon, core.RepairNode:
		return right{"patch", "", "nodes", ""}
	case core.RemovePods:
		return right{"delete", "", "pods", ""}
	case core.ResumeQueue, core.PreemptBorrowing, core.AllowRelocation:
		return right{"patch", group, clusterQueues, ""}
	case core.ResumeLocal:
		return right{"patch", group, localQueues, w.Namespace}
	case core.OpenGate:
		if w.Annotations[kueue.AdmissionGatedByAnnotation] != "" ||
			w.Annotations[kueue.AfterAnnotation] != "" { // it is the job's, too
			r := ofJob(w)
			r.verb = "patch"
			return r
		}
		return right{"patch", group, workloads, w.Namespace}
	case core.Release:
		switch {
		case ptr.Deref(w.Spec.Active, true):
		case w.Annotations[kueue.HeldByAnnotation] != "": // what an administrator holds, administrators release
			return right{"update", group, workloads, w.Namespace}
		default:
			return right{"patch", group, workloads, w.Namespace}
		}
	case core.WaitFor, core.AwaitLeaving, core.AwaitRuntime, core.AwaitRelocation, core.AwaitBackOff:
	}
	return right{}
}

// ofJob is the right to create the job that a workload stands for, or that workload if it
// stands for itself.
func ofJob(w *kueue.Workload) right {
	r := right{"create", kueue.GroupVersion.Group, workloads, w.Namespace}
	if kind, name := convert.Owner(w); name != "" {
		plural, _ := apimeta.UnsafeGuessKindToResource(kind)
		r.group, r.resource = plural.Group, plural.Resource
	}
	return r
}
