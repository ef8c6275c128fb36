package raycluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// mostGroups are as many as a Workload has room for, beside the head and the pod that
// submits a job.
const mostGroups = 16

// validate finds what is wrong with a cluster.
func validate(c *api.RayCluster) field.ErrorList {
	errs := CheckManagedBy(c.Spec.ManagedBy)
	return append(append(errs, checkName(c)...), CheckSpec(&c.Spec, field.NewPath("spec"))...)
}

// CheckManagedBy finds out whether the manager of an object is one that there is.
func CheckManagedBy(by *string) field.ErrorList {
	if by == nil || *by == api.ManagedByOperator || *by == api.ManagedByMultiKueue {
		return nil
	}
	return field.ErrorList{
		field.NotSupported(
			field.NewPath("spec", "managedBy"),
			*by,
			[]string{api.ManagedByOperator, api.ManagedByMultiKueue},
		),
	}
}

// checkName refuses what no service could be called.
func checkName(c *api.RayCluster) field.ErrorList {
	name, at := c.Name, field.NewPath("metadata", "name")
	if name == "" {
		name, at = c.GenerateName+"xxxxx", field.NewPath("metadata", "generateName")
	}
	const longest = "-head-svc"
	if most := validation.DNS1035LabelMaxLength - len(longest); len(name) > most {
		return field.ErrorList{
			field.Invalid(
				at,
				name,
				fmt.Sprintf(
					"the service of its head is called NAME%s, which is longer than 63 characters: use at most %d",
					longest,
					most,
				),
			),
		}
	}
	if wrong := validation.IsDNS1035Label(name); len(wrong) > 0 {
		return field.ErrorList{
			field.Invalid(at, name, "the service of its head has it in its name: "+strings.Join(wrong, ", ")),
		}
	}
	return nil
}

// CheckSpec finds what is wrong with what is said of a cluster at a path.
func CheckSpec(s *api.RayClusterSpec, at *field.Path) field.ErrorList {
	errs := checkTemplate(&s.HeadGroupSpec.Template, at.Child("headGroupSpec", "template"))
	errs = append(errs, checkService(&s.HeadGroupSpec, at.Child("headGroupSpec"))...)
	errs = append(
		errs,
		metav1validation.ValidateLabels(s.HeadGroupSpec.Labels, at.Child("headGroupSpec", "labels"))...)
	errs = append(errs, checkGroups(s, at.Child("workerGroupSpecs"))...)
	errs = append(errs, checkPersistence(s, at)...)
	if o := s.AutoscalerOptions; o != nil && o.IdleTimeoutSeconds != nil && *o.IdleTimeoutSeconds < 0 {
		errs = append(
			errs,
			field.Invalid(
				at.Child("autoscalerOptions", "idleTimeoutSeconds"),
				*o.IdleTimeoutSeconds,
				"use a number from 0",
			),
		)
	}
	errs = append(errs, checkAuth(s.AuthOptions, at.Child("authOptions"))...)
	if o := s.AutoscalerOptions; o != nil &&
		slices.ContainsFunc(o.Env, func(e corev1.EnvVar) bool { return e.Name == scalerCommand }) {
		errs = append(
			errs,
			field.Forbidden(
				at.Child("autoscalerOptions", "env"),
				scalerCommand+" is what args may use: remove it, and use args",
			),
		)
	}
	for _, missing := range []struct {
		name string
		is   bool
		cure string
	}{
		{"networkPolicy", s.NetworkPolicy != nil, "none is made here, and the cluster would be open: make a NetworkPolicy that selects ray.io/cluster, and remove it"},
		{"tlsOptions.enabled", s.TLSOptions != nil && ptr.Deref(s.TLSOptions.Enabled, false), "no certificates are made here, and the cluster would talk without: set RAY_USE_TLS and its files in the pods, and remove it"},
		{"podFQDN", s.PodFQDN != nil, "pods are known by their addresses here: remove it"},
	} {
		if missing.is {
			errs = append(errs, field.Forbidden(at.Child(missing.name), missing.cure))
		}
	}
	return errs
}

func checkTemplate(t *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	if len(t.Spec.Containers) == 0 {
		return field.ErrorList{field.Required(at.Child("spec", "containers"), "the first of them runs Ray")}
	}
	return nil
}

// serviceTypes are those of services that mlbatch makes.
func serviceTypes() []corev1.ServiceType {
	return []corev1.ServiceType{
		corev1.ServiceTypeClusterIP,
		corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer,
	}
}

// checkService refuses a service that leads to anything but the head.
func checkService(h *api.HeadGroupSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if h.ServiceType != "" && !slices.Contains(serviceTypes(), h.ServiceType) {
		errs = append(errs, field.NotSupported(at.Child("serviceType"), h.ServiceType, serviceTypes()))
	}
	return append(errs, CheckService(h.HeadService, at.Child("headService"), "the cluster")...)
}

// CheckService refuses a service that leads to anything but the pods of what it is made for.
func CheckService(s *corev1.Service, at *field.Path, of string) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	if s.Spec.Type != "" && !slices.Contains(serviceTypes(), s.Spec.Type) {
		errs = append(errs, field.NotSupported(at.Child("spec", "type"), s.Spec.Type, serviceTypes()))
	}
	if len(s.Spec.ExternalIPs) > 0 {
		errs = append(
			errs,
			field.Forbidden(at.Child("spec", "externalIPs"), "they would take addresses of others: remove them"),
		)
	}
	if s.Name != "" {
		for _, wrong := range validation.IsDNS1035Label(s.Name) {
			errs = append(errs, field.Invalid(at.Child("metadata", "name"), s.Name, wrong))
		}
	}
	if s.Namespace != "" {
		errs = append(
			errs,
			field.Forbidden(at.Child("metadata", "namespace"), "it is that of "+of+": remove it"),
		)
	}
	return errs
}

// LongestName is that of a job or service: its clusters and their services have it in their names.
const LongestName = 47

// CheckName refuses a job or service whose name cannot be in those of its clusters and services; clusters
// says which these are.
func CheckName(o metav1.Object, clusters string) field.ErrorList {
	name, at := o.GetName(), field.NewPath("metadata", "name")
	if name == "" {
		name, at = o.GetGenerateName()+"xxxxx", field.NewPath("metadata", "generateName")
	}
	if len(name) > LongestName {
		return field.ErrorList{
			field.Invalid(
				at,
				name,
				fmt.Sprintf("%s and services have it in their names: use at most %d characters", clusters, LongestName),
			),
		}
	}
	if wrong := validation.IsDNS1035Label(name); len(wrong) > 0 {
		return field.ErrorList{
			field.Invalid(at, name, "its services have it in their names: "+strings.Join(wrong, ", ")),
		}
	}
	return nil
}

func checkGroups(s *api.RayClusterSpec, at *field.Path) field.ErrorList {
	if n := len(s.WorkerGroupSpecs); n > mostGroups {
		return field.ErrorList{field.TooMany(at, n, mostGroups)}
	}
	var errs field.ErrorList
	names, total := map[string]bool{}, int64(0)
	for i := range s.WorkerGroupSpecs {
		g := groupOf(s, &s.WorkerGroupSpecs[i])
		errs = append(errs, checkGroup(s, &g, at.Index(i))...)
		if names[g.role()] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("groupName"), g.GroupName))
		}
		names[g.role()] = true
		total += int64(max(g.Admitted, g.Count))
	}
	if len(errs) == 0 && total > mostPods {
		errs = append(
			errs,
			field.Invalid(
				at,
				total,
				fmt.Sprintf("replicas times numOfHosts of all groups are at most %d together", mostPods),
			),
		)
	}
	return errs
}

func checkGroup(s *api.RayClusterSpec, g *group, at *field.Path) field.ErrorList {
	errs := checkTemplate(&g.Template, at.Child("template"))
	errs = append(errs, metav1validation.ValidateLabels(g.Labels, at.Child("labels"))...)
	switch wrong := validation.IsDNS1123Label(g.role()); {
	case g.GroupName == "":
		errs = append(errs, field.Required(at.Child("groupName"), "pods have it in their names"))
	case len(wrong) > 0 || g.role() != g.GroupName:
		errs = append(
			errs,
			field.Invalid(
				at.Child("groupName"),
				g.GroupName,
				"pods have it in their names: use small letters, digits and -, at most 63",
			),
		)
	case g.role() == Head || g.role() == api.HeadGroup || g.role() == submitter:
		errs = append(
			errs,
			field.Invalid(at.Child("groupName"), g.GroupName, "other pods are called that: use another name"),
		)
	}
	for _, n := range []struct {
		name  string
		value *int32
	}{{"replicas", g.Replicas}, {"minReplicas", g.MinReplicas}, {"maxReplicas", g.MaxReplicas}, {"idleTimeoutSeconds", g.IdleTimeoutSeconds}} {
		if n.value != nil && *n.value < 0 {
			errs = append(errs, field.Invalid(at.Child(n.name), *n.value, "use a number from 0"))
		}
	}
	if g.NumOfHosts < 0 {
		errs = append(errs, field.Invalid(at.Child("numOfHosts"), g.NumOfHosts, "use a number from 1"))
	}
	if ptr.Deref(g.Suspend, false) && g.Written > mostPods { // it counts nowhere else, until it runs
		errs = append(
			errs,
			field.Invalid(
				at.Child("replicas"),
				g.Written,
				fmt.Sprintf("replicas times numOfHosts are at most %d, of a group that is suspended, too", mostPods),
			),
		)
	}
	if g.MaxReplicas != nil && ptr.Deref(g.MinReplicas, 0) > *g.MaxReplicas {
		errs = append(
			errs,
			field.Invalid(
				at.Child("minReplicas"),
				*g.MinReplicas,
				fmt.Sprintf("use at most %d, which is maxReplicas", *g.MaxReplicas),
			),
		)
	}
	if autoscales(s) && !ptr.Deref(g.Suspend, false) && int64(g.Most) > mostPods && len(errs) == 0 {
		errs = append(
			errs,
			field.Required(
				at.Child("maxReplicas"),
				"a cluster that grows by itself is queued for all that it may grow to: say how many that are",
			),
		)
	}
	return errs
}

// checkAuth finds out whether it is clear whose tokens are asked for.
func checkAuth(o *api.AuthOptions, at *field.Path) field.ErrorList {
	if o == nil {
		return nil
	}
	var errs field.ErrorList
	modes := []api.AuthMode{api.AuthToken, api.AuthDisabled}
	if o.Mode != "" && !slices.Contains(modes, o.Mode) {
		errs = append(errs, field.NotSupported(at.Child("mode"), o.Mode, modes))
	}
	named, asks := ptr.Deref(o.SecretName, ""), ptr.Deref(o.EnableK8sTokenAuth, false)
	if named != "" {
		for _, wrong := range validation.IsDNS1123Subdomain(named) {
			errs = append(errs, field.Invalid(at.Child("secretName"), named, wrong))
		}
	}
	switch {
	case o.Mode == api.AuthDisabled && asks:
		errs = append(
			errs,
			field.Forbidden(
				at.Child("enableK8sTokenAuth"),
				"nobody is asked for a token with mode disabled: remove it, or use mode token",
			),
		)
	case named != "" && asks:
		errs = append(
			errs,
			field.Forbidden(
				at.Child("secretName"),
				"tokens are those of ServiceAccounts with enableK8sTokenAuth: keep one of them",
			),
		)
	}
	return errs
}

// submitter is the name of the pods that submit a job to a cluster.
const submitter = "submitter"

func checkPersistence(s *api.RayClusterSpec, at *field.Path) field.ErrorList {
	o := s.GcsFaultToleranceOptions
	if o == nil {
		return nil
	}
	at = at.Child("gcsFaultToleranceOptions")
	if o.Storage != nil {
		return field.ErrorList{
			field.Forbidden(
				at.Child("storage"),
				"no volume is made here: keep it in Redis, with redisAddress, and remove it",
			),
		}
	}
	if o.Backend != "" && o.Backend != "redis" {
		return field.ErrorList{field.NotSupported(at.Child("backend"), o.Backend, []string{"redis"})}
	}
	if o.RedisAddress == "" {
		return field.ErrorList{field.Required(at.Child("redisAddress"), "host and port of a Redis server")}
	}
	var errs field.ErrorList
	for _, c := range []struct {
		name string
		of   *api.RedisCredential
	}{{"redisUsername", o.RedisUsername}, {"redisPassword", o.RedisPassword}} {
		if c.of != nil && c.of.Value != "" && c.of.ValueFrom != nil {
			errs = append(
				errs,
				field.Forbidden(at.Child(c.name, "valueFrom"), "value says it already: keep one of them"),
			)
		}
	}
	return errs
}

// validateChange finds what is wrong with a change. What was wrong before may stay so; what
// was not may not become so, since a cluster that nobody understands cannot be stopped.
func validateChange(was, is *api.RayCluster) field.ErrorList {
	errs := CheckManager(was.Spec.ManagedBy, is.Spec.ManagedBy)
	wrong := validate(is)
	if len(wrong) > 0 && equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return errs
	}
	return append(errs, wrong...)
}

// CheckManager refuses that an object gets another manager.
func CheckManager(was, is *string) field.ErrorList {
	if ptr.Deref(was, "") == ptr.Deref(is, "") {
		return nil
	}
	return field.ErrorList{
		field.Forbidden(
			field.NewPath("spec", "managedBy"),
			"it cannot be changed: delete the object and create it anew",
		),
	}
}

func warnings(o jobs.Object, _ lifecycle.Policy) []string {
	c, err := cast(o)
	if err != nil {
		return nil
	}
	return Warnings(&c.Spec, "spec")
}

// PartWarnings tell the author of a cluster that is a part of a job of what has no effect.
func PartWarnings(s *api.RayClusterSpec, at string) []string {
	out := Warnings(s, at)
	if renews(s) {
		out = append(
			out,
			at+".upgradeStrategy.type: a cluster that is made for a job stays as it was made: remove it",
		)
	}
	return out
}

// Warnings tell the author of a cluster of what has no effect.
func Warnings(s *api.RayClusterSpec, at string) []string {
	var out []string
	if h := &s.HeadGroupSpec; ptr.Deref(h.EnableIngress, false) || h.IngressOptions != nil {
		out = append(
			out,
			at+".headGroupSpec.enableIngress: no Ingress is made: make one for the service of the head",
		)
	}
	if s.HistoryServerOptions != nil {
		out = append(out, at+".historyServerOptions: there is no history server here")
	}
	return out
}
