package job

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // see workloadName
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// PodIndex is the name of the cache index from a Workload's name to its pods.
const PodIndex = "mlbatch.dev/workload"

// IndexPod returns the Workload that a pod belongs to, for PodIndex.
func IndexPod(o client.Object) []string {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	return []string{p.Annotations[kueue.WorkloadAnnotation]}
}

// Pods are what the pods of a Workload say about it.
type Pods struct {
	// Live is how many hold quota: see core.PodState.
	Live int
	// Refused is since when the scheduler has found no place for one of them, and
	// Why what it says; zero if all is well.
	Refused time.Time
	Why     string
	// Behind is true while one waits for the place of a deleted one.
	Behind bool
}

// PodsOf looks at the pods of a Workload.
func PodsOf(ctx context.Context, c client.Reader, namespace, workload string) (Pods, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingFields{PodIndex: workload}, client.UnsafeDisableDeepCopy); err != nil {
		return Pods{}, fmt.Errorf("list pods of workload %s/%s: %w", namespace, workload, err)
	}
	var out Pods
	for i := range pods.Items {
		p := &pods.Items[i]
		if !convert.PodState(p).HoldsQuota() {
			continue
		}
		out.Live++
		since, why := refused(p)
		if strings.Contains(why, convert.PlaceKept) {
			out.Behind = true
			continue // it is no node that refuses it
		}
		if !since.IsZero() && (out.Refused.IsZero() || since.Before(out.Refused)) {
			out.Refused, out.Why = since, why
		}
	}
	return out, nil
}

// refused is since when a pod has been refused by every node, and why.
func refused(p *corev1.Pod) (time.Time, string) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && p.DeletionTimestamp == nil {
			return c.LastTransitionTime.Time, c.Message
		}
	}
	return time.Time{}, ""
}

// workloadName is stable for one object, so that a restart finds what it made,
// and differs for an object of the same name made later. It is the name that
// Kueue gives, which scripts compute; but it is short enough for a label.
func workloadName(gvk schema.GroupVersionKind, o metav1.Object) string {
	const longest, hashLength = 63, 5
	sum := sha1.Sum([]byte(strings.Join([]string{gvk.Kind, gvk.Group, o.GetName(), string(o.GetUID())}, "\n"))) //nolint:gosec // it tells names apart and keeps no secret
	prefix := strings.ToLower(gvk.Kind) + "-" + o.GetName()
	if len(prefix) > longest-hashLength-1 {
		prefix = strings.TrimRight(prefix[:longest-hashLength-1], ".-")
	}
	return prefix + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// gather reads what decide needs to know. The second result is false if the
// job is none of ours.
func (r *reconciler) gather(ctx context.Context, name types.NamespacedName) (facts, bool, error) {
	s := facts{adapter: r.adapter, lifecycle: r.opts.Lifecycle, now: r.opts.Clock.Now()}
	s.job = r.adapter.New()
	if err := r.opts.Client.Get(ctx, name, s.job); err != nil {
		return s, false, client.IgnoreNotFound(err)
	}
	if !r.adapter.Ours(s.job) {
		return s, false, nil
	}
	s.queue = s.job.GetLabels()[kueue.QueueNameLabel]
	stands, whole, err := r.standingOf(ctx, s.job, s.queue)
	if err != nil || stands == alone {
		return s, false, err
	}
	if s.facts, err = r.adapter.Read(s.job); err != nil {
		r.event(s.job, jobEvent{reason: "ErrWorkloadCompose", message: err.Error(), warning: true})
		return s, false, nil //nolint:nilerr // trying again does not mend a manifest; the event tells its author
	}
	if r.opts.NoReclaimablePods {
		s.facts.Reclaimable = nil
	}
	if stands == nested || stands == deeper {
		s.nested, s.whole = true, whole
		s.foreign = stands == deeper && whole != nil && !counted(s.facts, whole)
		return s, true, nil
	}
	if s.priority, err = r.priority(ctx, s.job, s.facts); err != nil {
		return s, false, err
	}
	if err := r.workloads(ctx, &s); err != nil || s.workload == nil {
		return s, err == nil, err
	}
	w := s.workload
	if s.pods, err = PodsOf(ctx, r.opts.Client, w.Namespace, w.Name); err != nil {
		return s, false, err
	}
	if convert.Admitted(w) {
		if s.infos, err = r.infos(ctx, w); err == nil {
			s.infos, s.conflict = updated(s.infos, w.Status.AdmissionChecks)
		}
	}
	return s, err == nil, err
}

// counted reports whether all pods of a part say that they are pods of the whole's
// Workload, so that they get no more places than it has.
func counted(part jobs.Facts, whole *kueue.Workload) bool {
	return !slices.ContainsFunc(part.PodSets, func(ps kueue.PodSet) bool {
		return ps.Template.Annotations[kueue.WorkloadAnnotation] != whole.Name
	})
}

// priority is how important a job is, and which class says so.
type priority struct {
	value *int32
	class *kueue.PriorityClassRef
	// awaited is the WorkloadPriorityClass that the job names and that does not
	// exist, "" if there is none: the job is held until it does.
	awaited string
}

// priority resolves, in this order: the label for a WorkloadPriorityClass, the
// first pod set's PriorityClass, the cluster's default PriorityClass, 0.
// A PriorityClass that does not exist counts as the default: the webhook refuses it where it can.
func (r *reconciler) priority(ctx context.Context, o jobs.Object, f jobs.Facts) (priority, error) {
	awaited := ""
	if name := o.GetLabels()[kueue.PriorityClassLabel]; name != "" {
		var c kueue.WorkloadPriorityClass
		err := r.opts.Client.Get(ctx, types.NamespacedName{Name: name}, &c)
		if err == nil {
			return priority{value: &c.Value, class: &kueue.PriorityClassRef{Group: kueue.WorkloadPriorityClassGroup, Kind: kueue.WorkloadPriorityClassKind, Name: name}}, nil
		}
		if !apierrors.IsNotFound(err) {
			return priority{}, fmt.Errorf("read WorkloadPriorityClass %s: %w", name, err)
		}
		awaited = name
	}
	var all schedulingv1.PriorityClassList
	if err := r.opts.Client.List(ctx, &all); err != nil {
		return priority{}, fmt.Errorf("list PriorityClasses: %w", err)
	}
	want := ""
	if len(f.PodSets) > 0 {
		want = f.PodSets[0].Template.Spec.PriorityClassName
	}
	slices.SortFunc(all.Items, func(a, b schedulingv1.PriorityClass) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range all.Items {
		if c.Name == want || (want == "" && c.GlobalDefault) {
			return priority{new(c.Value), &kueue.PriorityClassRef{Group: kueue.PodPriorityClassGroup, Kind: kueue.PodPriorityClassKind, Name: c.Name}, awaited}, nil
		}
	}
	return priority{value: ptr.To[int32](0), awaited: awaited}, nil
}

// infos says what the admission adds to the pods of each pod set: the labels
// and tolerations of the assigned flavors, and whose pods they are.
func (r *reconciler) infos(ctx context.Context, w *kueue.Workload) ([]jobs.PodSetInfo, error) {
	out := make([]jobs.PodSetInfo, 0, len(w.Status.Admission.PodSetAssignments))
	for _, a := range w.Status.Admission.PodSetAssignments {
		info := jobs.PodSetInfo{
			Name:         string(a.Name),
			Count:        ptr.Deref(a.Count, 0),
			Annotations:  map[string]string{kueue.WorkloadAnnotation: w.Name},
			Labels:       map[string]string{kueue.PodSetLabel: string(a.Name)},
			NodeSelector: map[string]string{},
		}
		if !r.opts.NoQueueLabels {
			queueLabels(info.Labels, w)
		}
		flavors := map[kueue.ResourceFlavorReference]bool{}
		for _, f := range a.Flavors {
			flavors[f] = true
		}
		for _, name := range slices.Sorted(maps.Keys(flavors)) {
			var f kueue.ResourceFlavor
			if err := r.opts.Client.Get(ctx, types.NamespacedName{Name: string(name)}, &f); err != nil {
				return nil, fmt.Errorf("read flavor %s assigned to workload %s/%s: %w", name, w.Namespace, w.Name, err)
			}
			maps.Copy(info.NodeSelector, f.Spec.NodeLabels)
			info.Tolerations = jobs.Tolerate(info.Tolerations, f.Spec.Tolerations)
		}
		out = append(out, info)
	}
	return out, nil
}

// updated adds what the admission checks want the pods to have.
func updated(infos []jobs.PodSetInfo, checks []kueue.AdmissionCheckState) ([]jobs.PodSetInfo, error) {
	for _, c := range checks {
		for _, u := range c.PodSetUpdates {
			at := slices.IndexFunc(infos, func(i jobs.PodSetInfo) bool { return i.Name == string(u.Name) })
			if at < 0 {
				return infos, fmt.Errorf("admission check %s: the job has no pod set %s", c.Name, u.Name)
			}
			next, err := infos[at].With(u)
			if err != nil {
				return infos, fmt.Errorf("admission check %s, pod set %s: %w", c.Name, u.Name, err)
			}
			infos[at] = next
		}
	}
	return infos, nil
}

// queueLabels tells on the pods which queues they came through. A name that is
// too long for a label is left out.
func queueLabels(labels map[string]string, w *kueue.Workload) {
	for key, name := range map[string]string{
		kueue.ClusterQueueNameLabel: string(w.Status.Admission.ClusterQueue),
		kueue.LocalQueueNameLabel:   string(w.Spec.QueueName),
	} {
		if name != "" && len(name) <= validation.LabelValueMaxLength {
			labels[key] = name
		}
	}
}
