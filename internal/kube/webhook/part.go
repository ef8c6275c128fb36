package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// A part of a job makes pods that are counted with the whole. One that the whole does not know any
// more makes them for ever, without a quota, or keeps the whole from ending. So its owner, its labels
// and its pod template are not the tenant's to change. What makes pods by itself has rules of its own.

// pathKeepPart is where changes of parts are judged.
const pathKeepPart = "/keep-part"

// partResources are the resources of which parts can be, besides pods, by group.
func partResources(all jobs.Kinds) map[string][]string {
	out := map[string][]string{}
	add := func(group, resource string) {
		if !slices.Contains(out[group], resource) {
			out[group] = append(out[group], resource)
		}
	}
	for _, w := range all.Wrappable() {
		if w.RunsPods && w.GVK.Group != "" {
			add(w.GVK.Group, w.Resource)
		}
	}
	for _, c := range all.Children() {
		for i := range all {
			if all[i].GVK() == c.GVK {
				add(c.GVK.Group, all[i].Naming.Resource)
			}
		}
	}
	for _, k := range serving.All() {
		if !k.Jobs {
			add(k.GVK.Group, k.Resource)
		}
	}
	return out
}

// partRules are the changes of those.
func partRules(all jobs.Kinds) []admissionregistrationv1.RuleWithOperations {
	resources := partResources(all)
	var out []admissionregistrationv1.RuleWithOperations
	for _, group := range slices.Sorted(maps.Keys(resources)) {
		out = append(out, rule(group, []string{"*"}, resources[group], update))
	}
	return out
}

// wholes are the kinds that have parts, as owner references name them.
func parents(all jobs.Kinds) []schema.GroupKind {
	var out []schema.GroupKind
	for _, k := range serving.Grouped() {
		out = append(out, k.GVK.GroupKind())
	}
	for i := range all {
		out = append(out, all[i].GroupKind())
	}
	return out
}

const (
	// controllerOf is what controls an object, as a list, in CEL.
	controllerOf = ".metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))"
	// countedTemplate is true of what makes pods, and Jobs, that are counted with a job that is not itself.
	countedTemplate = "request.resource.group == 'apps' && oldObject.?spec.?template.?metadata.?annotations[?'" + kueue.WorkloadAnnotation + "'].orValue('') != ''"
)

// isPart is true of an object that is a part, in CEL.
func isPart(all jobs.Kinds) string {
	var owners []string
	for _, k := range parents(all) {
		owners = append(owners, "o.kind == '"+k.Kind+"' && o.apiVersion.startsWith('"+k.Group+"/')")
	}
	of := []string{
		countedTemplate,
		"oldObject" + controllerOf + ".exists(o, " + strings.Join(owners, " || ") + ")",
	}
	for _, k := range serving.Grouped() {
		of = append(of, ofALeader(k.NameLabel))
	}
	return strings.Join(of, " || ")
}

// ofALeader is true of the StatefulSet of the workers of a group, which goes with their leader.
func ofALeader(nameLabel string) string {
	return "oldObject.metadata.?labels[?'" + nameLabel + "'].orValue('') != '' && oldObject" + controllerOf + ".exists(o, o.kind == 'Pod' && o.apiVersion == 'v1')"
}

// What has to be as it was of a part, in CEL.
const (
	sameOwner  = "object" + controllerOf + " == oldObject" + controllerOf
	sameLabels = "oldObject.metadata.?labels.orValue({}).all(k, object.metadata.?labels[?k].orValue('') == oldObject.metadata.labels[k])"
)

// byTenant is true of writes of people and of accounts of the namespace itself.
func byTenant() admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{
		Name:       "by-a-tenant",
		Expression: "!(" + byKubernetes() + " || " + foreignAccount + " || " + mayAdmit + ")",
	}
}

// partHooks are the webhooks about changes of parts.
func partHooks(all jobs.Kinds) []hook {
	var out []hook
	for _, r := range partRules(all) {
		out = append(out, hook{
			name: "vpart." + strings.ReplaceAll(
				r.APIGroups[0],
				".",
				"-",
			),
			path:       pathKeepPart,
			rule:       r,
			namespaces: teamNamespaces(),
			conditions: []admissionregistrationv1.MatchCondition{
				{Name: "forgotten", Expression: "!(" + sameOwner + " && " + sameLabels + ")"},
				{Name: "of-a-part", Expression: isPart(all)},
				byTenant(),
			},
		})
	}
	return out
}

// partKept: a part stays what the whole knows it by, and makes the pods that were admitted.
func partKept(all jobs.Kinds) policy {
	return policy{
		name:  PartPolicy,
		rules: partRules(all),
		conditions: []admissionregistrationv1.MatchCondition{
			{Name: "of-a-part", Expression: isPart(all)},
			byTenant(),
		},
		rulings: []admissionregistrationv1.Validation{
			{
				Expression: sameOwner + " && " + sameLabels,
				Message:    "metadata.ownerReferences, metadata.labels: the job that this is a part of knows it by them: leave them as they are, or delete the job",
			},
			{
				Expression: "object.?spec.?template == oldObject.?spec.?template",
				Message:    "spec.template: the job that this is a part of was admitted with it: delete that, and create it with another one",
			},
		},
	}
}

// keepPart refuses to take from a part what the whole knows it by.
func (h *jobHandler) keepPart(_ context.Context, req admission.Request) admission.Response {
	var was, is unstructured.Unstructured
	if err := json.Unmarshal(req.OldObject.Raw, &was.Object); err != nil {
		return malformed(err)
	}
	if err := json.Unmarshal(req.Object.Raw, &is.Object); err != nil {
		return malformed(err)
	}
	whole := h.parentOf(req.Kind.Group, &was)
	if whole == "" {
		return admission.Allowed("")
	}
	cure := fmt.Sprintf("%s knows its part by it: leave it as it is, or delete that", whole)
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(metav1.GetControllerOf(&was), metav1.GetControllerOf(&is)) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "ownerReferences"), cure))
	}
	for _, key := range slices.Sorted(maps.Keys(was.GetLabels())) {
		if is.GetLabels()[key] != was.GetLabels()[key] {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels").Key(key), cure))
		}
	}
	return answer(req, errs)
}

// parentOf is what an object is a part of, in words; "" if it is none.
func (h *jobHandler) parentOf(group string, o *unstructured.Unstructured) string {
	owner := metav1.GetControllerOf(o)
	if owner != nil &&
		slices.Contains(parents(h.kinds), schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()) {
		return owner.Kind + " " + owner.Name
	}
	for _, k := range serving.Grouped() {
		if set := o.GetLabels()[k.NameLabel]; set != "" && owner != nil && owner.APIVersion == "v1" &&
			owner.Kind == "Pod" {
			return k.GVK.Kind + " " + set
		}
	}
	name, _, _ := unstructured.NestedString(
		o.Object,
		"spec",
		"template",
		"metadata",
		"annotations",
		kueue.WorkloadAnnotation,
	)
	if group != "apps" || name == "" {
		return ""
	}
	return "the job of Workload " + name
}
