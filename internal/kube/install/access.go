package install

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Roles for admins to bind, under the names that bindings of existing setups
// use. Nothing of mlbatch's own depends on them.
const (
	// BatchAdminRole is for those who own queues and quotas.
	BatchAdminRole = "kueue-batch-admin-role"
	// BatchUserRole is for those who run jobs.
	BatchUserRole = "kueue-batch-user-role"
	// MetricsReaderRole lets read the metrics.
	MetricsReaderRole = "kueue-metrics-reader"
	// MetricsAuthRole lets ask the API server who a user is and what they may, for
	// what guards the metrics of others.
	MetricsAuthRole = "kueue-metrics-auth-role"
	// ManagerRole is what the controller may do, for controllers beside it that
	// answer admission checks or queue further kinds of jobs.
	ManagerRole = "kueue-manager-role"
	// ExplanationRole lets ask why the workloads of a namespace wait.
	ExplanationRole = "mlbatch-explanation-viewer"
	// HistoryRole lets read what is kept of jobs of a namespace that ended. Nobody but the
	// controller writes it.
	HistoryRole = "mlbatch-history-viewer"
	// EvidenceRole lets read what is kept of jobs of a namespace that hung, part of Kubernetes' own roles alone.
	EvidenceRole = "mlbatch-evidence-viewer"
	// LeaderElectionRole lets them elect a leader in mlbatch's namespace.
	LeaderElectionRole = "kueue-leader-election-role"
)

// Labels by which roles become part of others. Roles that an admin labels so
// become part too.
const (
	batchAdminLabel = "rbac.kueue.x-k8s.io/batch-admin"
	batchUserLabel  = "rbac.kueue.x-k8s.io/batch-user"
)

// accessed is a kind that people read or write.
type accessed struct {
	name, group, resource string
	namespaced            bool
	// unqueued kinds run pods, and nothing makes them wait for quota: those who may
	// edit them may look at them and delete them. They are made in AppWrappers.
	unqueued bool
	// editors and viewers are the labels of the roles to write and to read it.
	editors, viewers []string
}

func accessedKinds(all jobs.Kinds) []accessed {
	const kueue, kubeflow, ray = "kueue.x-k8s.io", "kubeflow.org", "ray.io"
	admins, users := []string{batchAdminLabel}, []string{batchUserLabel}
	kinds := []accessed{
		{name: "clusterqueue", group: kueue, resource: "clusterqueues", editors: admins, viewers: admins},
		{name: "cohort", group: kueue, resource: "cohorts", editors: admins, viewers: admins},
		{name: "resourceflavor", group: kueue, resource: "resourceflavors", editors: admins, viewers: admins},
		{name: "topology", group: kueue, resource: "topologies", editors: admins, viewers: admins},
		{
			name:       "localqueue",
			group:      kueue,
			resource:   "localqueues",
			namespaced: true,
			editors:    admins,
			viewers:    users,
		},
		{name: "workload", group: kueue, resource: "workloads", namespaced: true, editors: admins, viewers: users},
	}
	both := []string{batchAdminLabel, batchUserLabel}
	queued := map[string]bool{}
	for i := range all {
		k := &all[i]
		queued[k.Naming.Resource+"."+k.GVK().Group] = true
		kinds = append(
			kinds,
			accessed{strings.ToLower(k.GVK().Kind), k.GVK().Group, k.Naming.Resource, true, false, both, both},
		)
	}
	for _, b := range all.Bases() {
		editors := both
		if !b.Namespaced {
			editors = admins
		}
		kinds = append(
			kinds,
			accessed{strings.ToLower(b.GVK.Kind), b.GVK.Group, b.Resource, b.Namespaced, false, editors, both},
		)
	}
	type other struct{ name, group, resource string }
	others := []other{{"jobset", "jobset.x-k8s.io", "jobsets"}, {"jaxjob", kubeflow, "jaxjobs"}}
	for _, k := range serving.Grouped() {
		others = append(others, other{strings.ToLower(k.GVK.Kind), k.GVK.Group, k.Resource})
	}
	for _, other := range append(others, []other{
		{"mpijob", kubeflow, "mpijobs"},
		{"paddlejob", kubeflow, "paddlejobs"},
		{"pytorchjob", kubeflow, "pytorchjobs"},
		{"tfjob", kubeflow, "tfjobs"},
		{"xgboostjob", kubeflow, "xgboostjobs"},
		{"raycluster", ray, "rayclusters"},
		{"rayjob", ray, "rayjobs"},
		{"rayservice", ray, "rayservices"},
		{"sparkapplication", "sparkoperator.k8s.io", "sparkapplications"},
		{"trainjob", "trainer.kubeflow.org", "trainjobs"},
	}...) {
		if !queued[other.resource+"."+other.group] {
			kinds = append(kinds, accessed{other.name, other.group, other.resource, true, true, both, both})
		}
	}
	return kinds
}

// accessRoles are the roles for admins to bind.
func accessRoles(all jobs.Kinds, namespace string) []client.Object {
	objects := []client.Object{
		clusterRole(ManagerRole, append(controllerRules(all), besideRules()...)),
		clusterRole(MetricsAuthRole, []rbacv1.PolicyRule{
			allow("authentication.k8s.io", []string{"create"}, "tokenreviews"),
			allow("authorization.k8s.io", []string{"create"}, "subjectaccessreviews"),
		}),
		&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaderElectionRole},
			Rules: []rbacv1.PolicyRule{
				allow("coordination.k8s.io", write(), "leases"),
				allow("", []string{"create", "patch"}, "events"),
			},
		},
		combined(BatchAdminRole, batchAdminLabel),
		combined(BatchUserRole, batchUserLabel),
		clusterRole(
			MetricsReaderRole,
			[]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		),
		labeled(clusterRole(
			"kueue-pending-workloads-cq-viewer-role",
			[]rbacv1.PolicyRule{
				allow("visibility.kueue.x-k8s.io", read(), "clusterqueues/pendingworkloads"),
			},
		), batchAdminLabel),
		labeled(clusterRole(
			"kueue-pending-workloads-lq-viewer-role",
			[]rbacv1.PolicyRule{
				allow("visibility.kueue.x-k8s.io", read(), "localqueues/pendingworkloads"),
			},
		), batchUserLabel),
		labeled(clusterRole(
			ExplanationRole,
			[]rbacv1.PolicyRule{
				allow("visibility.kueue.x-k8s.io", []string{"get"}, "workloads/explanation"),
			},
		), append(everyone(), batchAdminLabel, batchUserLabel)...),
	}
	objects = append(objects, labeled(clusterRole(
		HistoryRole,
		[]rbacv1.PolicyRule{
			allow(history.GroupVersion.Group, read(), history.Resource, recovery.Resource),
		},
	), append(everyone(), batchAdminLabel, batchUserLabel)...))
	// It has ends of logs: for those who may read logs, as Kubernetes' own roles let them.
	objects = append(objects, labeled(clusterRole(
		EvidenceRole,
		[]rbacv1.PolicyRule{allow(history.GroupVersion.Group, read(), history.EvidenceResource)},
	), everyone()...))
	objects = append(objects, labeled(clusterRole(
		"mlbatch-autoscaler-editor-role",
		[]rbacv1.PolicyRule{
			allow("autoscaling", write(), "horizontalpodautoscalers"),
		},
	), batchAdminLabel, batchUserLabel))
	for _, k := range accessedKinds(all) {
		edit := write()
		if k.unqueued {
			edit = remove()
		}
		see := allow(k.group, []string{"get"}, k.resource+"/status")
		viewers := k.viewers
		if k.namespaced {
			// Users who see what is in a namespace see what waits there.
			viewers = append(everyone(), viewers...)
		}
		objects = append(
			objects,
			labeled(
				clusterRole("kueue-"+k.name+"-editor-role", []rbacv1.PolicyRule{allow(k.group, edit, k.resource), see}),
				k.editors...),
			labeled(
				clusterRole("kueue-"+k.name+"-viewer-role", []rbacv1.PolicyRule{allow(k.group, read(), k.resource), see}),
				viewers...),
		)
	}
	return objects
}

// besideRules are what controllers beside ours may do that ours does in another way: they were
// written for Kueue, which lets them.
func besideRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		allow(
			"kueue.x-k8s.io",
			[]string{"update"},
			"clusterqueues",
			"localqueues",
			"cohorts",
			"resourceflavors",
			"admissionchecks",
			"topologies",
		),
		allow(
			"kueue.x-k8s.io",
			[]string{"get", "patch", "update"},
			"workloads/status",
			"clusterqueues/status",
			"localqueues/status",
			"cohorts/status",
			"admissionchecks/status",
		),
		allow("autoscaling.x-k8s.io", []string{"patch", "update"}, "provisioningrequests"),
		allow("", []string{"update"}, "events"),
	}
}

// everyone are the labels of the roles that come with Kubernetes.
func everyone() []string {
	return []string{
		"rbac.authorization.k8s.io/aggregate-to-admin",
		"rbac.authorization.k8s.io/aggregate-to-edit",
		"rbac.authorization.k8s.io/aggregate-to-view",
	}
}

func labeled(r *rbacv1.ClusterRole, labels ...string) *rbacv1.ClusterRole {
	r.Labels = map[string]string{}
	for _, l := range labels {
		r.Labels[l] = "true"
	}
	return r
}

// combined is a role made of all that have a label. The controller manager of
// Kubernetes fills in its rules.
func combined(name, label string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{label: "true"}},
		}},
	}
}
