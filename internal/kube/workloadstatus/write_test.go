package workloadstatus

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// Every write of a Workload is checked, stored and sent to all watchers: there
// must be none without need, and none on top of what another writer wrote.
func TestStatusWrites(t *testing.T) {
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme.New()).
		WithObjects(&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "w"}}).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				writes++
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		}).Build()
	read := func() *kueue.Workload {
		t.Helper()
		w := &kueue.Workload{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "w"}, w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	w, stale := read(), read()

	if err := Write(t.Context(), c, w, w.Status); err != nil || writes != 0 {
		t.Errorf("a status that is so already: %d writes, error %v", writes, err)
	}
	if err := Write(t.Context(), c, w, kueue.WorkloadStatus{ClusterName: new("a")}); err != nil || writes != 1 {
		t.Errorf("a new status: %d writes, error %v", writes, err)
	}
	if stored := read(); w.ResourceVersion != stored.ResourceVersion || *stored.Status.ClusterName != "a" {
		t.Errorf(
			"the caller has version %s, stored is %s with %v",
			w.ResourceVersion,
			stored.ResourceVersion,
			stored.Status,
		)
	}
	err := Write(t.Context(), c, stale, kueue.WorkloadStatus{ClusterName: new("b")})
	if !apierrors.IsConflict(err) || !Overtaken(err) {
		t.Errorf("a status decided on an older object: error %v, want a conflict", err)
	}
	if stale.Status.ClusterName != nil {
		t.Errorf("what was not written must not be left in the object: %v", stale.Status)
	}
	if err := Write(t.Context(), c, w, kueue.WorkloadStatus{}); err != nil || read().Status.ClusterName != nil {
		t.Errorf("a field that goes: error %v, stored %v", err, read().Status)
	}
}

// However many write at the same time: a writer that is overtaken looks again, and what
// each said stays said.
func TestNothingIsLostBetweenWriters(t *testing.T) {
	const writers, each, tries = 4, 10, 1000
	key := client.ObjectKey{Namespace: "n", Name: "w"}
	c := fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithObjects(&kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}).
		WithStatusSubresource(&kueue.Workload{}).
		Build()
	says := func(word string) error {
		for range tries {
			w := &kueue.Workload{}
			if err := c.Get(t.Context(), key, w); err != nil {
				return err
			}
			next := w.Status.DeepCopy()
			next.Conditions = append(
				next.Conditions,
				metav1.Condition{Type: word, Status: metav1.ConditionTrue, Reason: "Said"},
			)
			if err := Write(t.Context(), c, w, *next); !Overtaken(err) {
				return err
			}
		}
		return fmt.Errorf("%s was overtaken %d times", word, tries)
	}
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for j := range each {
				if err := says(fmt.Sprintf("word-%d-%d", i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w := &kueue.Workload{}
	if err := c.Get(t.Context(), key, w); err != nil {
		t.Fatal(err)
	}
	if len(w.Status.Conditions) != writers*each {
		t.Errorf("%d of %d words are left: %v", len(w.Status.Conditions), writers*each, w.Status.Conditions)
	}
	if err := c.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), c, w, kueue.WorkloadStatus{}); !Overtaken(err) {
		t.Errorf("a workload that is gone: error %v", err)
	}
}
