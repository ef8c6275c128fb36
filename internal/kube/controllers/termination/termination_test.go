package termination

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// deleted is a pod of a Workload that was deleted at some time and may go on for so many seconds.
func deleted(at time.Time, seconds int64, change func(*corev1.Pod)) *corev1.Pod {
	end := metav1.NewTime(at.Add(time.Duration(seconds) * time.Second))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: "p", UID: "p", Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
			Finalizers: []string{"test"}, DeletionTimestamp: &end, DeletionGracePeriodSeconds: &seconds,
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestPodsHaveTheLongestTimeAtMost(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want int64 // seconds; 0 leaves it alone
	}{
		"ADayFromNow":         {deleted(now, 100_000, nil), 900},
		"ADayFromEarlier":     {deleted(now.Add(-5*time.Minute), 100_000, nil), 600},
		"LongerThanItMay":     {deleted(now.Add(-time.Hour), 100_000, nil), 1},
		"AsLongAsItMay":       {deleted(now, 900, nil), 0},
		"ASecondMore":         {deleted(now.Add(-time.Minute), 901, nil), 840},
		"QueuedByItself":      {deleted(now, 1000, func(p *corev1.Pod) { p.Annotations, p.Labels = nil, map[string]string{kueue.ManagedLabel: "true"} }), 900},
		"CountedByNobody":     {deleted(now, 1000, func(p *corev1.Pod) { p.Annotations = nil }), 0},
		"Ended":               {deleted(now, 1000, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), 0},
		"NotOnANode":          {deleted(now, 1000, func(p *corev1.Pod) { p.Spec.NodeName = "" }), 0},
		"DeletedWithoutGrace": {deleted(now, 0, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = nil }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got int64
			told := events.NewFakeRecorder(1)
			c0 := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(c.pod).WithInterceptorFuncs(
				interceptor.Funcs{
					Delete: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
						var asked client.DeleteOptions
						asked.ApplyOptions(opts)
						if asked.Preconditions == nil || *asked.Preconditions.UID != o.GetUID() {
							t.Error("it may be another pod by now")
						}
						got = *asked.GracePeriodSeconds
						return nil
					},
				},
			).Build()
			r := &reconciler{
				Options{
					Client:   c0,
					Clock:    clocktesting.NewFakePassiveClock(now),
					Recorder: told,
					Longest:  15 * time.Minute,
				},
			}
			if looked := r.tooLong(c.pod); looked != (c.want > 0) {
				t.Errorf("it is looked at: %v", looked)
			}
			if _, err := r.Reconcile(
				t.Context(),
				reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.pod)},
			); err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("it has %d s, want %d", got, c.want)
			}
			select {
			case e := <-told.Events:
				if c.want == 0 || !strings.Contains(e, Shortened) || !strings.Contains(e, "maxTerminationTime") {
					t.Errorf("it is told %q", e)
				}
			default:
				if c.want > 0 {
					t.Error("nothing is told")
				}
			}
		})
	}
}

func TestPodsThatAreGoneNeedNoTime(t *testing.T) {
	r := &reconciler{
		Options{Client: fake.NewClientBuilder().WithScheme(scheme.New()).Build(), Longest: time.Minute},
	}
	if _, err := r.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "blue", Name: "p"}},
	); err != nil {
		t.Error(err)
	}
}
