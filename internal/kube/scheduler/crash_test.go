package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/local"
)

// manyGangs is a namespace full of planned gangs, two pods on each of two nodes,
// which together fill all nodes.
type manyGangs struct {
	*world
	ns    string
	gangs []*kueue.Workload
	nodes int
	want  map[string]int
}

const gangSize, gpusPerNode = 4, 8

// newGangs makes the gangs and their pods, not admitted yet.
func newGangs(w *world, ns string, gangs int) *manyGangs {
	w.t.Helper()
	c := &manyGangs{world: w, ns: w.namespace(ns), nodes: gangs * gangSize / gpusPerNode, want: map[string]int{}}
	for i := range c.nodes {
		w.node(c.node(i), gpusPerNode, nil)
	}
	for g := range gangs {
		name := fmt.Sprintf("job%02d", g)
		c.gangs = append(c.gangs, w.workload(ns, name, gangSize))
		for p := range gangSize {
			w.create(planned(pod(ns, fmt.Sprintf("%s-%d", name, p), 1), name, "main"))
		}
	}
	return c
}

func (c *manyGangs) node(i int) string { return fmt.Sprintf("%s-node%02d", c.ns, i%c.nodes) }

// admitAll plans all gangs, in changing order of nodes.
func (c *manyGangs) admitAll() {
	c.t.Helper()
	for g, wl := range c.gangs {
		a, b := c.node(g/2), c.node(g/2+1)
		if g%2 == 1 {
			a, b = b, a
		}
		c.admit(wl, placed(a, 2), placed(b, 2))
		c.want[a] += 2
		c.want[b] += 2
	}
}

// awaitSome waits until n pods have nodes.
func (c *manyGangs) awaitSome(n int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d pods have nodes", n), func() string {
		nodes, err := c.readNodes(c.ns)
		if err != nil {
			return err.Error()
		}
		if got := countBound(nodes, ""); got < n {
			return fmt.Sprintf("%d have", got)
		}
		return ""
	})
}

// check expects every pod on a planned node in the end, and none more on any.
func (c *manyGangs) check() {
	c.t.Helper()
	c.allBound(c.ns, "", len(c.gangs)*gangSize)
	got := map[string]int{}
	for _, node := range c.world.nodes(c.ns) {
		got[node]++
	}
	if diff := cmp.Diff(c.want, got); diff != "" {
		c.t.Errorf("pods on nodes (-want +got):\n%s", diff)
	}
}

// TestKilled kills the scheduler while gangs are being bound, again and again.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.installKinds()
	c := newGangs(w, "it-killed", 24)
	child := w.scheduleChild()
	c.admitAll()
	for _, point := range []int{1, 17, 42, 77} {
		c.awaitSome(point)
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		child = w.scheduleChild()
	}
	c.check()
}

// TestAPIServerKilled kills the API server while gangs are being bound.
func TestAPIServerKilled(t *testing.T) {
	w := newWorld(t)
	w.installKinds()
	w.schedule()
	c := newGangs(w, "it-api", 24)
	c.admitAll()
	c.awaitSome(1)
	w.must(w.cluster.Kill(local.APIServer), "kill API server")
	c.check()
}

// TestCrowd lets many PodGroups of different sizes fight for few nodes. At
// every rest each group is whole or not there, and some group is: all of them run
// in the end.
func TestCrowd(t *testing.T) {
	w := newWorld(t)
	w.installKinds()
	w.schedule()
	ns := w.namespace("it-crowd")
	for i := range 4 {
		w.node(fmt.Sprintf("crowd%d", i), 8, nil)
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	sizes := map[string]int{}
	var queue []client.Object
	for g := range 14 {
		name := fmt.Sprintf("g%02d", g)
		sizes[name] = 2 + rnd.IntN(5)
		gpus := 1 << rnd.IntN(3)
		w.group(ns, name, int32(sizes[name]))
		for p := range sizes[name] {
			queue = append(queue, grouped(pod(ns, fmt.Sprintf("%s-%d", name, p), gpus), name))
		}
	}
	rnd.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	w.create(queue...)
	for len(sizes) > 0 {
		w.eventually("groups rest", func() string { return w.unrest(ns, sizes) })
		for name, size := range sizes {
			if w.bound(ns, name) == size {
				for p := range size {
					w.finish(ns, fmt.Sprintf("%s-%d", name, p), corev1.PodSucceeded)
				}
				delete(sizes, name)
			}
		}
	}
}

// unrest says which group is neither whole nor refused as a whole; "" if none.
func (w *world) unrest(ns string, sizes map[string]int) string {
	var list corev1.PodList
	w.must(w.c.List(w.ctx, &list, client.InNamespace(ns)), "list pods")
	bound, refused, whole := map[string]int{}, map[string]int{}, 0
	for _, p := range list.Items {
		group, _, _ := strings.Cut(p.Name, "-")
		if p.Spec.NodeName != "" {
			bound[group]++
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
				strings.Contains(c.Message, "starts as a whole") {
				refused[group]++
			}
		}
	}
	for group, size := range sizes {
		switch {
		case bound[group] == size:
			whole++
		case bound[group] != 0:
			return fmt.Sprintf("%s has %d of %d pods placed", group, bound[group], size)
		case refused[group] == 0:
			return group + " is neither refused nor placed"
		}
	}
	if whole == 0 {
		return "no group is placed"
	}
	return ""
}
