package apply

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// TestWhatIsHeldForTheGangIsWrittenFirst: a process that is killed between the two writes must not have stopped a job for
// a gang of which the next one knows nothing. Whether the first is written or can never be, the others follow.
func TestWhatIsHeldForTheGangIsWrittenFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		why   string
		first error // what the API server says to the first write about the gang
		gone  bool
		want  []string
	}{
		"written":    {"the gang first", nil, false, []string{"gang", "moves"}},
		"not at all": {"it is tried again", apierrors.NewServiceUnavailable("away"), false, []string{"gang", "gang", "moves"}},
		"refused": {
			"the job that moves has a place of its own",
			apierrors.NewInvalid(kueue.GroupVersion.WithKind("Workload").GroupKind(), "gang", nil), false,
			[]string{"gang", "moves"},
		},
		"gone": {"nothing is written about it any more", nil, true, []string{"moves"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				named := func(name string) *kueue.Workload {
					return aWorkload(func(w *kueue.Workload) { w.Name, w.ResourceVersion = name, "" })
				}
				moves := named("moves")
				moves.Status.Admission = convert.StatusAdmission(on("node-0"))
				objects := []client.Object{moves}
				if !tc.gone {
					objects = append(objects, named("gang"))
				}
				var mu sync.Mutex
				var writes []string
				c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
					WithObjects(objects...).
					WithInterceptorFuncs(interceptor.Funcs{
						SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
							mu.Lock()
							defer mu.Unlock()
							writes = append(writes, o.GetName())
							if o.GetName() == "gang" && tc.first != nil {
								err := tc.first
								tc.first = nil
								return err
							}
							return c.SubResource(sub).Update(ctx, o, opts...)
						},
					}).Build()
				a, stop := running(t, Options{
					Client: c, Sentence: sentence,
					Refused: func(core.Key, string) {},
					Done:    func(context.Context, core.Decision, *kueue.Workload) {},
				})
				defer stop()
				gang, other := core.Key{
					Namespace: key.Namespace,
					Name:      "gang",
				}, core.Key{
					Namespace: key.Namespace,
					Name:      "moves",
				}
				held, there := on("node-0"), on("node-1")
				a.Plan(core.Plan{
					core.Evict{Key: other, Reason: core.Relocated, For: gang, Next: &there},
					core.Refuse{Key: gang, Why: core.Reason{Code: core.WaitingForPreempted}, Next: &held},
				}, unknown)
				time.Sleep(10 * time.Second) // of the bubble
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if diff := cmp.Diff(tc.want, writes); diff != "" {
					t.Errorf("%s:\n%s", tc.why, diff)
				}
				for name, want := range map[string]*core.Admission{"moves": &there, "gang": &held} {
					var w kueue.Workload
					err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: name}, &w)
					if name == "gang" &&
						(err != nil || !slices.Contains([]string{"written", "not at all"}, t.Name()[len("TestWhatIsHeldForTheGangIsWrittenFirst/"):])) {
						continue
					}
					if got := convert.Workload(&w, convert.Rules{}, convert.Surroundings{}).Next; !cmp.Equal(got, want) {
						t.Errorf("held for %s: %v, want %v", name, got, want)
					}
				}
			})
		})
	}
}

// TestNothingIsHeldForWhomNothingIsHeld: each write about a workload that gets, loses or awaits something else says so.
func TestNothingIsHeldForWhomNothingIsHeld(t *testing.T) {
	next := convert.StatusNext(new(on("node-1")), aWorkload())
	waits := aWorkload(func(w *kueue.Workload) { w.Status.NextAdmission = next })
	runs := aWorkload(func(w *kueue.Workload) {
		w.Status.NextAdmission, w.Status.Admission = next, convert.StatusAdmission(on("node-0"))
	})
	for name, tc := range map[string]struct {
		w *kueue.Workload
		d core.Decision
	}{
		"admitted":                  {waits, core.Admit{Admission: on("node-1")}},
		"told that it waits":        {waits, core.Refuse{Why: core.Reason{Code: core.WaitingForQuota}}},
		"evicted, and moves not":    {runs, core.Evict{Reason: core.InClusterQueue}},
		"evicted for another cause": {runs, core.Evict{Reason: core.NodeFailures}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := status(tc.w, tc.d, scene{now: at, sentence: sentence, queue: aQueue()})
			if !ok || got == nil || got.NextAdmission != nil {
				t.Errorf("%v, %+v", ok, got)
			}
		})
	}
}
