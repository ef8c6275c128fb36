package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// What reviewers of a cluster look for in what is installed: whatever Apply puts there passes.
func TestInstalledObjectsPassTheChecklist(t *testing.T) {
	for name, opts := range map[string]install.Options{
		"own certificates":   {WebhookService: &install.Service{Namespace: install.DefaultNamespace, Name: "mlbatch-webhook-service", Port: 443}, Foreign: true},
		"given certificates": {WebhookURL: "https://127.0.0.1:1", CABundle: []byte("ca"), ControllerUser: "controller", SchedulerUser: "scheduler"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := applied(t, opts)
			if len(objects) < 100 {
				t.Fatalf("%d objects are installed: too few were looked at", len(objects))
			}
			for _, wrong := range checklist(objects) {
				t.Error(wrong)
			}
		})
	}
}

// So does all that "mlbatch install" applies, with the programs themselves.
func TestWhatInstallAppliesPassesTheChecklist(t *testing.T) {
	for _, platform := range []string{install.Kubernetes, install.OpenShift} {
		values := install.DefaultValues("v1.2.3")
		values.Platform, values.Agent.Enabled = platform, true
		stages, err := install.Render(values, install.Release{Version: "v1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		known := scheme.New()
		var objects []client.Object
		programs := 0
		for _, s := range stages {
			for _, o := range s.Objects {
				typed, err := known.New(o.GroupVersionKind())
				if err != nil {
					continue // of a kind that the list says nothing of
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
					t.Fatal(err)
				}
				if _, is := typed.(*appsv1.Deployment); is {
					programs++
				}
				objects = append(objects, typed.(client.Object))
			}
		}
		if programs != 2 || len(objects) < 100 {
			t.Errorf("on %s %d programs of %d objects were looked at", platform, programs, len(objects))
		}
		for _, wrong := range checklist(objects) {
			t.Errorf("on %s: %s", platform, wrong)
		}
	}
}

// applied are the objects that Apply writes.
func applied(t *testing.T, opts install.Options) []client.Object {
	t.Helper()
	known := scheme.New()
	var out []client.Object
	var lock sync.Mutex // several are applied at once
	c := fake.NewClientBuilder().WithScheme(known).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, a runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			data, err := json.Marshal(a)
			if err != nil {
				return err
			}
			o, _, err := serializer.NewCodecFactory(known).UniversalDeserializer().Decode(data, nil, nil)
			if err != nil {
				return err
			}
			lock.Lock()
			defer lock.Unlock()
			out = append(out, o.(client.Object))
			return nil
		},
	}).Build()
	if err := install.Apply(t.Context(), c, opts); err != nil {
		t.Fatal(err)
	}
	return out
}

// The checklist notices what it is about.
func TestChecklistNotices(t *testing.T) {
	role := func(rules ...rbacv1.PolicyRule) client.Object {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules}
	}
	fine := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "d"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				ServiceAccountName:           "a",
				AutomountServiceAccountToken: new(true),
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot:   new(true),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{
					{
						Name:  "c",
						Image: "registry.example.com/mlbatch:v1.2.3",
						SecurityContext: &corev1.SecurityContext{
							ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{"cpu": {}, "memory": {}},
							Limits:   corev1.ResourceList{"memory": {}},
						},
					},
				},
			}}},
		}
	}
	restricted := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "n",
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
	bound := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "n", Name: "a"}},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
	}
	if wrong := checklist([]client.Object{restricted, account, bound, fine()}); len(wrong) > 0 {
		t.Errorf("a Deployment as it should be: %v", wrong)
	}
	with := func(change func(*corev1.PodSpec)) []client.Object {
		d := fine()
		change(&d.Spec.Template.Spec)
		return []client.Object{restricted, account, bound, d}
	}
	for says, objects := range map[string][]client.Object{
		"any verb":          {role(allow("batch", "jobs", "*"))},
		"any resource":      {role(allow("batch", "*", "get"))},
		"any API group":     {role(allow("*", "jobs", "get"))},
		"may list secrets":  {role(allow("", "secrets", "list"))},
		"may watch secrets": {role(allow("", "secrets", "watch"))},
		"may impersonate":   {role(allow("", "users", "impersonate"))},
		"may escalate":      {role(allow("rbac.authorization.k8s.io", "clusterroles", "escalate"))},
		"may bind any":      {role(allow("rbac.authorization.k8s.io", "clusterroles", "bind"))},
		"may run commands":  {role(allow("", "pods/exec", "create"))},
		"tokens":            {role(allow("", "serviceaccounts/token", "create"))},
		"cluster-admin":     {&rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Name: "cluster-admin"}}},
		"everybody":         {&rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:unauthenticated"}}}},
		"holds data":        {&corev1.Secret{Data: map[string][]byte{"a": []byte("b")}}},
		"not restricted":    {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, account, bound, fine()},
		"nothing lets":      {restricted, account, fine()},
		"node":              with(func(p *corev1.PodSpec) { p.HostNetwork = true }),
		"host path": with(func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
		}),
		"whether":            with(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }),
		"default account":    with(func(p *corev1.PodSpec) { p.ServiceAccountName = "" }),
		"root":               with(func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }),
		"seccomp":            with(func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil }),
		"read-only":          with(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil }),
		"escalation":         with(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }),
		"capabilities":       with(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil }),
		"privileged":         with(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) }),
		"resources.requests": with(func(p *corev1.PodSpec) { p.Containers[0].Resources.Requests = nil }),
		"limits.memory":      with(func(p *corev1.PodSpec) { p.Containers[0].Resources.Limits = nil }),
		"latest":             with(func(p *corev1.PodSpec) { p.Containers[0].Image = "registry.example.com:5000/mlbatch" }),
	} {
		if wrong := strings.Join(checklist(objects), "\n"); !strings.Contains(wrong, says) {
			t.Errorf("the checklist does not notice %q: %q", says, wrong)
		}
	}
}

func allow(group, resource, verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
}

// granted are rights that the checklist asks about and that are meant, each with the reason.
func granted() map[string]string {
	return map[string]string{
		install.EditRole + " may list secrets":  "it is bound in the namespaces of teams alone, whose Secrets are theirs, as with Kubernetes' own role edit",
		install.EditRole + " may watch secrets": "the same",
		install.EditRole + " may run commands":  "members of a team look into their own pods",
		install.NodesRole + " may change nodes": "it is for nodeHealth.mode: Act, and an installation binds it to nobody",
		install.Agent + " may change nodes":     "the policy mlbatch-agent-node leaves it the Node that its pod is on, and little of that (TestAgentsChangeTheirOwnNodeOnly)",
		install.TeamRole + " may run commands":  "it is there to be passed on to launchers of MPIJobs; the policy mlbatch-controller-exec keeps the controller from running any",
	}
}

// checklist says what of the hardening that reviewers look for is missing in objects: rights
// that are wider than anything needs, pods that could do more than their programs do, webhooks
// that could keep a cluster from starting, policies that let pass what they cannot judge.
func checklist(objects []client.Object) []string {
	x := &review{namespaces: map[string]map[string]string{}, bound: map[string]bool{}}
	for _, o := range objects {
		x.note(o)
	}
	for _, o := range objects {
		x.object(o)
	}
	slices.Sort(x.wrong)
	return x.wrong
}

// review is a checklist being gone through.
type review struct {
	// namespaces are the labels of those that are installed, bound the accounts with a role.
	namespaces map[string]map[string]string
	bound      map[string]bool
	wrong      []string
}

func (x *review) say(o client.Object, format string, args ...any) {
	x.wrong = append(
		x.wrong,
		fmt.Sprintf("%T %s: ", o, client.ObjectKeyFromObject(o))+fmt.Sprintf(format, args...),
	)
}

func (x *review) note(o client.Object) {
	subjects := func(all []rbacv1.Subject) {
		for _, s := range all {
			x.bound[s.Namespace+"/"+s.Name] = true
		}
	}
	switch o := o.(type) {
	case *corev1.Namespace:
		x.namespaces[o.Name] = o.Labels
	case *rbacv1.ClusterRoleBinding:
		subjects(o.Subjects)
	case *rbacv1.RoleBinding:
		subjects(o.Subjects)
	}
}

func (x *review) object(o client.Object) {
	switch o := o.(type) {
	case *rbacv1.ClusterRole:
		x.rules(o, o.Name, o.Rules)
	case *rbacv1.Role:
		x.rules(o, o.Name, o.Rules)
	case *rbacv1.ClusterRoleBinding:
		x.binding(o, o.RoleRef, o.Subjects)
	case *rbacv1.RoleBinding:
		x.binding(o, o.RoleRef, o.Subjects)
	case *corev1.Secret:
		if len(o.Data)+len(o.StringData) > 0 {
			x.say(o, "holds data: what is installed is in files that many can read")
		}
	case *corev1.Pod:
		x.pod(o, &o.Spec)
	case *appsv1.Deployment:
		x.pod(o, &o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		x.pod(o, &o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		x.pod(o, &o.Spec.Template.Spec)
	case *batchv1.Job:
		x.pod(o, &o.Spec.Template.Spec)
	case *batchv1.CronJob:
		x.pod(o, &o.Spec.JobTemplate.Spec.Template.Spec)
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			h := &o.Webhooks[i]
			x.hook(o, h.Name, h.FailurePolicy, h.TimeoutSeconds, h.NamespaceSelector, h.Rules)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			h := &o.Webhooks[i]
			x.hook(o, h.Name, h.FailurePolicy, h.TimeoutSeconds, h.NamespaceSelector, h.Rules)
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		if p := o.Spec.FailurePolicy; p == nil || *p != admissionregistrationv1.Fail {
			x.say(o, "spec.failurePolicy is not Fail: what it cannot judge would be let pass")
		}
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		if !slices.Equal(
			o.Spec.ValidationActions,
			[]admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		) {
			x.say(o, "spec.validationActions is not Deny alone")
		}
	}
}

func (x *review) rules(o client.Object, role string, rules []rbacv1.PolicyRule) {
	known := granted()
	for _, r := range rules {
		may := func(verb, resource string) bool {
			return slices.Contains(r.Verbs, verb) && slices.Contains(r.Resources, resource)
		}
		for what, found := range map[string]bool{
			"any verb":                 slices.Contains(r.Verbs, "*"),
			"any resource":             slices.Contains(r.Resources, "*") || slices.Contains(r.NonResourceURLs, "*"),
			"any API group":            slices.Contains(r.APIGroups, "*"),
			"may list secrets":         may("list", "secrets"),
			"may watch secrets":        may("watch", "secrets"),
			"may impersonate":          slices.Contains(r.Verbs, "impersonate"),
			"may escalate":             slices.Contains(r.Verbs, "escalate"),
			"may bind any role":        slices.Contains(r.Verbs, "bind") && len(r.ResourceNames) == 0,
			"may run commands":         may("create", "pods/exec") || may("create", "pods/attach"),
			"may make tokens":          may("create", "serviceaccounts/token"),
			"may change nodes":         may("update", "nodes") || may("patch", "nodes") || may("update", "nodes/status") || may("patch", "nodes/status"),
			"may reach any pod's port": may("get", "pods/proxy") || may("create", "pods/proxy") || may("get", "nodes/proxy") || may("get", "services/proxy"),
			"may bind pods to nodes":   may("create", "pods/binding"),
		} {
			if found && known[role+" "+what] == "" {
				x.say(o, "%s: %v of %v in %v", what, r.Verbs, r.Resources, r.APIGroups)
			}
		}
	}
}

func (x *review) binding(o client.Object, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if slices.Contains([]string{"cluster-admin", "admin", "edit", "system:masters"}, role.Name) {
		x.say(o, "binds %s", role.Name)
	}
	for _, s := range subjects {
		if s.Kind == rbacv1.GroupKind &&
			(!slices.Contains([]string{install.ClassesRole, install.ViewsRole}, role.Name) || s.Name != "system:authenticated") {
			x.say(o, "gives %s to everybody of %s", role.Name, s.Name)
		}
		if s.Kind == rbacv1.ServiceAccountKind && s.Name == "default" {
			x.say(o, "gives %s to what runs as the default account", role.Name)
		}
	}
}

func (x *review) pod(o client.Object, p *corev1.PodSpec) {
	if got := x.namespaces[o.GetNamespace()]["pod-security.kubernetes.io/enforce"]; got != "restricted" {
		x.say(o, "namespace %s is not restricted: pod-security.kubernetes.io/enforce is %q", o.GetNamespace(), got)
	}
	if p.HostNetwork || p.HostPID || p.HostIPC {
		x.say(o, "shares what is its node's: network, processes or IPC")
	}
	for _, v := range p.Volumes {
		if v.HostPath != nil {
			x.say(o, "volume %s is a host path", v.Name)
		}
	}
	switch token := p.AutomountServiceAccountToken; {
	case token == nil:
		x.say(o, "spec.automountServiceAccountToken does not say whether it needs one")
	case *token && (p.ServiceAccountName == "" || p.ServiceAccountName == "default"):
		x.say(o, "has a token of the default account")
	case *token && !x.bound[o.GetNamespace()+"/"+p.ServiceAccountName]:
		x.say(o, "has a token with which nothing lets it do anything")
	}
	pod := p.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		sc := c.SecurityContext
		if sc == nil {
			sc = &corev1.SecurityContext{}
		}
		yes := func(b *bool) bool { return b != nil && *b }
		runtimeDefault := func(s *corev1.SeccompProfile) bool {
			return s != nil && s.Type == corev1.SeccompProfileTypeRuntimeDefault
		}
		for what, fine := range map[string]bool{
			"may be root":                                yes(sc.RunAsNonRoot) || sc.RunAsNonRoot == nil && yes(pod.RunAsNonRoot),
			"has no seccomp profile RuntimeDefault":      runtimeDefault(sc.SeccompProfile) || sc.SeccompProfile == nil && runtimeDefault(pod.SeccompProfile),
			"its root is not read-only":                  yes(sc.ReadOnlyRootFilesystem),
			"does not refuse privilege escalation":       sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
			"does not drop ALL capabilities":             sc.Capabilities != nil && slices.Contains(sc.Capabilities.Drop, "ALL") && len(sc.Capabilities.Add) == 0,
			"is privileged":                              !yes(sc.Privileged),
			"resources.requests names no cpu and memory": has(c.Resources.Requests, corev1.ResourceCPU) && has(c.Resources.Requests, corev1.ResourceMemory),
			"has no limits.memory":                       has(c.Resources.Limits, corev1.ResourceMemory),
			"its image has no version, which is latest":  versioned(c.Image),
		} {
			if !fine {
				x.say(o, "container %s: %s", c.Name, what)
			}
		}
	}
}

func has(l corev1.ResourceList, name corev1.ResourceName) bool {
	_, found := l[name]
	return found
}

// versioned reports whether an image is named by a digest, or a tag other than latest.
func versioned(image string) bool {
	if strings.Contains(image, "@sha256:") {
		return true
	}
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tagged && tag != "latest" && tag != ""
}

// hook: one that refuses without an answer is never about what a cluster has to start with.
func (x *review) hook(
	o client.Object,
	name string,
	fails *admissionregistrationv1.FailurePolicyType,
	seconds *int32,
	where *metav1.LabelSelector,
	rules []admissionregistrationv1.RuleWithOperations,
) {
	if seconds == nil || *seconds > 10 {
		x.say(o, "%s may take longer than 10 s", name)
	}
	if fails != nil && *fails == admissionregistrationv1.Ignore {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(where)
	if err != nil {
		x.say(o, "%s: %v", name, err)
		return
	}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			if !slices.Contains([]string{"", "apps", "batch", "*", "coordination.k8s.io"}, group) {
				continue // kinds of ours
			}
			for _, namespace := range []string{metav1.NamespaceSystem, "kube-node-lease", "kube-public"} {
				if selector.Matches(labels.Set{"kubernetes.io/metadata.name": namespace}) {
					x.say(
						o,
						"%s is asked about %v of %s, which then cannot start without an answer",
						name,
						r.Resources,
						namespace,
					)
				}
			}
		}
	}
}
