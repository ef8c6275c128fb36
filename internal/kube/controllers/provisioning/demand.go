package provisioning

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// demand is a request with the pod templates that it refers to.
type demand struct {
	request   *autoscaling.ProvisioningRequest
	templates []*corev1.PodTemplate
}

// demand returns the request for the workload's pods.
func (f facts) demand(config *kueue.ProvisioningRequestConfig, name string) demand {
	w := f.workload
	d := demand{request: &autoscaling.ProvisioningRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: name,
			Labels:      map[string]string{kueue.ManagedLabel: "true"},
			Annotations: map[string]string{reservationAnnotation: f.reservation()},
		},
		Spec: autoscaling.ProvisioningRequestSpec{
			ProvisioningClassName: config.Spec.ProvisioningClassName,
			Parameters:            parameters(w, config),
		},
	}}
	for _, g := range f.merged(config) {
		t := &corev1.PodTemplate{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: w.Namespace, Name: templateName(name, string(g.name)),
				Labels: map[string]string{kueue.ManagedLabel: "true"},
			},
			Template: g.template,
		}
		d.templates = append(d.templates, t)
		d.request.Spec.PodSets = append(d.request.Spec.PodSets, autoscaling.PodSet{
			PodTemplateRef: autoscaling.Reference{Name: t.Name}, Count: g.count,
		})
	}
	return d
}

// parameters are those of the settings, and over them those of the workload.
func parameters(w *kueue.Workload, config *kueue.ProvisioningRequestConfig) map[string]autoscaling.Parameter {
	out := map[string]autoscaling.Parameter{}
	for k, v := range config.Spec.Parameters {
		out[k] = autoscaling.Parameter(v)
	}
	for k, v := range w.Annotations {
		if name, is := strings.CutPrefix(k, kueue.ProvisioningParameterPrefix); is {
			out[name] = autoscaling.Parameter(v)
		}
	}
	return out
}

// group is pods that are asked for as one.
type group struct {
	name     kueue.PodSetReference
	template corev1.PodTemplateSpec
	count    int32
}

// merged are the pod sets that need nodes, those together that the policy
// takes for equal. A group has the name and the template of its first.
func (f facts) merged(config *kueue.ProvisioningRequestConfig) []group {
	var out []group
	for _, ps := range f.required(config) {
		g := group{ps.Name, f.template(ps), f.count(ps)}
		at := slices.IndexFunc(
			out,
			func(o group) bool { return same(o.template, g.template, config.Spec.PodSetMergePolicy) },
		)
		if at < 0 {
			out = append(out, g)
		} else {
			out[at].count += g.count
		}
	}
	return out
}

// required are the pod sets that have pods and ask for one of the resources
// that the settings name, or for any if they name none.
func (f facts) required(config *kueue.ProvisioningRequestConfig) []*kueue.PodSet {
	var out []*kueue.PodSet
	for i := range f.workload.Spec.PodSets {
		ps := &f.workload.Spec.PodSets[i]
		if f.count(ps) > 0 && uses(&ps.Template.Spec, config.Spec.ManagedResources) {
			out = append(out, ps)
		}
	}
	return out
}

// count is how many pods of a set were given quota.
func (f facts) count(ps *kueue.PodSet) int32 {
	if a := f.assignment(ps.Name); a != nil && a.Count != nil {
		return *a.Count
	}
	return ps.Count
}

func (f facts) assignment(name kueue.PodSetReference) *kueue.PodSetAssignment {
	all := f.workload.Status.Admission.PodSetAssignments
	at := slices.IndexFunc(all, func(a kueue.PodSetAssignment) bool { return a.Name == name })
	if at < 0 {
		return nil
	}
	return &all[at]
}

func uses(pod *corev1.PodSpec, resources []corev1.ResourceName) bool {
	if len(resources) == 0 {
		return true
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, r := range resources {
			_, requested := c.Resources.Requests[r]
			_, limited := c.Resources.Limits[r]
			if requested || limited {
				return true
			}
		}
	}
	return false
}

// template is what a pod of the set will look like to a scheduler: with the
// labels and tolerations of its flavors, and limits for missing requests.
func (f facts) template(ps *kueue.PodSet) corev1.PodTemplateSpec {
	out := *ps.Template.DeepCopy()
	names := map[kueue.ResourceFlavorReference]bool{}
	if a := f.assignment(ps.Name); a != nil {
		for _, flavor := range a.Flavors {
			names[flavor] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		flavor := f.flavors[name]
		if flavor == nil {
			continue // it was deleted by force; the pods cannot be tied to it either
		}
		if out.Spec.NodeSelector == nil {
			out.Spec.NodeSelector = map[string]string{}
		}
		maps.Copy(out.Spec.NodeSelector, flavor.Spec.NodeLabels)
		out.Spec.Tolerations = jobs.Tolerate(out.Spec.Tolerations, flavor.Spec.Tolerations)
	}
	for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range list {
			limitsAsRequests(&list[i].Resources)
		}
	}
	return out
}

func limitsAsRequests(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = limit
		}
	}
}

// same reports whether the policy takes two templates for equal.
func same(a, b corev1.PodTemplateSpec, policy *kueue.PodSetMergePolicy) bool {
	switch ptr.Deref(policy, "") {
	case kueue.IdenticalPodTemplates:
		return equality.Semantic.DeepEqual(a, b)
	case kueue.IdenticalWorkloadSchedulingRequirements:
		return equality.Semantic.DeepEqual(requirements(&a.Spec), requirements(&b.Spec))
	}
	return false
}

// requirements is a pod without what is of no importance to where it can run.
func requirements(pod *corev1.PodSpec) corev1.PodSpec {
	out := corev1.PodSpec{
		NodeSelector: pod.NodeSelector, Affinity: pod.Affinity, Tolerations: pod.Tolerations,
		TopologySpreadConstraints: pod.TopologySpreadConstraints, RuntimeClassName: pod.RuntimeClassName,
		Overhead: pod.Overhead, ResourceClaims: pod.ResourceClaims, Resources: pod.Resources,
		HostNetwork: pod.HostNetwork,
	}
	for _, c := range pod.InitContainers {
		out.InitContainers = append(
			out.InitContainers,
			corev1.Container{Resources: c.Resources, RestartPolicy: c.RestartPolicy, Ports: c.Ports},
		)
	}
	for _, c := range pod.Containers {
		out.Containers = append(out.Containers, corev1.Container{Resources: c.Resources, Ports: c.Ports})
	}
	return out
}

// requestName is unique for a workload, a check and an attempt.
func requestName(workload, check string, attempt int32) string {
	return limited(fmt.Sprintf("%s-%s-%d", workload, check, attempt))
}

func templateName(request, podSet string) string {
	return limited("ppt-" + request + "-" + podSet)
}

// limited shortens a name that is too long for an object: its end gives way to
// a hash of the whole.
func limited(name string) string {
	const longest, hashed = 253, 5
	if len(name) < longest-hashed {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:longest-hashed-1], "-.") + "-" + hex.EncodeToString(sum[:])[:hashed]
}
