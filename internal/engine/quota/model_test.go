package quota

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// TestAgainstModel compares trees of any shape, lending and borrowing limits and
// unlimited quotas among them, with Kueue's formulas for quotas and shares on
// numbers that never saturate.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 4 {
			m := drawModel(t)
			for range rapid.IntRange(0, 12).Draw(t, "use") {
				m.change()
			}
			m.compare("at first")
			for i := range rapid.IntRange(0, 4).Draw(t, "changes") {
				m.change()
				m.compare(fmt.Sprintf("after change %d", i+1))
			}
		}
	})
}

// model is a forest, and what it should be.
type model struct {
	t      *rapid.T
	forest *Forest
	pairs  []core.FlavorResource
	all    []*modelNode // parents before children
}

type modelNode struct {
	node     *Node
	queue    bool
	parent   *modelNode
	children []*modelNode
	quota    map[core.FlavorResource]core.Quota
	weight   core.Weight
	used     map[core.FlavorResource]int64 // by a queue
}

// endless stands for an unlimited quota: far above everything else.
var endless = new(big.Int).Exp(big.NewInt(10), big.NewInt(40), nil)

func number(a core.Amount) *big.Int {
	if a == core.Unlimited {
		return new(big.Int).Set(endless)
	}
	return big.NewInt(int64(a))
}

// amount is a number as the engine has it.
func amount(n *big.Int) core.Amount {
	if n.CmpAbs(big.NewInt(1<<50)) < 0 {
		return core.Amount(n.Int64())
	}
	if n.Sign() > 0 {
		return core.Unlimited
	}
	return core.Unlimited.Mul(-1)
}

func drawModel(t *rapid.T) *model {
	m := &model{t: t, forest: New()}
	for _, f := range []string{"f", "g"} {
		for _, r := range []string{core.CPU, core.GPU} {
			m.pairs = append(m.pairs, core.FlavorResource{Flavor: f, Resource: r})
			m.forest.FlavorResource(f, r)
		}
	}
	cohorts := rapid.IntRange(0, 6).Draw(t, "cohorts")
	for i := range cohorts {
		m.add(fmt.Sprintf("c%d", i), false, i)
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "queues") {
		m.add(fmt.Sprintf("q%d", i), true, cohorts)
	}
	m.forest.Settle()
	return m
}

// add makes a node whose parent is one of the first nodes, or none.
func (m *model) add(name string, queue bool, first int) { //nolint:revive // queue or cohort
	n := &modelNode{
		queue: queue,
		quota: map[core.FlavorResource]core.Quota{},
		used:  map[core.FlavorResource]int64{},
		weight: rapid.SampledFrom([]core.Weight{core.WeightOne, core.WeightOne, 2 * core.WeightOne, 0}).
			Draw(m.t, "weight"),
	}
	parent := ""
	p := rapid.IntRange(-1, first-1).Draw(m.t, "parent")
	if rapid.Bool().Draw(m.t, "below the last") {
		p = first - 1 // chains make deep trees
	}
	if p >= 0 {
		n.parent = m.all[p]
		parent = n.parent.node.Name
		n.parent.children = append(n.parent.children, n)
	}
	var groups []core.ResourceGroup
	for _, x := range m.pairs {
		if rapid.IntRange(0, 3).Draw(m.t, "has quota") == 0 {
			continue
		}
		q := core.Quota{Resource: x.Resource, Nominal: m.limit("nominal")}
		if rapid.IntRange(0, 3).Draw(m.t, "is cut") == 0 {
			q.Cut = core.Amount(rapid.IntRange(1, 4).Draw(m.t, "cut"))
		}
		if n.parent != nil {
			q.Borrowing, q.Lending = m.maybe("borrowing"), m.maybe("lending")
		}
		n.quota[x] = q
		groups = append(
			groups,
			core.ResourceGroup{
				Covered: []string{x.Resource},
				Flavors: []core.FlavorQuotas{{Flavor: x.Flavor, Quotas: []core.Quota{q}}},
			},
		)
	}
	if queue {
		n.node = m.forest.SetQueue(name, parent, groups)
		n.node.Weigh(&n.weight)
	} else {
		m.forest.SetCohort(core.Cohort{Name: name, Parent: parent, Groups: groups, Weight: &n.weight})
		n.node = m.forest.Cohort(name)
	}
	m.all = append(m.all, n)
}

func (m *model) limit(what string) core.Amount {
	if rapid.IntRange(0, 11).Draw(m.t, what+" is unlimited") == 0 {
		return core.Unlimited
	}
	return core.Amount(rapid.IntRange(0, 6).Draw(m.t, what))
}

func (m *model) maybe(what string) *core.Amount {
	if !rapid.Bool().Draw(m.t, "limits "+what) {
		return nil
	}
	return new(m.limit(what))
}

// change lets a queue use more or less.
func (m *model) change() {
	var queues []*modelNode
	for _, n := range m.all {
		if n.queue {
			queues = append(queues, n)
		}
	}
	n := rapid.SampledFrom(queues).Draw(m.t, "queue")
	x := rapid.SampledFrom(m.pairs).Draw(m.t, "pair")
	v := int64(rapid.IntRange(1, 9).Draw(m.t, "amount"))
	use := []Use{{m.forest.FlavorResource(x.Flavor, x.Resource), core.Amount(v)}}
	if n.used[x] >= v && rapid.Bool().Draw(m.t, "less") {
		n.used[x] -= v
		m.forest.Remove(core.Projected, n.node, use)
		m.forest.Remove(core.Current, n.node, use)
		return
	}
	n.used[x] += v
	m.forest.Add(core.Projected, n.node, use)
	m.forest.Add(core.Current, n.node, use)
}

// lent is as much of a subtree's quota as its parent may use.
func (n *modelNode) lent(x core.FlavorResource) *big.Int {
	all := n.subtree(x)
	if l := n.quota[x].Lending; l != nil && *l != core.Unlimited && number(*l).Cmp(all) < 0 {
		return number(*l)
	}
	return all
}

func (n *modelNode) kept(x core.FlavorResource) *big.Int {
	return new(big.Int).Sub(n.subtree(x), n.lent(x))
}

// cut is how much less than promised a node has, with all below it.
func (n *modelNode) cut(x core.FlavorResource) *big.Int {
	sum := number(n.quota[x].Cut)
	for _, c := range n.children {
		sum.Add(sum, c.cut(x))
	}
	return sum
}

func (n *modelNode) subtree(x core.FlavorResource) *big.Int {
	sum := number(n.quota[x].Nominal)
	for _, c := range n.children {
		sum.Add(sum, c.lent(x))
	}
	return sum
}

// usage is of a queue what it uses, with extra, and of a cohort what its children
// use beyond what they keep.
func (n *modelNode) usage(x core.FlavorResource) *big.Int {
	sum := big.NewInt(n.used[x])
	for _, c := range n.children {
		sum.Add(sum, positive(new(big.Int).Sub(c.usage(x), c.kept(x))))
	}
	return sum
}

func positive(n *big.Int) *big.Int {
	if n.Sign() < 0 {
		return new(big.Int)
	}
	return n
}

func smaller(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// unusedKept is what a node keeps and does not use.
func (n *modelNode) unusedKept(x core.FlavorResource) *big.Int {
	return positive(new(big.Int).Sub(n.kept(x), n.usage(x)))
}

func (n *modelNode) available(x core.FlavorResource) *big.Int {
	if n.parent == nil {
		return new(big.Int).Sub(n.subtree(x), n.usage(x))
	}
	above := n.parent.available(x)
	if b := n.quota[x].Borrowing; b != nil {
		used := positive(new(big.Int).Sub(n.usage(x), n.kept(x)))
		most := new(big.Int).Sub(n.lent(x), used)
		above = smaller(above, most.Add(most, number(*b)))
	}
	return new(big.Int).Add(n.unusedKept(x), above)
}

func (n *modelNode) most(x core.FlavorResource) *big.Int {
	if n.parent == nil {
		return n.subtree(x)
	}
	most := new(big.Int).Add(n.kept(x), n.parent.most(x))
	if b := n.quota[x].Borrowing; b != nil {
		most = smaller(most, new(big.Int).Add(n.subtree(x), number(*b)))
	}
	return most
}

// height is the number of edges down to the deepest queue.
func (n *modelNode) height() int {
	h := 0
	for _, c := range n.children {
		if below := c.height(); c.queue || below > 0 {
			h = max(h, 1+below)
		}
	}
	return h
}

func (n *modelNode) borrows(x core.FlavorResource, v *big.Int) bool {
	return n.subtree(x).Cmp(new(big.Int).Add(n.usage(x), v)) < 0
}

func (n *modelNode) level(x core.FlavorResource, v *big.Int) (int, bool) {
	at := n
	for at.parent != nil && at.borrows(x, v) {
		v = new(big.Int).Sub(v, at.unusedKept(x))
		at = at.parent
	}
	if n.parent == nil {
		return 0, false
	}
	return at.height(), at.parent != nil
}

// compare asks both sides everything.
func (m *model) compare(when string) {
	if err := m.forest.Check(); err != nil {
		m.t.Fatalf("%s: %v", when, err)
	}
	for _, n := range m.all {
		for _, x := range m.pairs {
			m.compareAmounts(when, n, x)
			if n.queue {
				m.compareLevels(when, n, x)
			}
		}
		m.compareShares(when, n)
		m.compareLists(when, n)
	}
}

// compareLists compares what a node lists: its children, cohorts first, and the pairs
// that it, or any below it, has quota of or uses.
func (m *model) compareLists(when string, n *modelNode) {
	var children []string
	for _, queue := range []bool{false, true} {
		for _, c := range m.all { // in order of names, of queues and of cohorts
			if c.parent == n && c.queue == queue {
				children = append(children, c.node.Name)
			}
		}
	}
	var got []string
	for _, c := range n.node.Children() {
		got = append(got, c.Name)
	}
	if fmt.Sprint(got) != fmt.Sprint(children) {
		m.t.Fatalf("%s: below %s are %v, should be %v\n%s", when, n.node.Name, got, children, m)
	}
	var own, below []FlavorResource
	for _, x := range m.pairs {
		p := m.forest.FlavorResource(x.Flavor, x.Resource)
		if _, has := n.quota[x]; has || n.usage(x).Sign() > 0 {
			own = append(own, p)
		}
		if n.concerns(x) {
			below = append(below, p)
		}
	}
	if got := m.forest.PairsOf(n.node); fmt.Sprint(got) != fmt.Sprint(own) {
		m.t.Fatalf("%s: %s has or uses %v, should be %v\n%s", when, n.node.Name, got, own, m)
	}
	if got := m.forest.Below(n.node); fmt.Sprint(got) != fmt.Sprint(below) {
		m.t.Fatalf("%s: %s and those below it have or use %v, should be %v\n%s", when, n.node.Name, got, below, m)
	}
}

// concerns reports whether a node or one below it has quota of a pair or uses it.
func (n *modelNode) concerns(x core.FlavorResource) bool {
	if _, has := n.quota[x]; has || n.usage(x).Sign() > 0 {
		return true
	}
	return slices.ContainsFunc(n.children, func(c *modelNode) bool { return c.concerns(x) })
}

func (m *model) compareAmounts(when string, n *modelNode, x core.FlavorResource) {
	p := m.forest.FlavorResource(x.Flavor, x.Resource)
	below := new(big.Int)
	kept := n.kept(x)
	for a := n.parent; a != nil && a.parent != nil; a = a.parent {
		if sum := new(big.Int).Add(kept, a.subtree(x)); sum.Cmp(below) > 0 {
			below = sum
		}
		kept = new(big.Int).Add(kept, a.kept(x))
	}
	for what, c := range map[string]struct {
		got  core.Amount
		want *big.Int
	}{
		"its subtree has":           {n.node.Subtree(p), n.subtree(x)},
		"it uses":                   {n.node.Usage(core.Projected, p), n.usage(x)},
		"it could use more":         {n.node.Available(core.Projected, p), n.available(x)},
		"it has room for":           {n.node.Room(core.Projected, p), positive(n.available(x))},
		"it could ever use":         {n.node.Limit(p), n.most(x)},
		"it borrows":                {n.node.Borrowed(core.Projected, p), positive(new(big.Int).Sub(n.usage(x), n.subtree(x)))},
		"cohorts below the root do": {n.node.LimitBelowRoot(p), below},
	} {
		if want := amount(c.want); c.got != want {
			m.t.Fatalf("%s: %s of %v in %s: %v, should be %v\n%s", when, what, x, n.node.Name, c.got, want, m)
		}
	}
	others := false
	for _, o := range m.all {
		others = others || o.queue && o != n && o.root() == n.root() && o.borrows(x, new(big.Int))
	}
	if got := n.node.OthersBorrow(p); n.queue && got != others {
		m.t.Fatalf("%s: others than %s borrow %v: %t, should be %t\n%s", when, n.node.Name, x, got, others, m)
	}
	pairs := []FlavorResource{p}
	if got, want := n.node.WithinNominal(core.Projected, pairs), !n.borrows(x, new(big.Int)); got != want {
		m.t.Fatalf("%s: %s is within its quota of %v: %t, should be %t\n%s", when, n.node.Name, x, got, want, m)
	}
	// Of a cohort it is a bound: what is cut below it may be kept there or lent.
	promised := new(big.Int).Add(n.subtree(x), n.cut(x))
	if got, want := n.node.WithinPromised(core.Projected, pairs), promised.Cmp(n.usage(x)) >= 0; got != want {
		m.t.Fatalf(
			"%s: %s is within what it was promised of %v: %t, should be %t\n%s",
			when,
			n.node.Name,
			x,
			got,
			want,
			m,
		)
	}
	if got, want := n.node.UnderNominal(
		core.Projected,
		pairs,
	), n.queue &&
		number(n.quota[x].Nominal).Cmp(n.usage(x)) > 0; n.queue &&
		got != want {
		m.t.Fatalf("%s: %s is under its quota of %v: %t, should be %t\n%s", when, n.node.Name, x, got, want, m)
	}
}

func (n *modelNode) root() *modelNode {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

func (m *model) compareLevels(when string, n *modelNode, x core.FlavorResource) {
	p := m.forest.FlavorResource(x.Flavor, x.Resource)
	for v := range core.Amount(10) {
		level, reclaim := n.node.Level(core.Projected, p, v)
		wantLevel, wantReclaim := n.level(x, big.NewInt(int64(v)))
		// At the root nothing can be taken back, whether it fits there or not.
		if level != wantLevel || reclaim != wantReclaim {
			m.t.Fatalf("%s: %v more of %v in %s is borrowed from level %d (%t), should be %d (%t)\n%s",
				when, v, x, n.node.Name, level, reclaim, wantLevel, wantReclaim, m)
		}
		uses := []Use{{p, v}}
		rest := positive(new(big.Int).Sub(big.NewInt(int64(v)), n.unusedKept(x)))
		if fits := n.node.Absorb(
			core.Projected,
			uses,
		); fits == n.borrows(x, big.NewInt(int64(v))) ||
			uses[0].Amount != amount(rest) {
			m.t.Fatalf(
				"%s: %s absorbs %v of %v: %t, rest %v, should be %v\n%s",
				when,
				n.node.Name,
				v,
				x,
				fits,
				uses[0].Amount,
				rest,
				m,
			)
		}
	}
}

// share is borrowed of lendable of the dominant resource, and its name.
func (n *modelNode) share(m *model) (*big.Rat, string) {
	best, name := new(big.Rat), ""
	if n.parent == nil {
		return best, name
	}
	for _, r := range []string{core.CPU, core.GPU} {
		borrowed, lendable := new(big.Int), new(big.Int)
		for _, x := range m.pairs {
			if x.Resource != r || !n.root().knows(x) {
				continue
			}
			borrowed.Add(borrowed, positive(new(big.Int).Sub(n.usage(x), n.subtree(x))))
			lendable.Add(lendable, n.parent.most(x))
		}
		if lendable.Sign() <= 0 {
			continue
		}
		if lendable.Cmp(endless) > 0 { // one unlimited is as good as two
			lendable.Set(endless)
		}
		if ratio := new(big.Rat).SetFrac(borrowed, lendable); ratio.Cmp(best) > 0 {
			best, name = ratio, r
		}
	}
	return best, name
}

// knows reports whether a queue below has quota of a pair.
func (n *modelNode) knows(x core.FlavorResource) bool {
	if _, ok := n.quota[x]; ok {
		return true
	}
	for _, c := range n.children {
		if c.knows(x) {
			return true
		}
	}
	return false
}

// compareShares compares a node's share with those of its siblings, and its value.
func (m *model) compareShares(when string, n *modelNode) {
	ratio, name := n.share(m)
	got := n.node.Share(core.Projected)
	if got.Resource != name {
		m.t.Fatalf("%s: %s borrows %q most, should be %q\n%s", when, n.node.Name, got.Resource, name, m)
	}
	if got.Zero() != (ratio.Sign() == 0) || got.Infinite() != (ratio.Sign() > 0 && n.weight == 0) {
		m.t.Fatalf(
			"%s: share of %s is zero %t, infinite %t; borrowed %v\n%s",
			when,
			n.node.Name,
			got.Zero(),
			got.Infinite(),
			ratio,
			m,
		)
	}
	if want := thousandths(ratio, n.weight); got.Value() != want {
		m.t.Fatalf("%s: share of %s is shown as %d, should be %d\n%s", when, n.node.Name, got.Value(), want, m)
	}
	if exact := got.Exact(); got.Infinite() != (exact == nil) ||
		exact != nil && got.lendable != core.Unlimited && exact.Cmp(perMille(ratio, n.weight)) != 0 {
		m.t.Fatalf(
			"%s: share of %s is %v thousandths of weight %v, told as %v\n%s",
			when,
			n.node.Name,
			ratio,
			n.weight,
			exact,
			m,
		)
	}
	if n.parent == nil {
		return
	}
	rival := DominantResourceShare{}
	for _, o := range n.parent.children {
		other, _ := o.share(m)
		s := o.node.Share(core.Projected)
		if by, want := got.Compare(s), compareShares(ratio, n.weight, other, o.weight); by != want {
			m.t.Fatalf(
				"%s: shares of %s and %s compare as %d, should be %d\n%s",
				when,
				n.node.Name,
				o.node.Name,
				by,
				want,
				m,
			)
		}
		if o != n && s.Compare(rival) > 0 {
			rival = s
		}
	}
	if got := n.node.RivalShare(); got.Compare(rival) != 0 {
		m.t.Fatalf("%s: the largest share beside %s is %v, should be %v\n%s", when, n.node.Name, got, rival, m)
	}
}

// thousandths is a share in thousandths, rounded up.
func thousandths(ratio *big.Rat, w core.Weight) int64 {
	switch {
	case ratio.Sign() == 0:
		return 0
	case w == 0:
		return math.MaxInt64
	}
	v := perMille(ratio, w)
	up := new(big.Int).Add(v.Num(), new(big.Int).Sub(v.Denom(), big.NewInt(1)))
	return up.Quo(up, v.Denom()).Int64()
}

// perMille is a share divided by a weight, in thousandths.
func perMille(ratio *big.Rat, w core.Weight) *big.Rat {
	if ratio.Sign() == 0 {
		return ratio
	}
	return new(big.Rat).Mul(ratio, big.NewRat(1000*int64(core.WeightOne), int64(w)))
}

func compareShares(a *big.Rat, aw core.Weight, b *big.Rat, bw core.Weight) int {
	aInf, bInf := a.Sign() > 0 && aw == 0, b.Sign() > 0 && bw == 0
	switch {
	case aInf && !bInf:
		return 1
	case bInf && !aInf:
		return -1
	case aInf:
		return a.Cmp(b)
	}
	weighted := func(r *big.Rat, w core.Weight) *big.Rat {
		if r.Sign() == 0 {
			return r
		}
		return new(big.Rat).Quo(r, big.NewRat(int64(w), 1))
	}
	return weighted(a, aw).Cmp(weighted(b, bw))
}

func (m *model) String() string {
	s := ""
	for _, n := range m.all {
		parent := "nobody"
		if n.parent != nil {
			parent = n.parent.node.Name
		}
		s += fmt.Sprintf("%s below %s, weight %v, uses %v:", n.node.Name, parent, n.weight, n.used)
		for _, x := range m.pairs {
			if q, ok := n.quota[x]; ok {
				s += fmt.Sprintf(" %v=%v", x, q.Nominal)
				if q.Borrowing != nil {
					s += fmt.Sprintf("+%v", *q.Borrowing)
				}
				if q.Lending != nil {
					s += fmt.Sprintf("-%v", *q.Lending)
				}
			}
		}
		s += "\n"
	}
	return s
}
