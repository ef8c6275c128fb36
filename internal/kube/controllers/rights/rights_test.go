package rights

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

const self = "system:serviceaccount:mlbatch-system:mlbatch-controller"

func TestDecide(t *testing.T) {
	ours := func(change func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
		b := Of("blue", Subject(self))
		if change != nil {
			change(b)
		}
		return b
	}
	going := func(b *rbacv1.RoleBinding) { b.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	cases := map[string]struct {
		why  string
		s    facts
		want step
	}{
		"jobs run here":         {"their components are made with it", facts{jobs: true}, create},
		"nothing runs here":     {"the controller has no business there", facts{}, nothing},
		"only AppWrappers":      {"a tenant's object alone gives no rights", facts{needed: true}, nothing},
		"namespace ends":        {"nothing can be created in it", facts{jobs: true, ending: true}, nothing},
		"bound":                 {"all is well", facts{jobs: true, binding: ours(nil)}, nothing},
		"not a team's any more": {"rights end with their reason", facts{binding: ours(nil)}, remove},
		"AppWrappers left": {
			"their components have to be deleted",
			facts{needed: true, binding: ours(nil)},
			nothing,
		},
		"other role": {
			"the role of a binding cannot be changed",
			facts{jobs: true, binding: ours(func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "cluster-admin" })},
			remove,
		},
		"somebody else's": {
			"an older controller had another name",
			facts{jobs: true, binding: ours(func(b *rbacv1.RoleBinding) { b.Subjects = nil })},
			admit,
		},
		"no finalizer": {
			"it could go before the AppWrappers",
			facts{jobs: true, binding: ours(func(b *rbacv1.RoleBinding) { b.Finalizers = nil })},
			admit,
		},
		"deleted, needed": {
			"AppWrappers are cleaned up first",
			facts{ending: true, needed: true, binding: ours(going)},
			nothing,
		},
		"deleted": {"nothing waits for it", facts{ending: true, binding: ours(going)}, release},
		"deleted by hand": {
			"it is made again when it is gone",
			facts{jobs: true, binding: ours(going)},
			release,
		},
		"ends, bound": {
			"the deletion of the namespace deletes what is in it",
			facts{ending: true, binding: ours(nil)},
			nothing,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.s.self = Subject(self)
			if got := decide(c.s); got != c.want {
				t.Errorf("%s: step %d, want %d", c.why, got, c.want)
			}
		})
	}
}

func TestSubject(t *testing.T) {
	for user, want := range map[string]rbacv1.Subject{
		self:                    {Kind: "ServiceAccount", Namespace: "mlbatch-system", Name: "mlbatch-controller"},
		"mlbatch-controller":    {APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "mlbatch-controller"},
		"system:serviceaccount": {APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "system:serviceaccount"},
	} {
		if diff := cmp.Diff(want, Subject(user)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", user, diff)
		}
	}
}

// The life of a namespace: the rights come with its queue, outlive its deletion
// until the last AppWrapper is gone, and never come to those of others.
func TestRightsFollowJobs(t *testing.T) {
	team := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(team,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "queued"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vault"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", Labels: team.Labels}},
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "queued", Name: "q"}},
		&awv1beta2.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "bait"}},
		&awv1beta2.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "queued", Name: "w"}},
	).Build()
	r := &reconciler{Options{Client: c, Kinds: kinds.All(), Self: self}}
	look := func(want map[string]bool) {
		t.Helper()
		for ns, bound := range want {
			for range 2 {
				if _, err := r.Reconcile(
					t.Context(),
					reconcile.Request{NamespacedName: types.NamespacedName{Name: ns}},
				); err != nil {
					t.Fatal(err)
				}
			}
			err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: Binding}, &rbacv1.RoleBinding{})
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if got := !apierrors.IsNotFound(err); got != bound {
				t.Errorf("rights in namespace %s: %v, want %v", ns, got, bound)
			}
		}
	}
	look(map[string]bool{"blue": true, "queued": true, "vault": false, "kube-system": false})

	queue := &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "queued", Name: "q"}}
	if err := c.Delete(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	look(map[string]bool{"queued": true})                       // an AppWrapper is left
	if err := c.Delete(t.Context(), Of("queued")); err != nil { // as the deletion of the namespace does
		t.Fatal(err)
	}
	look(map[string]bool{"queued": true})
	if err := c.Delete(
		t.Context(),
		&awv1beta2.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "queued", Name: "w"}},
	); err != nil {
		t.Fatal(err)
	}
	look(map[string]bool{"queued": false, "blue": true})

	// Without its queue, a job that still runs has to be stopped one day.
	if err := c.Create(
		t.Context(),
		&kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "queued", Name: "q"}},
	); err != nil {
		t.Fatal(err)
	}
	look(map[string]bool{"queued": true})
	running := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "queued", Name: "w"}}
	if err := errors.Join(c.Create(t.Context(), running), c.Delete(t.Context(), queue)); err != nil {
		t.Fatal(err)
	}
	look(map[string]bool{"queued": true})
	held := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "queued",
			Name:      "p",
			Labels:    map[string]string{kueue.ManagedLabel: "true"},
		},
	}
	if err := errors.Join(c.Create(t.Context(), held), c.Delete(t.Context(), running)); err != nil {
		t.Fatal(err)
	}
	look(map[string]bool{"queued": true}) // its finalizer has to be taken off
	if err := c.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	look(map[string]bool{"queued": false})
}

// TestOwnNamespaceKeepsItsRights: what the controller is bound to in its own
// namespace (its lease, what it remembers of nodes) is no right where jobs run, and
// is not taken back because no jobs run there.
func TestOwnNamespaceKeepsItsRights(t *testing.T) {
	own := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mlbatch-system", Name: "mlbatch-controller"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "mlbatch-controller"},
	}
	c := fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithObjects(own, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mlbatch-system"}}).
		Build()
	r := &reconciler{Options{Client: c, Kinds: kinds.All(), Self: self}}
	if _, err := r.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Name: "mlbatch-system"}},
	); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil {
		t.Errorf("the binding of the controller's own namespace: %v", err)
	}
}
