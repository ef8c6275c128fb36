package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// queueingHandler answers for the kinds of kueue.x-k8s.io in both versions. An
// object of the older one is converted first, and what is wrong with it is told
// in the words of its own version.
type queueingHandler struct {
	decoder admission.Decoder
	cluster Cluster
	// slack is the ClusterQueue whose lending limits follow the nodes, "" if there is none.
	slack string
}

func (h *queueingHandler) validate(ctx context.Context, req admission.Request) admission.Response {
	is, err := h.hub(req, req.Object)
	if err != nil {
		return malformed(err)
	}
	var was runtime.Object
	if req.Operation == admissionv1.Update {
		if was, err = h.hub(req, req.OldObject); err != nil {
			return malformed(err)
		}
	}
	errs, err := h.check(ctx, was, is)
	if err != nil {
		return failed(err)
	}
	if req.Kind.Version == v1beta1.GroupVersion.Version {
		errs = v1beta1.Respell(errs)
	}
	resp := answer(req, errs)
	if q, ok := is.(*v1beta2.ClusterQueue); ok && q.Name == h.slack && resp.Allowed {
		old, _ := was.(*v1beta2.ClusterQueue)
		resp = resp.WithWarnings(undone(req, old, q)...)
	}
	return resp
}

// slackManager is the field manager by which the lending limits of the slack queue are written.
const slackManager = "mlbatch-slack"

// undone tells who changes the lending limits of the slack queue that they do not stay: was is nil for
// a new one.
func undone(req admission.Request, was, is *v1beta2.ClusterQueue) []string {
	var by struct {
		FieldManager string `json:"fieldManager"`
	}
	if err := json.Unmarshal(req.Options.Raw, &by); err == nil && by.FieldManager == slackManager {
		return nil
	}
	limits := func(q *v1beta2.ClusterQueue) map[string]*resource.Quantity {
		out := map[string]*resource.Quantity{}
		if q == nil {
			return out
		}
		for _, g := range q.Spec.ResourceGroups {
			for _, f := range g.Flavors {
				for _, r := range f.Resources {
					out[string(f.Name)+" "+string(r.Name)] = r.LendingLimit
				}
			}
		}
		return out
	}
	before, now := limits(was), limits(is)
	for key, limit := range now { // one that differs is enough
		if old := before[key]; (old == nil) != (limit == nil) || old != nil && old.Cmp(*limit) != 0 {
			return []string{
				fmt.Sprintf(
					"the lending limits of %s do not stay as you set them: they follow which nodes are in service, and are put back at once. What others may borrow at most is its nominalQuota",
					is.Name,
				),
			}
		}
	}
	return nil
}

// check applies the rules of the kind; was is nil for a new object.
func (h *queueingHandler) check(ctx context.Context, was, is runtime.Object) (field.ErrorList, error) {
	switch o := is.(type) {
	case *v1beta2.ClusterQueue:
		errs := jobs.ValidateRetryPolicy(o.Annotations)
		if old, ok := was.(*v1beta2.ClusterQueue); ok {
			return append(errs, v1beta2.ValidateClusterQueueUpdate(old, o)...), nil
		}
		return append(errs, v1beta2.ValidateClusterQueue(o)...), nil
	case *v1beta2.WorkloadPriorityClass:
		return v1beta2.ValidateWorkloadPriorityClass(o), nil
	case *v1beta2.LocalQueue:
		errs := jobs.ValidateRetryPolicy(o.Annotations)
		if old, ok := was.(*v1beta2.LocalQueue); ok {
			return append(errs, v1beta2.ValidateLocalQueueUpdate(old, o)...), nil
		}
		return append(errs, v1beta2.ValidateLocalQueue(o)...), nil
	case *v1beta2.Cohort:
		parents, err := h.parents(ctx)
		if err != nil {
			return nil, err
		}
		return v1beta2.ValidateCohort(o, parents), nil
	case *v1beta2.ResourceFlavor:
		return v1beta2.ValidateResourceFlavor(o), nil
	case *v1beta2.Workload:
		if old, ok := was.(*v1beta2.Workload); ok {
			return v1beta2.ValidateWorkloadUpdate(old, o), nil
		}
		return v1beta2.ValidateWorkload(o), nil
	}
	return nil, fmt.Errorf("validate %T: no rules are known for it", is)
}

// parents are the parents of all cohorts. They are read from the API server,
// since two cohorts written one after the other could make a cycle that the
// cache does not show yet.
func (h *queueingHandler) parents(
	ctx context.Context,
) (map[v1beta2.CohortReference]v1beta2.CohortReference, error) {
	cohorts := &v1beta2.CohortList{}
	if err := h.cluster.Live.List(ctx, cohorts); err != nil {
		return nil, fmt.Errorf("list cohorts: %w", err)
	}
	parents := map[v1beta2.CohortReference]v1beta2.CohortReference{}
	for _, c := range cohorts.Items {
		if c.Spec.ParentName != "" {
			parents[v1beta2.CohortReference(c.Name)] = c.Spec.ParentName
		}
	}
	return parents, nil
}

// hub reads an object of either version as one of the hub.
func (h *queueingHandler) hub(req admission.Request, raw runtime.RawExtension) (runtime.Object, error) {
	version := req.Kind.Version
	switch req.Kind.Kind {
	case "ClusterQueue":
		return read(h.decoder, raw, version, &v1beta1.ClusterQueue{}, &v1beta2.ClusterQueue{})
	case "LocalQueue":
		return read(h.decoder, raw, version, &v1beta1.LocalQueue{}, &v1beta2.LocalQueue{})
	case "Cohort":
		return read(h.decoder, raw, version, &v1beta1.Cohort{}, &v1beta2.Cohort{})
	case "ResourceFlavor":
		return read(h.decoder, raw, version, &v1beta1.ResourceFlavor{}, &v1beta2.ResourceFlavor{})
	case "WorkloadPriorityClass":
		return read(h.decoder, raw, version, &v1beta1.WorkloadPriorityClass{}, &v1beta2.WorkloadPriorityClass{})
	case "Workload":
		return read(h.decoder, raw, version, &v1beta1.Workload{}, &v1beta2.Workload{})
	}
	return nil, fmt.Errorf("read %s: no rules are known for it", req.Kind.Kind)
}

func read[S convertible[H], H runtime.Object](
	d admission.Decoder,
	raw runtime.RawExtension,
	version string,
	spoke S,
	hub H,
) (runtime.Object, error) {
	if version != v1beta1.GroupVersion.Version {
		return hub, d.DecodeRaw(raw, hub)
	}
	if err := d.DecodeRaw(raw, spoke); err != nil {
		return nil, err
	}
	return hub, spoke.ConvertTo(hub)
}
