package install_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

// TestAccessRoles holds what bindings of existing setups rely on. Roles that are
// made of others are summed up here as the controller manager does it.
func TestAccessRoles(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	apply(t, c, "https://127.0.0.1:1")
	rules := clusterRoles(t, c)
	const kueue = "kueue.x-k8s.io"
	election := &rbacv1.Role{}
	if err := c.Get(
		t.Context(),
		client.ObjectKey{Namespace: install.DefaultNamespace, Name: install.LeaderElectionRole},
		election,
	); err != nil {
		t.Fatal(err)
	}
	rules[election.Name] = election.Rules
	cases := map[string]struct {
		why, role, group, resource, verb string
		want                             bool
	}{
		"AdminQueues":     {"admins own quotas", install.BatchAdminRole, kueue, "clusterqueues", "create", true},
		"AdminFlavors":    {"admins own flavors", install.BatchAdminRole, kueue, "resourceflavors", "patch", true},
		"AdminTopologies": {"admins own topologies", install.BatchAdminRole, kueue, "topologies", "delete", true},
		"AdminWorkloads":  {"admins stop workloads", install.BatchAdminRole, kueue, "workloads", "update", true},
		"AdminStatus": {
			"no user admits by hand",
			install.BatchAdminRole,
			kueue,
			"workloads/status",
			"update",
			false,
		},
		"AdminPending": {
			"admins see what waits",
			install.BatchAdminRole,
			"visibility.kueue.x-k8s.io",
			"clusterqueues/pendingworkloads",
			"get",
			true,
		},
		"UserJobs": {"users run jobs", install.BatchUserRole, "batch", "jobs", "create", true},
		"UserWrappers": {
			"of every kind",
			install.BatchUserRole,
			"workload.codeflare.dev",
			"appwrappers",
			"create",
			true,
		},
		"UserLocalQueues": {"users see their queues", install.BatchUserRole, kueue, "localqueues", "list", true},
		"UserQueues":      {"and not what is behind", install.BatchUserRole, kueue, "clusterqueues", "list", false},
		"UserWorkloads":   {"users see why they wait", install.BatchUserRole, kueue, "workloads", "watch", true},
		"UserStops": {
			"and stop nothing of others",
			install.BatchUserRole,
			kueue,
			"workloads",
			"patch",
			false,
		},
		"UserPending": {
			"users see their place",
			install.BatchUserRole,
			"visibility.kueue.x-k8s.io",
			"localqueues/pendingworkloads",
			"get",
			true,
		},
		"Classes": {"jobs name them", install.ClassesRole, kueue, "workloadpriorityclasses", "list", true},
		"PodClasses": {
			"pods name them",
			install.ClassesRole,
			"scheduling.k8s.io",
			"priorityclasses",
			"get",
			true,
		},
		"Views": {
			"they tell what the asker may list",
			install.ViewsRole,
			"view.mlbatch.dev",
			"jobviews",
			"watch",
			true,
		},
		"Explanations": {
			"they say what the asker may read",
			install.ViewsRole,
			"view.mlbatch.dev",
			"jobviews/explanation",
			"get",
			true,
		},
		"ViewsOfTeams": {"so do these", install.ViewsRole, "view.mlbatch.dev", "teamviews", "list", true},
		"ViewsOfNodes": {"so do these", install.ViewsRole, "view.mlbatch.dev", "nodeviews", "list", true},
		"ViewsAlone": {
			"nothing else is given to everybody with them",
			install.ViewsRole,
			"",
			"pods",
			"list",
			false,
		},
		"ClassesStay": {
			"admins make them",
			install.ClassesRole,
			kueue,
			"workloadpriorityclasses",
			"update",
			false,
		},
		"TeamNodes":      {"their health decides where jobs run", install.EditRole, "", "nodes", "patch", false},
		"TeamNodeStatus": {"so do their conditions", install.EditRole, "", "nodes/status", "patch", false},
		"TeamHistory": {
			"a team sees what it used",
			install.EditRole,
			"mlbatch.dev",
			"jobhistories",
			"list",
			true,
		},
		"TeamWrites": {
			"and does not rewrite it",
			install.EditRole,
			"mlbatch.dev",
			"jobhistories",
			"update",
			false,
		},
		"TeamForges":  {"nor adds to it", install.EditRole, "mlbatch.dev", "jobhistories", "create", false},
		"TeamForgets": {"nor removes it", install.EditRole, "mlbatch.dev", "jobhistories", "delete", false},
		"UserHistory": {
			"users see what ended",
			install.BatchUserRole,
			"mlbatch.dev",
			"jobhistories",
			"get",
			true,
		},
		"UserForges": {
			"and make up nothing",
			install.BatchUserRole,
			"mlbatch.dev",
			"jobhistories",
			"create",
			false,
		},
		"AdminHistory": {
			"admins see what ended",
			install.BatchAdminRole,
			"mlbatch.dev",
			"jobhistories",
			"list",
			true,
		},
		"AdminForges": {
			"it is the controller's alone to write",
			install.BatchAdminRole,
			"mlbatch.dev",
			"jobhistories",
			"patch",
			false,
		},
		"TeamRecovery": {
			"a team sees what is remembered of its jobs",
			install.EditRole,
			"mlbatch.dev",
			"jobrecoveries",
			"get",
			true,
		},
		"TeamRewrites": {
			"and does not rewrite it",
			install.EditRole,
			"mlbatch.dev",
			"jobrecoveries",
			"update",
			false,
		},
		"TeamMakesUp": {"nor makes it up", install.EditRole, "mlbatch.dev", "jobrecoveries", "create", false},
		"TeamDrops": {
			"nor has it forgotten",
			install.EditRole,
			"mlbatch.dev",
			"jobrecoveries",
			"delete",
			false,
		},
		"UserMakesUp": {
			"users do not either",
			install.BatchUserRole,
			"mlbatch.dev",
			"jobrecoveries",
			"create",
			false,
		},
		"AdminRecovery": {"admins see it", install.BatchAdminRole, "mlbatch.dev", "jobrecoveries", "list", true},
		"AdminRewrites": {
			"and it is the controller's alone to write",
			install.BatchAdminRole,
			"mlbatch.dev",
			"jobrecoveries",
			"patch",
			false,
		},
		"Operator": {"who else would", install.Controller, "mlbatch.dev", "jobrecoveries", "update", true},
		"Recorder": {"who else would", install.Controller, "mlbatch.dev", "jobhistories", "update", true},
		"TeamEvidence": {
			"a team reads what was kept of its jobs",
			install.EditRole,
			"mlbatch.dev",
			"jobevidences",
			"list",
			true,
		},
		"TeamInvents": {"and invents none", install.EditRole, "mlbatch.dev", "jobevidences", "create", false},
		"TeamHides":   {"nor hides it", install.EditRole, "mlbatch.dev", "jobevidences", "delete", false},
		"UserEvidence": {
			"it has ends of logs, which this role does not give",
			install.BatchUserRole,
			"mlbatch.dev",
			"jobevidences",
			"list",
			false,
		},
		"EvidenceKept":  {"who keeps it", install.Controller, "mlbatch.dev", "jobevidences", "create", true},
		"EvidenceStays": {"it is not changed", install.Controller, "mlbatch.dev", "jobevidences", "update", false},
		"LogsOfJobs":    {"logs are read where jobs run", install.TeamRole, "", "pods/log", "get", true},
		"LogsElsewhere": {"and nowhere else", install.Controller, "", "pods/log", "get", false},
		"Manager": {
			"controllers beside ours answer checks",
			install.ManagerRole,
			kueue,
			"workloads/status",
			"patch",
			true,
		},
		"ManagerSecrets": {"and read no secrets of others", install.ManagerRole, "", "secrets", "list", false},
		"Election": {
			"and elect one of them",
			install.LeaderElectionRole,
			"coordination.k8s.io",
			"leases",
			"create",
			true,
		},
		"MetricsAuth": {
			"who guards metrics asks who is there",
			install.MetricsAuthRole,
			"authentication.k8s.io",
			"tokenreviews",
			"create",
			true,
		},
		"Editor":       {"one kind at a time", "kueue-cohort-editor-role", kueue, "cohorts", "create", true},
		"Viewer":       {"to be seen", "kueue-cohort-viewer-role", kueue, "cohorts", "list", true},
		"ViewerWrites": {"and not written", "kueue-cohort-viewer-role", kueue, "cohorts", "create", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := allows(rules[tc.role], tc.group, tc.resource, tc.verb); got != tc.want {
				t.Errorf("%s: %s may %s %s: %v, want %v", tc.why, tc.role, tc.verb, tc.resource, got, tc.want)
			}
		})
	}
	if r := rules[install.MetricsReaderRole]; len(r) != 1 || len(r[0].NonResourceURLs) != 1 ||
		r[0].NonResourceURLs[0] != "/metrics" {
		t.Errorf("metrics are no resource, got %v", r)
	}
}

// clusterRoles are the rules of all cluster roles, those of the parts of a role
// that is made of others included.
func clusterRoles(t *testing.T, c client.Client) map[string][]rbacv1.PolicyRule {
	t.Helper()
	list := &rbacv1.ClusterRoleList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range list.Items {
		rules[r.Name] = r.Rules
		if r.AggregationRule == nil {
			continue
		}
		for _, s := range r.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&s)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range list.Items {
				if selector.Matches(labels.Set(part.Labels)) {
					rules[r.Name] = append(rules[r.Name], part.Rules...)
				}
			}
		}
	}
	return rules
}

// What runs pods and is not queued can be made by no role that tenants are given:
// quota would not apply to it, once an operator for it is in the cluster.
func TestUnqueuedKindsCannotBeMade(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	apply(t, c, "https://127.0.0.1:1")
	rules := clusterRoles(t, c)
	unqueued := []schema.GroupResource{
		{Resource: "pods"},
		{Resource: "replicationcontrollers"},
		{Resource: "podtemplates"},
		{Group: "apps", Resource: "deployments"},
		{Group: "apps", Resource: "statefulsets"},
		{Group: "apps", Resource: "daemonsets"},
		{Group: "apps", Resource: "replicasets"},
		{Group: "batch", Resource: "cronjobs"},
		{Group: "sparkoperator.k8s.io", Resource: "sparkapplications"},
	}
	free := []schema.GroupKind{
		{Kind: "Service"},
		{Kind: "ConfigMap"},
		{Kind: "Secret"},
		{Kind: "PersistentVolumeClaim"},
		{Group: "scheduling.x-k8s.io", Kind: "PodGroup"},
	}
	for _, k := range webhook.DefaultAllowedKinds(kinds.All()) { // what an AppWrapper takes is looked at, whatever is added to it
		queued := slices.ContainsFunc(kinds.All(), func(q jobs.Kind) bool {
			return q.GroupKind() == k && q.Admission.TeamsCreate && q.Running.Operator != nil
		})
		if !slices.Contains(free, k) && !queued && k.Group != "batch" {
			unqueued = append(unqueued, schema.GroupResource{Group: k.Group, Resource: strings.ToLower(k.Kind) + "s"})
		}
	}
	held := []schema.GroupResource{ // in the namespaces of teams, where this role is bound
		{Resource: "pods"},
		{Group: "apps", Resource: "deployments"},
		{Group: "apps", Resource: "statefulsets"},
		{Group: "apps", Resource: "replicasets"},
		{Group: "batch", Resource: "cronjobs"},
		{Group: "leaderworkerset.x-k8s.io", Resource: "leaderworkersets"},
	}
	for _, role := range []string{install.EditRole, install.BatchUserRole} {
		for _, k := range unqueued {
			if role == install.EditRole && slices.Contains(held, k) {
				continue
			}
			for _, verb := range []string{"create", "update", "patch"} {
				for _, resource := range []string{k.Resource, k.Resource + "/scale"} {
					if allows(rules[role], k.Group, resource, verb) {
						t.Errorf("%s may %s %s.%s, which nothing queues", role, verb, resource, k.Group)
					}
				}
			}
		}
	}
	for _, k := range webhook.DefaultAllowedKinds(kinds.All()) {
		for _, verb := range []string{"get", "list", "watch", "delete"} {
			if resource := strings.ToLower(k.Kind) + "s"; !allows(rules[install.EditRole], k.Group, resource, verb) {
				t.Errorf("a user cannot %s %s.%s of an AppWrapper", verb, resource, k.Group)
			}
		}
	}
}

// What the controller may do everywhere gives no attacker who takes it over Secrets or
// pods of others: these rights it has where jobs run.
func TestControllerHasItsRightsWhereJobsRun(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	apply(t, c, "https://127.0.0.1:1")
	rules := clusterRoles(t, c)
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
		if allows(rules[install.Controller], "", "secrets", verb) {
			t.Errorf("the controller may %s all Secrets", verb)
		}
	}
	for _, k := range webhook.DefaultAllowedKinds(kinds.All()) {
		resource := strings.ToLower(k.Kind) + "s"
		for _, verb := range []string{"create", "delete"} {
			if allows(rules[install.Controller], k.Group, resource, verb) {
				t.Errorf("the controller may %s %s.%s everywhere", verb, resource, k.Group)
			}
			if !allows(rules[install.TeamRole], k.Group, resource, verb) {
				t.Errorf("the controller cannot %s %s.%s where jobs run", verb, resource, k.Group)
			}
		}
		if !allows(rules[install.TeamRole], k.Group, resource, "get") {
			t.Errorf("the controller cannot find %s.%s again", resource, k.Group)
		}
	}
	for _, r := range rules[install.Controller] {
		if slices.Contains(r.Verbs, "bind") && !slices.Equal(r.ResourceNames, []string{install.TeamRole}) {
			t.Errorf("the controller may bind %v", r.ResourceNames)
		}
		if slices.Contains(r.Verbs, "escalate") || slices.Contains(r.Verbs, "impersonate") ||
			slices.Contains(r.Verbs, "*") {
			t.Errorf("the controller may give itself rights: %v", r)
		}
	}
}

// What the controller may do for certificates that it makes itself: fill one Secret, and say whom
// the API server trusts in what calls it. It may do neither with certificates of others.
func TestRightsForCertificates(t *testing.T) {
	const hooks, mutating, validating = "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
	cases := map[string]struct {
		why, group, resource, name, verb string
		want                             bool
	}{
		"ReadOwn": {"replicas share what they made", "", "secrets", install.CertSecret, "get", true},
		"FillOwn": {"and renew it", "", "secrets", install.CertSecret, "update", true},
		"Kueue's": {
			"its configuration may name it",
			"",
			"secrets",
			"kueue-webhook-server-cert",
			"update",
			true,
		},
		"ReadOther":      {"it is nothing to the controller", "", "secrets", "password", "get", false},
		"ListSecrets":    {"that is to read all of them", "", "secrets", install.CertSecret, "list", false},
		"WatchSecrets":   {"that is, too", "", "secrets", install.CertSecret, "watch", false},
		"MakeSecret":     {"it is there", "", "secrets", install.CertSecret, "create", false},
		"DeleteSecret":   {"it has no reason to", "", "secrets", install.CertSecret, "delete", false},
		"TellMutating":   {"it is called by it", hooks, mutating, webhook.MutatingName, "patch", true},
		"TellValidating": {"it is called by it", hooks, validating, webhook.ValidatingName, "patch", true},
		"TellOthers": {
			"they call somebody else",
			hooks,
			validating,
			"kueue-validating-webhook-configuration",
			"patch",
			false,
		},
		"MakeHook": {
			"it could read what others write",
			hooks,
			mutating,
			webhook.MutatingName,
			"create",
			false,
		},
		"TellConverted": {
			"it converts between their versions",
			"apiextensions.k8s.io",
			"customresourcedefinitions",
			"workloads.kueue.x-k8s.io",
			"patch",
			true,
		},
		"TellForeign": {
			"nothing of it is converted here",
			"apiextensions.k8s.io",
			"customresourcedefinitions",
			"rayjobs.ray.io",
			"patch",
			false,
		},
		"TellVisibility": {
			"it serves it",
			"apiregistration.k8s.io",
			"apiservices",
			"v1beta2.visibility.kueue.x-k8s.io",
			"patch",
			true,
		},
		"TellMetrics": {
			"it does not",
			"apiregistration.k8s.io",
			"apiservices",
			"v1beta1.metrics.k8s.io",
			"patch",
			false,
		},
	}
	for whose, opts := range map[string]install.Options{
		"Own":         {WebhookURL: "https://127.0.0.1:1"},
		"Given":       {WebhookURL: "https://127.0.0.1:1", CABundle: []byte("ca")},
		"CertManager": {WebhookURL: "https://127.0.0.1:1", CertManager: "mlbatch-system/serving"},
	} {
		c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
		if err := install.Apply(t.Context(), c, opts); err != nil {
			t.Fatal(err)
		}
		home := &rbacv1.Role{}
		if err := c.Get(
			t.Context(),
			client.ObjectKey{Namespace: install.DefaultNamespace, Name: install.Controller},
			home,
		); err != nil {
			t.Fatal(err)
		}
		rules := append(clusterRoles(t, c)[install.Controller], home.Rules...)
		for name, tc := range cases {
			t.Run(whose+name, func(t *testing.T) {
				got := slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
					return allows([]rbacv1.PolicyRule{r}, tc.group, tc.resource, tc.verb) &&
						(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, tc.name))
				})
				if want := tc.want && whose == "Own"; got != want {
					t.Errorf(
						"%s: the controller may %s %s %s: %v, want %v",
						tc.why,
						tc.verb,
						tc.resource,
						tc.name,
						got,
						want,
					)
				}
			})
		}
		secret := &corev1.Secret{}
		err := c.Get(
			t.Context(),
			client.ObjectKey{Namespace: install.DefaultNamespace, Name: install.CertSecret},
			secret,
		)
		if whose == "Own" && err != nil || whose != "Own" && !apierrors.IsNotFound(err) {
			t.Errorf("%s: the Secret: %v", whose, err)
		}
	}
}
