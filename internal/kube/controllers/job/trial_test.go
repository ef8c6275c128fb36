package job

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TestForbiddenPodsHoldNoQuota: an admitted job that has no pods, because the API server lets none
// be made, gives back its quota with the reason, is held, and is queued again once they may be.
func TestForbiddenPodsHoldNoQuota(t *testing.T) {
	j := aJob(running, inQueue)
	j.Status.Active = 0
	w := aWorkload(admitted)
	w.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
	w.Labels = map[string]string{kueue.JobUIDLabel: "u1"}
	for i := range w.Status.Conditions {
		w.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now)
	}
	why := errors.New("violates PodSecurity baseline")
	tried := 0
	clock := clocktesting.NewFakePassiveClock(now)
	b := newBench(t, func(o *Options) {
		inner, _ := o.Client.(client.WithWatch)
		o.Clock = clock
		o.Client = interceptor.NewClient(inner, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, x client.Object, opts ...client.CreateOption) error {
			if _, pod := x.(*corev1.Pod); !pod {
				return c.Create(ctx, x, opts...)
			}
			tried++
			all := client.CreateOptions{}
			for _, opt := range opts {
				opt.ApplyToCreate(&all)
			}
			if len(all.DryRun) == 0 {
				t.Error("a pod is made")
			}
			if why == nil {
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", why)
		}})
	}, j, w)
	name := types.NamespacedName{Namespace: "blue", Name: "train"}
	step := func(after time.Duration) (*kueue.Workload, reconcile.Result) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		var result reconcile.Result
		for range 4 {
			var err error
			if result, err = b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
				t.Fatal(err)
			}
		}
		return &b.workloads(t)[0], result
	}
	is, again := step(0)
	if tried != 0 || again.RequeueAfter != trialAfter || is.Annotations[kueue.PodsRefusedAnnotation] != "" {
		t.Fatalf("tried %d times at once, looks again in %v", tried, again.RequeueAfter)
	}
	is, _ = step(trialAfter)
	if !strings.Contains(is.Annotations[kueue.PodsRefusedAnnotation], "PodSecurity") || !apimeta.IsStatusConditionTrue(is.Status.Conditions, kueue.WorkloadEvicted) {
		t.Fatalf("%v, %v", is.Annotations, is.Status.Conditions)
	}
	var suspended batchv1.Job
	if err := b.opts.Client.Get(t.Context(), name, &suspended); err != nil || !*suspended.Spec.Suspend {
		t.Fatalf("it is not stopped: %v", err)
	}
	is, again = step(0)
	if is.Status.Admission != nil || is.Annotations[kueue.PodsRefusedAnnotation] == "" || tried > 2 {
		t.Fatalf("it holds %v, noted %v, tried %d times", is.Status.Admission, is.Annotations, tried)
	}
	if again.RequeueAfter == 0 || again.RequeueAfter > trialPause {
		t.Errorf("it is tried again in %v", again.RequeueAfter)
	}
	if is, _ = step(trialPause); is.Annotations[kueue.PodsRefusedAnnotation] == "" {
		t.Error("it is queued again, and still may have no pods")
	}
	why = nil
	if is, _ = step(trialPause); is.Annotations[kueue.PodsRefusedAnnotation] != "" {
		t.Errorf("it may have pods, and is held: %v", is.Annotations)
	}
}
