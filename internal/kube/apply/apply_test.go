package apply

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// A decision is given up only when the API server means its answer.
func TestAnswersOfTheAPIServer(t *testing.T) {
	forbidden := apierrors.NewForbidden(
		kueue.GroupVersion.WithResource("workloads").GroupResource(),
		key.Name,
		errors.New("no rights"),
	)
	tests := map[string]struct {
		why     string
		answers []error // the last one stays
		refused bool
		tries   int
	}{
		"accepted": {"one write is enough", []error{nil}, false, 1},
		"no answer": {
			"an API server that is away comes back",
			[]error{errors.New("connection refused"), errors.New("EOF"), nil},
			false,
			3,
		},
		"forbidden at start": {
			"an API server that was just started knows no rights yet",
			[]error{forbidden, forbidden, forbidden, nil},
			false,
			4,
		},
		"forbidden for good": {
			"without rights the quota must not stay assumed",
			[]error{forbidden},
			true,
			forbiddenTries + 1,
		},
		"rejected as invalid": {
			"the same write would be rejected again",
			[]error{apierrors.NewInvalid(kueue.GroupVersion.WithKind("Workload").GroupKind(), key.Name, nil)},
			true,
			1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
					WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
					WithInterceptorFuncs(
						interceptor.Funcs{
							SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
								tries++
								if err := tc.answers[min(tries, len(tc.answers))-1]; err != nil {
									return err
								}
								return c.SubResource(sub).Update(ctx, o, opts...)
							},
						},
					).Build()
				outcome := make(chan bool, 1)
				a := New(Options{
					Client: c, Clock: clock.RealClock{}, Workers: 1, Sentence: sentence,
					Refused: func(_ core.Key, why string) {
						if (why != "") != (name == "rejected as invalid") {
							t.Errorf("it is never to be decided again because of %q", why)
						}
						outcome <- true
					},
					Done: func(context.Context, core.Decision, *kueue.Workload) { outcome <- false },
				})
				ctx, cancel := context.WithCancel(t.Context())
				stopped := make(chan struct{})
				go func() { defer close(stopped); a.Run(ctx) }()
				a.Plan(core.Plan{core.Admit{Key: key, Admission: on("node-0")}}, unknown)
				if refused := <-outcome; refused != tc.refused || tries != tc.tries {
					t.Errorf(
						"refused: %v after %d tries, want %v after %d: %s",
						refused,
						tries,
						tc.refused,
						tc.tries,
						tc.why,
					)
				}
				cancel()
				<-stopped
			})
		})
	}
}

// What a Workload cannot hold is not tried: the reason names the cure.
func TestTooManyChecks(t *testing.T) {
	all := []kueue.AdmissionCheckReference{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	tooMany(t, all[:8], "done")
	tooMany(
		t,
		all,
		"with the flavors it could get it has to pass 9 admission checks, and a Workload can have 8: let ClusterQueue blue-cluster-queue ask fewer",
	)
}

func tooMany(t *testing.T, checks []kueue.AdmissionCheckReference, want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := aQueue()
		q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{}
		for _, name := range checks {
			q.Spec.AdmissionChecksStrategy.AdmissionChecks = append(
				q.Spec.AdmissionChecksStrategy.AdmissionChecks,
				kueue.AdmissionCheckStrategyRule{Name: name},
			)
		}
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), q).
			WithInterceptorFuncs(
				interceptor.Funcs{
					SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
						if want != "done" {
							t.Error("it was written")
						}
						return nil
					},
				},
			).Build()
		outcome := make(chan string, 1)
		a := New(Options{
			Client: c, Clock: clock.RealClock{}, Workers: 1, Sentence: sentence,
			Refused: func(_ core.Key, why string) { outcome <- why },
			Done:    func(context.Context, core.Decision, *kueue.Workload) { outcome <- "done" },
		})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); a.Run(ctx) }()
		a.Plan(core.Plan{core.Admit{Key: key, Admission: on("node-0")}}, unknown)
		if why := <-outcome; why != want {
			t.Errorf("refused because %q", why)
		}
		cancel()
		<-stopped
	})
}
