package install_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// anything reads manifests as the API server has them, whatever fields Go types know.
func anything(t *testing.T, manifests ...string) []client.Object {
	t.Helper()
	var out []client.Object
	for _, text := range manifests {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// TestMemoriesAreCarriedOver: before definitions without the field are applied, what an earlier version kept
// in the status of jobs is brought where it is kept now, once; what is there already stays.
func TestMemoriesAreCarriedOver(t *testing.T) {
	definition := func(name string) string {
		return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: " + name + "}}"
	}
	set := definition("jobsets.jobset.x-k8s.io")
	own := definition("jobrecoveries.mlbatch.dev")
	job := func(name, status string) string {
		return "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {namespace: blue, name: " + name + ", uid: u-" + name + ", resourceVersion: '7'}, status: " + status + "}"
	}
	const kept = "{restarts: 1, recovery: {startTime: '2026-01-01T00:00:00Z', attempt: 1, failures: 2, counted: [a], done: [{role: w, indexes: 0-3}], ready: true}}"
	for name, tc := range map[string]struct {
		why     string
		there   []string
		applies []string
		want    map[string]int64 // attempts, by names
	}{
		"runs":        {"it goes on with what it had", []string{set, job("a", kept), job("b", "{}")}, []string{own, set}, map[string]int64{"u-a": 1}},
		"known":       {"the controller knows more by now", []string{set, job("a", kept), "{apiVersion: mlbatch.dev/v1alpha1, kind: JobRecovery, metadata: {namespace: blue, name: u-a}, attempt: 5}"}, []string{own, set}, map[string]int64{"u-a": 5}},
		"not applied": {"the definition stays as it is", []string{set, job("a", kept)}, []string{own}, map[string]int64{}},
		"new":         {"nobody brought the kind before", nil, []string{own, set}, map[string]int64{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := runtime.NewScheme()
			for _, gvk := range []schema.GroupVersionKind{
				{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
				{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"},
				recovery.GroupVersion.WithKind("JobRecovery"),
				{Version: "v1", Kind: "ConfigMap"},
			} {
				s.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
				s.AddKnownTypeWithName(gvk.GroupVersion().WithKind(gvk.Kind+"List"), &unstructured.UnstructuredList{})
			}
			notYet := 2 // a kind that was just defined is served a moment later
			c := interceptor.NewClient(
				fake.NewClientBuilder().WithScheme(s).WithObjects(anything(t, tc.there...)...).Build(),
				interceptor.Funcs{
					Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
						return apierrors.NewNotFound(schema.GroupResource{}, key.Name) // nothing was recorded
					},
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						if notYet--; notYet >= 0 {
							return apierrors.NewNotFound(schema.GroupResource{Group: "mlbatch.dev", Resource: "jobrecoveries"}, "")
						}
						return c.Create(ctx, o, opts...)
					},
					Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
						return nil
					},
				},
			)
			record, err := install.ReadRecord(t.Context(), c, "mlbatch-system", nil)
			if err != nil {
				t.Fatal(err)
			}
			var definitions []*unstructured.Unstructured
			for _, o := range anything(t, tc.applies...) {
				u, _ := o.(*unstructured.Unstructured)
				definitions = append(definitions, u)
			}
			for range 2 {
				if err := record.CarryOver(t.Context(), c, definitions); err != nil {
					t.Fatal(err)
				}
			}
			all := &unstructured.UnstructuredList{}
			all.SetGroupVersionKind(recovery.GroupVersion.WithKind("JobRecoveryList"))
			if err := c.List(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for i := range all.Items {
				got[all.Items[i].GetName()], _, _ = unstructured.NestedInt64(all.Items[i].Object, "attempt")
			}
			if !maps.Equal(got, tc.want) {
				t.Errorf("%s: %v, want %v", tc.why, got, tc.want)
			}
			if name != "runs" {
				return
			}
			var o recovery.JobRecovery
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all.Items[0].Object, &o); err != nil {
				t.Fatal(err)
			}
			of := &metav1.ObjectMeta{Namespace: "blue", Name: "a", UID: "u-a"}
			r := o.Of(of)
			if r == nil || r.Failures != 2 || r.StartTime == nil || !slices.Equal(r.Counted, []types.UID{"a"}) {
				t.Fatalf("it is %+v", o)
			}
			if diff := cmp.Diff([]recovery.Done{{Role: "w", Indexes: "0-3"}}, r.Done); diff != "" {
				t.Error(diff)
			}
		})
	}
}
