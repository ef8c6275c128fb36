package slack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// Five nodes are named, each once, and the others counted.
func TestNodesOfANote(t *testing.T) {
	lost := func(n int) []change {
		var c change
		for i := range n {
			c.nodes = append(c.nodes, nodehealth.LostNode{Name: fmt.Sprintf("n%d", i), Why: "cordoned"})
		}
		return []change{c, c}
	}
	five := "n0 (cordoned), n1 (cordoned), n2 (cordoned), n3 (cordoned), n4 (cordoned)"
	for n, want := range map[int]string{0: "", 1: "n0 (cordoned)", 5: five, 6: five + " and 1 more", 8: five + " and 3 more"} {
		if got := nodes(lost(n)); got != want {
			t.Errorf("%d nodes: %q, want %q", n, got, want)
		}
	}
}

// A note is cut where an event ends, and between letters.
func TestFit(t *testing.T) {
	for length, want := range map[int]int{0: 0, 999: 999, 1000: 1000, 1001: 1003} {
		if got := fit(strings.Repeat("x", length)); len(got) != want {
			t.Errorf("%d bytes become %d, want %d", length, len(got), want)
		}
	}
	if got := fit(
		strings.Repeat("x", 999) + "ü and more",
	); !utf8.ValidString(got) ||
		!strings.HasSuffix(got, "x...") {
		t.Errorf("cut inside a letter: %q", got[990:])
	}
}

// What a queue lends is more, less, or the same under two limits.
func TestNotesOfChanges(t *testing.T) {
	gpus := func(old, limit *core.Amount) change {
		return change{
			FlavorResource: core.FlavorResource{Flavor: "f", Resource: core.GPU},
			nominal:        6,
			old:            old,
			limit:          limit,
		}
	}
	some := func(n core.Amount) *core.Amount { return &n }
	for name, c := range map[string]struct {
		change     change
		less, more string
	}{
		"less":            {gpus(nil, some(2)), "Lends less: 2 of 6 nvidia.com/gpu (f). Out of service: ", ""},
		"more":            {gpus(some(2), some(4)), "", "Lends more: 4 of 6 nvidia.com/gpu (f)"},
		"all again":       {gpus(some(2), nil), "", "Lends more: 6 of 6 nvidia.com/gpu (f)"},
		"in other words":  {gpus(some(6), nil), "", "Lends more: 6 of 6 nvidia.com/gpu (f)"},
		"none any longer": {gpus(some(1), some(0)), "Lends less: 0 of 6 nvidia.com/gpu (f). Out of service: ", ""},
	} {
		if got := limitedNote([]change{c.change}); got != c.less {
			t.Errorf("%s: %q, want %q", name, got, c.less)
		}
		if got := restoredNote([]change{c.change}); got != c.more {
			t.Errorf("%s: %q, want %q", name, got, c.more)
		}
	}
}

// A queue that is on its way out is left alone, and what cannot be read or written is
// an error.
func TestTrouble(t *testing.T) {
	away := errors.New("connection refused")
	cases := map[string]struct {
		fails func(o any) bool
		verb  string
		want  string
	}{
		"queues": {
			func(o any) bool { _, is := o.(*kueue.ClusterQueueList); return is },
			"list",
			"list ClusterQueues: ",
		},
		"flavors": {
			func(o any) bool { _, is := o.(*kueue.ResourceFlavorList); return is },
			"list",
			"list flavors: ",
		},
		"cohorts": {func(o any) bool { _, is := o.(*kueue.CohortList); return is }, "list", "list Cohorts: "},
		"checks": {
			func(o any) bool { _, is := o.(*kueue.AdmissionCheckList); return is },
			"list",
			"list AdmissionChecks: ",
		},
		"nodes": {func(o any) bool { _, is := o.(*corev1.NodeList); return is }, "list", "list nodes: "},
		"capacities": {
			func(o any) bool { _, is := o.(*kueue.ResourceFlavor); return is },
			"patch",
			"write the capacity of flavor default-flavor: ",
		},
		"inventory": {
			func(o any) bool { _, is := o.(*corev1.ConfigMap); return is },
			"get",
			"read ConfigMap mlbatch-system/mlbatch-nodes: ",
		},
		"entries": {
			func(o any) bool { _, is := o.(*corev1.ConfigMap); return is },
			"patch",
			"update ConfigMap mlbatch-system/mlbatch-nodes: ",
		},
		"limits": {
			func(o any) bool { _, is := o.(*kueue.ClusterQueue); return is },
			"patch",
			"slack-cluster-queue: ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sick := node("n1")
			sick.Spec.Unschedulable = true
			w := newWorld(
				t,
				slackQueue(),
				flavor(),
				node("n0"),
				sick,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: InventoryName}},
			)
			faulty := interceptor.NewClient(w.c, interceptor.Funcs{
				Get: func(ctx context.Context, in client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if c.verb == "get" && c.fails(o) {
						return away
					}
					return in.Get(ctx, key, o, opts...)
				},
				List: func(ctx context.Context, in client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if c.verb == "list" && c.fails(l) {
						return away
					}
					return in.List(ctx, l, opts...)
				},
				Patch: func(ctx context.Context, in client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if c.verb == "patch" && c.fails(o) {
						return away
					}
					return in.Patch(ctx, o, p, opts...)
				},
			})
			w.r.client, w.r.inventories = faulty, faulty
			_, err := w.r.Reconcile(t.Context(), reconcile.Request{})
			if !errors.Is(err, away) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if told := w.told(); c.verb != "patch" && len(told) != 0 {
				t.Errorf("told %v", told)
			}
		})
	}
	leaving := slackQueue()
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"example.com/hold"}, new(metav1.Now())
	sick := node("n1")
	sick.Spec.Unschedulable = true
	newWorld(t, leaving, flavor(), sick).expect("a queue that goes lends nothing", map[string]string{})
	missing := newWorld(t, slackQueue(), sick)
	missing.expect("no node is of a flavor that does not exist", map[string]string{})
}

// Keys that cannot be read are told once, again when they change, and not any more
// when they were mended.
func TestTornKeysAreToldOnce(t *testing.T) {
	stored := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: InventoryName},
		Data:       map[string]string{"gone": "{"},
	}
	w := newWorld(t, slackQueue(), flavor(), node("n1"), stored)
	look := func(why string, want int) {
		t.Helper()
		w.reconcile()
		if got := w.told(); len(got) != want {
			t.Errorf("%s: told %q, want %d events", why, got, want)
		}
	}
	write := func(data map[string]string) {
		t.Helper()
		w.must(w.c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
		stored.Data = data
		w.must(w.c.Update(t.Context(), stored))
	}
	look("first", 1)
	look("the same", 0)
	write(map[string]string{"gone": "{", "away": "{"})
	look("another", 1)
	write(nil)
	look("mended", 0)
	write(map[string]string{"gone": "{", "away": "{"})
	look("torn again", 1)
}

// The queue that is in no cohort says so again when it was changed.
func TestNoCohortIsToldOfEachChange(t *testing.T) {
	w := newWorld(t)
	q := slackQueue()
	count := func() int { w.r.tellNoCohort(q); return len(w.told()) }
	first, second := count(), count()
	q.Generation++
	changed := count()
	q.UID = "another"
	if got := []int{first, second, changed, count()}; !cmp.Equal([]int{1, 0, 1, 1}, got) {
		t.Errorf("told %v times: at first, again, after a change, and of another queue", got)
	}
}

// Only the one queue and the one inventory are watched.
func TestNamed(t *testing.T) {
	p := named[*corev1.ConfigMap](InventoryName)
	for name, want := range map[string]bool{InventoryName: true, "other": false} {
		if got := p.Create(
			event.TypedCreateEvent[*corev1.ConfigMap]{
				Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			},
		); got != want {
			t.Errorf("%s: let through %v", name, got)
		}
	}
}

// What is stored of a node is read again, whatever the order of its flavors.
func TestEntries(t *testing.T) {
	e, err := decode(`{"flavors":["b","a"],"capacity":{"cpu":"1500m","nvidia.com/gpu":"8"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, e.Flavors); diff != "" {
		t.Errorf("flavors (-want +got):\n%s", diff)
	}
	if cpu, gpu := e.Capacity.Of(core.CPU), e.Capacity.Of(core.GPU); cpu != 1500 || gpu != 8 {
		t.Errorf("capacity %v and %v", cpu, gpu)
	}
	text, err := encode(e)
	if err != nil || text != `{"flavors":["a","b"],"capacity":{"cpu":"1500m","nvidia.com/gpu":"8"}}` {
		t.Errorf("%s, %v", text, err)
	}
	same, other := nodehealth.Inventory{
		"n": e,
	}, nodehealth.Inventory{
		"n": {Flavors: []string{"a"}, Capacity: e.Capacity},
		"m": e,
	}
	data, err := inventoryChanges(same, other)
	if err != nil || len(data) != 2 || data["n"] == nil || data["m"] == nil {
		t.Errorf("changes %v, %v", data, err)
	}
	if data, err = inventoryChanges(
		other,
		same,
	); err != nil || len(data) != 2 || data["n"] == nil ||
		data["m"] != nil {
		t.Errorf("changes back %v, %v", data, err)
	}
	if data, err = inventoryChanges(same, same); err != nil || len(data) != 0 {
		t.Errorf("no changes %v, %v", data, err)
	}
}
