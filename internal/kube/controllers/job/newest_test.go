package job

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// A Job that was started a moment ago still looks suspended, and without pods, in
// the cache: its quota is given back only once it is seen as it is.
func TestQuotaStaysWhileTheJobIsSeenLate(t *testing.T) {
	j := aJob(inQueue)
	w := aWorkload(
		named("train"),
		ownedBy(j.Name, ""),
		admitted,
		condition(kueue.WorkloadEvicted, kueue.ReasonPreempted),
	)
	b := newBench(t, func(o *Options) {
		late := true
		o.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				err := c.Get(ctx, key, o, opts...)
				if seen, ok := o.(*batchv1.Job); ok && late && err == nil {
					late = false
					seen.ResourceVersion += "0"
				}
				return err
			},
		})
	}, j, w)
	look := func() reconcile.Result {
		t.Helper()
		again, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(j)})
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	if again := look(); again.RequeueAfter == 0 || b.workloads(t)[0].Status.Admission == nil {
		t.Errorf(
			"looks again after %v, admission is %+v; want it kept until the Job is seen as it is",
			again.RequeueAfter,
			b.workloads(t)[0].Status.Admission,
		)
	}
	if look(); b.workloads(t)[0].Status.Admission != nil {
		t.Error("the quota of a stopped job is kept")
	}
}
