package cache

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// A node that refused a job's pods is asked again once it, or the pods on it, are others: nobody
// but the rule by which it refused knows what exactly that looked at.

// refusals remember what nodes were like when it was first seen that they refused a workload.
type refusals struct {
	// seen are the nodes' states by workload and refusal; lapsed ones stay, with their state.
	seen map[core.Key]map[convert.Refusal]refusedBy
	// of are the workloads that a node refused.
	of map[string]map[core.Key]bool
}

// refusedBy is what a node was like.
type refusedBy struct {
	state  uint64
	lapsed bool
}

func newRefusals() refusals {
	return refusals{seen: map[core.Key]map[convert.Refusal]refusedBy{}, of: map[string]map[core.Key]bool{}}
}

// holding keeps of a translated workload's refusals those of nodes that are as they were.
func (w *World) holding(o *kueue.Workload, out *core.Workload) {
	all := convert.Refusals(o)
	before := w.refusals.seen[out.Key]
	if len(all) == 0 {
		w.forgetRefusals(out.Key)
		return
	}
	w.forgetRefusals(out.Key)
	now := map[convert.Refusal]refusedBy{}
	w.refusals.seen[out.Key] = now
	for _, r := range all {
		was, known := before[r]
		if is := w.stateOf(r.Node, out.Key); !known {
			was.state = is
		} else {
			was.lapsed = was.lapsed || was.state != is
		}
		now[r] = was
		if was.lapsed {
			drops(out, r)
			continue
		}
		if w.refusals.of[r.Node] == nil {
			w.refusals.of[r.Node] = map[core.Key]bool{}
		}
		w.refusals.of[r.Node][out.Key] = true
	}
}

// drops takes a refusal out of a workload.
func drops(out *core.Workload, r convert.Refusal) {
	for i := range out.PodSets {
		if p := &out.PodSets[i]; p.Name == r.PodSet {
			p.Filter.Refused = slices.DeleteFunc(
				p.Filter.Refused,
				func(o core.NodeRefusal) bool { return o == r.NodeRefusal },
			)
		}
	}
}

func (w *World) forgetRefusals(k core.Key) {
	for r := range w.refusals.seen[k] {
		delete(w.refusals.of[r.Node], k)
		if len(w.refusals.of[r.Node]) == 0 {
			delete(w.refusals.of, r.Node)
		}
	}
	delete(w.refusals.seen, k)
}

// stateOf sums up a node and the pods on it that are not a workload's own. What is about no node
// in particular has none.
func (w *World) stateOf(node string, but core.Key) uint64 {
	n, there := w.nodes[node]
	if !there {
		return 0
	}
	h := fnv.New64a()
	_ = json.NewEncoder( //nolint:errchkjson // values that marshal, maps in order of keys, and a hash takes all that is written
		h,
	).
		Encode(
			n,
		)
	refs := slices.SortedFunc(maps.Keys(w.pods.byNode[node]), func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, r := range refs {
		if p := w.pods.pods[r]; p.live && p.workload != but {
			_, _ = h.Write([]byte(r.Namespace + "/" + r.Name + "\n"))
		}
	}
	return h.Sum64()
}

// askAgain has the waiting workloads told anew that nodes refused which have changed since.
func (b *batch) askAgain() {
	w := b.world
	for node := range b.nodes {
		for _, k := range slices.SortedFunc(maps.Keys(w.refusals.of[node]), core.Key.Compare) {
			o := w.workloads[k]
			if o.object == nil || o.leaving || b.workloads[k] {
				continue
			}
			if o.workload = w.translate(o.object); w.refusals.of[node][k] {
				continue // it is as it was
			}
			w.workloads[k] = o
			b.workloads[k] = true
		}
	}
}
