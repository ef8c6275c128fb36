package install_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestAccessRoles holds what bindings of existing setups rely on. Roles that are
// made of others are summed up here as the controller manager does it.
func TestAccessRoles(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	apply(t, c, "https://127.0.0.1:1")
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
	const kueue = "kueue.x-k8s.io"
	election := &rbacv1.Role{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: install.DefaultNamespace, Name: install.LeaderElectionRole}, election); err != nil {
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
		"AdminStatus":     {"nobody admits by hand", install.BatchAdminRole, kueue, "workloads/status", "update", false},
		"AdminPending":    {"admins see who waits", install.BatchAdminRole, "visibility.kueue.x-k8s.io", "clusterqueues/pendingworkloads", "get", true},
		"UserJobs":        {"users run jobs", install.BatchUserRole, "batch", "jobs", "create", true},
		"UserWrappers":    {"of every kind", install.BatchUserRole, "workload.codeflare.dev", "appwrappers", "create", true},
		"UserLocalQueues": {"users see their queues", install.BatchUserRole, kueue, "localqueues", "list", true},
		"UserQueues":      {"and not what is behind", install.BatchUserRole, kueue, "clusterqueues", "list", false},
		"UserWorkloads":   {"users see why they wait", install.BatchUserRole, kueue, "workloads", "watch", true},
		"UserStops":       {"and stop nothing of others", install.BatchUserRole, kueue, "workloads", "patch", false},
		"UserPending":     {"users see their place", install.BatchUserRole, "visibility.kueue.x-k8s.io", "localqueues/pendingworkloads", "get", true},
		"Manager":         {"controllers beside ours answer checks", install.ManagerRole, kueue, "workloads/status", "patch", true},
		"ManagerSecrets":  {"and read no secrets of others", install.ManagerRole, "", "secrets", "list", false},
		"Election":        {"and elect one of them", install.LeaderElectionRole, "coordination.k8s.io", "leases", "create", true},
		"MetricsAuth":     {"who guards metrics asks who is there", install.MetricsAuthRole, "authentication.k8s.io", "tokenreviews", "create", true},
		"Editor":          {"one kind at a time", "kueue-cohort-editor-role", kueue, "cohorts", "create", true},
		"Viewer":          {"to be seen", "kueue-cohort-viewer-role", kueue, "cohorts", "list", true},
		"ViewerWrites":    {"and not written", "kueue-cohort-viewer-role", kueue, "cohorts", "create", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := allows(rules[tc.role], tc.group, tc.resource, tc.verb); got != tc.want {
				t.Errorf("%s: %s may %s %s: %v, want %v", tc.why, tc.role, tc.verb, tc.resource, got, tc.want)
			}
		})
	}
	if r := rules[install.MetricsReaderRole]; len(r) != 1 || len(r[0].NonResourceURLs) != 1 || r[0].NonResourceURLs[0] != "/metrics" {
		t.Errorf("metrics are no resource, got %v", r)
	}
}
