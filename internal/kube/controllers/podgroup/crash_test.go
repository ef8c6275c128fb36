package podgroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

var errKilled = errors.New("killed")

// mortal is a reconciler that is killed at one of its writes: before the write took
// effect, or after. It comes back and knows nothing.
type mortal struct {
	*bench
	mu     sync.Mutex
	writes int
	dies   int
	effect bool
	dead   bool
}

func newMortal(t *testing.T, dies int, effect bool, objects ...client.Object) *mortal {
	t.Helper()
	m := &mortal{bench: newBench(t, objects...), dies: dies, effect: effect}
	watched, ok := m.Client.(client.WithWatch)
	if !ok {
		t.Fatal("the fake client does not watch")
	}
	m.Client = interceptor.NewClient(watched, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return m.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return m.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return m.write(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return m.write(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	return m
}

func (m *mortal) write(do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled // a dead process writes nothing
	}
	m.writes++
	if m.writes != m.dies {
		return do()
	}
	m.dead = true
	if m.effect {
		if err := do(); err != nil {
			m.t.Error(err)
		}
	}
	return errKilled
}

// settle reconciles until nothing changes, through a death and back.
func (m *mortal) settle(unit string) {
	m.t.Helper()
	last := ""
	for range 40 {
		_, err := m.Reconcile(
			m.t.Context(),
			reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: unit}},
		)
		switch {
		case m.dead:
			m.dead = false
			m.reconciler.told.Clear() // memory is lost
			last = ""
			continue
		case err != nil:
			m.t.Fatal(err)
		}
		m.outside(m.record)
		is := m.versions()
		if is == last {
			return
		}
		last = is
	}
	m.t.Fatal("it never comes to rest")
}

// outside is what others do: the engine, nodes, users. It is no write of the
// reconciler's.
func (m *mortal) outside(do func()) {
	m.t.Helper()
	own := m.dies
	m.dies = -1
	writes := m.writes
	do()
	m.dies, m.writes = own, writes
}

// story is the life of a group: admitted, one pod fails and is replaced, evicted,
// made anew, admitted, ended, removed. It returns how many writes it took.
func story(t *testing.T, dies int, effect bool) int {
	t.Helper()
	m := newMortal(t, dies, effect, group(2, "a", "b")...)
	m.settle("g")
	m.outside(func() { m.admit("g") })
	m.settle("g")
	m.expect("admitted", "a started+, b started+")
	m.outside(func() { m.phase("a", corev1.PodFailed); m.phase("b", corev1.PodRunning) })
	m.settle("g")
	m.outside(func() {
		if err := m.Client.Create(t.Context(), managed("c", inGroup("2"))); err != nil {
			t.Fatal(err)
		}
	})
	m.settle("g")
	m.expect("replaced", "a failed, b running+, c started+")
	m.outside(func() { m.evict("g") })
	m.settle("g")
	m.outside(func() { m.phase("b", corev1.PodSucceeded) }) // on the signal
	m.settle("g")
	m.expect("evicted", "a failed")
	if w := m.workload("g"); w != nil && w.Status.Admission != nil {
		t.Fatalf("its quota is kept: %+v", w.Status)
	}
	m.outside(func() {
		m.remove("a")
		for _, name := range []string{"d", "e"} {
			if err := m.Client.Create(t.Context(), managed(name, inGroup("2"))); err != nil {
				t.Fatal(err)
			}
		}
	})
	m.settle("g")
	m.outside(func() { m.admit("g") })
	m.settle("g")
	m.outside(func() { m.phase("d", corev1.PodSucceeded) })
	m.settle("g")
	m.outside(func() { m.remove("d"); m.phase("e", corev1.PodSucceeded) })
	m.settle("g")
	if c := apimeta.FindStatusCondition(
		m.workload("g").Status.Conditions,
		kueue.WorkloadFinished,
	); c == nil ||
		c.Reason != kueue.ReasonSucceeded {
		t.Fatalf("it ended as %+v", c)
	}
	m.expect("ended", "e succeeded")
	m.outside(func() { m.remove("e") })
	m.settle("g")
	if m.expect("gone", ""); m.workload("g") != nil {
		t.Fatal("the Workload is left")
	}
	return m.writes
}

// Whenever the process dies, before or after any of its writes, the group comes to
// the same end: its pods are counted once, and nothing is left.
func TestKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	n := story(t, 0, false)
	if n < 15 {
		t.Fatalf("the story has %d writes only", n)
	}
	for at := 1; at <= n; at++ {
		for _, effect := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, effect %v", at, effect), func(t *testing.T) {
				t.Parallel()
				story(t, at, effect)
			})
		}
	}
}
