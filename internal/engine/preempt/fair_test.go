package preempt

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// worlds are small trees with running workloads, and a request of queue q0.
type world struct {
	t      *rapid.T
	search *Searcher
	forest *quota.Forest
	queues []*quota.Node
	runs   map[*quota.Node][]*Candidate
	req    Request
}

func drawWorld(t *rapid.T, fair *core.FairSharing) *world {
	accounts := ledger.New(core.GPU, fair != nil)
	f := accounts.Forest
	w := &world{t: t, forest: f, runs: map[*quota.Node][]*Candidate{}}
	pairs := []quota.FlavorResource{f.FlavorResource("f", core.CPU), f.FlavorResource("f", core.GPU)}
	weight := rapid.SampledFrom(
		[]*core.Weight{nil, nil, new(core.WeightOne / 2), new(2 * core.WeightOne), new(core.Weight(0))},
	)
	cohorts := []string{"top"}
	for i := range rapid.IntRange(0, 3).Draw(t, "cohorts") {
		c := core.Cohort{
			Name:   fmt.Sprintf("c%d", i),
			Parent: rapid.SampledFrom(cohorts).Draw(t, "parent"),
			Weight: weight.Draw(t, "weight"),
		}
		f.SetCohort(c)
		cohorts = append(cohorts, c.Name)
	}
	for i := range rapid.IntRange(2, 9).Draw(t, "queues") {
		most := 4
		if i == 0 {
			most = 12 // it has something to take back
		}
		var quotas []core.Quota
		for _, r := range []string{core.CPU, core.GPU} {
			quotas = append(
				quotas,
				core.Quota{Resource: r, Nominal: core.Amount(rapid.IntRange(0, most).Draw(t, "nominal"))},
			)
		}
		q := f.SetQueue(fmt.Sprintf("q%d", i), rapid.SampledFrom(cohorts).Draw(t, "cohort"), []core.ResourceGroup{{
			Covered: []string{core.CPU, core.GPU}, Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: quotas}},
		}})
		q.Weigh(weight.Draw(t, "weight"))
		w.queues = append(w.queues, q)
	}
	f.Settle()
	w.search = &Searcher{Ledger: accounts, Fair: fair}
	for i := range rapid.IntRange(8, 24).Draw(t, "running") {
		c := &Candidate{
			Key: core.Key{Name: fmt.Sprintf("w%d", i)}, UID: fmt.Sprint(i),
			Priority: rapid.Int64Range(0, 2).Draw(t, "priority"),
			Reserved: rapid.Int64Range(0, 3).Draw(t, "reserved"), Time: rapid.Int64Range(0, 3).Draw(t, "time"),
		}
		c.ID, c.Queue = int32(
			i,
		), rapid.SampledFrom(w.queues[rapid.IntRange(0, 1).Draw(t, "of others"):]).Draw(t, "queue")
		c.Uses, c.Unseen = drawUses(t, pairs), rapid.IntRange(0, 9).Draw(t, "unseen") == 0
		w.runs[c.Queue] = append(w.runs[c.Queue], c)
		w.search.Add(c)
		accounts.Hold(&c.Allocation)
	}
	if fair != nil && rapid.Bool().Draw(t, "a workload was promised quota") {
		accounts.Promise(
			&ledger.Allocation{ID: 99, Queue: rapid.SampledFrom(w.queues).Draw(t, "queue"), Uses: drawUses(t, pairs)},
		)
	}
	if rapid.Bool().Draw(t, "a workload leaves") {
		w.book(rapid.SampledFrom(w.queues).Draw(t, "queue"), drawUses(t, pairs), core.Current)
	}
	policy := rapid.SampledFrom([]core.PreemptionPolicy{
		core.PreemptAny,
		core.PreemptAny,
		core.PreemptLowerOrNewerEqualPrio,
		core.PreemptLowerPriority,
		core.PreemptNever,
	})
	w.req = Request{
		Queue:    w.queues[0],
		Priority: rapid.Int64Range(0, 4).Draw(t, "priority"),
		Time:     rapid.Int64Range(0, 3).Draw(t, "time"),
		Policy: core.Preemption{
			WithinQueue: policy.Filter(func(p core.PreemptionPolicy) bool { return p != core.PreemptAny }).
				Draw(t, "within"),
			Reclaim: policy.Draw(t, "reclaim"),
			WhileBorrow: rapid.SampledFrom([]core.PreemptionPolicy{core.PreemptNever, core.PreemptLowerPriority}).
				Draw(t, "while borrowing"),
		},
		Uses: drawUses(t, pairs),
	}
	w.req.Uses[0].Amount += core.Amount(rapid.IntRange(0, 6).Draw(t, "more"))
	for _, u := range w.req.Uses {
		if u.Amount > w.queues[0].Room(core.Projected, u.Pair) {
			w.req.Short = append(w.req.Short, u.Pair)
		}
	}
	return w
}

func drawUses(t *rapid.T, pairs []quota.FlavorResource) []quota.Use {
	amount := rapid.SampledFrom([]core.Amount{1, 1, 2, 3, 5, 0})
	uses := []quota.Use{{Pair: pairs[0], Amount: amount.Draw(t, "cpus")}}
	if rapid.IntRange(0, 3).Draw(t, "uses GPUs") == 3 {
		uses = append(uses, quota.Use{Pair: pairs[1], Amount: amount.Draw(t, "GPUs")})
	}
	return uses
}

func (w *world) book(q *quota.Node, uses []quota.Use, ledgers ...core.Account) {
	for _, l := range ledgers {
		w.forest.Add(l, q, uses)
	}
}

func (w *world) take(c *Candidate) {
	w.forest.Remove(core.Projected, c.Queue, c.Uses)
	w.forest.Remove(quota.Seen, c.Queue, c.Uses)
}

func (w *world) back(c *Candidate) {
	w.forest.Add(core.Projected, c.Queue, c.Uses)
	w.forest.Add(quota.Seen, c.Queue, c.Uses)
}

// willing are those of a queue whom the policy lets go, in the order in which they go.
func (w *world) willing(q *quota.Node) []*Candidate {
	policy := w.req.Policy.Reclaim
	if q == w.req.Queue {
		policy = w.req.Policy.WithinQueue
	}
	all, unseen := slices.SortedFunc(slices.Values(w.runs[q]), victimOrder), false
	return slices.DeleteFunc(all, func(c *Candidate) bool {
		switch {
		case !permits(policy, &w.req, c) || !uses(c, w.req.Short):
			return true
		case c.Unseen:
			unseen = true
			return true
		}
		return unseen && c.Priority >= w.req.Priority
	})
}

func (w *world) fits() bool {
	return !slices.ContainsFunc(
		w.req.Uses,
		func(u quota.Use) bool { return u.Amount > w.req.Queue.Room(core.Projected, u.Pair) },
	)
}

// fitsBooked asks with the request's own usage taken off.
func (w *world) fitsBooked() bool {
	w.forest.Remove(core.Projected, w.req.Queue, w.req.Uses)
	defer w.forest.Add(core.Projected, w.req.Queue, w.req.Uses)
	return w.fits()
}

// naive chooses victims by shares, looking at all each time.
type naive struct {
	*world
	left   map[*quota.Node][]*Candidate
	spared map[*quota.Node]*Candidate
	picked []Victim
	// went is how many were taken, those included that were put back in the end.
	went int
}

func (n *naive) find() []Victim {
	w := n.world
	n.left, n.spared = map[*quota.Node][]*Candidate{}, map[*quota.Node]*Candidate{}
	for _, q := range w.queues {
		if q.Root() == w.req.Queue.Root() && (q == w.req.Queue || !q.WithinNominal(quota.Seen, w.req.Short)) {
			n.left[q] = w.willing(q)
		}
	}
	w.forest.Add(core.Projected, w.req.Queue, w.req.Uses)
	found := n.first(w.search.Fair.Strategies[0]) || len(w.search.Fair.Strategies) > 1 && n.second()
	w.forest.Remove(core.Projected, w.req.Queue, w.req.Uses)
	n.went = len(n.picked)
	var victims []Victim
	if found {
		victims = []Victim{n.picked[len(n.picked)-1]}
		for i := len(n.picked) - 2; i >= 0; i-- {
			w.back(n.picked[i].Candidate)
			if !w.fits() {
				w.take(n.picked[i].Candidate)
				victims = append(victims, n.picked[i])
			}
		}
		n.picked = victims
	}
	for _, v := range n.picked {
		w.back(v.Candidate)
	}
	return victims
}

func (n *naive) ours(x *quota.Node) bool { return covers(x, n.req.Queue) }

func (n *naive) share(x *quota.Node) quota.DominantResourceShare {
	if n.ours(x) {
		return x.ShareWith(core.Projected, nil)
	}
	return x.ShareWith(quota.Seen, nil)
}

func (n *naive) gives(x *quota.Node) bool {
	if !n.ours(x) && n.share(x).Zero() {
		return false
	}
	return len(n.left[x]) > 0 || slices.ContainsFunc(x.Children(), n.gives)
}

// target goes down from the root to the largest share.
func (n *naive) target() *quota.Node {
	x := n.req.Queue.Root()
	for !x.Queue {
		children := slices.DeleteFunc(slices.Clone(x.Children()), func(c *quota.Node) bool { return !n.gives(c) })
		if len(children) == 0 {
			return nil
		}
		x = slices.MinFunc(children, func(a, b *quota.Node) int {
			if by := n.share(b).Compare(n.share(a)); by != 0 {
				return by
			}
			switch {
			case a.Queue != b.Queue && a.Queue, a.Queue && b.Queue && n.ours(a):
				return 1
			case a.Queue != b.Queue, a.Queue && n.ours(b):
				return -1
			case a.Queue:
				return victimOrder(n.left[a][0], n.left[b][0])
			}
			return cmp.Compare(a.Name, b.Name)
		})
	}
	return x
}

func (n *naive) pick(q *quota.Node, why core.EvictReason) bool {
	c := n.left[q][0]
	n.left[q] = n.left[q][1:]
	n.take(c)
	n.picked = append(n.picked, Victim{c, why})
	return n.fitsBooked()
}

// sides are the two children of the lowest cohort above the request and a queue.
func (n *naive) sides(q *quota.Node) (mine, theirs *quota.Node) {
	for theirs = q; !n.ours(theirs.Parent()); theirs = theirs.Parent() {
	}
	for mine = n.req.Queue; mine.Parent() != theirs.Parent(); mine = mine.Parent() {
	}
	return mine, theirs
}

func (n *naive) first(rule core.FairStrategy) bool {
	for q := n.target(); q != nil; q = n.target() {
		switch {
		case q == n.req.Queue:
			if n.pick(q, core.InClusterQueue) {
				return true
			}
			continue
		case n.search.Fair.ReclaimNominal && n.req.Queue.WithinNominal(core.Projected, n.req.Short):
			if n.pick(q, core.InCohortReclamation) {
				return true
			}
			continue
		}
		mine, theirs := n.sides(q)
		share := n.share(mine)
		if n.spared[q] == nil {
			n.spared[q] = n.left[q][0]
		}
		first := n.left[q][0]
		allowed := slices.IndexFunc(n.left[q], func(c *Candidate) bool {
			if by := share.Compare(n.share(theirs)); by > 0 || rule == core.LessThanInitialShare {
				return by < 0
			}
			n.take(c)
			defer n.back(c)
			return share.Compare(n.share(theirs)) <= 0
		})
		if allowed < 0 {
			n.left[q] = nil
			continue
		}
		n.left[q] = n.left[q][allowed:]
		if n.spared[q] == first && allowed == 0 {
			delete(n.spared, q)
		}
		if n.pick(q, core.InCohortFairSharing) {
			return true
		}
	}
	return false
}

func (n *naive) second() bool {
	clear(n.left)
	for q, c := range n.spared {
		n.left[q] = []*Candidate{c}
	}
	for q := n.target(); q != nil; q = n.target() {
		mine, theirs := n.sides(q)
		if n.share(mine).Compare(n.share(theirs)) >= 0 {
			n.left[q] = nil
		} else if n.pick(q, core.InCohortFairSharing) {
			return true
		}
	}
	return false
}

func names(victims []Victim) []string {
	var out []string
	for _, v := range victims {
		out = append(out, fmt.Sprint(v.Key.Name, " ", v.Reason))
	}
	slices.Sort(out)
	return out
}

// The heaps of shares that are brought up to date give those whom looking at
// all each time gives.
func TestFairAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			fair := core.DefaultFairSharing()
			fair.Strategies = rapid.SampledFrom(
				[][]core.FairStrategy{fair.Strategies, fair.Strategies[:1], fair.Strategies[1:]},
			).
				Draw(t, "strategies")
			fair.ReclaimNominal = rapid.Bool().Draw(t, "reclaim nominal")
			w := drawWorld(t, fair)
			if len(w.req.Short) == 0 {
				continue
			}
			want := names((&naive{world: w}).find())
			got, _ := w.search.Find(w.req)
			if d := gocmp.Diff(want, names(got)); d != "" {
				t.Fatalf("victims (-want +got):\n%s", d)
			}
			if err := w.forest.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
