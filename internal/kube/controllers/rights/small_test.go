package rights

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

func team() *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	}
}

func look(t *testing.T, c client.Client) error {
	t.Helper()
	_, err := (&reconciler{Options{Client: c, Kinds: kinds.All(), Self: self}}).Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Name: "blue"}},
	)
	return err
}

// A binding that was changed is mended, and keeps the other subjects.
func TestBindingIsMended(t *testing.T) {
	other := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "mlbatch-system", Name: "older"}
	us := Subject(self)
	for name, tc := range map[string]struct {
		why        string
		subjects   []rbacv1.Subject
		finalizers []string
		want       []rbacv1.Subject
	}{
		"another's":    {"an older controller may still work", []rbacv1.Subject{other}, []string{Finalizer}, []rbacv1.Subject{other, us}},
		"no finalizer": {"we are bound once", []rbacv1.Subject{us}, nil, []rbacv1.Subject{us}},
		"neither":      {"both are needed", nil, []string{"example.com/theirs"}, []rbacv1.Subject{us}},
	} {
		t.Run(name, func(t *testing.T) {
			b := Of("blue", tc.subjects...)
			b.Finalizers = tc.finalizers
			c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(team(), b).Build()
			if err := look(t, c); err != nil {
				t.Fatal(err)
			}
			is := &rbacv1.RoleBinding{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(b), is); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, is.Subjects); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.why, diff)
			}
			if !strings.Contains(strings.Join(is.Finalizers, " "), Finalizer) {
				t.Errorf("finalizers %v", is.Finalizers)
			}
		})
	}
	wrong := Of("blue", us)
	wrong.RoleRef.Name, wrong.Finalizers = "cluster-admin", nil
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(team(), wrong).Build()
	for range 2 { // it goes, and is made anew
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
	}
	is := &rbacv1.RoleBinding{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(wrong), is); err != nil || is.RoleRef.Name != Role {
		t.Errorf("the binding is to %s, %v", is.RoleRef.Name, err)
	}
}

// What changed meanwhile is on its way; all else is tried again.
func TestTrouble(t *testing.T) {
	resource := schema.GroupResource{Resource: "rolebindings"}
	away := errors.New("connection refused")
	for name, tc := range map[string]struct {
		err  error
		want string // "" for no error
	}{
		"conflict": {apierrors.NewConflict(resource, Binding, errors.New("written since")), ""},
		"gone":     {apierrors.NewNotFound(resource, Binding), ""},
		"there":    {apierrors.NewAlreadyExists(resource, Binding), ""},
		"away":     {away, "rights in namespace blue: connection refused"},
	} {
		c := fake.NewClientBuilder().
			WithScheme(scheme.New()).
			WithObjects(team()).
			WithInterceptorFuncs(
				interceptor.Funcs{
					Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
				},
			).
			Build()
		if err := look(t, c); (err != nil) != (tc.want != "") || err != nil && err.Error() != tc.want {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	for want, fails := range map[string]func(any) bool{
		"read namespace blue: ":                func(o any) bool { _, is := o.(*corev1.Namespace); return is },
		"read the binding in namespace blue: ": func(o any) bool { _, is := o.(*rbacv1.RoleBinding); return is },
		"list what is in namespace blue: ":     func(o any) bool { _, is := o.(*kueue.WorkloadList); return is },
	} {
		wrote := false
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(team()).WithInterceptorFuncs(
			interceptor.Funcs{
				Get: func(ctx context.Context, in client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if fails(o) {
						return away
					}
					return in.Get(ctx, key, o, opts...)
				},
				List: func(ctx context.Context, in client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if fails(l) {
						return away
					}
					return in.List(ctx, l, opts...)
				},
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					wrote = true
					return nil
				},
			},
		).Build()
		if err := look(t, c); err == nil || !strings.Contains(err.Error(), want) || wrote {
			t.Errorf("%v, want %q; wrote %v", err, want, wrote)
		}
	}
}

// Every object leads to its namespace, and only our bindings are watched.
func TestWhatIsWatched(t *testing.T) {
	got := namespaceOf(
		t.Context(),
		&awv1beta2.AppWrapper{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w"}},
	)
	if diff := cmp.Diff(
		[]reconcile.Request{{NamespacedName: types.NamespacedName{Name: "blue"}}},
		got,
	); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for o, by := range Cached() {
		if _, is := o.(*rbacv1.RoleBinding); !is || by.Field.String() != "metadata.name="+Binding {
			t.Errorf("%T by %v", o, by.Field)
		}
	}
	if diff := cmp.Diff(
		[]string{"kube-system", "kube-public", "kube-node-lease"},
		SystemNamespaces(),
	); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for user, want := range map[string]string{"mlbatch-system:mlbatch-controller": "User", "system:serviceaccount:only-one": "User"} {
		if s := Subject(user); s.Kind != want || s.Name != user {
			t.Errorf("%s is %+v", user, s)
		}
	}
}
