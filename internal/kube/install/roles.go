package install

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	viewapi "github.com/mlbatch/mlbatch/api/view/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/slack"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Names of roles and accounts.
const (
	// EditRole is bound to users in the namespaces of their teams.
	EditRole = "mlbatch-edit"
	// ClassesRole lets all users read the classes of priorities, which are of no namespace: their
	// jobs name them.
	ClassesRole = "mlbatch-classes"
	// ViewsRole lets all users ask how jobs and nodes stand: they are told of what they may list.
	ViewsRole = "mlbatch-views"
	// Controller names the role and the service account of the controller, and what it
	// is bound to in its own namespace.
	Controller = "mlbatch-controller"
	// TeamRole is what the controller needs in the namespaces where jobs run. It
	// binds itself there (see package rights) and has these rights nowhere else.
	TeamRole = rights.Role
	// NodesRole lets the controller label nodes, if it is bound to it.
	NodesRole = convert.NodesRole
	// Scheduler names the role and the service account of the scheduler. The role
	// holds what it needs beyond system:kube-scheduler.
	Scheduler = "mlbatch-scheduler"
)

// party is one of mlbatch's processes and what it may do.
type party struct {
	account string
	// user, if set, has the same rights as the service account.
	user         string
	clusterRoles []string
}

func parties(o Options) []party {
	all := []party{
		{account: Controller, user: o.ControllerUser, clusterRoles: []string{Controller, "system:auth-delegator"}},
		{
			account:      Scheduler,
			user:         o.SchedulerUser,
			clusterRoles: []string{Scheduler, "system:kube-scheduler", "system:volume-scheduler"},
		},
	}
	if len(o.schedulerNames()) == 0 {
		return all[:1]
	}
	return all
}

// roles are the roles, the accounts and who has which.
func roles(o Options) []client.Object {
	objects := []client.Object{
		clusterRole(EditRole, editRules(o.Kinds)),
		clusterRole(ClassesRole, []rbacv1.PolicyRule{
			allow("kueue.x-k8s.io", read(), "workloadpriorityclasses"),
			allow("scheduling.k8s.io", read(), "priorityclasses"),
		}),
		forAllUsers(ClassesRole),
		clusterRole(ViewsRole, []rbacv1.PolicyRule{
			allow(
				viewapi.GroupVersion.Group,
				read(),
				viewapi.JobViews,
				viewapi.NodeViews,
				viewapi.DomainViews,
				viewapi.QueueViews,
				viewapi.LocalQueueViews,
				viewapi.TeamViews,
				viewapi.JobViews+"/"+viewapi.Explanation,
				viewapi.JobViews+"/"+viewapi.Details,
			),
		}),
		forAllUsers(ViewsRole),
		clusterRole(Controller, append(controllerRules(o.Kinds), trustRules(o)...)),
		clusterRole(TeamRole, teamRules(o.Kinds)),
		clusterRole(NodesRole, nodeRules()),
	}
	if len(o.schedulerNames()) > 0 {
		objects = append(objects, clusterRole(Scheduler, schedulerRules()))
	}
	objects = append(objects, accessRoles(o.Kinds, o.Namespace)...)
	for _, p := range parties(o) {
		home := metav1.ObjectMeta{Namespace: o.Namespace, Name: p.account}
		subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: p.account}}
		if p.user != "" {
			subjects = append(
				subjects,
				rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: p.user},
			)
		}
		objects = append(objects,
			&corev1.ServiceAccount{ObjectMeta: home},
			&rbacv1.Role{ObjectMeta: home, Rules: homeRules(p.account, o)},
			&rbacv1.RoleBinding{
				ObjectMeta: home, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: p.account},
			})
		if p.account == Controller {
			objects = append(objects, &rbacv1.RoleBinding{
				// It holds how the API server tells aggregated APIs who is asking.
				ObjectMeta: metav1.ObjectMeta{
					Namespace: metav1.NamespaceSystem,
					Name:      p.account + ":authentication-reader",
				},
				Subjects: subjects,
				RoleRef: rbacv1.RoleRef{
					APIGroup: rbacv1.GroupName,
					Kind:     "Role",
					Name:     "extension-apiserver-authentication-reader",
				},
			})
		}
		for _, role := range p.clusterRoles {
			name := p.account
			if role != p.account {
				name = p.account + ":" + role
			}
			objects = append(objects, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			})
		}
	}
	return objects
}

// forAllUsers binds a role to everybody whom the cluster knows.
func forAllUsers(role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func clusterRole(name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func allow(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

func read() []string { return []string{"get", "list", "watch"} }

// follow is for what is read from a cache alone.
func follow() []string { return []string{"list", "watch"} }

func write() []string {
	return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
}

// remove is for what users may look at and clean up, and not make.
func remove() []string { return []string{"delete", "get", "list", "watch"} }

// editRules are what a user may do in the namespace of a team. What runs pods
// cannot be created or changed directly, only deleted, unless it is held there until it
// is admitted: pods are, and what makes them, and kinds that say so
// (jobs.Kind.TeamsCreate). All else must go through a queue in an AppWrapper.
// Workloads can be seen and held back, not changed otherwise: what they and their status say
// decides who may run.
func editRules(all jobs.Kinds) []rbacv1.PolicyRule {
	held := map[schema.GroupVersionKind]bool{podmeta.GVK(): true}
	rules := []rbacv1.PolicyRule{allow("", write(), "pods")}
	for _, k := range serving.All() {
		held[k.GVK] = true
		rules = append(rules, allow(k.GVK.Group, write(), k.Resource))
	}
	for _, k := range serving.Grouped() {
		held[k.GVK] = true
		rules = append(
			rules,
			allow(k.GVK.Group, write(), k.Resource),
			allow(k.GVK.Group, []string{"get", "patch", "update"}, k.Resource+"/scale"),
		)
	}
	for i := range all {
		k := &all[i]
		verbs := remove()
		if k.Admission.TeamsCreate {
			verbs = write()
		}
		rules = append(rules, allow(k.GVK().Group, verbs, k.Naming.Resource))
		if k.Admission.TeamsCreate && k.Running.Operator != nil {
			rules = append(rules, allow(k.GVK().Group, []string{"get", "patch", "update"}, k.Naming.Resource+"/scale"))
		}
	}
	for _, b := range all.Bases() {
		if b.Namespaced { // its pods are those of jobs, which are queued
			rules = append(rules, allow(b.GVK.Group, write(), b.Resource))
		}
	}
	for _, w := range all.Wrappable() {
		if all.Find(w.GVK) != nil || held[w.GVK] {
			continue
		}
		verbs := write()
		if w.RunsPods {
			verbs = remove()
		}
		rules = append(rules, allow(w.GVK.Group, verbs, w.Resource))
	}
	return append(
		rules,
		// They say how pods that are held start, and hold none themselves.
		allow(podmeta.NativeGroup, write(), "podgroups", "compositepodgroups"),
		allow(podmeta.KAIGroup, write(), "podgroups"),
		allow(podmeta.NativeGroup, read(), "workloads"),
		allow("kueue.x-k8s.io", read(), "localqueues", "workloads"),
		allow("kueue.x-k8s.io", []string{"patch"}, "workloads"), // spec.active only: see holdGuards
		allow(history.GroupVersion.Group, read(), history.Resource, history.EvidenceResource, recovery.Resource),
		// What mlbatch made for a job, and what NVIDIA's driver says of it.
		allow(jobs.ComputeDomainGVK().Group, read(), "computedomains"),
		allow(
			"visibility.kueue.x-k8s.io",
			[]string{"get"},
			"localqueues/pendingworkloads",
			"workloads/explanation",
		),
		allow("visibility.kueue.x-k8s.io", []string{"create"}, "workloadplans"),
		allow("scheduling.k8s.io", read(), "priorityclasses"),
		allow("", read(), "events"),
		allow("events.k8s.io", read(), "events"),
		allow("", []string{"get"}, "namespaces", "pods/log"),
		allow(
			"apps",
			[]string{"get", "patch", "update"},
			"deployments/scale",
			"statefulsets/scale",
			"replicasets/scale",
		),
		// Clients ask by POST or, with web sockets, by GET.
		allow("", []string{"create", "get"}, "pods/exec", "pods/portforward"),
	)
}

// controllerRules are what the controller does everywhere: it decides on Workloads,
// and follows, starts and stops jobs.
func controllerRules(all jobs.Kinds) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for i := range all {
		k := &all[i]
		verbs := append(read(), "patch")
		if all.Child(k.GVK()) { // held back and changed as they were seen, see package operator
			verbs = append(verbs, "update")
		}
		if k.Queueing.Wrapped == nil {
			verbs = append(verbs, "delete") // others, where jobs run: see teamRules
		}
		rules = append(rules,
			allow(k.GVK().Group, verbs, k.Naming.Resource),
			allow(k.GVK().Group, []string{"update"}, k.Naming.Resource+"/finalizers"))
		if k.Queueing.Wrapped == nil || k.Running.Operator != nil { // the status of others is their controllers'
			rules = append(rules, allow(k.GVK().Group, []string{"update"}, k.Naming.Resource+"/status"))
		}
	}
	if all.HasOperator() {
		rules = append(rules, allow("", read(), "services"))
	}
	for _, b := range all.Bases() {
		rules = append(rules, allow(b.GVK.Group, read(), b.Resource))
	}
	for _, k := range serving.Grouped() {
		rules = append(rules,
			allow(k.GVK.Group, read(), k.Resource),
			allow(k.GVK.Group, []string{"patch"}, k.Resource+"/status"),
			allow(k.GVK.Group, []string{"update"}, k.Resource+"/finalizers"))
	}
	rules = append(rules, allow("apps", read(), "statefulsets", "controllerrevisions"))
	for _, group := range podmeta.GangGroups() {
		rules = append(rules, allow(group, []string{"get"}, "podgroups"))
	}
	rules = append(
		rules,
		allow(podmeta.NativeGroup, follow(), "podgroups", "compositepodgroups"),
		allow(podmeta.NativeGroup, []string{"patch"}, "podgroups/status", "compositepodgroups/status"),
		// They are told how their pods stand, where there are any: see tellKAI of controllers/podgroup.
		allow(podmeta.KAIGroup, []string{"patch"}, "podgroups/status"),
	)
	return append(
		rules,
		allow(
			"kueue.x-k8s.io",
			follow(),
			"admissionchecks",
			"clusterqueues",
			"cohorts",
			"provisioningrequestconfigs",
			"resourceflavors",
			"topologies",
		),
		allow("kueue.x-k8s.io", read(), "localqueues", "workloadpriorityclasses"),
		// It patches them alone. That it may update them tells holdGuards who it is.
		allow("kueue.x-k8s.io", write(), "workloads"),
		allow(
			"kueue.x-k8s.io",
			[]string{"patch"},
			"clusterqueues",
			"resourceflavors",
			"admissionchecks",
			"topologies",
		),
		allow("kueue.x-k8s.io", []string{"update"}, "workloads/status"),
		allow(
			"kueue.x-k8s.io",
			[]string{"patch"},
			"clusterqueues/status",
			"localqueues/status",
			"cohorts/status",
			"admissionchecks/status",
		),
		allow(
			"kueue.x-k8s.io",
			[]string{"update"},
			"workloads/finalizers",
			"clusterqueues/finalizers",
			"localqueues/finalizers",
			"resourceflavors/finalizers",
		),
		allow(history.GroupVersion.Group, []string{"create", "delete", "get", "list", "update"}, history.Resource),
		// What was found of jobs that hang: written once, and gone with the history.
		allow(history.GroupVersion.Group, []string{"create", "delete", "list"}, history.EvidenceResource),
		allow(recovery.GroupVersion.Group, []string{"create", "get", "update"}, recovery.Resource),
		allow("", read(), "pods", "namespaces"),
		// Of what serves, and has no pods yet, views tell why.
		allow("apps", read(), "deployments", "replicasets"),
		allow("", []string{"list"}, "events"),
		allow("autoscaling.x-k8s.io", append(follow(), "create", "delete"), "provisioningrequests"),
		allow("", follow(), "nodes", "limitranges", "persistentvolumes", "resourcequotas"),
		allow("node.k8s.io", follow(), "runtimeclasses"),
		allow("scheduling.k8s.io", read(), "priorityclasses"),
		allow("events.k8s.io", []string{"create", "patch"}, "events"),
		allow("authorization.k8s.io", []string{"create"}, "subjectaccessreviews"),
		// It binds TeamRole to itself where jobs run, and the role of a job's account to
		// that. That it binds nothing else, to no other user and nowhere else, the policy of
		// bindingGuards sees to.
		allow("rbac.authorization.k8s.io", []string{"create"}, "rolebindings"),
		// Who may submit for a team is told to those who may list its RoleBindings.
		allow("rbac.authorization.k8s.io", []string{"list"}, "rolebindings"),
		named(
			allow("rbac.authorization.k8s.io", append(follow(), "delete", "patch"), "rolebindings"),
			rights.Binding,
		),
		named(allow("rbac.authorization.k8s.io", []string{"bind"}, "clusterroles"), TeamRole),
	)
}

// trustRules let the controller say whom the API server trusts where it calls it. It may change no
// other object of these kinds, and make none.
func trustRules(o Options) []rbacv1.PolicyRule {
	if !o.ownCerts() {
		return nil // who brings the certificates says so
	}
	called, verbs := o.called, []string{"get", "patch"}
	const hooks = "admissionregistration.k8s.io"
	return []rbacv1.PolicyRule{
		named(allow(hooks, verbs, "mutatingwebhookconfigurations"), called.Mutating...),
		named(allow(hooks, verbs, "validatingwebhookconfigurations"), called.Validating...),
		named(allow("apiextensions.k8s.io", verbs, "customresourcedefinitions"), called.Definitions...),
		named(allow("apiregistration.k8s.io", verbs, "apiservices"), called.APIServices...),
	}
}

func named(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	r.ResourceNames = names
	return r
}

// teamRules are what the controller does in the namespaces where jobs run: it
// creates and deletes the components of AppWrappers, the pods and services of jobs that
// are operated here, and what provisioning asks for, and takes pods off bad nodes.
func teamRules(all jobs.Kinds) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		allow("", []string{"create", "delete", "update"}, "podtemplates"),
		allow("", []string{"create"}, "pods/eviction"),
		// Of jobs that state how their logs tell of steps, and of those that hang: see controllers/progress.
		allow("", []string{"get"}, "pods/log"),
		// It starts and stops pods that are queued by themselves.
		allow("", []string{"patch"}, "pods"),
		allow("", []string{"patch"}, "pods/status"),
		allow("", []string{"update"}, "pods/finalizers"),
		// Groups of Sakkara's are ConfigMaps, found by a label, and told where their pods are.
		allow("", []string{"get", "list", "patch"}, "configmaps"),
	}
	// Jobs that ask for it get a ComputeDomain, whose driver makes the template of claims.
	domains := jobs.ComputeDomainGVK().Group
	rules = append(rules,
		allow(domains, []string{"create", "delete", "get", "list"}, "computedomains"),
		allow("resource.k8s.io", []string{"get"}, "resourceclaimtemplates"),
		// PodGroups that are written for gangs: see podGroupGuards.
		allow(podmeta.NativeGroup, []string{"create", "delete", "patch"}, "podgroups"))
	if all.HasOperator() {
		rules = append(rules, allow("", []string{"create", "delete"}, "pods", "services"))
	}
	for _, m := range all.Makes() {
		rules = append(rules, allow(m.Group, []string{"create", "delete", "get", "patch"}, m.Resource))
	}
	for i := range all {
		if o := all[i].Running.Operator; o != nil {
			rules = append(rules, o.Grants...) // to be passed on: see bindingGuards
		}
	}
	for _, w := range all.Wrappable() {
		rules = append(rules, allow(w.GVK.Group, []string{"create", "delete", "get"}, w.Resource))
	}
	// What a Deployment of an AppWrapper has made goes before its pods, which it would make anew.
	rules = append(rules, allow("apps", []string{"delete"}, "replicasets"))
	// LeaderWorkerSets are made of them.
	return append(rules,
		allow("apps", []string{"create", "patch"}, "statefulsets"),
		allow("apps", []string{"create", "delete"}, "controllerrevisions"),
		allow("", []string{"delete"}, "pods"))
}

// nodeRules are what the controller needs to label nodes (nodeHealth.mode: Act). An installation binds them to nobody:
// who wants it does.
func nodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{allow("", []string{"patch"}, "nodes", "nodes/status")}
}

// schedulerRules are what the scheduler needs beyond system:kube-scheduler: to
// read plans and gangs, and to say how gangs stand.
func schedulerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		allow("kueue.x-k8s.io", follow(), "workloads"),
		allow("scheduling.x-k8s.io", follow(), "podgroups"),
		allow("scheduling.x-k8s.io", []string{"patch"}, "podgroups/status"),
	}
}

// homeRules are for leader election in mlbatch's own namespace, and for what the
// controller remembers there of nodes that are gone.
func homeRules(account string, o Options) []rbacv1.PolicyRule {
	lease := named(allow("coordination.k8s.io", []string{"get", "update", "watch"}, "leases"), account)
	rules := []rbacv1.PolicyRule{allow("coordination.k8s.io", []string{"create"}, "leases"), lease}
	if account != Controller {
		return rules
	}
	// The name in configuration files that come from Kueue.
	rules[1].ResourceNames = append(rules[1].ResourceNames, "c1f6bfd2.kueue.x-k8s.io")
	if o.ownCerts() {
		rules = append(
			rules,
			named(allow("", []string{"get", "update"}, "secrets"), CertSecret, "kueue-webhook-server-cert"),
		)
	}
	return append(rules,
		allow("", []string{"create"}, "configmaps"),
		named(allow("", append(follow(), "patch"), "configmaps"), slack.InventoryName, convert.HealthMemory))
}
