package apply

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// unknown is a workload of which the engine was told nothing.
func unknown(core.Key) core.Workload { return core.Workload{} }

// When more is decided than the API server takes at once, those whose turn it is
// must not wait behind those that would have waited for them in the queue.
func TestWrittenByRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		priority := map[string]int64{"first": 0, "low": 1, "low-later": 1, "high": 2, "victim": 0, "low-raised": 1}
		objects := []client.Object{aQueue()}
		for name := range priority {
			w := aWorkload(func(w *kueue.Workload) { w.ResourceVersion, w.Name = "", name })
			if name == "victim" {
				admittedOn("n1")(w)
			}
			objects = append(objects, w)
		}
		busy := make(chan bool)
		var order []string
		c := fake.NewClientBuilder().
			WithScheme(scheme.New()).
			WithStatusSubresource(&kueue.Workload{}).
			WithObjects(objects...).
			WithInterceptorFuncs(
				interceptor.Funcs{
					SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						if order = append(order, o.GetName()); len(order) == 1 {
							<-busy
						}
						return c.SubResource(sub).Update(ctx, o, opts...)
					},
				},
			).
			Build()
		a := New(Options{
			Client: c, Clock: clock.RealClock{}, Workers: 1, Sentence: sentence,
			Refused: func(k core.Key, why string) { t.Errorf("%s was not carried out: %s", k, why) },
			Done:    func(context.Context, core.Decision, *kueue.Workload) {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() { defer close(stopped); a.Run(ctx) }()

		plan := func(names ...string) {
			var p core.Plan
			for _, name := range names {
				k := core.Key{Namespace: key.Namespace, Name: name}
				if name == "victim" {
					p = append(p, core.Evict{Key: k, Reason: core.InClusterQueue})
					continue
				}
				p = append(p, core.Admit{Key: k, Admission: on("n1")})
			}
			a.Plan(p, func(k core.Key) core.Workload { return core.Workload{Priority: priority[k.Name]} })
			synctest.Wait()
		}
		plan("first")
		plan("low", "low-later", "low-raised", "high", "victim")
		priority["low-raised"] = 3
		plan("low-raised")
		close(busy)
		synctest.Wait()

		want := []string{"first", "victim", "low-raised", "high", "low", "low-later"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("order of writes (-want +got):\n%s", diff)
		}
		cancel()
		<-stopped
	})
}

// A tenant with a thousand jobs to tell of does not make another one wait for all of
// them.
func TestReasonsOfNamespacesTakeTurns(t *testing.T) {
	a := New(Options{})
	defer a.lazy.ShutDown()
	defer a.urgent.ShutDown()
	for i := range 1000 {
		a.lazy.Add(core.Key{Namespace: "red", Name: strconv.Itoa(i)})
	}
	a.lazy.Add(core.Key{Namespace: "blue", Name: "0"})
	for i, want := range []string{"red", "blue"} {
		k, _ := a.lazy.Get()
		a.lazy.Done(k)
		if k.Namespace != want {
			t.Errorf("turn %d is %s's, want %s's", i, k.Namespace, want)
		}
	}
}
