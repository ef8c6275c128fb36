package install

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Values are what an installation is made of, by the names that Helm charts have for
// them. The chart, the kustomize base and `mlbatch install` take the same.
type Values struct {
	FullnameOverride    string                        `json:"fullnameOverride"`
	Platform            string                        `json:"platform"`
	Image               Image                         `json:"image"`
	ImagePullSecrets    []corev1.LocalObjectReference `json:"imagePullSecrets"`
	Controller          Controlling                   `json:"controller"`
	Scheduler           Scheduling                    `json:"scheduler"`
	Agent               Agents                        `json:"agent"`
	NodeSelector        map[string]string             `json:"nodeSelector"`
	Tolerations         []corev1.Toleration           `json:"tolerations"`
	Affinity            *corev1.Affinity              `json:"affinity"`
	PriorityClassName   string                        `json:"priorityClassName"`
	PodDisruptionBudget Switch                        `json:"podDisruptionBudget"`
	NetworkPolicy       NetworkPolicy                 `json:"networkPolicy"`
	Metrics             Metrics                       `json:"metrics"`
	Visibility          Switch                        `json:"visibility"`
	CertManager         Switch                        `json:"certManager"`
	CRDs                CRDs                          `json:"crds"`
	ExtraObjects        []map[string]any              `json:"extraObjects"`
}

// Platforms.
const (
	Kubernetes = "kubernetes"
	OpenShift  = "openshift"
)

// Image is where the program comes from.
type Image struct {
	Registry   string            `json:"registry"`
	Repository string            `json:"repository"`
	Tag        string            `json:"tag"`
	Digest     string            `json:"digest"`
	PullPolicy corev1.PullPolicy `json:"pullPolicy"`
}

// String is the image as a container names it.
func (i *Image) String() string {
	name := i.Repository
	if i.Registry != "" {
		name = i.Registry + "/" + name
	}
	if i.Digest != "" {
		return name + "@" + i.Digest
	}
	return name + ":" + i.Tag
}

// ParseImage takes the name of an image apart, as people type it. What it does not say stays as
// it is.
func (i *Image) ParseImage(name string) error {
	name, digest, _ := strings.Cut(name, "@")
	tag := ""
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		name, tag = name[:colon], name[colon+1:]
	}
	registry, repository := "", name
	// As container engines do: what comes first is a host if it looks like one.
	if first, rest, two := strings.Cut(
		name,
		"/",
	); two &&
		(strings.ContainsAny(first, ".:") || first == "localhost") {
		registry, repository = first, rest
	}
	if repository == "" {
		return fmt.Errorf("image %q: name one as registry.example.com/mlbatch:v1.2.3", name)
	}
	i.Registry, i.Repository, i.Digest = registry, repository, digest
	if tag != "" {
		i.Tag = tag
	}
	return nil
}

// Program is what both that run have.
type Program struct {
	Replicas  int32                       `json:"replicas"`
	Resources corev1.ResourceRequirements `json:"resources"`
	ExtraArgs []string                    `json:"extraArgs"`
}

// Controlling is the controller.
type Controlling struct {
	Program
	// Config is its configuration file.
	Config string `json:"config"`
	// SchedulerName is given to pods of jobs that do not name mlbatch's scheduler.
	SchedulerName string `json:"schedulerName"`
	// Kinds are what is done with jobs of a kind: run, queue or ignore.
	Kinds map[string]string `json:"kinds"`
}

// Scheduling is the scheduler.
type Scheduling struct {
	Program
	// Enabled installs it. Without it another scheduler binds the pods of jobs, each to the
	// node that its job was given.
	Enabled bool `json:"enabled"`
	// Names are the names that it answers to.
	Names []string `json:"names"`
}

// Switch turns something on.
type Switch struct {
	Enabled bool `json:"enabled"`
}

// NetworkPolicy says who may connect.
type NetworkPolicy struct {
	Enabled bool `json:"enabled"`
	// APIServer are its addresses.
	APIServer []string `json:"apiServer"`
	// Nodes are addresses of nodes, for network plugins that do not let in probes of kubelets.
	Nodes []string `json:"nodes"`
	// Metrics are those who read metrics.
	Metrics []networkingv1.NetworkPolicyPeer `json:"metrics"`
}

// Metrics says who reads them.
type Metrics struct {
	ServiceMonitor Monitored        `json:"serviceMonitor"`
	PrometheusRule Alerting         `json:"prometheusRule"`
	Dashboards     Monitored        `json:"dashboards"`
	Readers        []rbacv1.Subject `json:"readers"`
}

// Monitored are objects that a program finds by their labels: the Prometheus operator, or the sidecar of Grafana.
type Monitored struct {
	Enabled bool              `json:"enabled"`
	Labels  map[string]string `json:"labels"`
}

// Alerting are the rules that alert.
type Alerting struct {
	Monitored
	// RunbookURL is where people find docs/runbook.md.
	RunbookURL string `json:"runbookURL"`
}

// CRDs says what is done with the definitions of kinds.
type CRDs struct {
	// Enabled installs them.
	Enabled bool `json:"enabled"`
	// Keep has Helm keep them, and all objects with them, when the release is uninstalled.
	Keep bool `json:"keep"`
}

// DefaultConfig is the controller's configuration where nobody brings one. Boards draw the series of queues that it asks for.
const DefaultConfig = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n" +
	"metrics: {enableClusterQueueResources: true}\n"

// DefaultValues are those of an installation that nobody said anything about. The tag is the
// version of the program.
func DefaultValues(tag string) Values {
	return Values{
		Platform: Kubernetes,
		Image: Image{
			Registry:   "localhost",
			Repository: "mlbatch",
			Tag:        tag,
			PullPolicy: corev1.PullIfNotPresent,
		},
		ImagePullSecrets: []corev1.LocalObjectReference{},
		// Requests are what was measured (docs/install.md), limits leave room for a cluster of
		// 10,000 nodes and 100,000 pods (docs/benchmarks.md). Of the CPU there is no limit: what is throttled
		// decides late.
		Controller: Controlling{
			Program: Program{Replicas: 2, Resources: resources("200m", "256Mi", "4Gi"), ExtraArgs: []string{}},
			Config:  DefaultConfig, SchedulerName: jobs.SchedulerName, Kinds: map[string]string{},
		},
		Scheduler: Scheduling{
			Enabled: true,
			Program: Program{Replicas: 2, Resources: resources("100m", "192Mi", "4Gi"), ExtraArgs: []string{}},
			Names:   jobs.SchedulerNames(),
		},
		Agent:               defaultAgents(),
		NodeSelector:        map[string]string{},
		Tolerations:         []corev1.Toleration{},
		PriorityClassName:   "system-cluster-critical",
		PodDisruptionBudget: Switch{true},
		NetworkPolicy: NetworkPolicy{
			Enabled:   true,
			APIServer: []string{},
			Nodes:     []string{},
			Metrics: []networkingv1.NetworkPolicyPeer{
				{
					NamespaceSelector: &metav1.LabelSelector{
						MatchLabels: map[string]string{corev1.LabelMetadataName: "monitoring"},
					},
				},
			},
		},
		Metrics: Metrics{
			ServiceMonitor: Monitored{Labels: map[string]string{}},
			PrometheusRule: Alerting{Monitored: Monitored{Labels: map[string]string{}}},
			Dashboards:     Monitored{Labels: map[string]string{"grafana_dashboard": "1"}},
			Readers:        []rbacv1.Subject{},
		},
		Visibility:   Switch{true},
		CRDs:         CRDs{Enabled: true, Keep: true},
		ExtraObjects: []map[string]any{},
	}
}

func resources(cpu, memory, atMost string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(atMost)},
	}
}

// Validate says what is wrong with values, by field.
func (v *Values) Validate() field.ErrorList {
	var errs field.ErrorList
	if !fits(v.FullnameOverride, FullnamePattern) {
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("fullnameOverride"),
				v.FullnameOverride,
				"must be 40 lower case letters, digits and - at most, and begin with a letter",
			),
		)
	}
	if v.Platform != Kubernetes && v.Platform != OpenShift {
		errs = append(
			errs,
			field.NotSupported(field.NewPath("platform"), v.Platform, []string{Kubernetes, OpenShift}),
		)
	}
	errs = append(errs, v.Image.validate(field.NewPath("image"))...)
	errs = append(errs, v.Controller.validate(FlagsOf(ControllerComponent), field.NewPath("controller"))...)
	errs = append(errs, v.Scheduler.validate(FlagsOf(SchedulerComponent), field.NewPath("scheduler"))...)
	if v.Controller.Config == "" {
		errs = append(
			errs,
			field.Required(
				field.NewPath("controller", "config"),
				"leave it out for the defaults, or write a configuration file",
			),
		)
	}
	for _, kind := range slices.Sorted(maps.Keys(v.Controller.Kinds)) {
		at := field.NewPath("controller", "kinds").Key(kind)
		if !slices.Contains(kindNames(), kind) {
			errs = append(errs, field.NotSupported(at, kind, kindNames()))
		}
		if mode := v.Controller.Kinds[kind]; !slices.Contains(modes(), mode) {
			errs = append(errs, field.NotSupported(at, mode, modes()))
		}
	}
	if len(v.Scheduler.Names) == 0 {
		errs = append(
			errs,
			field.Required(field.NewPath("scheduler", "names"), "name one at least, such as "+jobs.SchedulerName),
		)
	}
	for i, name := range v.Scheduler.Names {
		at := field.NewPath("scheduler", "names").Index(i)
		switch {
		case name == corev1.DefaultSchedulerName:
			errs = append(
				errs,
				field.Invalid(
					at,
					name,
					"the scheduler of Kubernetes answers to it: two would bind the same pods; to leave them to that one: scheduler.enabled: false and controller.schedulerName: "+name,
				),
			)
		case len(validation.IsDNS1123Subdomain(name)) > 0:
			errs = append(
				errs,
				field.Invalid(
					at,
					name,
					"must be a name of lower case letters, digits, - and ., as pods have it in schedulerName",
				),
			)
		}
	}
	errs = append(errs, tolerations(field.NewPath("tolerations"), v.Tolerations)...)
	errs = append(errs, v.Agent.validate(field.NewPath("agent"))...)
	if given := v.Controller.SchedulerName; !v.Scheduler.Enabled &&
		(given == "" || given == jobs.SchedulerName) {
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("controller", "schedulerName"),
				given,
				"mlbatch's scheduler is not installed (scheduler.enabled: false): name the one that binds the pods of jobs, such as "+corev1.DefaultSchedulerName,
			),
		)
	}
	errs = append(errs, ranges(field.NewPath("networkPolicy", "apiServer"), v.NetworkPolicy.APIServer)...)
	errs = append(errs, ranges(field.NewPath("networkPolicy", "nodes"), v.NetworkPolicy.Nodes)...)
	for i, o := range v.ExtraObjects {
		at := field.NewPath("extraObjects").Index(i)
		kind, _ := o["kind"].(string)
		version, _ := o["apiVersion"].(string)
		meta, _ := o["metadata"].(map[string]any)
		if name, _ := meta["name"].(string); kind == "" || version == "" || name == "" {
			errs = append(errs, field.Required(at, "an object needs apiVersion, kind and metadata.name"))
		}
	}
	return errs
}

// tolerations says which of them the API server would refuse, or would tolerate nothing.
func tolerations(at *field.Path, all []corev1.Toleration) field.ErrorList {
	var errs field.ErrorList
	for i := range all {
		t, at := &all[i], at.Index(i)
		if !slices.Contains(Operators(), string(t.Operator)) {
			errs = append(errs, field.NotSupported(at.Child("operator"), string(t.Operator), Operators()[1:]))
		}
		if !slices.Contains(Effects(), string(t.Effect)) {
			errs = append(errs, field.NotSupported(at.Child("effect"), string(t.Effect), Effects()[1:]))
		}
		switch {
		case t.Key == "" && t.Operator != corev1.TolerationOpExists:
			errs = append(
				errs,
				field.Required(at.Child("key"), "name the taint, or say operator: Exists, which tolerates all"),
			)
		case t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0:
			errs = append(
				errs,
				field.Invalid(at.Child("key"), t.Key, "must be the key of a taint, such as example.com/gpu"),
			)
		case t.Operator == corev1.TolerationOpExists && t.Value != "":
			errs = append(
				errs,
				field.Invalid(at.Child("value"), t.Value, "leave it out: operator Exists asks for no value"),
			)
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(
				errs,
				field.Invalid(at.Child("tolerationSeconds"), *t.TolerationSeconds, "is for effect NoExecute alone"),
			)
		}
	}
	return errs
}

func ranges(at *field.Path, list []string) field.ErrorList {
	var errs field.ErrorList
	for i, cidr := range list {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(
				errs,
				field.Invalid(
					at.Index(i),
					cidr,
					"must be a range of addresses such as 10.0.0.0/28, or 10.0.0.4/32 for one",
				),
			)
		}
	}
	return errs
}

func (i *Image) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if i.Repository == "" {
		errs = append(errs, field.Required(at.Child("repository"), "the name of the image, such as mlbatch"))
	}
	switch {
	case !fits(i.Digest, DigestPattern):
		errs = append(
			errs,
			field.Invalid(at.Child("digest"), i.Digest, "must be sha256: and 64 hexadecimal digits"),
		)
	case i.Digest == "" && i.Tag == "":
		errs = append(
			errs,
			field.Required(
				at.Child("tag"),
				"this program was built without a version: say which image, as --image or here",
			),
		)
	case i.Digest == "" && !fits(i.Tag, TagPattern):
		errs = append(errs, field.Invalid(at.Child("tag"), i.Tag, "must be the tag of an image, such as v1.2.3"))
	}
	policies := []corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}
	if slices.Contains(policies, i.PullPolicy) {
		return errs
	}
	return append(errs, field.NotSupported(at.Child("pullPolicy"), i.PullPolicy, policies))
}

func (a *Agents) validate(at *field.Path) field.ErrorList {
	p := Program{Replicas: 1, Resources: a.Resources, ExtraArgs: a.ExtraArgs}
	errs := append(
		p.validate(FlagsOf(AgentComponent), at),
		tolerations(at.Child("tolerations"), a.Tolerations)...)
	if a.Config == "" {
		errs = append(
			errs,
			field.Required(at.Child("config"), "leave it out for the defaults, or write a configuration file"),
		)
	}
	if !fits(a.KernelLog, KernelLogPattern) {
		errs = append(
			errs,
			field.Invalid(
				at.Child("kernelLog"),
				a.KernelLog,
				"must be a file of the nodes, such as /var/log/kern.log, and none below /dev: devices are for privileged containers",
			),
		)
	}
	if !fits(a.RuntimeClassName, RuntimeClassPattern) {
		errs = append(
			errs,
			field.Invalid(
				at.Child("runtimeClassName"),
				a.RuntimeClassName,
				"must be the name of a RuntimeClass, such as nvidia",
			),
		)
	}
	return errs
}

func (p *Program) validate(flags Flags, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Replicas < 1 || p.Replicas > 9 {
		errs = append(
			errs,
			field.Invalid(at.Child("replicas"), p.Replicas, "must be between 1 and 9: one leads, the others wait"),
		)
	}
	for name, limit := range p.Resources.Limits {
		if request, has := p.Resources.Requests[name]; has && request.Cmp(limit) > 0 {
			errs = append(
				errs,
				field.Invalid(
					at.Child("resources", "requests").Key(string(name)),
					request.String(),
					"is more than the limit, "+limit.String(),
				),
			)
		}
	}
	for i, arg := range p.ExtraArgs {
		if wrong := flags.wrong(arg); wrong != "" {
			errs = append(errs, field.Invalid(at.Child("extraArgs").Index(i), arg, wrong))
		}
	}
	return errs
}
