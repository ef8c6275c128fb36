package cache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// TestRejections follows a workload whose admission the API server would never
// take: it is put aside until something changes that may matter.
func TestRejections(t *testing.T) {
	version := func(n int64) func(*kueue.Workload) {
		return func(w *kueue.Workload) { w.Generation, w.UID = n, "u" }
	}
	queue := func(generation int64) cache.ObjectUpdate {
		return cache.ObjectUpdate{
			Ref:    cache.Ref{Kind: cache.Queue, Name: "q"},
			Object: &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q", Generation: generation}},
		}
	}
	inbox := cache.NewInbox()
	w := cache.NewWorld(convert.Rules{})
	put := func(changes ...cache.ObjectUpdate) func() {
		return func() {
			for _, c := range changes {
				inbox.Put(c.Ref, c.Object)
			}
		}
	}
	for _, step := range []struct {
		why    string
		happen func()
		want   []string // what is invalid of it, each time that the engine is told
	}{
		{"it waits", put(workload(version(1)), queue(1)), []string{""}},
		{"it may be decided again", func() { inbox.Refused(key, "") }, nil},
		{"it may not", func() { inbox.Refused(key, "too long") }, []string{"too long"}},
		{"its status changed, or a queue's", put(workload(version(1)), queue(1)), []string{"too long"}},
		{"its author changed it", put(workload(version(2))), []string{""}},
		{"and it is still wrong", func() { inbox.Refused(key, "too long") }, []string{"too long"}},
		{"the admin changed a queue", put(queue(2)), []string{""}},
		{"which was in vain", func() { inbox.Refused(key, "too long") }, []string{"too long"}},
		{"another one under its name", put(workload(func(w *kueue.Workload) { w.Generation, w.UID = 2, "v" })), []string{""}},
	} {
		step.happen()
		changes, refused := inbox.Take()
		var got []string
		for _, ev := range w.Translate(changes) {
			if s, is := ev.(core.WorkloadSet); is {
				got = append(got, s.Workload.Invalid)
			}
		}
		if d := cmp.Diff(step.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, d)
		}
		for _, ev := range refused {
			if ev != (core.Refused{Key: key}) {
				t.Errorf("%s: told %v", step.why, ev)
			}
		}
	}
}
