package visibility

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

const (
	// plans are what is posted to ask what would become of a job.
	plans    = "workloadplans"
	planKind = "WorkloadPlan"
	// plannedName is that of the workload in the copy that is asked; no object can be called so.
	plannedName = "(planned)"
	// Bounds of a plan.
	mostPlanBytes = 1 << 20
	mostPodSets   = 64
)

// plan answers what would become of a job.
func (h *handler) plan(r *http.Request, info *request.RequestInfo) (any, error) {
	ctx := r.Context()
	of := schema.GroupResource{Group: info.APIGroup, Resource: plans}
	if info.APIVersion != v1beta2.GroupVersion.Version {
		return nil, apierrors.NewNotFound(of, "")
	}
	var p v1beta2.WorkloadPlan
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, mostPlanBytes)).Decode(&p); err != nil {
		return nil, apierrors.NewBadRequest("read the plan: " + err.Error())
	}
	w, err := h.planned(ctx, info.Namespace, &p.Spec)
	if err != nil {
		return nil, err
	}
	classes, err := h.priorityClasses(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var higher []int64
	for _, c := range classes {
		higher = append(higher, int64(c.value))
	}
	told, err := h.translate(ctx, w)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	said, err := h.lines.Suppose(told, h.clock.Now(), higher)
	if err != nil {
		return nil, later(err)
	}
	a := &asker{handler: h, may: map[string]bool{}}
	a.user, _ = request.UserFrom(ctx)
	p.TypeMeta = metav1.TypeMeta{Kind: planKind, APIVersion: v1beta2.GroupVersion.String()}
	p.ObjectMeta = metav1.ObjectMeta{Namespace: info.Namespace}
	p.Status = a.outcome(ctx, w, told, said, classes)
	if p.Spec.EstimateStart && p.Status.Outcome == v1beta2.PlanWaits {
		if f, known := h.lines.SupposeStart(told); known {
			p.Status.Start = startOf(f)
		}
	}
	return p, nil
}

// planned is the Workload that a job would get.
func (h *handler) planned(
	ctx context.Context,
	namespace string,
	s *v1beta2.WorkloadPlanSpec,
) (*kueue.Workload, error) {
	if s.QueueName == "" || len(s.PodSets) == 0 || len(s.PodSets) > mostPodSets {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a plan has a queueName and up to %d podSets", mostPodSets))
	}
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              plannedName,
			UID:               plannedName,
			CreationTimestamp: metav1.NewTime(h.clock.Now()),
		},
	}
	w.Spec.QueueName = kueue.LocalQueueName(s.QueueName)
	for i := range s.PodSets {
		set := &s.PodSets[i]
		if set.Count < 0 || set.Name == "" || len(set.Template.Spec.Containers) == 0 {
			return nil, apierrors.NewBadRequest(
				fmt.Sprintf("podSets[%d] needs a name, a count that is not negative, and a template with containers", i),
			)
		}
		w.Spec.PodSets = append(w.Spec.PodSets, kueue.PodSet{
			Name: kueue.PodSetReference(set.Name), Count: set.Count, MinCount: set.MinCount, Template: set.Template,
			TopologyRequest: set.TopologyRequest,
		})
	}
	priority, err := h.plannedPriority(ctx, s)
	w.Spec.Priority = &priority
	return w, err
}

// plannedPriority is that of the WorkloadPriorityClass, or else that of the first pods, or else the
// cluster's default one.
func (h *handler) plannedPriority(ctx context.Context, s *v1beta2.WorkloadPlanSpec) (int32, error) {
	if s.PriorityClass != "" {
		var c kueue.WorkloadPriorityClass
		switch err := h.workloads.Get(ctx, client.ObjectKey{Name: s.PriorityClass}, &c); {
		case apierrors.IsNotFound(err):
			return 0, apierrors.NewBadRequest(
				fmt.Sprintf(
					"there is no WorkloadPriorityClass %s: the job would be held until there is",
					s.PriorityClass,
				),
			)
		case err != nil:
			return 0, apierrors.NewInternalError(fmt.Errorf("read WorkloadPriorityClass %s: %w", s.PriorityClass, err))
		}
		return c.Value, nil
	}
	var all schedulingv1.PriorityClassList
	if err := h.workloads.List(ctx, &all); err != nil {
		return 0, apierrors.NewInternalError(fmt.Errorf("list PriorityClasses: %w", err))
	}
	named := s.PodSets[0].Template.Spec.PriorityClassName
	value := int32(0)
	for _, c := range all.Items {
		if c.Name == named {
			return c.Value, nil
		}
		if c.GlobalDefault {
			value = c.Value
		}
	}
	return value, nil
}

// translate is a Workload as the engine would be told of it.
func (h *handler) translate(ctx context.Context, w *kueue.Workload) (core.Workload, error) {
	var limits corev1.LimitRangeList
	var classes nodev1.RuntimeClassList
	var volumes corev1.PersistentVolumeList
	if err := h.workloads.List(ctx, &limits, client.InNamespace(w.Namespace)); err != nil {
		return core.Workload{}, fmt.Errorf("list LimitRanges: %w", err)
	}
	if err := h.workloads.List(ctx, &classes); err != nil {
		return core.Workload{}, fmt.Errorf("list RuntimeClasses: %w", err)
	}
	if err := h.workloads.List(ctx, &volumes); err != nil {
		return core.Workload{}, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	s := convert.Surroundings{
		RuntimeClasses: map[string]convert.RuntimeClass{},
		Volumes:        map[string][]core.Selector{},
	}
	slices.SortFunc(limits.Items, func(a, b corev1.LimitRange) int {
		return core.Key{Name: a.Name}.Compare(core.Key{Name: b.Name})
	})
	for i := range limits.Items {
		s.LimitRanges = append(s.LimitRanges, &limits.Items[i])
	}
	for i := range classes.Items {
		s.RuntimeClasses[classes.Items[i].Name] = convert.RuntimeClassOf(&classes.Items[i])
	}
	for i := range volumes.Items {
		if claim, terms, limited := convert.Reach(&volumes.Items[i]); limited && claim.Namespace == w.Namespace {
			s.Volumes[claim.Name] = terms
		}
	}
	return convert.Workload(w, h.rules, s), nil
}

// outcome is the answer in what the asker may know.
func (a *asker) outcome(
	ctx context.Context,
	w *kueue.Workload,
	told core.Workload,
	x inquiry.Supposed,
	classes []priorityClass,
) *v1beta2.WorkloadPlanStatus {
	out := &v1beta2.WorkloadPlanStatus{
		At:           metav1.NewTime(a.clock.Now()),
		ClusterQueue: x.Queue,
		Priority:     shown(told.Priority),
		Outcome:      v1beta2.PlanWaits,
	}
	for _, k := range x.Evicts {
		out.Preempts = append(out.Preempts, a.reference(ctx, k))
	}
	if x.Admission == nil {
		e := &v1beta2.Explanation{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace}, At: out.At, Waiting: true}
		a.describe(ctx, e, x.Explanation)
		a.facts(ctx, e, x.Explanation)
		for _, v := range x.Explanation.Advice {
			to := a.advice(ctx, w, v, classes)
			switch v.Kind { //nolint:exhaustive // what else is offered is for others
			case core.FewerPods,
				core.SmallerPods,
				core.RaisePriority,
				core.Tolerate,
				core.DropSelector,
				core.RequireLevel,
				core.PreferLevel: // whoever submits it can
				to.Allowed, to.Needs = true, ""
			}
			e.Advice = append(e.Advice, to)
		}
		out.Explanation = e
		return out
	}
	out.Outcome = v1beta2.PlanStarts
	if x.Awaits {
		out.Outcome = v1beta2.PlanStartsAfterStops
	}
	for i := range x.Admission.PodSets {
		set := &x.Admission.PodSets[i]
		to := v1beta2.PlannedAdmission{Name: set.Name, Count: set.Count}
		for _, f := range set.Flavors {
			to.Flavors = append(
				to.Flavors,
				v1beta2.PlannedFlavor{
					Resource: f.Resource,
					Flavor:   f.Flavor,
					Amount:   convert.Quantity(f.Resource, set.Usage.Of(f.Resource)),
				},
			)
		}
		for _, p := range set.Places {
			to.Nodes = append(to.Nodes, v1beta2.PlannedNode{Name: p.Node, Count: p.Count})
		}
		out.PodSets = append(out.PodSets, to)
	}
	for _, q := range x.Quotas {
		out.Quotas = append(out.Quotas, v1beta2.PlannedQuota{
			Flavor:   q.Flavor,
			Resource: q.Resource,
			Nominal: convert.Quantity(
				q.Resource,
				q.Nominal,
			),
			Used:     convert.Quantity(q.Resource, q.Used),
			Borrowed: convert.Quantity(q.Resource, q.Borrowed),
		})
	}
	return out
}
