package termination

import (
	"context"
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
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// A pod whose node does not answer any more is not waited for; one that may still end, or of which nobody may
// make a second, is.
func TestPodsOfUnreachableNodesAreDeletedByForce(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	note := func(v string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[kueue.SafeToForcefullyDeleteAnnotation] = v }
	}
	of := func(kind string, and ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "o", Controller: new(true)}}
			for _, change := range and {
				change(p)
			}
		}
	}
	test := func(namespace string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Namespace, p.Annotations = namespace, nil
			p.Labels = map[string]string{convert.DeepTestLabel: "true"}
		}
	}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		node   corev1.ConditionStatus // "" for no node
		since  time.Time
		forced bool
		again  time.Duration
	}{
		"OutOfReachForLong":       {deleted(ago(10*time.Minute), 30, nil), corev1.ConditionUnknown, ago(15 * time.Minute), true, 0},
		"ItsTimeIsNotOver":        {deleted(ago(10*time.Second), 30, nil), corev1.ConditionUnknown, ago(15 * time.Minute), false, 80 * time.Second},
		"ItsTimeIsOverSinceNow":   {deleted(ago(40*time.Second), 30, nil), corev1.ConditionUnknown, ago(15 * time.Minute), false, 50 * time.Second},
		"OutOfReachSinceNow":      {deleted(ago(time.Hour), 30, nil), corev1.ConditionUnknown, ago(20 * time.Second), false, 40 * time.Second},
		"ItsNodeAnswers":          {deleted(ago(time.Hour), 30, nil), corev1.ConditionTrue, ago(time.Hour), false, time.Minute},
		"ItsNodeIsNotReady":       {deleted(ago(time.Hour), 30, nil), corev1.ConditionFalse, ago(time.Hour), false, time.Minute},
		"ItsNodeIsGone":           {deleted(ago(time.Hour), 30, nil), "", now, false, 0},
		"OfAStatefulSet":          {deleted(ago(time.Hour), 30, of("StatefulSet")), corev1.ConditionUnknown, ago(time.Hour), false, 0},
		"OfAStatefulSetThatAsks":  {deleted(ago(time.Hour), 30, of("StatefulSet", note("true"))), corev1.ConditionUnknown, ago(time.Hour), true, 0},
		"OfAJob":                  {deleted(ago(time.Hour), 30, of("Job")), corev1.ConditionUnknown, ago(time.Hour), true, 0},
		"ItForbidsIt":             {deleted(ago(time.Hour), 30, note("false")), corev1.ConditionUnknown, ago(time.Hour), false, 0},
		"CountedByNobody":         {deleted(ago(time.Hour), 30, func(p *corev1.Pod) { p.Annotations = nil }), corev1.ConditionUnknown, ago(time.Hour), false, 0},
		"OfADeepTest":             {deleted(ago(time.Hour), 30, test("tests")), corev1.ConditionUnknown, ago(time.Hour), true, 0},
		"OfATestThatIsNone":       {deleted(ago(time.Hour), 30, test("blue")), corev1.ConditionUnknown, ago(time.Hour), false, 0},
		"ItHasFailed":             {deleted(ago(time.Hour), 30, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), corev1.ConditionUnknown, ago(time.Hour), true, 0},
		"ItWasForced":             {deleted(ago(time.Hour), 0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), corev1.ConditionUnknown, ago(time.Hour), false, 0},
		"ItHadNoTime":             {deleted(ago(time.Hour), 0, nil), corev1.ConditionUnknown, ago(time.Hour), true, 0},
		"ItHasNoNode":             {deleted(ago(time.Hour), 30, func(p *corev1.Pod) { p.Spec.NodeName = "" }), corev1.ConditionUnknown, ago(time.Hour), false, 0},
		"ItIsNotDeleted":          {deleted(ago(time.Hour), 30, func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = nil, nil }), corev1.ConditionUnknown, ago(time.Hour), false, 0},
		"ItNeverReportedTheReady": {deleted(ago(time.Hour), 30, nil), "never", ago(time.Hour), false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			forced := false
			objects := []client.Object{c.pod}
			if c.node != "" {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
				if c.node != "never" {
					n.Status.Conditions = []corev1.NodeCondition{
						{Type: corev1.NodeReady, Status: c.node, LastTransitionTime: metav1.NewTime(c.since)},
					}
				}
				objects = append(objects, n)
			}
			told := events.NewFakeRecorder(1)
			r := &unreachable{
				Options{
					Client: fake.NewClientBuilder().
						WithScheme(scheme.New()).
						WithObjects(objects...).
						WithStatusSubresource(&corev1.Pod{}).
						WithInterceptorFuncs(
							interceptor.Funcs{
								Delete: func(ctx context.Context, c0 client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
									var asked client.DeleteOptions
									asked.ApplyOptions(opts)
									if asked.Preconditions == nil || *asked.Preconditions.UID != o.GetUID() ||
										*asked.GracePeriodSeconds != 0 {
										t.Errorf("it is deleted with %+v", asked)
									}
									forced = true
									var now corev1.Pod
									if err := c0.Get(
										ctx,
										client.ObjectKeyFromObject(o),
										&now,
									); err != nil ||
										now.Status.Phase != corev1.PodFailed {
										t.Errorf("a Job would wait for it: %v, %v", now.Status.Phase, err)
									}
									return nil
								},
							},
						).
						Build(),
					Clock:    clocktesting.NewFakePassiveClock(now),
					Recorder: told,
					Tests:    "tests",
				},
			}
			got, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.pod)})
			if err != nil {
				t.Fatal(err)
			}
			if forced != c.forced || got.RequeueAfter != c.again {
				t.Errorf(
					"deleted by force: %t, want %t; looked at again after %s, want %s",
					forced,
					c.forced,
					got.RequeueAfter,
					c.again,
				)
			}
			if forced != (len(told.Events) > 0) {
				t.Errorf("%d events", len(told.Events))
			}
		})
	}
}
