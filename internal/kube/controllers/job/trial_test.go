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
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// TestForbiddenPodsHoldNoQuota: an admitted job that has no pods, because the API server lets none
// be made, gives back its quota with the reason, is held, and is queued again once they may be.
func TestForbiddenPodsHoldNoQuota(t *testing.T) {
	j := aJob(running, inQueue)
	j.Status.Active = 0
	w := aWorkload(admitted)
	w.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job")),
	}
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
		o.Client = interceptor.NewClient(
			inner,
			interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, x client.Object, opts ...client.CreateOption) error {
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
				},
			},
		)
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
	if !strings.Contains(is.Annotations[kueue.PodsRefusedAnnotation], "PodSecurity") ||
		!apimeta.IsStatusConditionTrue(is.Status.Conditions, kueue.WorkloadEvicted) {
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

// TestPodsAlikeAreTriedOnce: of jobs whose pods say the same, one a while has them tried, and each
// in whose place a pod was refused.
func TestPodsAlikeAreTriedOnce(t *testing.T) {
	var refuses error
	tried := 0
	clock := clocktesting.NewFakePassiveClock(now)
	b := newBench(t, func(o *Options) {
		inner, _ := o.Client.(client.WithWatch)
		o.Clock = clock
		o.Client = interceptor.NewClient(
			inner,
			interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					tried++
					return refuses
				},
			},
		)
	})
	another := func(change func(*facts)) facts {
		s := facts{
			job:      aJob(),
			workload: aWorkload(admitted),
			facts:    jobs.Facts{PodSets: []kueue.PodSet{{Name: "main", Count: 2, Template: template()}}},
		}
		change(&s)
		return s
	}
	forbidden := apierrors.NewForbidden(
		schema.GroupResource{Resource: "pods"},
		"",
		errors.New("violates PodSecurity baseline"),
	)
	same := func(*facts) {}
	for _, c := range []struct {
		why     string
		after   time.Duration
		change  func(*facts)
		refuses error
		tried   int
	}{
		{"nothing is known of the first", 0, same, nil, 1},
		{"the second is like it", 0, func(s *facts) { s.job.SetName("other"); s.workload.Name = "job-other" }, nil, 0},
		{"the third is held: it was refused, as its own pods are", 0, func(s *facts) { s.workload = aWorkload() }, forbidden, 1},
		{"what passed is forgotten by that", 0, same, nil, 1},
		{"another namespace has rules of its own", 0, func(s *facts) { s.job.SetNamespace("red") }, nil, 1},
		{"other pods", 0, func(s *facts) { s.facts.PodSets[0].Template.Spec.HostNetwork = true }, forbidden, 1},
		{"those were refused and may be made by now", 0, func(s *facts) { s.facts.PodSets[0].Template.Spec.HostNetwork = true }, forbidden, 1},
		{"rules may have changed since", trialPause + time.Second, same, nil, 1},
	} {
		clock.SetTime(clock.Now().Add(c.after))
		tried, refuses = 0, c.refuses
		s := another(c.change)
		why, err := b.refusal(t.Context(), &s)
		if err != nil || (why != "") != (c.refuses != nil) || tried != c.tried {
			t.Errorf("%s: tried %d times, want %d: %q, %v", c.why, tried, c.tried, why, err)
		}
	}
}
