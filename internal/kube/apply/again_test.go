package apply

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// A write that fails is tried again after pauses that grow, but not beyond five
// seconds: an API server that is back is to be noticed. What was written begins anew.
func TestPausesBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex // time that passes in a bubble orders nothing
		down := true
		var tries []time.Duration
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
			WithInterceptorFuncs(
				interceptor.Funcs{
					SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						mu.Lock()
						defer mu.Unlock()
						tries = append(tries, time.Since(began))
						if down {
							return errors.New("connection refused")
						}
						return c.SubResource(sub).Update(ctx, o, opts...)
					},
				},
			).Build()
		a, stop := running(t, Options{
			Client:   c,
			Sentence: sentence,
			Refused:  func(core.Key, string) { t.Error("it suits") },
			Done:     func(context.Context, core.Decision, *kueue.Workload) {},
		})
		defer stop()
		a.Plan(core.Plan{core.Admit{Key: key, Admission: on("n1")}}, unknown)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		const ms = time.Millisecond
		want := []time.Duration{
			0,
			20 * ms,
			60 * ms,
			140 * ms,
			300 * ms,
			620 * ms,
			1260 * ms,
			2540 * ms,
			5100 * ms,
			10100 * ms,
			15100 * ms,
			20100 * ms,
		}
		if d := cmp.Diff(want, tries); d != "" {
			t.Errorf("tries (-want +got):\n%s", d)
		}
		mu.Lock()
		down = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		down, tries, began = true, nil, time.Now()
		mu.Unlock()
		a.Plan(core.Plan{core.Evict{Key: key, Reason: core.InClusterQueue}}, unknown)
		time.Sleep(100 * ms)
		synctest.Wait()
		if d := cmp.Diff(want[:3], tries); d != "" {
			t.Errorf("tries of the next decision (-want +got):\n%s", d)
		}
	})
}

// What another client writes while a decision is written stays, and the decision is
// written on top of it.
func TestRivalIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meets := 0
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
			WithInterceptorFuncs(
				interceptor.Funcs{
					SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						if meets++; meets%2 == 1 {
							w := &kueue.Workload{}
							if err := c.Get(ctx, client.ObjectKeyFromObject(o), w); err != nil {
								return err
							}
							w.Status.Conditions = append(
								w.Status.Conditions,
								metav1.Condition{Type: "Theirs" + strconv.Itoa(meets), Status: metav1.ConditionTrue},
							)
							if err := c.SubResource(sub).Update(ctx, w); err != nil {
								return err
							}
						}
						return c.SubResource(sub).Update(ctx, o, opts...)
					},
				},
			).Build()
		a, stop := running(t, Options{
			Client:   c,
			Sentence: sentence,
			Refused:  func(core.Key, string) { t.Error("it suits") },
			Done:     func(context.Context, core.Decision, *kueue.Workload) {},
		})
		defer stop()
		for _, d := range []core.Decision{core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}, core.Admit{Key: key, Admission: on("n1")}} {
			a.Plan(core.Plan{d}, unknown)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		w := &kueue.Workload{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, w); err != nil {
			t.Fatal(err)
		}
		kept := apimeta.IsStatusConditionTrue(w.Status.Conditions, "Theirs1") &&
			apimeta.IsStatusConditionTrue(w.Status.Conditions, "Theirs3")
		if meets != 4 || w.Status.Admission == nil || !kept {
			t.Errorf("after %d writes: admission %v, conditions %v", meets, w.Status.Admission, w.Status.Conditions)
		}
	})
}

// A workload that is gone, and is there again, while a decision about it is written
// starts from nothing.
func TestForgottenWhileWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a *Applier
		var done []string
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
			WithInterceptorFuncs(
				interceptor.Funcs{
					SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
						if len(done) == 0 {
							a.Forget(key)
							a.Plan(core.Plan{core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}}, unknown)
						}
						return c.SubResource(sub).Update(ctx, o, opts...)
					},
				},
			).Build()
		a, stop := running(t, Options{
			Client: c, Sentence: sentence, Refused: func(core.Key, string) { t.Error("it suits") },
			Done: func(_ context.Context, d core.Decision, _ *kueue.Workload) {
				_, admits := d.(core.Admit)
				done = append(done, map[bool]string{true: "admitted", false: "refused"}[admits])
			},
		})
		a.Plan(core.Plan{core.Admit{Key: key, Admission: on("n1")}}, unknown)
		time.Sleep(time.Minute)
		synctest.Wait()
		if done[0] != "admitted" || a.untold.all != 0 {
			t.Errorf("done: %v; %d reasons are still to be told", done, a.untold.all)
		}
		a.Plan(core.Plan{core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}}, unknown)
		a.Forget(key)
		a.Forget(key)
		if a.untold.all != 0 || len(a.pending) != 0 {
			t.Errorf(
				"of a workload that is gone %d reasons are to be told, %d workloads are kept",
				a.untold.all,
				len(a.pending),
			)
		}
		stop()
	})
}

// A reason is told once the API server takes it, and not while a decision about the
// same workload is still to be written, nor after one that made it untrue.
func TestReasonsGiveWay(t *testing.T) {
	admit := core.Plan{core.Admit{Key: key, Admission: on("n1")}}
	refuse := core.Plan{core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}}}
	for name, tc := range map[string]struct {
		plans []core.Plan
		down  time.Duration
		want  []string
	}{
		"no answer at first":          {[]core.Plan{refuse}, time.Second, []string{"refused"}},
		"admitted after all":          {[]core.Plan{refuse, admit}, 0, []string{"admitted"}},
		"while an admission is tried": {[]core.Plan{admit, refuse}, time.Second, []string{"admitted"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var done, tried []string
				c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
					WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
					WithInterceptorFuncs(
						interceptor.Funcs{
							SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
								w, _ := o.(*kueue.Workload)
								what := "refused"
								if w.Status.Admission != nil {
									what = "admitted"
								}
								if tried = append(tried, what); time.Since(began) < tc.down {
									return errors.New("connection refused")
								}
								done = append(done, what)
								return c.SubResource(sub).Update(ctx, o, opts...)
							},
						},
					).Build()
				a, stop := running(t, Options{
					Client:   c,
					Sentence: sentence,
					Refused:  func(core.Key, string) { t.Error("it suits") },
					Done:     func(context.Context, core.Decision, *kueue.Workload) {},
				})
				for _, p := range tc.plans {
					a.Plan(p, unknown)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				stop()
				if d := cmp.Diff(tc.want, done); d != "" {
					t.Errorf("written (-want +got):\n%s", d)
				}
				for _, what := range tried {
					if what != tc.want[0] {
						t.Errorf("%s was tried to be written", what)
					}
				}
			})
		})
	}
}

// An eviction is not half written because pods could not be counted: they are counted
// again.
func TestPodsCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := 0
		w := aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }, admittedOn("n1"))
		c := fake.NewClientBuilder().
			WithScheme(scheme.New()).
			WithStatusSubresource(&kueue.Workload{}).
			WithObjects(w, aQueue()).
			Build()
		a, stop := running(t, Options{
			Client:   c,
			Sentence: sentence,
			Refused:  func(core.Key, string) { t.Error("it suits") },
			Done:     func(context.Context, core.Decision, *kueue.Workload) {},
			Pods: func(context.Context, core.Key) (int, error) {
				if counts++; counts == 1 {
					return 0, errors.New("the cache is not ready")
				}
				return 0, nil
			},
		})
		a.Plan(core.Plan{core.Evict{Key: key, Reason: core.InClusterQueue}}, unknown)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		var is kueue.Workload
		if err := c.Get(
			t.Context(),
			client.ObjectKeyFromObject(w),
			&is,
		); err != nil || is.Status.Admission != nil ||
			counts != 2 {
			t.Errorf("%v; pods were counted %d times, and it holds %v", err, counts, is.Status.Admission)
		}
	})
}

// With a decision that is given up goes the reason that was to be told after it.
func TestReasonGoesWithDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithStatusSubresource(&kueue.Workload{}).
			WithObjects(aWorkload(func(w *kueue.Workload) { w.ResourceVersion = "" }), aQueue()).
			WithInterceptorFuncs(
				interceptor.Funcs{
					SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
						return apierrors.NewInvalid(kueue.GroupVersion.WithKind("Workload").GroupKind(), key.Name, nil)
					},
				},
			).Build()
		a, stop := running(t, Options{
			Client:   c,
			Sentence: sentence,
			Refused:  func(core.Key, string) { refused++ },
			Done:     func(context.Context, core.Decision, *kueue.Workload) {},
		})
		a.Plan(
			core.Plan{
				core.Admit{Key: key, Admission: on("n1")},
				core.Refuse{Key: key, Why: core.Reason{Code: core.WaitingForQuota}},
			},
			unknown,
		)
		synctest.Wait()
		if refused != 1 || a.untold.all != 0 || len(a.pending) != 0 {
			t.Errorf(
				"given up %d times; %d reasons are to be told, %d workloads kept",
				refused,
				a.untold.all,
				len(a.pending),
			)
		}
		stop()
	})
}

// Equal ones are written in the order of their arrival, however many there are, and
// one that is raised meanwhile goes first.
func TestRankingOfEquals(t *testing.T) {
	ranks := map[core.Key]int64{}
	r := workqueue.Queue[core.Key](&ranking{rank: func(k core.Key) int64 { return ranks[k] }})
	named := func(i int) core.Key { return core.Key{Name: strconv.Itoa(i)} }
	for i := range 20 {
		r.Push(named(i))
	}
	ranks[named(17)] = 5
	r.Touch(named(17))
	r.Touch(named(3))
	var got []string
	for r.Len() > 0 {
		got = append(got, r.Pop().Name)
	}
	want := []string{
		"17",
		"0",
		"1",
		"2",
		"3",
		"4",
		"5",
		"6",
		"7",
		"8",
		"9",
		"10",
		"11",
		"12",
		"13",
		"14",
		"15",
		"16",
		"18",
		"19",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
