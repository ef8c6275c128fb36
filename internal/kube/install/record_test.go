package install_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// What carries what would be applied is left alone; what was changed since is not, whoever changed it
// and whatever it says of itself.
func TestAppliesWhatIsNotAsItWasLeft(t *testing.T) {
	const workloads = "workloads.kueue.x-k8s.io"
	usual := install.Options{WebhookURL: "https://127.0.0.1:1", CABundle: []byte("ca")}
	moved := usual
	moved.WebhookURL = "https://127.0.0.1:2"
	c, applied := applying()
	if err := install.Apply(t.Context(), c, usual); err != nil {
		t.Fatal(err)
	}
	if len(*applied) < 50 {
		t.Fatalf("only %d objects are applied to an empty cluster", len(*applied))
	}
	everything := recorded(applied)
	for name, tc := range map[string]struct {
		why    string
		change func(t *testing.T, c client.Client)
		opts   install.Options
		want   []string
	}{
		"Nothing": {"all is there", func(*testing.T, client.Client) {}, usual, nil},
		"Definition": {"another program brought one of its own", func(t *testing.T, c client.Client) {
			t.Helper()
			crd := &apiextensionsv1.CustomResourceDefinition{}
			get(t, c, "", workloads, crd)
			crd.Spec.Versions[0].Schema = crd.Spec.Versions[1].Schema
			update(t, c, crd)
		}, usual, []string{workloads}},
		"Label": {"a label was taken off", func(t *testing.T, c client.Client) {
			t.Helper()
			role := &rbacv1.ClusterRole{}
			get(t, c, "", install.EditRole, role)
			role.Labels = nil
			update(t, c, role)
		}, usual, []string{install.EditRole}},
		"Deleted": {"it is not there", func(t *testing.T, c client.Client) {
			t.Helper()
			role := &rbacv1.ClusterRole{}
			get(t, c, "", install.EditRole, role)
			if err := c.Delete(t.Context(), role); err != nil {
				t.Fatal(err)
			}
		}, usual, []string{install.EditRole}},
		"Damaged": {"a record that cannot be read is none", func(t *testing.T, c client.Client) {
			t.Helper()
			kept := &corev1.ConfigMap{}
			get(t, c, install.DefaultNamespace, install.RecordName, kept)
			kept.Data = map[string]string{"objects": "[]"}
			update(t, c, kept)
		}, usual, everything},
		"Moved": {"webhooks are called elsewhere: by definitions that are converted and by configurations", func(*testing.T, client.Client) {}, moved, []string{
			"admissionchecks.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io",
			"mlbatch-mutating-webhook", "mlbatch-validating-webhook",
			"multikueueclusters.kueue.x-k8s.io", "multikueueconfigs.kueue.x-k8s.io", "provisioningrequestconfigs.kueue.x-k8s.io",
			"resourceflavors.kueue.x-k8s.io", "topologies.kueue.x-k8s.io", "workloadpriorityclasses.kueue.x-k8s.io", workloads,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := install.Apply(t.Context(), c, usual); err != nil { // whatever the case before left
				t.Fatal(err)
			}
			tc.change(t, c)
			*applied = nil
			if err := install.Apply(t.Context(), c, tc.opts); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, recorded(applied)); diff != "" {
				t.Errorf("%s: applied (-want +got):\n%s", tc.why, diff)
			}
			*applied = nil
			if err := install.Apply(t.Context(), c, tc.opts); err != nil {
				t.Fatal(err)
			}
			if again := recorded(applied); len(again) > 0 {
				t.Errorf("then applied %v", again)
			}
		})
	}
}

// applying is a client of an empty cluster, and the names of what is applied by it: in its place what
// is there, since who owns which field takes the fake minutes.
func applying() (client.Client, *[]string) {
	var applied []string
	var one sync.Mutex // several are applied at a time
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.New()).Build(), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			u := &unstructured.Unstructured{Object: o.(runtime.Unstructured).UnstructuredContent()}
			one.Lock()
			applied = append(applied, u.GetName())
			one.Unlock()
			have := u.DeepCopy()
			if err := c.Get(ctx, client.ObjectKeyFromObject(u), have); err != nil {
				return c.Create(ctx, u)
			}
			u.SetResourceVersion(have.GetResourceVersion())
			return c.Update(ctx, u)
		},
	})
	return c, &applied
}

func update(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// recorded are the names beside those of the record itself and of APIServices, which are always applied.
func recorded(names *[]string) []string {
	slices.Sort(*names)
	return slices.DeleteFunc(slices.Clone(*names), func(n string) bool {
		return n == install.RecordName || strings.HasSuffix(n, ".visibility.kueue.x-k8s.io")
	})
}
