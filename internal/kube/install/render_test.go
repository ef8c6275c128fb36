package install_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// worlds are values that differ in what an installation is made of. The definitions of kinds are
// the same in all, and take long to read.
func worlds(t *testing.T) map[string]install.Values {
	t.Helper()
	out := map[string]install.Values{}
	for name, text := range map[string]string{
		"Defaults":    "",
		"OpenShift":   "crds: {enabled: false}\nplatform: openshift",
		"CertManager": "crds: {enabled: false}\ncertManager: {enabled: true}\nmetrics: {serviceMonitor: {enabled: true}, readers: [{kind: ServiceAccount, namespace: monitoring, name: prometheus}]}",
		"Stock":       "crds: {enabled: false}\ncontroller: {schedulerName: default-scheduler}\nscheduler: {enabled: false}\nmetrics: {serviceMonitor: {enabled: true}}",
		"One":         "crds: {enabled: false}\ncontroller: {replicas: 1}\nscheduler: {replicas: 1}\nfullnameOverride: queues",
		"Unseen":      "crds: {enabled: false}\nvisibility: {enabled: false}",
		"Agents":      "crds: {enabled: false}\nagent: {enabled: true}",
		"AgentTools":  "crds: {enabled: false}\nplatform: openshift\nagent: {enabled: true, toolsImage: 'dcgm:4'}",
	} {
		v := install.DefaultValues("v1.2.3")
		f, err := v.ReadValues("values.yaml", []byte(text))
		if err == nil {
			err = v.Check(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

// manifests are what values render.
type manifests struct {
	*testing.T
	stages []install.Stage
}

func render(t *testing.T, v install.Values) manifests {
	t.Helper()
	stages, err := install.Render(
		v,
		install.Release{Namespace: "batch", Name: "mlbatch", Manager: "mlbatch", Version: "v1.2.3"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return manifests{t, stages}
}

func (m manifests) all() (out []*unstructured.Unstructured) {
	for _, s := range m.stages {
		out = append(out, s.Objects...)
	}
	return out
}

// of are the objects of a kind.
func of[T any](m manifests, kind string) []T {
	m.Helper()
	var out []T
	for _, o := range m.all() {
		if o.GetKind() != kind {
			continue
		}
		var one T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(
			o.Object,
			&one,
			true,
		); err != nil {
			m.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// TestPodsAreRestricted asks Kubernetes' own library whether the strictest level of pod security
// lets the pods in, and that each of the rules matters.
func TestPodsAreRestricted(t *testing.T) {
	judge, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(p corev1.PodTemplateSpec) string {
		var out []string
		for _, r := range judge.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec) {
			if !r.Allowed {
				out = append(out, r.ForbiddenReason)
			}
		}
		return strings.Join(out, ", ")
	}
	for name, v := range worlds(t) {
		t.Run(name, func(t *testing.T) {
			all := of[appsv1.Deployment](render(t, v), "Deployment")
			for _, d := range of[appsv1.DaemonSet](render(t, v), "DaemonSet") {
				all = append(all, appsv1.Deployment{
					ObjectMeta: d.ObjectMeta, Spec: appsv1.DeploymentSpec{Template: d.Spec.Template},
				})
			}
			for _, d := range all {
				pod := d.Spec.Template
				if why := refused(pod); why != "" {
					t.Errorf("%s: %s", d.Name, why)
				}
				c := pod.Spec.Containers[0]
				if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
					t.Errorf("%s may write where its program is", d.Name)
				}
				if user := pod.Spec.SecurityContext.RunAsUser; (user == nil) != (v.Platform == install.OpenShift) {
					t.Errorf("%s runs as user %v", d.Name, user)
				}
				if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() ||
					c.Resources.Limits.Memory().IsZero() {
					t.Errorf("%s asks for %v", d.Name, c.Resources)
				}
				pod.Spec.SecurityContext = nil
				if refused(pod) == "" {
					t.Errorf("%s would be let in without a word of security, too: the test proves nothing", d.Name)
				}
			}
		})
	}
}

// TestReplicasAreApart: replicas run on different nodes, and in different zones where there are some,
// as far as possible; also where nodes have no zones, which a spread constraint for zones would pass
// over. Values decide otherwise.
func TestReplicasAreApart(t *testing.T) {
	for text, own := range map[string]bool{"": false, "affinity: {}": false, "affinity: {nodeAffinity: {}}": true} {
		v := install.DefaultValues("v1.2.3")
		if _, err := v.ReadValues("values.yaml", []byte("crds: {enabled: false}\n"+text)); err != nil {
			t.Fatal(err)
		}
		for _, d := range of[appsv1.Deployment](render(t, v), "Deployment") {
			spec := d.Spec.Template.Spec
			if own {
				if spec.Affinity.PodAntiAffinity != nil || spec.Affinity.NodeAffinity == nil {
					t.Errorf("%s: with %s its affinity is %v", d.Name, text, spec.Affinity)
				}
				continue
			}
			var keys []string
			for _, term := range spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				keys = append(keys, term.PodAffinityTerm.TopologyKey)
				if chosen, err := metav1.LabelSelectorAsSelector(
					term.PodAffinityTerm.LabelSelector,
				); err != nil ||
					!chosen.Matches(labels.Set(d.Spec.Template.Labels)) {
					t.Errorf("%s: %v does not choose its own pods: %v", d.Name, term, err)
				}
			}
			if diff := cmp.Diff(
				[]string{corev1.LabelHostname, corev1.LabelTopologyZone},
				keys,
			); diff != "" ||
				len(spec.TopologySpreadConstraints) > 0 {
				t.Errorf(
					"%s: with %q its replicas are apart by (-want +got):\n%s\n%v",
					d.Name,
					text,
					diff,
					spec.TopologySpreadConstraints,
				)
			}
		}
	}
}

// TestBindingsLeadSomewhere: who is bound exists, and so does the role.
func TestBindingsLeadSomewhere(t *testing.T) {
	for name, v := range worlds(t) {
		t.Run(name, func(t *testing.T) {
			m := render(t, v)
			there := map[string]bool{}
			for _, o := range m.all() {
				there[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = true
			}
			n := 0
			check := func(binding, namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
				of := ""
				if ref.Kind == "Role" {
					of = namespace
				}
				if !there[ref.Kind+" "+of+"/"+ref.Name] && !strings.HasPrefix(ref.Name, "system:") &&
					ref.Name != "extension-apiserver-authentication-reader" {
					t.Errorf("%s binds %s %s, which is not there", binding, ref.Kind, ref.Name)
				}
				for _, s := range subjects {
					if s.Kind == "ServiceAccount" && s.Namespace != "monitoring" &&
						!there["ServiceAccount "+s.Namespace+"/"+s.Name] {
						t.Errorf("%s binds to %s/%s, which is not there", binding, s.Namespace, s.Name)
					}
					n++
				}
			}
			for _, b := range of[rbacv1.ClusterRoleBinding](m, "ClusterRoleBinding") {
				check(b.Name, "", b.RoleRef, b.Subjects)
			}
			for _, b := range of[rbacv1.RoleBinding](m, "RoleBinding") {
				check(b.Name, b.Namespace, b.RoleRef, b.Subjects)
			}
			for _, d := range of[appsv1.Deployment](m, "Deployment") {
				if !there["ServiceAccount batch/"+d.Spec.Template.Spec.ServiceAccountName] {
					t.Errorf("%s runs as nobody", d.Name)
				}
			}
			least := 8
			if !v.Scheduler.Enabled {
				least = 5
			}
			if n < least {
				t.Errorf("only %d subjects", n)
			}
		})
	}
}

// opens are the ports that the pods of a selector open, by name and number.
func opens(m manifests, selector map[string]string) map[string]int32 {
	out := map[string]int32{}
	for _, d := range of[appsv1.Deployment](m, "Deployment") {
		if labels.SelectorFromSet(selector).Matches(labels.Set(d.Spec.Template.Labels)) {
			for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
				out[p.Name], out[fmt.Sprint(p.ContainerPort)] = p.ContainerPort, p.ContainerPort
			}
		}
	}
	return out
}

// TestPodsThatAreNotReadyAreCalled: for what they need no objects of the cluster for, which are
// conversions and discovery, and for nothing else. They become ready when they have read all objects, of
// which some may have to be converted; and as long as discovery is not answered no namespace of the
// cluster can be deleted.
func TestPodsThatAreNotReadyAreCalled(t *testing.T) {
	m := render(t, install.DefaultValues("v1.2.3"))
	unready := map[string]bool{}
	for _, s := range of[corev1.Service](m, "Service") {
		unready[s.Name] = s.Spec.PublishNotReadyAddresses
	}
	called := map[string]int{}
	for _, o := range m.all() {
		kind := o.GetKind()
		walk(o.Object, func(at map[string]any) {
			s, is := at["service"].(map[string]any)
			if !is || s["type"] != nil {
				return
			}
			called[kind]++
			name, _ := s["name"].(string)
			if want := kind == "CustomResourceDefinition" || kind == "APIService"; unready[name] != want {
				t.Errorf("%s %s calls pods that are not ready: %v, by service %s", kind, o.GetName(), unready[name], name)
			}
		})
	}
	if called["CustomResourceDefinition"] < 11 || called["APIService"] != 3 ||
		called["ValidatingWebhookConfiguration"] == 0 ||
		called["MutatingWebhookConfiguration"] == 0 {
		t.Errorf("calls were found in %v", called)
	}
	for _, name := range []string{"mlbatch-controller-metrics", "mlbatch-scheduler-metrics"} {
		if unready[name] {
			t.Errorf("service %s leads to pods that are not ready", name)
		}
	}
}

// TestWhatIsCalledIsCertified: the names of all Services that the API server calls are in the
// certificates, whoever makes them.
func TestWhatIsCalledIsCertified(t *testing.T) {
	v := install.DefaultValues("v1.2.3")
	v.CertManager.Enabled = true
	m := render(t, v)
	var named []string
	for _, o := range m.all() {
		if o.GetKind() == "Certificate" {
			named, _, _ = unstructured.NestedStringSlice(o.Object, "spec", "dnsNames")
		}
	}
	own := certs.Hosts("batch", "mlbatch-webhook-service")
	for _, o := range m.all() {
		walk(o.Object, func(at map[string]any) {
			s, is := at["service"].(map[string]any)
			if !is || s["type"] != nil {
				return
			}
			host := fmt.Sprintf("%v.%v.svc", s["name"], s["namespace"])
			if !slices.Contains(named, host) || !slices.Contains(own, host) {
				t.Errorf("%s %s calls %s, which cert-manager's certificate names: %v, the controller's own: %v",
					o.GetKind(), o.GetName(), host, slices.Contains(named, host), slices.Contains(own, host))
			}
		})
	}
}

// TestServicesLeadToPorts: each port of a Service is one that its pods open, which their
// program is told to listen on; and what the API server calls is a port of a Service.
func TestServicesLeadToPorts(t *testing.T) {
	for name, v := range worlds(t) {
		t.Run(name, func(t *testing.T) {
			m := render(t, v)
			ports := map[string]bool{}
			for _, s := range of[corev1.Service](m, "Service") {
				for _, p := range s.Spec.Ports {
					ports[fmt.Sprintf("%s:%d", s.Name, p.Port)] = true
					if opens(m, s.Spec.Selector)[p.TargetPort.String()] == 0 {
						t.Errorf(
							"service %s leads to port %s, which no pod of %v opens",
							s.Name,
							p.TargetPort.String(),
							s.Spec.Selector,
						)
					}
				}
			}
			for _, d := range of[appsv1.Deployment](m, "Deployment") {
				c := d.Spec.Template.Spec.Containers[0]
				for _, p := range c.Ports {
					if !slices.ContainsFunc(
						c.Args,
						func(a string) bool { return strings.HasSuffix(a, fmt.Sprintf("-port=%d", p.ContainerPort)) },
					) {
						t.Errorf("%s is not told to listen on its port %s", d.Name, p.Name)
					}
				}
				for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
					if opens(m, d.Spec.Selector.MatchLabels)[probe.HTTPGet.Port.String()] == 0 {
						t.Errorf("%s is probed at a port that it does not open", d.Name)
					}
				}
			}
			called := 0
			for _, o := range m.all() {
				walk(o.Object, func(at map[string]any) {
					s, is := at["service"].(map[string]any)
					if !is || s["type"] != nil {
						return // or it is a field of that name in a schema
					}
					called++
					if key := fmt.Sprintf("%v:%v", s["name"], s["port"]); s["namespace"] != "batch" || !ports[key] {
						t.Errorf(
							"%s %s is called at %s in %v, which is no port of a Service",
							o.GetKind(),
							o.GetName(),
							key,
							s["namespace"],
						)
					}
				})
			}
			if called < 38 {
				t.Errorf("only %d calls were found", called)
			}
		})
	}
}

func walk(v any, see func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		see(v)
		for _, inner := range v {
			walk(inner, see)
		}
	case []any:
		for _, inner := range v {
			walk(inner, see)
		}
	}
}

// who asks is let in or not.
type visitor struct {
	name string
	ip   string
	// labels are those of a pod in a namespace, nil for what is no pod.
	namespace map[string]string
}

func letIn(rules []networkingv1.NetworkPolicyIngressRule, port int32, v visitor) bool {
	for _, r := range rules {
		if !slices.ContainsFunc(
			r.Ports,
			func(p networkingv1.NetworkPolicyPort) bool { return *p.Port == intstr.FromInt32(port) },
		) {
			continue
		}
		if len(r.From) == 0 {
			return true
		}
		for _, from := range r.From {
			switch {
			case from.IPBlock != nil && strings.TrimSuffix(from.IPBlock.CIDR, "/32") == v.ip:
				return true
			case from.NamespaceSelector != nil && v.namespace != nil && labels.SelectorFromSet(from.NamespaceSelector.MatchLabels).Matches(labels.Set(v.namespace)):
				return true
			}
		}
	}
	return false
}

// TestNetworkPolicies: the API server reaches what it calls, Prometheus the metrics, and others
// nothing.
func TestNetworkPolicies(t *testing.T) {
	api, node := visitor{name: "API server", ip: "10.0.0.1"}, visitor{name: "kubelet", ip: "10.0.0.2"}
	prometheus := visitor{
		name:      "Prometheus",
		ip:        "10.9.9.9",
		namespace: map[string]string{corev1.LabelMetadataName: "monitoring"},
	}
	tenant := visitor{
		name:      "a tenant's pod",
		ip:        "10.9.9.8",
		namespace: map[string]string{corev1.LabelMetadataName: "blue"},
	}
	everyone := []visitor{api, node, prometheus, tenant}
	named := "networkPolicy: {apiServer: [10.0.0.1/32], nodes: [10.0.0.2/32]}"
	for name, tc := range map[string]struct {
		why, values, policy string
		port                int32
		in                  []visitor
	}{
		"Webhooks":         {"its address cannot be known", "", "mlbatch-controller", 9443, everyone},
		"WebhooksNamed":    {"unless somebody says it", named, "mlbatch-controller", 9443, []visitor{api}},
		"VisibilityNamed":  {"it is called by the API server too", named, "mlbatch-controller", 8082, []visitor{api}},
		"Metrics":          {"they name queues of all teams", "", "mlbatch-controller", 8080, []visitor{prometheus}},
		"Health":           {"probes come from the own node, which is always let in", "", "mlbatch-controller", 8081, nil},
		"HealthNamed":      {"unless the network plugin does not", named, "mlbatch-controller", 8081, []visitor{node}},
		"Scheduler":        {"its metrics are on the port of its health", "", "mlbatch-scheduler", 10251, []visitor{prometheus}},
		"SchedulerNamed":   {"which is probed, too", named, "mlbatch-scheduler", 10251, []visitor{node, prometheus}},
		"NothingElse":      {"no other port is open", "", "mlbatch-controller", 22, nil},
		"NoMetricsAllowed": {"an empty list is nobody, not everybody", "networkPolicy: {metrics: []}", "mlbatch-controller", 8080, nil},
		"NobodyAtAll":      {"a policy without rules lets in nobody", "networkPolicy: {metrics: []}", "mlbatch-scheduler", 10251, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := install.DefaultValues("v1")
			if _, err := v.ReadValues("values", []byte("crds: {enabled: false}\n"+tc.values)); err != nil {
				t.Fatal(err)
			}
			m := render(t, v)
			policies := of[networkingv1.NetworkPolicy](m, "NetworkPolicy")
			i := slices.IndexFunc(policies, func(p networkingv1.NetworkPolicy) bool { return p.Name == tc.policy })
			p := policies[i]
			if len(opens(m, p.Spec.PodSelector.MatchLabels)) == 0 ||
				!slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
				t.Errorf("it is about no pods, or about other than who comes in: %v", p.Spec)
			}
			var got, want []string
			for _, v := range everyone {
				if letIn(p.Spec.Ingress, tc.port, v) {
					got = append(got, v.name)
				}
			}
			for _, v := range tc.in {
				want = append(want, v.name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
		})
	}
}

// TestOrder: who is called is there before anybody is told to call.
func TestOrder(t *testing.T) {
	m := render(t, install.DefaultValues("v1"))
	var got []string
	for _, s := range m.stages {
		kinds := map[string]bool{}
		for _, o := range s.Objects {
			kinds[o.GetKind()] = true
		}
		got = append(got, s.Name+": "+strings.Join(slices.Sorted(maps.Keys(kinds)), " "))
	}
	want := []string{
		"namespace: Namespace",
		"definitions: CustomResourceDefinition",
		"access: ClusterRole ClusterRoleBinding Role RoleBinding ServiceAccount",
		"policies: ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
		"services: APIService Service",
		"configuration: ConfigMap Secret",
		"programs: Deployment",
		"budgets: PodDisruptionBudget",
		"network: NetworkPolicy",
		"webhooks: MutatingWebhookConfiguration ValidatingWebhookConfiguration",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRenderIsPure: equal values give equal objects, which carry the labels that they are found by.
func TestRenderIsPure(t *testing.T) {
	for name, v := range worlds(t) {
		t.Run(name, func(t *testing.T) {
			first := render(t, v)
			if diff := cmp.Diff(first.stages, render(t, v).stages); diff != "" {
				t.Errorf("rendered twice (-first +second):\n%s", diff)
			}
			for _, o := range first.all() {
				l := o.GetLabels()
				if l[install.PartLabel] != install.App || l[install.ManagedLabel] != "mlbatch" ||
					l[install.VersionLabel] != "v1.2.3" {
					t.Errorf("%s %s cannot be found again: %v", o.GetKind(), o.GetName(), l)
				}
				if _, has := o.Object["status"]; has {
					t.Errorf("%s %s would write a status", o.GetKind(), o.GetName())
				}
			}
		})
	}
}

// TestConfigurationRestarts: pods are made anew when the controller's file changes, and for nothing else.
func TestConfigurationRestarts(t *testing.T) {
	template := func(change func(*install.Values)) corev1.PodTemplateSpec {
		v := install.DefaultValues("v1")
		v.CRDs.Enabled = false
		change(&v)
		return of[appsv1.Deployment](render(t, v), "Deployment")[0].Spec.Template
	}
	base := template(func(*install.Values) {})
	if cmp.Diff(base, template(func(v *install.Values) { v.Controller.Config += "# more\n" })) == "" {
		t.Error("a controller that runs would not see its new file")
	}
	if diff := cmp.Diff(
		base,
		template(func(v *install.Values) { v.NetworkPolicy.Enabled = false; v.Controller.Replicas = 5 }),
	); diff != "" {
		t.Errorf("the controller would be restarted for nothing:\n%s", diff)
	}
}

// TestKindsOfOthers: the definition of a kind that another operator runs is that operator's.
func TestKindsOfOthers(t *testing.T) {
	v := install.DefaultValues("v1")
	v.Controller.Kinds = map[string]string{"pytorchjob": "queue", "trainjob": "ignore", "rayjob": "run"}
	names := map[string]bool{}
	for _, o := range render(t, v).all() {
		if o.GetKind() == "CustomResourceDefinition" {
			names[o.GetName()] = true
		}
	}
	for name, want := range map[string]bool{
		"pytorchjobs.kubeflow.org": false, "trainjobs.trainer.kubeflow.org": false, "trainingruntimes.trainer.kubeflow.org": false,
		"rayjobs.ray.io": true, "rayclusters.ray.io": true, "tfjobs.kubeflow.org": true, "workloads.kueue.x-k8s.io": true,
	} {
		if names[name] != want {
			t.Errorf("%s is installed: %v, want %v", name, names[name], want)
		}
	}
	if args := of[appsv1.Deployment](render(t, v), "Deployment")[0].Spec.Template.Spec.Containers[0].Args; !slices.Contains(
		args,
		"--kinds=pytorchjob=queue,rayjob=run,trainjob=ignore",
	) {
		t.Errorf("the controller is not told: %v", args)
	}
}

// Without mlbatch's scheduler nothing of it is there, and the controller knows.
func TestWithoutScheduler(t *testing.T) {
	m := render(t, worlds(t)["Stock"])
	told := false
	for _, s := range m.stages {
		for _, o := range s.Objects {
			if strings.HasPrefix(o.GetName(), "mlbatch-scheduler") {
				t.Errorf("%s %s is there", o.GetKind(), o.GetName())
			}
			if o.GetKind() == "Deployment" {
				text := fmt.Sprint(o.Object)
				told = told || strings.Contains(text, "--scheduler-name=default-scheduler --scheduler-names= ") ||
					strings.Contains(text, "--scheduler-name=default-scheduler --scheduler-names=]")
			}
		}
	}
	if !told {
		t.Error("the controller is not told that another scheduler binds pods")
	}
	own := install.DefaultValues("v1.2.3")
	own.CRDs.Enabled, own.Scheduler.Enabled, own.Controller.SchedulerName = false, false, "sakkara" // the real one
	if errs := own.Validate(); len(errs) > 0 {
		t.Errorf("Sakkara may not bind pods: %v", errs)
	}
	for _, s := range render(t, own).stages {
		for _, o := range s.Objects {
			if o.GetKind() == "MutatingWebhookConfiguration" && strings.Contains(fmt.Sprint(o.Object), ",sakkara") {
				t.Error("the webhook takes pods of Sakkara for those of mlbatch's scheduler")
			}
		}
	}
	for _, name := range []string{"", "mlbatch-scheduler"} {
		v := install.DefaultValues("v1.2.3")
		v.Scheduler.Enabled, v.Controller.SchedulerName = false, name
		if errs := v.Validate(); len(errs) != 1 || errs[0].Field != "controller.schedulerName" ||
			!strings.Contains(errs[0].Detail, "default-scheduler") {
			t.Errorf("pods are given to %q, which nobody answers to: %v", name, errs)
		}
	}
}

// TestValuesOfHelm: a file that is for Helm too may have what Helm hands to charts within charts.
func TestValuesOfHelm(t *testing.T) {
	v := install.DefaultValues("v1")
	f, err := v.ReadValues(
		"v.yaml",
		[]byte(
			"global: {registry: x}\nfullnameOverride: queues\ntolerations: [{operator: Exists}, {key: example.com/gpu, value: a, effect: NoExecute, tolerationSeconds: 5}]",
		),
	)
	if err == nil {
		err = v.Check(f)
	}
	if err != nil || v.FullnameOverride != "queues" || len(v.Tolerations) != 2 {
		t.Errorf("%+v: %v", v, err)
	}
}

func TestReadValues(t *testing.T) {
	for name, tc := range map[string]struct{ why, text, says string }{
		"Unknown":    {"what is not read does nothing", "image: {tagg: x}", `v.yaml:1:9: image.tagg: unknown field; did you mean "tag"?`},
		"OtherChart": {"names of other charts have a hint", "a: 1\nreplicaCount: 3", "v.yaml:2:1: replicaCount: unknown field; say it of each program: controller.replicas, scheduler.replicas"},
		"Misplaced":  {"the scheduler has no kinds", "scheduler:\n  kinds: {}", "v.yaml:2:3: scheduler.kinds: unknown field"},
		"Twice":      {"one of them would be lost", "platform: kubernetes\nplatform: openshift", "v.yaml:2:1: platform: is already set on line 1: keep one"},
		"Type":       {"a list is no set", "nodeSelector: [a]", "v.yaml:1:15: nodeSelector: must be a set of fields"},
		"Syntax":     {"the line is told", "image:\n\ttag: x", "v.yaml:2:1: not YAML"},
		"Platform":   {"there are two", "platform: gke", `v.yaml:1:1: platform: Unsupported value: "gke"`},
		"Mode":       {"there are three", "controller: {kinds: {job: maybe}}", `controller.kinds[job]: Unsupported value: "maybe"`},
		"Kind":       {"there is no such kind", "controller: {kinds: {jobb: run}}", `controller.kinds[jobb]: Unsupported value: "jobb"`},
		"CIDR":       {"an address is no range", "networkPolicy:\n  apiServer:\n  - 10.0.0.1", "v.yaml:3:5: networkPolicy.apiServer[0]: Invalid value"},
		"Requests":   {"the API server would refuse", "controller: {resources: {requests: {memory: 9Gi}}}", "is more than the limit, 4Gi"},
		"Replicas":   {"none would decide", "controller: {replicas: 0}", "controller.replicas: Invalid value: 0: must be between 1 and 9"},
		"Digest":     {"it names bytes", "image: {digest: sha256:12}", "image.digest: Invalid value"},
		"Names":      {"it would answer to nobody", "scheduler: {names: []}", "scheduler.names: name one at least"},
		"Extra":      {"it could not be applied", "extraObjects: [{kind: ConfigMap}]", "extraObjects[0]: an object needs apiVersion"},
		"Scheduler":  {"two would bind the same pods", "scheduler: {names: [default-scheduler]}", "v.yaml:1:21: scheduler.names[0]: Invalid value"},
		"Name":       {"no pod can name it", "scheduler: {names: [A_b]}", "scheduler.names[0]: Invalid value"},
		"Effect":     {"the API server would refuse the pods", "tolerations: [{key: a, operator: Exists, effect: NoShedule}]", `tolerations[0].effect: Unsupported value: "NoShedule"`},
		"Operator":   {"the API server would refuse the pods", "tolerations: [{key: a, operator: exists}]", `tolerations[0].operator: Unsupported value: "exists"`},
		"All":        {"the API server would refuse the pods", "tolerations: [{value: a}]", "tolerations[0].key: name the taint"},
		"Value":      {"the API server would refuse the pods", "tolerations: [{key: a, operator: Exists, value: b}]", "tolerations[0].value"},
		"Seconds":    {"the API server would refuse the pods", "tolerations: [{key: a, operator: Exists, tolerationSeconds: 5}]", "tolerations[0].tolerationSeconds"},
		"Fullname":   {"Deployments could not have it", "fullnameOverride: Q", "fullnameOverride: Invalid value"},
		"Args":       {"it would be a command", "controller: {extraArgs: [x]}", "controller.extraArgs[0]: Invalid value"},
		"Flag":       {"the pods would end at once", "controller: {extraArgs: [--verbosity=2, --verbositty=2]}", `controller.extraArgs[1]: Invalid value: "--verbositty=2": mlbatch controller takes no such flag here; did you mean --verbosity?`},
		"Whose":      {"it is the other's", "scheduler: {extraArgs: [--webhook-port=1]}", "mlbatch scheduler takes no such flag here; it takes --bind-address, --health-port"},
		"Ends":       {"it prints and ends", "controller: {extraArgs: [--check-config]}", "mlbatch controller takes no such flag here"},
		"Apart":      {"each is an argument of its own", "controller: {extraArgs: [--verbosity, '2']}", "needs its value in the same text: --verbosity=VALUE"},
		"Switch":     {"it would not be read", "scheduler: {extraArgs: [--leader-elect=no]}", "is true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			v := install.DefaultValues("v1")
			f, err := v.ReadValues("v.yaml", []byte(tc.text))
			if err == nil {
				err = v.Check(f)
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: got\n%v\nwant one that says\n%s", tc.why, err, tc.says)
			}
		})
	}
	v := install.DefaultValues("v1")
	if _, err := v.ReadValues(
		"v.yaml",
		[]byte("controller: {resources: {limits: {cpu: 2}}}\nscheduler: {names: [x]}\npriorityClassName: null\n"),
	); err != nil {
		t.Fatal(err)
	}
	if l := v.Controller.Resources.Limits; l.Cpu().Value() != 2 || l.Memory().IsZero() ||
		!slices.Equal(v.Scheduler.Names, []string{"x"}) ||
		v.PriorityClassName != "" {
		t.Errorf(
			"sets are merged, lists replaced, null takes away, as with Helm; got %v %v %q",
			l,
			v.Scheduler.Names,
			v.PriorityClassName,
		)
	}
}

func TestParseImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for typed, want := range map[string]string{
		"mlbatch:v2":                             "mlbatch:v2",
		"registry.example.com/a/mlbatch:v2":      "registry.example.com/a/mlbatch:v2",
		"registry.example.com:5000/mlbatch":      "registry.example.com:5000/mlbatch:v1",
		"localhost/mlbatch:v2":                   "localhost/mlbatch:v2",
		"team/mlbatch":                           "team/mlbatch:v1",
		"registry.example.com/mlbatch@" + digest: "registry.example.com/mlbatch@" + digest,
	} {
		i := install.DefaultValues("v1").Image
		if err := i.ParseImage(typed); err != nil || i.String() != want {
			t.Errorf("%s is %s, %v; want %s", typed, i.String(), err, want)
		}
	}
	i := install.DefaultValues("v1").Image
	if i.ParseImage(":v2") == nil {
		t.Error("an image needs a name")
	}
}
