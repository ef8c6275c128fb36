package fairqueue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func tenant(item string) string { who, _, _ := strings.Cut(item, "/"); return who }

// One tenant's crowd does not make another one wait for all of it.
func TestNamespacesTakeTurns(t *testing.T) {
	r := New(tenant)
	for _, item := range []string{"red/1", "red/2", "red/3", "blue/1", "red/4", "green/1", "blue/2"} {
		r.Push(item)
	}
	var got []string
	for r.Len() > 0 {
		got = append(got, r.Pop())
	}
	want := []string{"red/1", "blue/1", "green/1", "red/2", "blue/2", "red/3", "red/4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// The queue that controllers get has this order, whatever waits of others.
func TestControllersServeNamespacesInTurn(t *testing.T) {
	q := newQueue("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	add := func(ns string, n int) {
		for i := range n {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: ns, Name: fmt.Sprint(i)}})
		}
	}
	add("red", 1000)
	add("blue", 1)
	for i := range 2 {
		r, _ := q.Get()
		q.Done(r)
		if want := []string{"red", "blue"}[i]; r.Namespace != want {
			t.Fatalf("turn %d is %s's, want %s's", i, r.Namespace, want)
		}
	}
}

// Whatever is added and taken: nothing is lost, tenants' items stay in order, and
// no tenant waits for more than one item of each other tenant.
func TestRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(tenant)
		var pushed, popped []string
		sincePop := map[string]int{} // items of others since a waiting tenant's last turn
		waiting := map[string]int{}
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			if r.Len() == 0 || rapid.Bool().Draw(t, "push") {
				item := fmt.Sprintf("%s/%d", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"), i)
				if waiting[tenant(item)] == 0 {
					sincePop[tenant(item)] = 0
				}
				waiting[tenant(item)]++
				pushed = append(pushed, item)
				r.Push(item)
				continue
			}
			item := r.Pop()
			popped = append(popped, item)
			for who, n := range waiting {
				if n > 0 && who != tenant(item) {
					if sincePop[who]++; sincePop[who] > 2 {
						t.Fatalf("%s waits for %d items of two others", who, sincePop[who])
					}
				}
			}
			waiting[tenant(item)]--
			sincePop[tenant(item)] = 0
		}
		for r.Len() > 0 {
			popped = append(popped, r.Pop())
		}
		for _, who := range []string{"a", "b", "c"} {
			others := func(item string) bool { return tenant(item) != who }
			if diff := cmp.Diff(
				slices.DeleteFunc(slices.Clone(pushed), others),
				slices.DeleteFunc(slices.Clone(popped), others),
			); diff != "" {
				t.Fatalf("items of %s (-pushed +popped):\n%s", who, diff)
			}
		}
	})
}
