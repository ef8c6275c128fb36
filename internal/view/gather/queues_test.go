package gather_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// quota is a ClusterQueue with 8 GPUs and some memory, of which used GPUs are used.
func quota(name, cohort, used string) *kueue.ClusterQueue {
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	limit := resource.MustParse("4")
	q.Spec.CohortName = kueue.CohortReference(cohort)
	q.Spec.ResourceGroups = []kueue.ResourceGroup{{
		CoveredResources: []corev1.ResourceName{"memory", "nvidia.com/gpu"},
		Flavors: []kueue.FlavorQuotas{{Name: "h100", Resources: []kueue.ResourceQuota{
			{
				Name:         "memory",
				NominalQuota: resource.MustParse("1Ti"),
			},
			{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("8"), BorrowingLimit: &limit},
		}}},
	}}
	q.Status.FlavorsReservation = []kueue.FlavorUsage{
		{Name: "h100", Resources: []kueue.ResourceUsage{{Name: "nvidia.com/gpu", Total: resource.MustParse(used)}}},
	}
	return q
}

func local(namespace, name, of, used string) *kueue.LocalQueue {
	q := &kueue.LocalQueue{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(of)},
	}
	q.Status.FlavorsReservation = []kueue.LocalQueueFlavorUsage{
		{
			Name:      "h100",
			Resources: []kueue.LocalQueueResourceUsage{{Name: "nvidia.com/gpu", Total: resource.MustParse(used)}},
		},
	}
	return q
}

// world is a cluster of which whoever reads may list neither ClusterQueues nor RoleBindings, unless admin.
func world(t *testing.T, admin bool, objects ...client.Object) client.Client { //nolint:revive // who asks
	t.Helper()
	refuse := func(o any) error {
		switch o.(type) {
		case *kueue.ClusterQueueList, *kueue.ClusterQueue, *rbacv1.RoleBindingList:
			if !admin {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "these"}, "", nil)
			}
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).WithInterceptorFuncs(
		interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := refuse(list); err != nil {
					return err
				}
				return c.List(ctx, list, opts...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := refuse(o); err != nil {
					return err
				}
				return c.Get(ctx, key, o, opts...)
			},
		},
	).Build()
}

func nobody(context.Context, *kueue.LocalQueue) *kueue.ClusterQueue { return nil }

func TestCohortsAreTheSumOfWhatIsInThem(t *testing.T) {
	research := &kueue.Cohort{
		ObjectMeta: metav1.ObjectMeta{Name: "research"},
		Spec:       kueue.CohortSpec{ParentName: "all"},
	}
	research.Spec.ResourceGroups = []kueue.ResourceGroup{
		{
			CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
			Flavors: []kueue.FlavorQuotas{
				{
					Name:      "h100",
					Resources: []kueue.ResourceQuota{{Name: "nvidia.com/gpu", NominalQuota: resource.MustParse("2")}},
				},
			},
		},
	}
	got, unread, err := gather.ClusterQueues(t.Context(), world(
		t,
		true,
		research,
		quota(
			"blue",
			"research",
			"11",
		),
		quota("red", "research", "8"),
		quota("guests", "all", "0"),
		quota("alone", "", "1"),
	))
	if err != nil || len(unread) != 0 {
		t.Fatal(err, unread)
	}
	gpus := map[string]view.Share{}
	var names []string
	for _, q := range got {
		names = append(names, q.Kind+" "+q.Name)
		for _, s := range q.Shares {
			if s.Resource == "nvidia.com/gpu" {
				s.Flavor, s.Resource = "", ""
				gpus[q.Name] = s
			}
		}
	}
	if want := []string{
		"ClusterQueue alone",
		"ClusterQueue blue",
		"ClusterQueue guests",
		"ClusterQueue red",
		"Cohort all",
		"Cohort research",
	}; !slices.Equal(
		names,
		want,
	) {
		t.Errorf("%q, want %q", names, want)
	}
	if diff := cmp.Diff(map[string]view.Share{
		"alone": {
			Nominal:        "8",
			Used:           "1",
			BorrowingLimit: "4",
		}, // of a queue by itself there is nobody to borrow from
		"blue":     {Nominal: "8", Used: "11", Borrowed: "3", Lent: "0", BorrowingLimit: "4"},
		"red":      {Nominal: "8", Used: "8", Borrowed: "0", Lent: "0", BorrowingLimit: "4"},
		"guests":   {Nominal: "8", Used: "0", Borrowed: "0", Lent: "1", BorrowingLimit: "4"},
		"research": {Nominal: "18", Used: "19", Borrowed: "1", Lent: "0"}, // 2 are its own
		"all":      {Nominal: "26", Used: "19"},
	}, gpus); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Whatever the order of names, a cohort is below the one that it names.
func TestCohortsOfCohortsAddUpToTheTop(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		cohort := func(name, above string) *kueue.Cohort {
			return &kueue.Cohort{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       kueue.CohortSpec{ParentName: kueue.CohortReference(above)},
			}
		}
		got, _, err := gather.ClusterQueues(
			t.Context(),
			world(t, true, cohort(names[0], names[1]), cohort(names[1], names[2]), quota("q", names[0], "3")),
		)
		if err != nil || len(got) != 4 {
			t.Fatal(got, err)
		}
		for _, c := range got[1:] {
			if c.Shares[1].Used != "3" || (c.Parent == "") != (c.Name == names[2]) {
				t.Errorf("%v: %+v", names, c)
			}
		}
	}
}

func TestCohortsThatAreAboveThemselvesAreSummedUpOnce(t *testing.T) {
	cohort := func(name, above string) *kueue.Cohort {
		return &kueue.Cohort{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       kueue.CohortSpec{ParentName: kueue.CohortReference(above)},
		}
	}
	got, _, err := gather.ClusterQueues(
		t.Context(),
		world(t, true, cohort("a", "b"), cohort("b", "a"), quota("q", "b", "3")),
	)
	if err != nil || len(got) != 3 || got[1].Name != "a" || got[1].Shares[1].Used != "3" ||
		got[2].Shares[1].Used != "3" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Who may not read ClusterQueues is told the quota behind a LocalQueue of theirs, and what all jobs of it
// use; where they may not know it, what their own use.
func TestMembersAreToldTheQuotaBehindTheirQueues(t *testing.T) {
	c := world(
		t,
		false,
		quota("shared", "c", "9"),
		local("blue", "a", "shared", "1"),
		local("blue", "default-queue", "shared", "3"),
		local("red", "q", "other", "2"),
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
	)
	asked := ""
	behind := func(_ context.Context, l *kueue.LocalQueue) *kueue.ClusterQueue {
		if l.Namespace != "blue" {
			return nil
		}
		asked = l.Name
		return quota("shared", "c", "9")
	}
	if _, _, err := gather.ClusterQueues(t.Context(), c); !apierrors.IsForbidden(err) {
		t.Fatalf("ClusterQueues may not be read: %v", err)
	}
	queues, err := gather.LocalQueues(t.Context(), c, "", behind)
	if err != nil || len(queues) != 3 {
		t.Fatal(queues, err)
	}
	gpus := view.Share{
		Flavor:         "h100",
		Resource:       "nvidia.com/gpu",
		Nominal:        "8",
		Used:           "3",
		QueueUsed:      "9",
		Borrowed:       "1",
		BorrowingLimit: "4",
	}
	if got := queues[1]; got.Name != "default-queue" || len(got.Shares) != 2 || got.Shares[1] != gpus {
		t.Errorf("%+v", got)
	}
	if got := queues[2]; got.Name != "q" || len(got.Shares) != 1 ||
		got.Shares[0] != (view.Share{Flavor: "h100", Resource: "nvidia.com/gpu", Used: "2"}) {
		t.Errorf("of a quota that may not be known: %+v", got)
	}

	team, err := gather.Team(t.Context(), c, "blue", behind)
	gpus.Used, gpus.QueueUsed = "9", ""
	if err != nil || asked != "default-queue" || len(team.Shares) != 2 || team.Shares[0] != gpus ||
		!slices.Equal(team.Unread, []string{"RoleBindings"}) {
		t.Errorf("asked for %s: %+v, %v", asked, team, err)
	}
	team, err = gather.Team(t.Context(), c, "blue", nobody)
	if err != nil || len(team.Shares) != 1 || team.Shares[0].Used != "4" || team.Shares[0].Nominal != "" ||
		!slices.Equal(team.Unread, []string{"ClusterQueues", "RoleBindings"}) {
		t.Errorf("without quota: %+v, %v", team, err)
	}
	all, unread, err := gather.Teams(t.Context(), c, behind)
	if err != nil || len(all) != 1 || all[0].Shares[0] != gpus ||
		!slices.Equal(unread, []string{"ClusterQueues", "RoleBindings"}) {
		t.Errorf("teams: %+v, %v, %v", all, unread, err)
	}
}
