package install

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// Release is who installs, where and under which name. Labels say so.
type Release struct {
	// Namespace is where the programs run; empty means mlbatch-system.
	Namespace string
	// Name is that of the release, Manager who applies it, Chart the chart that it came from.
	Name, Manager, Chart string
	// Version is that of what is installed.
	Version string
}

// Labels by which what was installed is found again.
const (
	NameLabel      = "app.kubernetes.io/name"
	InstanceLabel  = "app.kubernetes.io/instance"
	ComponentLabel = "app.kubernetes.io/component"
	PartLabel      = "app.kubernetes.io/part-of"
	ManagedLabel   = "app.kubernetes.io/managed-by"
	VersionLabel   = "app.kubernetes.io/version"
	ChartLabel     = "helm.sh/chart"
)

// App is the value of NameLabel and PartLabel.
const App = "mlbatch"

// Stage is objects that are applied together, and after those of the stages before.
type Stage struct {
	Name    string
	Objects []*unstructured.Unstructured
}

// The stages, in their order.
const (
	NamespaceStage     = "namespace"
	DefinitionsStage   = "definitions"
	AccessStage        = "access"
	PoliciesStage      = "policies"
	ServicesStage      = "services"
	ConfigurationStage = "configuration"
	ProgramsStage      = "programs"
	BudgetsStage       = "budgets"
	NetworkStage       = "network"
	MonitoringStage    = "monitoring"
	ExtraStage         = "extra"
	WebhooksStage      = "webhooks"
)

// Render is everything of an installation, in the order in which it is applied. It is pure:
// values that are equal give objects that are equal. Values must be valid.
func Render(v Values, r Release) ([]Stage, error) {
	if r.Namespace == "" {
		r.Namespace = DefaultNamespace
	}
	x := &rendering{Values: v, Release: r}
	opts := x.options()
	p, err := partsOf(opts)
	if err != nil {
		return nil, err
	}
	if v.Platform == OpenShift {
		openShiftRoles(p.roles)
	}
	config := slices.Concat([]client.Object{x.configuration()}, x.agentConfiguration(), p.secrets)
	if v.CertManager.Enabled {
		config = append(config, x.certificate()...)
	}
	p.definitions = v.wanted(p.definitions)
	known := kindsOfParts()
	var out []Stage
	for _, s := range []struct {
		name    string
		objects []client.Object
	}{
		{NamespaceStage, []client.Object{x.namespace()}},
		{DefinitionsStage, p.definitions},
		{AccessStage, slices.Concat(p.roles, x.readers(), x.agentRoles())},
		{PoliciesStage, append(p.policies, x.agentGuards()...)},
		{ServicesStage, append(x.services(), p.visibility...)},
		{ConfigurationStage, config},
		{ProgramsStage, append(x.programs(), x.agents()...)},
		{BudgetsStage, x.budgets()},
		{NetworkStage, x.networkPolicies()},
		{MonitoringStage, x.monitoring()},
		{ExtraStage, x.extra()},
		{WebhooksStage, p.webhooks},
	} {
		stage := Stage{Name: s.name}
		for _, o := range s.objects {
			u, err := plain(o, known)
			if err != nil {
				return nil, fmt.Errorf("render %T %s: %w", o, o.GetName(), err)
			}
			x.label(u)
			stage.Objects = append(stage.Objects, u)
		}
		if len(stage.Objects) > 0 {
			out = append(out, stage)
		}
	}
	return out, nil
}

// rendering is values while they become objects.
type rendering struct {
	Values
	Release
}

// options are those of the parts that `mlbatch up` has, too.
func (x *rendering) options() Options {
	o := Options{
		WebhookService: &Service{
			Namespace: x.Namespace,
			Name:      v1beta2.DefaultWebhookService,
			Port:      webhookServicePort,
		},
		Namespace:      x.Namespace,
		SchedulerNames: x.SchedulerNames(),
		Kinds:          kinds.All(),
	}
	if x.Visibility.Enabled {
		o.Visibility = &Visibility{Port: visibilityPort, Selector: selector(ControllerComponent)}
	}
	if x.CertManager.Enabled {
		o.CertManager = x.Namespace + "/" + certificateName
	}
	return o
}

// fullname is the name of what belongs to the installation alone. Names that bindings, the
// API server or the program itself know stay as they are.
func (x *rendering) fullname(part string) string {
	if x.FullnameOverride != "" {
		return x.FullnameOverride + "-" + part
	}
	return App + "-" + part
}

// label says whose an object is.
func (x *rendering) label(u *unstructured.Unstructured) {
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[NameLabel], labels[PartLabel] = App, App
	for key, value := range map[string]string{
		InstanceLabel: x.Name, ManagedLabel: x.Manager, ChartLabel: x.Chart, VersionLabel: x.Version,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	u.SetLabels(labels)
}

func (x *rendering) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: x.Namespace, Name: name}
}

func (x *rendering) namespace() client.Object {
	level := "restricted"
	if x.Agent.Enabled && x.Agent.KernelLog != "" {
		level = "privileged" // no other level lets a pod see a file of its node
	}
	labels := map[string]string{
		"pod-security.kubernetes.io/enforce": level,
		"pod-security.kubernetes.io/warn":    level,
	}
	if x.Platform == OpenShift {
		labels["openshift.io/cluster-monitoring"] = "true"
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: x.Namespace, Labels: labels}}
}

// configuration is the controller's file.
func (x *rendering) configuration() client.Object {
	return &corev1.ConfigMap{
		ObjectMeta: x.meta(x.fullname("controller")),
		Data:       map[string]string{configFile: x.Controller.Config},
	}
}

// hash is that of a file, by which pods are made anew when it changes.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// readers bind the role to read metrics.
func (x *rendering) readers() []client.Object {
	if len(x.Metrics.Readers) == 0 {
		return nil
	}
	return []client.Object{&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: x.fullname("metrics-readers")},
		Subjects:   x.Metrics.Readers,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: MetricsReaderRole},
	}}
}

// OpenShiftRules are what members of a team do beside on OpenShift: its console and its client
// ask for projects, and what runs in AppWrappers may have left routes.
func OpenShiftRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		allow("route.openshift.io", remove(), "routes"),
		allow("project.openshift.io", []string{"get"}, "projects"),
	}
}

func openShiftRoles(roles []client.Object) {
	for _, o := range roles {
		if r, is := o.(*rbacv1.ClusterRole); is && r.Name == EditRole {
			r.Rules = append(r.Rules, OpenShiftRules()...)
		}
	}
}

const certificateName = "mlbatch"

// certificatesSecret is what cert-manager keeps the certificates in.
const certificatesSecret = "mlbatch-certificates" //nolint:gosec // a name

// certificate has cert-manager make the certificates.
func (x *rendering) certificate() []client.Object {
	var names []any
	for _, service := range []string{v1beta2.DefaultWebhookService, conversionService, VisibilityService, metricsService} {
		names = append(names, service+"."+x.Namespace+".svc", service+"."+x.Namespace+".svc.cluster.local")
	}
	return []client.Object{
		x.other("cert-manager.io/v1", "Issuer", certificateName, map[string]any{"selfSigned": map[string]any{}}),
		x.other("cert-manager.io/v1", "Certificate", certificateName, map[string]any{
			"secretName": certificatesSecret,
			"issuerRef":  map[string]any{"name": certificateName, "kind": "Issuer"},
			"dnsNames":   names,
		}),
	}
}

// other is an object of a kind that this program has no type for.
func (x *rendering) other(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"namespace": x.Namespace, "name": name},
		"spec":     spec,
	}}
}

func (x *rendering) extra() []client.Object {
	var out []client.Object
	for _, o := range x.ExtraObjects {
		out = append(out, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(jsonValues(o))})
	}
	return out
}

// jsonValues are values as decoders of JSON make them.
func jsonValues(in map[string]any) map[string]any {
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[k] = jsonValue(v)
	}
	return out
}

func jsonValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return jsonValues(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = jsonValue(v[i])
		}
		return out
	case int:
		return int64(v)
	}
	return v
}

// plain is an object as it is sent: with its kind, and without what is empty or of others.
func plain(o client.Object, known *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk := o.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		kinds, _, err := known.ObjectKinds(o)
		if err != nil {
			return nil, fmt.Errorf("name its kind: %w", err)
		}
		gvk = kinds[0]
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("convert it: %w", err)
	}
	tidy(content, gvk.GroupKind())
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// tidy takes out what conversion adds.
func tidy(content map[string]any, kind schema.GroupKind) {
	delete(content, "status")
	if content["rules"] == nil && kind.Group == rbacv1.GroupName {
		delete(content, "rules") // others fill them in
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	if kind.Kind == "DaemonSet" || kind.Kind == "Deployment" {
		unstructured.RemoveNestedField(content, "spec", "strategy", "rollingUpdate", "creationTimestamp")
	}
}

// kindsOfParts knows the kinds of what is rendered.
func kindsOfParts() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		utilruntime.Must(add(s)) // it fails only if two Go types claim the same kind
	}
	return s
}

// Modes of kinds, as controller.kinds has them.
const (
	RunKind    = "run"
	QueueKind  = "queue"
	IgnoreKind = "ignore"
)

// modes are all modes.
func modes() []string { return []string{RunKind, QueueKind, IgnoreKind} }

// kindNames are the kinds that have a mode, as controller.kinds names them.
func kindNames() []string {
	var out []string
	for _, f := range v1beta2.FrameworkNames() {
		out = append(out, f[strings.LastIndex(f, "/")+1:])
	}
	return out
}

// wanted are the definitions that are installed. Where another operator runs a kind its
// definition is that operator's.
func (v *Values) wanted(definitions []client.Object) []client.Object {
	if !v.CRDs.Enabled {
		return nil
	}
	return slices.DeleteFunc(definitions, func(o client.Object) bool {
		mode := v.Controller.Kinds[KindOf(o.GetName())]
		return mode == QueueKind || mode == IgnoreKind
	})
}

// KindOf is the kind whose mode says who brings a definition.
func KindOf(definition string) string {
	plural, group, _ := strings.Cut(definition, ".")
	if group == "trainer.kubeflow.org" {
		return "trainjob"
	}
	return strings.TrimSuffix(plural, "s")
}
