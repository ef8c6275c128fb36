package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

// node has 8 GPUs, unless changed.
func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	has := corev1.ResourceList{
		"cpu":    resource.MustParse("224"),
		"memory": resource.MustParse("2000Gi"),
		"pods":   resource.MustParse("250"),
		"ephemeral-storage": resource.MustParse(
			"1Ti",
		),
		"nvidia.com/gpu":      resource.MustParse("8"),
		"nvidia.com/roce_gdr": resource.MustParse("2"),
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Allocatable: has,
			Capacity:    has,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func cluster(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
}

// small is a cluster with a flavor and three nodes.
func small(more ...client.Object) client.WithWatch {
	flavor := &kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "default-flavor"}}
	return cluster(append([]client.Object{flavor, node("a"), node("b"), node("c")}, more...)...)
}

// makeTeam makes a team.
func makeTeam(ctx context.Context, c client.Client, team admin.Team) ([]admin.TeamObject, error) {
	h, err := admin.TakeHardware(ctx, c)
	if err != nil {
		return nil, err
	}
	if team, err = team.Settle(h); err != nil {
		return nil, err
	}
	objects, err := team.Design(h)
	if err != nil {
		return nil, err
	}
	return team.Create(ctx, c, h, objects, false)
}

func green() admin.Team {
	return admin.Team{
		Name:   "green",
		Cohort: "default-cohort",
		GPUs:   quantity("8"),
		Users:  []string{"dave", "carol"},
	}
}

func deeds(steps []admin.TeamObject) string {
	var out []string
	for _, s := range steps {
		out = append(out, s.String())
	}
	return strings.Join(out, "; ")
}

// TestQuotasAreRead in both spellings, with words about what is wrong.
func TestQuotasAreRead(t *testing.T) {
	for name, tc := range map[string]struct {
		why                         string
		nominal, borrowing, lending []string
		flavor                      string
		want                        string // groups, or part of the error
	}{
		"ours":       {"amounts of the flavor that is said", []string{"nvidia.com/gpu=8", "cpu=64"}, nil, nil, "f", "[nvidia.com/gpu cpu] f: 8 64"},
		"kueuectl":   {"as its plugin spells it", []string{"a:cpu=10;memory=1Gi", "b:cpu=1;memory=2Gi"}, nil, nil, "", "[cpu memory] a: 10 1Gi b: 1 2Gi"},
		"order":      {"the same resources in another order are one group", []string{"a:cpu=10;memory=1Gi", "b:memory=2Gi;cpu=1"}, nil, nil, "", "[cpu memory] a: 10 1Gi b: 1 2Gi"},
		"groups":     {"other resources are another group", []string{"a:cpu=10", "b:nvidia.com/gpu=1"}, nil, nil, "", "[cpu] a: 10; [nvidia.com/gpu] b: 1"},
		"limits":     {"of what there is quota of", []string{"cpu=10"}, []string{"cpu=2"}, []string{"cpu=none"}, "f", "[cpu] f: 10+2"},
		"no quota":   {"kueuectl drops such a limit silently", []string{"cpu=10"}, []string{"memory=2Gi"}, nil, "f", "there is no quota of it"},
		"no flavor":  {"guessing one would give the wrong quota", []string{"cpu=10"}, nil, nil, "", "--flavor NAME"},
		"no amount":  {"names the form", []string{"cpu"}, nil, nil, "f", "RESOURCE=AMOUNT"},
		"bad amount": {"names the form", []string{"cpu=many"}, nil, nil, "f", "500m or 64Gi"},
		"negative":   {"quota is never less than nothing", []string{"cpu=-1"}, nil, nil, "f", "negative"},
		"none":       {"only limits can be none", []string{"cpu=none"}, nil, nil, "f", "is no amount"},
		"twice":      {"one of them would be ignored", []string{"cpu=1", "cpu=2"}, nil, nil, "f", "said twice"},
		"gpu":        {"no job asks for a resource of that name", []string{"gpu=1"}, nil, nil, "f", "nvidia.com/gpu"},
		"colon":      {"a slip", []string{":cpu=1"}, nil, nil, "f", "before the colon"},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := admin.ParseQuotas(tc.nominal, tc.borrowing, tc.lending, "", tc.flavor)
			var groups []kueue.ResourceGroup
			if err == nil {
				groups, err = q.Groups()
			}
			got := spell(groups)
			if err != nil {
				got = err.Error()
			}
			if err == nil && got != tc.want || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q: %s", got, tc.want, tc.why)
			}
		})
	}
}

func spell(groups []kueue.ResourceGroup) string {
	var out []string
	for _, g := range groups {
		text := fmt.Sprint(g.CoveredResources)
		for _, f := range g.Flavors {
			text += " " + string(f.Name) + ":"
			for _, r := range f.Resources {
				text += " " + r.NominalQuota.String()
				if r.BorrowingLimit != nil {
					text += "+" + r.BorrowingLimit.String()
				}
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// TestTeamIsMade in an order in which nobody can submit before all is there, with the share of the
// nodes that belongs to its GPUs; done again it changes nothing.
func TestTeamIsMade(t *testing.T) {
	c := small()
	steps, err := makeTeam(t.Context(), c, green())
	if err != nil {
		t.Fatal(err)
	}
	const want = "clusterqueue/green-cluster-queue created; namespace/green created; localqueue/default-queue in green created; rolebinding/mlbatch-edit in green created"
	if got := deeds(steps); got != want {
		t.Errorf("made %s\nwant %s", got, want)
	}
	var q kueue.ClusterQueue
	if err := c.Get(t.Context(), client.ObjectKey{Name: "green-cluster-queue"}, &q); err != nil {
		t.Fatal(err)
	}
	if got, want := spell(
		q.Spec.ResourceGroups,
	), "[cpu memory nvidia.com/gpu nvidia.com/roce_gdr pods] default-flavor: 224 2000Gi 8 2 250"; got != want {
		t.Errorf("quota %s, want %s", got, want)
	}
	if errs := kueue.ValidateClusterQueue(&q); len(errs) > 0 {
		t.Error(errs)
	}
	again, err := makeTeam(t.Context(), c, green())
	if got := deeds(again); err != nil || strings.Contains(got, "created") {
		t.Errorf("again: %s, %v", got, err)
	}
}

// TestTeamMakingIsCutOff after each write in turn: nobody has rights before everything else is
// there, and doing it again finishes it.
func TestTeamMakingIsCutOff(t *testing.T) {
	down := errors.New("the machine is down")
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			left := n
			c := interceptor.NewClient(small(), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if left--; left == -1 {
						return down
					}
					return c.Create(ctx, o, opts...)
				},
			})
			if _, err := makeTeam(t.Context(), c, green()); !errors.Is(err, down) {
				t.Fatalf("it was not cut off: %v", err)
			}
			var rights rbacv1.RoleBindingList
			if err := c.List(t.Context(), &rights); err != nil || len(rights.Items) > 0 {
				t.Errorf("people have rights before all is there: %v", err)
			}
			if _, err := makeTeam(t.Context(), c, green()); err != nil {
				t.Fatal(err)
			}
			row, err := team(t, c, "green")
			if err != nil || row.ClusterQueue != "green-cluster-queue" ||
				!slices.Equal(row.People, []string{"carol", "dave"}) {
				t.Errorf("%+v, %v", row, err)
			}
		})
	}
}

// TestTeamIsThere: what was typed and differs is told, and nothing is changed.
func TestTeamIsThere(t *testing.T) {
	plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	for name, tc := range map[string]struct {
		why    string
		change func(*admin.Team)
		says   string // "" is success
	}{
		"same":        {"doing it again is no mistake", func(*admin.Team) {}, ""},
		"spelled":     {"8000m are 8", func(t *admin.Team) { t.GPUs = quantity("8000m") }, ""},
		"not said":    {"what was changed since and is not said may stay", func(t *admin.Team) { t.GPUs = nil; t.Quotas.Nominal = cpus("224") }, "say --memory"},
		"gpus":        {"another number", func(t *admin.Team) { t.GPUs = quantity("4") }, "quota of nvidia.com/gpu in flavor default-flavor is 8, asked for 4"},
		"people":      {"others", func(t *admin.Team) { t.Users = []string{"erin"} }, "people are carol, dave, asked for erin"},
		"cohort":      {"another", func(t *admin.Team) { t.Cohort = "" }, "cohort is default-cohort, asked for none"},
		"foreign":     {"what runs there would have to name a queue", func(t *admin.Team) { t.Name = "plain" }, "--adopt"},
		"adopted":     {"on request", func(t *admin.Team) { t.Name, t.Adopt = "plain", true }, ""},
		"kubernetes":  {"nobody's team", func(t *admin.Team) { t.Name, t.Adopt = "kube-system", true }, "Kubernetes itself"},
		"name":        {"a namespace cannot be called like that", func(t *admin.Team) { t.Name = "Green" }, "lower case"},
		"everybody":   {"rights for all users", func(t *admin.Team) { t.Groups = []string{"system:authenticated"} }, "everybody"},
		"nobody":      {"an empty name", func(t *admin.Team) { t.Users = []string{""} }, "is no name"},
		"nothing":     {"a team without quota runs nothing", func(t *admin.Team) { t.GPUs = nil }, "--gpus 8"},
		"flavor":      {"a typo", func(t *admin.Team) { t.Flavor = "defalt" }, "flavor create defalt"},
		"alone, lend": {"nobody to borrow from", func(t *admin.Team) { t.Name, t.Cohort, t.Quotas.Borrowing = "x", "", bare("1") }, "cohortName"},
	} {
		t.Run(name, func(t *testing.T) {
			c := small(plain.DeepCopy())
			if _, err := makeTeam(t.Context(), c, green()); err != nil {
				t.Fatal(err)
			}
			before := everything(t, c)
			team := green()
			tc.change(&team)
			_, err := makeTeam(t.Context(), c, team)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q: %s", err, tc.says, tc.why)
			}
			if after := everything(t, c); err != nil && before != after {
				t.Errorf("it failed and changed things: %s", cmp.Diff(before, after))
			}
		})
	}
}

func cpus(n string) []admin.Setting { return []admin.Setting{{Resource: "cpu", Amount: quantity(n)}} }

func bare(n string) []admin.Setting {
	return []admin.Setting{{Resource: admin.GPUs, Amount: quantity(n)}}
}

// everything is what there is of teams, with versions.
func everything(t *testing.T, c client.Client) string {
	t.Helper()
	var out []string
	for _, list := range []client.ObjectList{&kueue.ClusterQueueList{}, &kueue.LocalQueueList{}, &corev1.NamespaceList{}, &rbacv1.RoleBindingList{}} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return strings.Join(out, "\n")
}

// TestFlavorOfATeam is the only one, or is asked for.
func TestFlavorOfATeam(t *testing.T) {
	flavor := func(name string) kueue.ResourceFlavor {
		return kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for name, tc := range map[string]struct {
		flavors []kueue.ResourceFlavor
		create  bool
		want    string
	}{
		"none":    {nil, false, "mlbatch flavor create default-flavor"},
		"made":    {nil, true, "default-flavor"},
		"one":     {[]kueue.ResourceFlavor{flavor("h100")}, false, "h100"},
		"usual":   {[]kueue.ResourceFlavor{flavor("h100"), flavor("default-flavor")}, false, "default-flavor"},
		"several": {[]kueue.ResourceFlavor{flavor("h100"), flavor("a100")}, false, "one of a100, h100"},
	} {
		team, err := admin.Team{CreateFlavor: tc.create}.Settle(admin.Hardware{Flavors: tc.flavors})
		got := team.Flavor
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != tc.want || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestPeopleChange: those whom any binding names, whoever made it.
func TestPeopleChange(t *testing.T) {
	for name, tc := range map[string]struct {
		edit admin.PeopleEdit
		want string
		says string
	}{
		"add":       {admin.PeopleEdit{Add: []string{"erin"}}, "alice, bob, erin", ""},
		"there":     {admin.PeopleEdit{Add: []string{"bob"}}, "alice, bob", ""},
		"remove":    {admin.PeopleEdit{Remove: []string{"alice"}}, "bob", ""},
		"nobody":    {admin.PeopleEdit{Remove: []string{"alice", "bob"}}, "", ""},
		"set":       {admin.PeopleEdit{Set: true, Users: []string{"bob"}, Groups: []string{"g"}}, "bob, group g", ""},
		"unknown":   {admin.PeopleEdit{Remove: []string{"zoe"}}, "alice, bob", "nobody of that name"},
		"everybody": {admin.PeopleEdit{Add: []string{"system:anonymous"}}, "alice, bob", "everybody"},
	} {
		t.Run(name, func(t *testing.T) {
			role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: admin.EditRole}
			binding := func(name string) *rbacv1.RoleBinding {
				return &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}, RoleRef: role,
					Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
				}
			}
			other := binding("admin")
			other.RoleRef.Name = "view"
			c := cluster(
				&corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
				},
				binding("alice"),
				binding("bob"),
				other,
			)
			done, err := admin.EditPeople(t.Context(), c, "blue", tc.edit, false)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q", err, tc.says)
			}
			row, err := team(t, c, "blue")
			if err != nil || strings.Join(row.People, ", ") != tc.want {
				t.Errorf("people %v, want %s: %v", row.People, tc.want, err)
			}
			if (len(done) > 0) != (tc.want != "alice, bob") {
				t.Errorf("told of %v", done)
			}
		})
	}
}

// queue is a ClusterQueue with GPUs, of which some are in use.
func queue(name, cohort, nominal, used string, change ...func(*kueue.ClusterQueue)) *kueue.ClusterQueue {
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Spec = kueue.ClusterQueueSpec{
		CohortName: kueue.CohortReference(cohort), NamespaceSelector: &metav1.LabelSelector{},
		Preemption: &kueue.ClusterQueuePreemption{ReclaimWithinCohort: kueue.PreemptionPolicyAny},
		ResourceGroups: []kueue.ResourceGroup{
			{
				CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
				Flavors: []kueue.FlavorQuotas{
					{
						Name:      "default-flavor",
						Resources: []kueue.ResourceQuota{{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse(nominal)}},
					},
				},
			},
		},
	}
	q.Status.FlavorsReservation = []kueue.FlavorUsage{
		{
			Name:      "default-flavor",
			Resources: []kueue.ResourceUsage{{Name: "nvidia.com/gpu", Total: resource.MustParse(used)}},
		},
	}
	q.Status.Conditions = []metav1.Condition{
		{Type: kueue.ClusterQueueActive, Status: "True", Reason: kueue.ReasonReady},
	}
	for _, c := range change {
		c(q)
	}
	return q
}

// TestQueueIsEdited: single values, what they were, and what that means for jobs.
func TestQueueIsEdited(t *testing.T) {
	gpus := func(n string) admin.Quotas {
		return admin.Quotas{Nominal: []admin.Setting{{Resource: "nvidia.com/gpu", Amount: quantity(n)}}}
	}
	limit := func(a *resource.Quantity) admin.Quotas {
		return admin.Quotas{Borrowing: []admin.Setting{{Resource: "nvidia.com/gpu", Amount: a}}}
	}
	for name, tc := range map[string]struct {
		why   string
		edit  admin.QueueEdit
		want  string // changes, or part of the error
		means string // part of the consequences, "" for none
	}{
		"more":       {"nobody loses anything", admin.QueueEdit{Quotas: gpus("16")}, "quota of nvidia.com/gpu in flavor default-flavor: 8 -> 16", ""},
		"same":       {"nothing to write", admin.QueueEdit{Quotas: gpus("8")}, "", ""},
		"less":       {"what is in use is borrowed now", admin.QueueEdit{Quotas: gpus("2")}, "quota of nvidia.com/gpu in flavor default-flavor: 8 -> 2", "4 more than the quota: nothing is stopped now, but jobs of red may take it back"},
		"alone":      {"nobody takes it back", admin.QueueEdit{Quotas: gpus("2"), Cohort: new(string)}, "cohort: c -> none; quota of nvidia.com/gpu in flavor default-flavor: 8 -> 2", "nothing more starts before"},
		"limit":      {"a bound", admin.QueueEdit{Quotas: limit(quantity("4"))}, "borrowing limit of nvidia.com/gpu in flavor default-flavor: none -> 4", ""},
		"no limit":   {"there was none", admin.QueueEdit{Quotas: limit(nil)}, "", ""},
		"weight":     {"the default is 1", admin.QueueEdit{Weight: quantity("2")}, "weight in fair sharing: 1 -> 2", ""},
		"policy":     {"a policy that was not said is Never", admin.QueueEdit{Within: new("LowerPriority")}, "preemption within queue: Never -> LowerPriority", ""},
		"contradict": {"the webhook's rule, before anything is written", admin.QueueEdit{Reclaim: new("Never"), Borrow: new("LowerPriority")}, "reclaimWithinCohort", ""},
		"new":        {"a resource that it had no quota of", admin.QueueEdit{Quotas: admin.Quotas{Nominal: cpus("4")}}, "quota of cpu in flavor default-flavor: not there -> 4", ""},
		"unbounded":  {"nothing to bound", admin.QueueEdit{Quotas: admin.Quotas{Lending: cpus("4")}}, "has no quota of cpu", ""},
	} {
		t.Run(name, func(t *testing.T) {
			is := queue("blue", "c", "8", "6")
			will, changes, err := tc.edit.Apply(is)
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
			}
			text := strings.Join(got, "; ")
			if err != nil {
				if tc.want == "" || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q: %s", err, tc.want, tc.why)
				}
				return
			}
			if text != tc.want {
				t.Errorf("%q, want %q: %s", text, tc.want, tc.why)
			}
			means := strings.Join(
				admin.Consequences(
					is,
					will,
					[]kueue.ClusterQueue{*is, *queue("red", "c", "8", "0"), *queue("other", "d", "8", "0")},
				),
				"; ",
			)
			if (means == "") != (tc.means == "") || !strings.Contains(means, tc.means) {
				t.Errorf("means %q, want %q: %s", means, tc.means, tc.why)
			}
		})
	}
}

// TestTeamsAreListed in terminals of three widths, with what is lent as exactly as it is known.
func TestTeamsAreListed(t *testing.T) {
	var objects []client.Object
	team := func(name, queue string, running, waiting int32, people ...string) {
		objects = append(
			objects,
			&corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
			},
			&kueue.LocalQueue{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: name,
					Name:      "default-queue",
				},
				Spec:   kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(queue)},
				Status: kueue.LocalQueueStatus{AdmittedWorkloads: running, PendingWorkloads: waiting},
			},
		)
		for _, p := range people {
			objects = append(objects, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: name,
					Name:      "of-" + fmt.Sprint(len(objects)),
				},
				RoleRef:  rbacv1.RoleRef{Kind: "ClusterRole", Name: admin.EditRole},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: p}},
			})
		}
	}
	team("blue", "blue-cluster-queue", 3, 1, "alice", "anna\x1b[31m")
	team("red", "red-cluster-queue", 0, 0, "bob")
	team("pink", "gone", 0, 2)
	objects = append(
		objects,
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "bare", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		queue(
			"blue-cluster-queue",
			"default-cohort",
			"8",
			"20",
		),
		queue("red-cluster-queue", "default-cohort", "8", "0"),
		queue("slack-cluster-queue", "default-cohort", "8", "0"),
		queue("elsewhere", "default-cohort", "0", "0", func(q *kueue.ClusterQueue) { q.Spec.CohortName = "other" }),
	)
	rows, err := teams(t, cluster(objects...))
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80, 140} {
		var out bytes.Buffer
		if err := cli.PrintTable(&out, admin.TeamColumns(), rows, cli.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, fmt.Sprintf("testdata/teams-%d.txt", width), out.String())
	}
}

// TestLent: exact where one can have lent, a bound where several can.
func TestLent(t *testing.T) {
	lends := func(n string) func(*kueue.ClusterQueue) {
		return func(q *kueue.ClusterQueue) {
			q.Spec.ResourceGroups[0].Flavors[0].Resources[0].LendingLimit = quantity(n)
		}
	}
	for name, tc := range map[string]struct {
		queues  []*kueue.ClusterQueue
		want    string
		cohorts []*kueue.Cohort
	}{
		"nothing":     {[]*kueue.ClusterQueue{queue("blue", "c", "8", "8"), queue("red", "c", "8", "0")}, "0", nil},
		"one lender":  {[]*kueue.ClusterQueue{queue("blue", "c", "8", "12"), queue("red", "c", "8", "0")}, "4", nil},
		"two lenders": {[]*kueue.ClusterQueue{queue("blue", "c", "8", "12"), queue("red", "c", "8", "0"), queue("slack", "c", "8", "0")}, "≤4", nil},
		"all of both": {[]*kueue.ClusterQueue{queue("blue", "c", "8", "24"), queue("red", "c", "8", "0"), queue("slack", "c", "8", "0")}, "8", nil},
		"limit":       {[]*kueue.ClusterQueue{queue("blue", "c", "8", "12"), queue("red", "c", "8", "0", lends("0")), queue("slack", "c", "8", "0")}, "0", nil},
		"elsewhere":   {[]*kueue.ClusterQueue{queue("blue", "d", "8", "12"), queue("red", "c", "8", "0")}, "0", nil},
		"used itself": {[]*kueue.ClusterQueue{queue("blue", "c", "8", "12"), queue("red", "c", "8", "6"), queue("slack", "c", "2", "0")}, "2", nil},
		// What the cohort owns itself can have been lent as well.
		"of the cohort": {[]*kueue.ClusterQueue{queue("blue", "c", "8", "12"), queue("red", "c", "8", "0")}, "≤4", []*kueue.Cohort{{
			ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: kueue.CohortSpec{ResourceGroups: queue("c", "", "4", "0").Spec.ResourceGroups},
		}}},
	} {
		objects := []client.Object{
			&corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: "red", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
			},
			&kueue.LocalQueue{
				ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "q"},
				Spec:       kueue.LocalQueueSpec{ClusterQueue: "red"},
			},
		}
		for _, q := range tc.queues {
			objects = append(objects, q)
		}
		for _, c := range tc.cohorts {
			objects = append(objects, c)
		}
		row, err := team(t, cluster(objects...), "red")
		if err != nil {
			t.Fatal(err)
		}
		got := row.Shares[0].Lent
		if row.Shares[0].LentAtMost {
			got = "≤" + got
		}
		if got != tc.want {
			t.Errorf("%s: lent %s, want %s", name, got, tc.want)
		}
	}
}

// TestTeamIsRemoved: refused as long as it would take what nobody said, and done in an order in
// which it can be done again.
func TestTeamIsRemoved(t *testing.T) {
	kinds := []admin.ListedKind{
		admin.KindOf("v1", "ConfigMap", "configmaps"),
		admin.KindOf("v1", "ServiceAccount", "serviceaccounts"),
		admin.KindOf("v1", "Pod", "pods"),
		admin.KindOf(history.GroupVersion.String(), "JobHistory", history.Resource),
		admin.KindOf(recovery.GroupVersion.String(), "JobRecovery", recovery.Resource),
	}
	given := []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "green", Name: "kube-root-ca.crt"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "green", Name: "default"}},
		&history.JobHistory{
			ObjectMeta: metav1.ObjectMeta{Namespace: "green", Name: "2026-01"},
		}, // every team that ran a job has some
		&recovery.JobRecovery{ObjectMeta: metav1.ObjectMeta{Namespace: "green", Name: "uid"}}, // likewise
	}
	data := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "green", Name: "data"}}
	for name, tc := range map[string]struct {
		why     string
		objects []client.Object
		options admin.DeleteOptions
		says    string
		left    string // namespaces and queues afterwards
	}{
		"empty":   {"what every namespace has is nobody's", given, admin.DeleteOptions{}, "", ""},
		"foreign": {"somebody may need it", append(slices.Clone(given), data), admin.DeleteOptions{}, "configmap/data", "green green-cluster-queue"},
		"all":     {"on request", append(slices.Clone(given), data), admin.DeleteOptions{Namespace: true}, "", ""},
		"keep":    {"on request", append(slices.Clone(given), data), admin.DeleteOptions{Keep: true}, "", "green"},
		"shared":  {"others use the queue", []client.Object{&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "pink", Name: "q"}, Spec: kueue.LocalQueueSpec{ClusterQueue: "green-cluster-queue"}}}, admin.DeleteOptions{}, "", "green-cluster-queue"},
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			if _, err := makeTeam(t.Context(), c, green()); err != nil {
				t.Fatal(err)
			}
			for _, o := range tc.objects {
				o, _ = o.DeepCopyObject().(client.Object)
				if err := c.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			r, err := admin.TakeRemoval(t.Context(), c, "green", kinds)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Refusal(tc.options)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want %q: %s", err, tc.says, tc.why)
			}
			if err == nil {
				if err := r.Stop(t.Context(), c, tc.options); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Delete(t.Context(), c, tc.options); err != nil {
					t.Fatal(err)
				}
			}
			if got := left(t, c); got != tc.left {
				t.Errorf("left: %q, want %q: %s", got, tc.left, tc.why)
			}
		})
	}
}

func left(t *testing.T, c client.Client) string {
	t.Helper()
	var out []string
	var namespaces corev1.NamespaceList
	var queues kueue.ClusterQueueList
	for _, list := range []client.ObjectList{&namespaces, &queues} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	for i := range namespaces.Items {
		out = append(out, namespaces.Items[i].Name)
	}
	for i := range queues.Items {
		out = append(out, queues.Items[i].Name)
	}
	return strings.Join(out, " ")
}

// TestFlavorIsMade from what was typed, or refused with the form that is meant.
func TestFlavorIsMade(t *testing.T) {
	for name, tc := range map[string]struct {
		typed admin.NewFlavor
		want  string
	}{
		"all nodes":  {admin.NewFlavor{Name: "f"}, "map[] [] []"},
		"labels":     {admin.NewFlavor{Name: "f", Labels: []string{"pool=spot"}}, "map[pool:spot] [] []"},
		"taint":      {admin.NewFlavor{Name: "f", Taints: []string{"spot=true:NoSchedule"}}, "map[] [{spot true NoSchedule <nil>}] []"},
		"key":        {admin.NewFlavor{Name: "f", Tolerations: []string{"spot"}}, "map[] [] [{spot Exists   <nil>}]"},
		"toleration": {admin.NewFlavor{Name: "f", Tolerations: []string{"spot=true:NoExecute"}}, "map[] [] [{spot Equal true NoExecute <nil>}]"},
		"no value":   {admin.NewFlavor{Name: "f", Labels: []string{"pool"}}, "KEY=VALUE"},
		"no effect":  {admin.NewFlavor{Name: "f", Taints: []string{"spot=true"}}, "KEY=VALUE:EFFECT"},
		"bad effect": {admin.NewFlavor{Name: "f", Tolerations: []string{"spot:Maybe"}}, "NoExecute"},
		"bad label":  {admin.NewFlavor{Name: "f", Labels: []string{"a b=c"}}, "nodeLabels"},
		"topology":   {admin.NewFlavor{Name: "f", Topology: "rack"}, "at least one node label"},
	} {
		f, err := tc.typed.Object()
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(f.Spec.NodeLabels, f.Spec.NodeTaints, f.Spec.Tolerations)
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestNewTeamIsPending: a team whose queue no controller has judged yet has one.
func TestNewTeamIsPending(t *testing.T) {
	rows, err := teams(t, cluster(
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "new", Name: "default-queue"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "q"},
		},
		queue("q", "c", "8", "0", func(q *kueue.ClusterQueue) { q.Status.Conditions = nil }),
	))
	if err != nil || len(rows) != 1 || rows[0].State != "pending" {
		t.Errorf("%+v, %v; want one team that is pending", rows, err)
	}
}

// TestBareLimits: limits of teams without a resource are of GPUs, which are called by their name
// once it is known.
func TestBareLimits(t *testing.T) {
	q, err := admin.ParseQuotas(nil, []string{"8"}, []string{"0"}, admin.GPUs, "")
	if err != nil || len(q.Borrowing) != 1 || q.Borrowing[0].Resource != admin.GPUs ||
		q.Lending[0].Amount.Sign() != 0 {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err := admin.ParseQuotas(nil, []string{"gpus=8"}, nil, admin.GPUs, ""); err == nil {
		t.Error("no job asks for a resource of that name")
	}
}

func team(t *testing.T, c client.Client, name string) (view.Team, error) {
	t.Helper()
	return gather.Team(t.Context(), c, name, gather.Get(c)) //nolint:wrapcheck // of the test
}

func teams(t *testing.T, c client.Client) ([]view.Team, error) {
	t.Helper()
	all, _, err := gather.Teams(t.Context(), c, gather.Get(c))
	return all, err //nolint:wrapcheck // of the test
}
