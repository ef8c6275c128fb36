package job

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // see WorkloadName
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// WorkloadName is stable for one object, so that a restart finds what it made,
// and differs for an object of the same name made later. It is the name that
// Kueue gives, which scripts compute; but it is short enough for a label.
func WorkloadName(gvk schema.GroupVersionKind, o metav1.Object) string {
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
		if errors.Is(err, jobs.ErrIncomplete) {
			return s, false, nil // it is looked at again when that is written
		}
		r.event(s.job, jobEvent{reason: "ErrWorkloadCompose", message: err.Error(), warning: true})
		return r.unread(ctx, s, stands, whole)
	}
	if r.opts.NoReclaimablePods {
		s.facts.Reclaimable = nil
	}
	if stands == nested || stands == deeper {
		s.nested, s.whole = true, whole
		s.foreign = stands == deeper && whole != nil && !counted(s.facts, whole)
		return s, true, nil
	}
	if s.priority, err = PriorityOf(ctx, r.opts.Client, s.job, s.facts.PodSets); err != nil {
		return s, false, err
	}
	if err := r.workloads(ctx, &s); err != nil || s.workload == nil {
		return s, err == nil, err
	}
	w := s.workload
	if s.pods, err = admission.PodsOf(ctx, r.opts.Client, w.Namespace, w.Name); err != nil {
		return s, false, err
	}
	if convert.Admitted(w) {
		if s.infos, err = admission.Infos(ctx, r.opts.Client, w, r.opts.Labels); err == nil {
			s.infos, s.conflict = admission.Updated(s.infos, w.Status.AdmissionChecks)
		}
	}
	return s, err == nil, err
}

// unread reads what there is to know of a job that cannot be understood: whether it runs, and
// whether it may. Trying again does not mend a manifest, but such a job can be stopped.
func (r *reconciler) unread(ctx context.Context, s facts, stands standing, whole *kueue.Workload) (facts, bool, error) {
	stopped, err := r.adapter.Stop(s.job, nil)
	if err != nil {
		return s, false, nil //nolint:nilerr // it is of another type, and was told of
	}
	s.unreadable = true
	s.facts = jobs.Facts{Suspended: equality.Semantic.DeepEqual(s.job, stopped), Active: !r.adapter.Maker(s.job).Stopped}
	if stands == nested || stands == deeper {
		s.nested, s.whole = true, whole
		return s, true, nil
	}
	if err := r.workloads(ctx, &s); err != nil || s.workload == nil {
		return s, err == nil, err
	}
	s.pods, err = admission.PodsOf(ctx, r.opts.Client, s.workload.Namespace, s.workload.Name)
	return s, err == nil, err
}

// counted reports whether all pods of a part say that they are pods of the whole's
// Workload, so that they get no more places than it has.
func counted(part jobs.Facts, whole *kueue.Workload) bool {
	return !slices.ContainsFunc(part.PodSets, func(ps kueue.PodSet) bool {
		return ps.Template.Annotations[kueue.WorkloadAnnotation] != whole.Name
	})
}

// Priority is how important a job is, and which class says so.
type Priority struct {
	Value *int32
	Class *kueue.PriorityClassRef
	// Awaited is the WorkloadPriorityClass that the job names and that does not
	// exist, "" if there is none: the job is held until it does.
	Awaited string
}

// PriorityOf resolves the priority of a job with these pod sets, in this order: the label for a WorkloadPriorityClass, the
// first pod set's PriorityClass, the cluster's default PriorityClass, 0.
// A PriorityClass that does not exist counts as the default: the webhook refuses it where it can.
func PriorityOf(ctx context.Context, cl client.Reader, o metav1.Object, podSets []kueue.PodSet) (Priority, error) {
	awaited := ""
	if name := o.GetLabels()[kueue.PriorityClassLabel]; name != "" {
		var c kueue.WorkloadPriorityClass
		err := cl.Get(ctx, types.NamespacedName{Name: name}, &c)
		if err == nil {
			return Priority{Value: &c.Value, Class: &kueue.PriorityClassRef{Group: kueue.WorkloadPriorityClassGroup, Kind: kueue.WorkloadPriorityClassKind, Name: name}}, nil
		}
		if !apierrors.IsNotFound(err) {
			return Priority{}, fmt.Errorf("read WorkloadPriorityClass %s: %w", name, err)
		}
		awaited = name
	}
	var all schedulingv1.PriorityClassList
	if err := cl.List(ctx, &all); err != nil {
		return Priority{}, fmt.Errorf("list PriorityClasses: %w", err)
	}
	want := ""
	if len(podSets) > 0 {
		want = podSets[0].Template.Spec.PriorityClassName
	}
	slices.SortFunc(all.Items, func(a, b schedulingv1.PriorityClass) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range all.Items {
		if c.Name == want || (want == "" && c.GlobalDefault) {
			return Priority{new(c.Value), &kueue.PriorityClassRef{Group: kueue.PodPriorityClassGroup, Kind: kueue.PodPriorityClassKind, Name: c.Name}, awaited}, nil
		}
	}
	return Priority{Value: ptr.To[int32](0), Awaited: awaited}, nil
}
