package e2e_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Old clients list and watch v1beta1, which the API server reads from etcd: no
// cache is kept of it.
func TestOldVersionIsWatched(t *testing.T) {
	flavors := func() *unstructured.UnstructuredList {
		l := &unstructured.UnstructuredList{}
		l.SetAPIVersion("kueue.x-k8s.io/v1beta1")
		l.SetKind("ResourceFlavorList")
		return l
	}
	made := func(i int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kueue.x-k8s.io/v1beta2",
			"kind":       "ResourceFlavor",
			"metadata": map[string]any{
				"name":   fmt.Sprintf("watched-%d", i),
				"labels": map[string]any{"watched": "true"},
			},
		}}
	}
	admin, err := client.NewWithWatch(cluster.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const before = 3
	for i := range before {
		if err := admin.Create(t.Context(), made(i)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(withoutCancel(t), made(i)) })
	}
	ours := client.MatchingLabels{"watched": "true"}
	for _, opts := range []*metav1.ListOptions{{}, {ResourceVersion: "0"}, {Limit: 2}} {
		l := flavors()
		if err := admin.List(t.Context(), l, ours, &client.ListOptions{Raw: opts}); err != nil {
			t.Fatalf("list with %+v: %v", opts, err)
		}
		if len(l.Items) == 0 || l.Items[0].GetAPIVersion() != "kueue.x-k8s.io/v1beta1" {
			t.Errorf("list with %+v: %d items", opts, len(l.Items))
		}
	}
	l := flavors()
	if err := admin.List(t.Context(), l, ours); err != nil || len(l.Items) != before {
		t.Fatalf("listed %d flavors, %v; want %d", len(l.Items), err, before)
	}
	w, err := admin.Watch(
		t.Context(),
		flavors(),
		ours,
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: l.GetResourceVersion()}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	expect := func(kind watch.EventType, name string) {
		t.Helper()
		late := time.After(patience)
		for {
			select {
			case e := <-w.ResultChan():
				o, ok := e.Object.(*unstructured.Unstructured)
				if !ok || o.GetAPIVersion() != "kueue.x-k8s.io/v1beta1" {
					t.Fatalf("got %s %+v, want %s of %s in v1beta1", e.Type, e.Object, kind, name)
				}
				if e.Type == kind && o.GetName() == name {
					return // what came before is a finalizer
				}
			case <-late:
				t.Fatalf("no %s of %s", kind, name)
			}
		}
	}
	if err := admin.Create(t.Context(), made(before)); err != nil {
		t.Fatal(err)
	}
	expect(watch.Added, "watched-3")
	if err := admin.Delete(t.Context(), made(before)); err != nil {
		t.Fatal(err)
	}
	expect(watch.Deleted, "watched-3")
}
