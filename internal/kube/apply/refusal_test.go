package apply

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// running starts an Applier that writes to c, and stops it when the bubble's test
// ends.
func running(t *testing.T, o Options) (a *Applier, stop func()) {
	t.Helper()
	o.Clock, o.Workers = clock.RealClock{}, 1
	a = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); a.Run(ctx) }()
	return a, func() { cancel(); <-stopped }
}

// The same reason in other words is written once in a pause, and in the words that
// hold then; another reason at once, but for one that mostly ends with the start.
func TestRefusalPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		type said struct {
			After  time.Duration
			Reason string
		}
		var all []said
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
			WithInterceptorFuncs(
				interceptor.Funcs{
					SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						w, _ := o.(*kueue.Workload)
						all = append(all, said{time.Since(began), w.Status.Conditions[0].Message})
						return c.SubResource(sub).Update(ctx, o, opts...)
					},
				},
			).Build()
		a, stop := running(t, Options{
			Client:   c,
			Sentence: func(r core.Reason) string { return string(r.Code) + " " + strconv.Itoa(int(r.Need)) },
			Refused:  func(core.Key, string) { t.Error("it suits") },
			Done:     func(context.Context, core.Decision, *kueue.Workload) {},
		})
		tell := func(code core.Code, need core.Amount) {
			a.Plan(core.Plan{core.Refuse{Key: key, Why: core.Reason{Code: code, Need: need}}}, unknown)
			time.Sleep(time.Second) // of the bubble
		}
		for need := range core.Amount(4) {
			tell(core.WaitingForQuota, need)
		}
		tell(core.WaitingForPreempted, 7) // for a second, in which it would mostly start
		tell(core.TopologyPlacementFailed, 9)
		time.Sleep(time.Minute)
		for need := range core.Amount(3) {
			tell(core.TopologyPlacementFailed, 10+need)
		}
		time.Sleep(time.Minute)
		for range 4 {
			tell(core.WaitingForPreempted, 20) // it lasts
		}
		stop()
		const soon = shortest + each
		want := []said{
			{soon, "WaitingForQuota 0"},
			{5*time.Second + soon, "TopologyPlacementFailed 9"},
			{66*time.Second + soon, "TopologyPlacementFailed 10"},
			{66*time.Second + soon + refusalPause, "TopologyPlacementFailed 12"},
			{129*time.Second + passing, "WaitingForPreemptedWorkloads 20"},
		}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("what was written (-want +got):\n%s", diff)
		}
	})
}

// A Workload that is gone, when it is read or when it is written, takes its
// decision back; one that never existed is forgotten.
func TestDecisionsAboutWorkloadsThatAreGoneAreTakenBack(t *testing.T) {
	for name, atWrite := range map[string]bool{"when it is read": false, "when it is written": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fake.NewClientBuilder().
					WithScheme(scheme.New()).
					WithStatusSubresource(&kueue.Workload{}).
					WithObjects(aQueue()).
					WithInterceptorFuncs(
						interceptor.Funcs{
							SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
								return apierrors.NewNotFound(kueue.GroupVersion.WithResource("workloads").GroupResource(), key.Name)
							},
						},
					)
				if atWrite {
					b = b.WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }))
				}
				var refused []string
				a, stop := running(t, Options{
					Client: b.Build(), Sentence: sentence,
					Refused: func(_ core.Key, why string) { refused = append(refused, why) },
					Done:    func(context.Context, core.Decision, *kueue.Workload) { t.Error("nothing was written") },
				})
				a.Plan(core.Plan{core.Admit{Key: key, Admission: on("n1")}}, unknown)
				time.Sleep(time.Minute)
				synctest.Wait()
				if diff := cmp.Diff([]string{""}, refused); diff != "" {
					t.Errorf("it may be decided again, once it is there again (-want +got):\n%s", diff)
				}
				a.Plan(core.Plan{core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}}, unknown)
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(refused) != 1 {
					t.Errorf("a reason that nothing waits for was taken back: %q", refused)
				}
				stop()
			})
		})
	}
}
