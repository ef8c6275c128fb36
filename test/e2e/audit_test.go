package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/test/rig"
)

// A role grants what is asked for, and no more. What all tests together made mlbatch's
// processes ask the API server for is in its audit log, and once they are through each right
// is looked for there: see auditRoles, which TestMain calls. Where several clusters divide the
// tests, each writes down what was asked for (usageVariable), and judgeUsage looks at all of it.

// right is one verb on one resource that a role grants. name is set where it is for one object.
type right struct{ role, verb, group, resource, name string }

func (r right) String() string {
	of := r.resource
	if r.group != "" {
		of += "." + r.group
	}
	if r.name != "" {
		of += " " + r.name
	}
	return r.role + ": " + r.verb + " " + of
}

func rightsOf(role string, rules []rbacv1.PolicyRule) []right {
	var out []right
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						out = append(out, right{role, verb, group, resource, name})
					}
				}
			}
		}
	}
	return out
}

// used reports whether a request needed the right.
func (r right) used(by rig.Request) bool {
	return r.verb == by.Verb && r.group == by.Group && (r.resource == by.Resource || r.resource == "*") &&
		(r.name == "" || r.name == by.Name)
}

// exception is a pattern of rights that end-to-end tests need not use, and the reason why they
// are granted all the same.
type exception struct {
	rights *regexp.Regexp
	why    string
}

// unusedRights are all exceptions. One that fits nothing that is granted is none.
func unusedRights() []exception {
	var out []exception
	for _, e := range [][2]string{
		{`: update \S+/finalizers`, "clusters with the admission plugin OwnerReferencesPermissionEnforcement, as OpenShift is, ask for it from who makes an object that blocks its owner's deletion"},
		{`leases\.`, "mlbatch up runs one of each program: test/ha and test/installed have several"},
		{`: update workloads\.kueue`, "policies know the controller by it"},
		{`: get workloads\.kueue`, "asked of the API server after a fail-over, and where a cache shows no Workload of a group of pods"},
		{`: bind clusterroles`, "the API server asks for it itself when a binding is written"},
		{`: create pods/exec`, "it is passed on to the accounts of MPIJobs, and nobody may pass on what he does not have"},
		{`: patch cohorts/status`, "with fair sharing alone, which these tests are without"},
		{`: patch topologies`, "of those that a flavor names, and these tests have none"},
		{`: (create|delete|get|list|watch|patch) (composite)?podgroups(/status)?\.scheduling\.k8s\.io`, "the API server that is looked at does not serve them: TestNativeGangs has a cluster of its own"},
		{`: update podtemplates`, "one that an attempt which was cut off has left"},
		{`: delete job(histories|evidences)`, "after weeks"},
		{`: get priorityclasses`, "where the cache does not have one"},
		{`: get workloadpriorityclasses`, "where the cache does not have one"},
		{`mlbatch-controller: delete appwrappers`, "when a job and all that is left of it is to be deleted some time after its end, which an administrator chooses"},
		{`mlbatch-controller-team: (create|delete|get) (\w+\.(ray\.io|kubeflow\.org|trainer\.kubeflow\.org)|podgroups\.scheduling\.x-k8s\.io|horizontalpodautoscalers\.autoscaling|leaderworkersets\.\S+|jobsets\.\S+)$`, "AppWrappers make, read and delete components of every kind in the same way"},
		{`mlbatch-controller-team: (create|delete|get|patch) (persistentvolumeclaims|secrets|serviceaccounts|configmaps|roles\.\S+|rolebindings\.\S+|horizontalpodautoscalers\.autoscaling)$`, "what jobs are given beside pods is made, kept as it should be and taken away in the same way, whatever it is"},
		{`mlbatch-controller-team: delete replicasets`, "where a Deployment makes a pod in the moment in which its AppWrapper deletes them"},
		{`mlbatch-controller-team: delete controllerrevisions`, "an old one, when a LeaderWorkerSet is changed for the second time"},
	} {
		out = append(out, exception{regexp.MustCompile(e[0]), e[1]})
	}
	return out
}

// deniedRequests are those that are asked for and refused, with the reason why they are: USER
// VERB RESOURCE.
func deniedRequests() map[string]string {
	return map[string]string{
		names.ControllerUser + " get cronjobs.batch": "who owns a Job is looked for; where an owner may not be read, which only matters for kinds that are queued, the search ends",
	}
}

// everything reports whether all tests run, so that what they did not do is not done.
func everything() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}

const (
	// usageVariable is a directory in which each cluster writes what was asked of it.
	usageVariable = "MLBATCH_E2E_USAGE"
	// judgeVariable, if set, has no test run: what all clusters have written is judged.
	judgeVariable = "MLBATCH_E2E_JUDGE"
)

// usage is what mlbatch's processes and teams may do, and what of it they did.
type usage struct {
	// Granted are all rights that are looked at, true if somebody used it.
	Granted map[string]bool
	// Denied counts requests that were refused for want of a right, USER VERB RESOURCE. Allowed are
	// those that were not refused.
	Denied  map[string]int
	Allowed map[string]bool
}

func newUsage() usage {
	return usage{Granted: map[string]bool{}, Denied: map[string]int{}, Allowed: map[string]bool{}}
}

// add adds what was asked of another cluster.
func (u *usage) add(other usage) {
	for right, used := range other.Granted {
		u.Granted[right] = u.Granted[right] || used
	}
	for asked, n := range other.Denied {
		u.Denied[asked] += n
	}
	maps.Copy(u.Allowed, other.Allowed)
}

// wrong says what is wrong with the roles: a request that was refused for want of a right; if all
// tests ran, a right that nobody used, and an exception that excepts nothing.
func (u *usage) wrong(all bool) []string { //nolint:revive // whether all tests ran
	var wrong []string
	expected := deniedRequests()
	for _, d := range slices.Sorted(maps.Keys(u.Denied)) {
		// An API server that has just been started refuses for a moment what it lets do at any other
		// time, and a team's rights come a moment after its queue. So what was allowed before or
		// after was refused by no fault of the role.
		if expected[d] == "" && !u.Allowed[d] {
			wrong = append(wrong, fmt.Sprintf("%s was asked for %d times and refused", d, u.Denied[d]))
		}
	}
	if !all {
		return wrong
	}
	excepted := unusedRights()
	granted := slices.Sorted(maps.Keys(u.Granted))
	for _, g := range granted {
		if !u.Granted[g] &&
			!slices.ContainsFunc(excepted, func(e exception) bool { return e.rights.MatchString(g) }) {
			wrong = append(wrong, g+" is granted and was never asked for")
		}
	}
	for _, e := range excepted {
		if !slices.ContainsFunc(granted, e.rights.MatchString) {
			wrong = append(wrong, fmt.Sprintf("exception %s: nothing of it is granted", e.rights))
		}
	}
	return wrong
}

// judgeUsage says what is wrong with the roles, after what all clusters wrote into a directory.
func judgeUsage(dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return []string{fmt.Sprintf("no cluster has written into %q what was asked of it (%v)", dir, err)}
	}
	all := newUsage()
	for _, file := range files {
		var u usage
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &u)
		}
		if err != nil {
			return []string{err.Error()}
		}
		all.add(u)
	}
	return all.wrong(true)
}

// auditRoles says what is wrong with the roles of mlbatch's processes, and of teams. Where others
// judge it, it writes down what was asked.
func auditRoles(ctx context.Context) []string {
	u, err := askedOf(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	dir := os.Getenv(usageVariable)
	if dir == "" {
		return u.wrong(everything())
	}
	data, err := json.Marshal(u)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", os.Getpid())), data, 0o600)
	}
	if err != nil {
		return []string{fmt.Sprintf("write down what was asked: %v", err)}
	}
	return nil
}

// grantedRights are the rights of mlbatch's processes and of teams.
func grantedRights(ctx context.Context, admin client.Client) ([]right, error) {
	var granted []right
	for _, role := range []string{install.Controller, install.TeamRole, install.Scheduler, install.EditRole} {
		var r rbacv1.ClusterRole
		if err := admin.Get(ctx, client.ObjectKey{Name: role}, &r); err != nil {
			return nil, err
		}
		granted = append(granted, rightsOf(role, r.Rules)...)
	}
	for _, role := range []string{install.Controller, install.Scheduler} {
		var r rbacv1.Role
		if err := admin.Get(ctx, client.ObjectKey{Namespace: "mlbatch-system", Name: role}, &r); err != nil {
			return nil, err
		}
		granted = append(granted, rightsOf("mlbatch-system/"+role, r.Rules)...)
	}
	return granted, nil
}

// authenticationReader is the Role of Kubernetes, in kube-system, with which the controller reads
// how the API server tells aggregated APIs who is asking.
const authenticationReader = "extension-apiserver-authentication-reader"

// schedulerRoles are those of Kubernetes that mlbatch's scheduler has as well.
func schedulerRoles() []string { return []string{"system:kube-scheduler", "system:volume-scheduler"} }

// rightsOfKubernetes are what its roles grant that mlbatch's processes have. They are
// Kubernetes', so that nobody asks whether all is used.
func rightsOfKubernetes(ctx context.Context, admin client.Client) ([]right, error) {
	var reader rbacv1.Role
	if err := admin.Get(
		ctx,
		client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: authenticationReader},
		&reader,
	); err != nil {
		return nil, err
	}
	granted := rightsOf(authenticationReader, reader.Rules)
	for _, role := range schedulerRoles() {
		var r rbacv1.ClusterRole
		if err := admin.Get(ctx, client.ObjectKey{Name: role}, &r); err != nil {
			return nil, err
		}
		granted = append(granted, rightsOf(role, r.Rules)...)
	}
	return granted, nil
}

// members are the users whom teams have.
func members(ctx context.Context, admin client.Client) ([]string, error) {
	var users []string
	for _, namespace := range []string{"blue", "red"} {
		var bindings rbacv1.RoleBindingList
		if err := admin.List(ctx, &bindings, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for _, b := range bindings.Items {
			for _, s := range b.Subjects {
				if b.RoleRef.Name == install.EditRole && s.Kind == rbacv1.UserKind {
					users = append(users, s.Name)
				}
			}
		}
	}
	return users, nil
}

// askedOf is what was asked of this cluster.
func askedOf(ctx context.Context) (usage, error) {
	u := newUsage()
	admin, err := client.New(cluster.RESTConfig(), client.Options{Scheme: scheme.New()})
	if err != nil {
		return u, err
	}
	teams, err := members(ctx, admin)
	if err != nil {
		return u, err
	}
	granted, err := grantedRights(ctx, admin)
	if err != nil {
		return u, err
	}
	is := func(user string) func(rig.Request) bool {
		return func(r rig.Request) bool { return r.User == user && r.As == "" }
	}
	controller, scheduler := is(names.ControllerUser), is(names.SchedulerUser)
	holders := map[string]func(rig.Request) bool{
		install.Controller:                     controller,
		install.TeamRole:                       controller,
		"mlbatch-system/" + install.Controller: controller,
		install.Scheduler:                      scheduler,
		"mlbatch-system/" + install.Scheduler:  scheduler,
		install.EditRole:                       func(r rig.Request) bool { return slices.Contains(teams, r.Who()) },
		authenticationReader:                   controller,
	}
	for _, role := range schedulerRoles() {
		holders[role] = scheduler
	}
	ofKubernetes, err := rightsOfKubernetes(ctx, admin)
	if err != nil {
		return u, err
	}
	// What a role has was refused by no fault of the role. (A right that is always refused was
	// never used.)
	had := func(r rig.Request) bool {
		return slices.ContainsFunc(
			slices.Concat(granted, ofKubernetes),
			func(g right) bool { return g.used(r) && holders[g.role](r) },
		)
	}
	requests := map[rig.Request]bool{}
	err = cluster.Asked(func(r rig.Request) {
		if controller(r) || scheduler(r) {
			asked := strings.TrimSpace(
				fmt.Sprintf(
					"%s %s %s %s",
					r.User,
					r.Verb,
					schema.GroupResource{Group: r.Group, Resource: r.Resource},
					r.Path,
				),
			)
			switch {
			case !r.Forbidden:
				u.Allowed[asked] = true
			case !had(r):
				u.Denied[asked]++
			}
		}
		r.Namespace, r.Code, r.Reason, r.Path = "", 0, "", ""
		if !r.Forbidden {
			requests[r] = true
		}
	})
	for _, g := range granted {
		// Informers list where the API server does not begin a watch with what there is, and after
		// a watch that was cut off for too long.
		listed := g
		if g.verb == "list" {
			listed.verb = "watch"
		}
		used := false
		for r := range requests {
			if (g.used(r) || listed.used(r)) && holders[g.role](r) {
				used = true
				break
			}
		}
		u.Granted[g.String()] = u.Granted[g.String()] || used
	}
	return u, err
}

// Each right that a member of a team has is one that the API server knows: she asks for
// what it lets her, in a way that changes nothing.
func TestTeamRightsAreOfUse(t *testing.T) {
	admin := user(t, "")
	var role rbacv1.ClusterRole
	if err := admin.Get(t.Context(), client.ObjectKey{Name: install.EditRole}, &role); err != nil {
		t.Fatal(err)
	}
	cfg := cluster.RESTConfig()
	served, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	var lists []*metav1.APIResourceList
	eventually(
		t,
		"the API server says all that it serves",
		func() string { // aggregated APIs a moment after their start
			if lists, err = served.ServerPreferredResources(); err != nil {
				return err.Error()
			}
			return ""
		},
	)
	kinds := map[schema.GroupResource]string{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range l.APIResources {
			group := gv.Group
			kinds[schema.GroupResource{Group: group, Resource: r.Name}] = r.Kind
			versions[schema.GroupResource{Group: group, Resource: r.Name}.String()] = gv.Version
		}
	}
	cfg.Impersonate.UserName = "alice"
	alice, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rightsOf(install.EditRole, role.Rules) {
		resource, sub, _ := strings.Cut(r.resource, "/")
		gr := schema.GroupResource{Group: r.group, Resource: resource}
		version, known := versions[gr.String()]
		if !known {
			version = "v1" // of an operator that is not in this cluster: she is asked for the right all the same
		}
		err := ask(
			t,
			alice.Resource(gr.WithVersion(version)).Namespace("blue"),
			r.verb,
			gr.WithVersion(version).GroupVersion().WithKind(kinds[gr]),
			sub,
		)
		if err != nil && strings.Contains(err.Error(), "cannot "+r.verb+" resource") {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// ask makes a request that changes nothing: about an object that is not there, or as a dry run.
func ask(
	t *testing.T,
	at dynamic.ResourceInterface,
	verb string,
	kind schema.GroupVersionKind,
	sub string,
) error {
	t.Helper()
	const name = "not-there"
	var below []string
	if sub != "" {
		below = []string{sub}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetName(name)
	var err error
	switch verb {
	case "get":
		_, err = at.Get(t.Context(), name, metav1.GetOptions{}, below...)
	case "list":
		_, err = at.List(t.Context(), metav1.ListOptions{Limit: 1})
	case "watch":
		w, watched := at.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(1))})
		if err = watched; err == nil {
			w.Stop()
		}
	case "create":
		_, err = at.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, below...)
	case "update":
		_, err = at.Update(t.Context(), o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, below...)
	case "patch":
		_, err = at.Patch(
			t.Context(),
			name,
			types.MergePatchType,
			[]byte("{}"),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}},
			below...)
	case "delete":
		err = at.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, below...)
	default:
		t.Errorf("verb %s: say in this test how it is asked for", verb)
	}
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
