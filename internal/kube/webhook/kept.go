package webhook

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// suspicious is true of updates that may change what an admission was decided on:
// whether they do is asked of validateKept. Nearly no write does. It is evaluated
// for every write of a Workload; a write of the spec cannot change the status, nor
// the other way round, so that each looks at its own half.
const suspicious = "request.?subResource.orValue('') == 'status' ? (" + suspiciousStatus + ") : (" + suspiciousSpec + ")"

const (
	// suspiciousSpec: pods, queue or class were written anew of what has quota, or
	// has given some back.
	suspiciousSpec = "object.?spec != oldObject.?spec && (" + hadQuota + " || oldObject.?status.?reclaimablePods.hasValue())"
	// suspiciousStatus: an admission was written anew, or does not fit its pod
	// sets, or is missing; more is given back than there is, or less than before; a
	// cluster was chosen; a check that is Ready brings other changes.
	suspiciousStatus = "(object.?status.?admission != oldObject.?status.?admission && (object.?status.?admission.hasValue() ? (oldObject.?status.?admission.hasValue() || size(object.status.admission.?podSetAssignments.orValue([])) != size(object.?spec.?podSets.orValue([]))) : " + hasQuota + "))" +
		" || (!object.?status.?admission.hasValue() && " + hasQuota + " && !(" + hadQuota + "))" +
		" || (object.?status.?reclaimablePods != oldObject.?status.?reclaimablePods && (" + tooMuchGivenBack + " || " + lessGivenBack + "))" +
		" || object.?status.?clusterName != oldObject.?status.?clusterName || object.?status.?nominatedClusterNames != oldObject.?status.?nominatedClusterNames" +
		" || object.?status.?admissionChecks.orValue([]).exists(c, c.state == 'Ready' && oldObject.?status.?admissionChecks.orValue([]).exists(o, o.name == c.name && o.state == 'Ready' && o.?podSetUpdates != c.?podSetUpdates))"
	tooMuchGivenBack = "object.?status.?reclaimablePods.orValue([]).exists(r, !object.?spec.?podSets.orValue([]).exists(p, p.name == r.name && r.count <= p.count))"
	lessGivenBack    = "oldObject.?status.?reclaimablePods.orValue([]).exists(o, !object.?status.?reclaimablePods.orValue([]).exists(r, r.name == o.name && r.count >= o.count))"
	hasQuota         = "object.?status.?conditions.orValue([]).exists(c, c.type == 'QuotaReserved' && c.status == 'True')"
	hadQuota         = "oldObject.?status.?conditions.orValue([]).exists(c, c.type == 'QuotaReserved' && c.status == 'True')"
)

// validateKept refuses to change what an admission was decided on, to
// every writer.
func (h *queueingHandler) validateKept(_ context.Context, req admission.Request) admission.Response {
	is, err := h.hub(req, req.Object)
	if err != nil {
		return malformed(err)
	}
	was, err := h.hub(req, req.OldObject)
	if err != nil {
		return malformed(err)
	}
	old, isWorkload := was.(*v1beta2.Workload)
	w, _ := is.(*v1beta2.Workload)
	if !isWorkload { // whoever can reach us can ask what he wants
		return malformed(fmt.Errorf("a %s is no Workload", req.Kind.Kind))
	}
	errs := v1beta2.ValidateWorkloadKept(old, w)
	if len(errs) == 0 && v1beta2.HasQuota(old) && v1beta2.HasQuota(w) {
		// Fields of pods that our types do not know yet are kept too.
		same, err := sameWords(req.OldObject.Raw, req.Object.Raw)
		if err != nil {
			return malformed(err)
		}
		if !same {
			errs = append(errs, v1beta2.PodSetsKept())
		}
	}
	if req.Kind.Version == v1beta1.GroupVersion.Version {
		errs = v1beta1.Respell(errs)
	}
	return answer(req, errs)
}

// sameWords reports whether the pod sets of two Workloads differ in nothing but
// the spelling of quantities and in empty fields.
func sameWords(was, is []byte) (bool, error) {
	var old, now struct {
		Spec struct {
			PodSets any `json:"podSets"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(was, &old); err != nil {
		return false, err
	}
	if err := json.Unmarshal(is, &now); err != nil {
		return false, err
	}
	return alike(old.Spec.PodSets, now.Spec.PodSets), nil
}

// alike compares what was read from JSON: an empty value is as good as none, and
// strings that are quantities are compared as such. That is too generous where a
// field is no quantity; fields that our types know are compared by their types as
// well.
func alike(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok && !empty(b) {
			return false
		}
		for k, v := range x {
			if !alike(v, y[k]) {
				return false
			}
		}
		for k, v := range y {
			if _, both := x[k]; !both && !empty(v) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return empty(a) && empty(b)
		}
		for i := range x {
			if !alike(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	return a == b || empty(a) && empty(b) || sameQuantity(a, b)
}

// empty is true of what a typed client leaves out.
func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if !empty(e) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case float64:
		return v == 0
	case bool:
		return !v
	}
	return v == nil
}

func sameQuantity(a, b any) bool {
	x, ok := quantity(a)
	y, also := quantity(b)
	return ok && also && x.Cmp(y) == 0
}

func quantity(v any) (resource.Quantity, bool) {
	text, ok := v.(string)
	if number, is := v.(float64); is {
		data, err := json.Marshal(number)
		text, ok = string(data), err == nil
	}
	if !ok {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}
