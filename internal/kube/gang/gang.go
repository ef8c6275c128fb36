package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Kind says which object describes a gang.
type Kind string

const (
	// KindWorkload is a gang inside the queues; its plan rules.
	KindWorkload Kind = "Workload"
	// KindPodGroup is a gang outside the queues.
	KindPodGroup Kind = "PodGroup"
)

// Key names a gang. The zero Key means "no gang".
type Key struct {
	Kind            Kind
	Namespace, Name string
}

// String is the form used in messages and as an index value.
func (k Key) String() string { return string(k.Kind) + " " + k.Namespace + "/" + k.Name }

// Gang is what the API says about pods that start together.
type Gang struct {
	Key Key
	// Since is when the object was created; older gangs go first.
	Since time.Time
	// Admitted is true for every PodGroup, and for a Workload once it has quota.
	Admitted bool
	// Ends says why no pod starts any more, in words that follow its name; "" while pods may.
	Ends string
	// AdmittedAt separates the pods of this admission from those of earlier ones.
	AdmittedAt time.Time
	// Wait bounds how long members may hold nodes for the rest of the gang.
	Wait time.Duration
	Sets []Set
}

// Set is one pod set of a gang.
type Set struct {
	Name string
	// Count is how many pods the set has; for a PodGroup, how many it needs.
	Count int
	// Reclaimed of these have finished and are not needed any more.
	Reclaimed int
	// Unasked of these are not asked for at the moment: the job was made smaller.
	Unasked int
	// Once is true if no pod of the set follows one that succeeded: one that waits
	// when others have succeeded was made twice, and its maker is about to delete it.
	Once bool
	// Later is true if the set's pods are made only once others run, which therefore do not
	// wait for them.
	Later bool
	// Places are the planned nodes in the order of ranks; nil leaves the choice to the
	// scheduler.
	Places []core.Place
	// Ranks says how pods of the set tell their ranks; zero if they do not.
	Ranks Ranks
}

// Ranks says by which labels a pod tells its rank, its number among the pods of its set.
type Ranks struct {
	// Label has the number of the pod in its set, or, if SubGroup is set, in its subgroup.
	Label string
	// SubGroup is the label with the number of the pod's subgroup, all of which have Size pods.
	SubGroup string
	Size     int
}

// Of is the rank of a pod with such labels, -1 if they do not tell it.
func (r Ranks) Of(labels map[string]string) int {
	rank, err := strconv.Atoi(labels[r.Label])
	if r.Label == "" || err != nil || rank < 0 {
		return -1
	}
	if r.SubGroup == "" {
		return rank
	}
	group, err := strconv.Atoi(labels[r.SubGroup])
	if err != nil || group < 0 || rank >= r.Size {
		return -1
	}
	return group*r.Size + rank
}

// Need is how many live pods the set must have for the gang to start.
func (s Set) Need() int { return max(0, s.Count-s.Reclaimed-s.Unasked) }

// MemberState is how far a member has come.
type MemberState int

const (
	// Pending members wait for a node.
	Pending MemberState = iota
	// Reserved members hold a node in this process only.
	Reserved
	// Bound members have their node for good.
	Bound
	// Leaving members were deleted and have not ended yet: they take no part, and
	// keep their node until then.
	Leaving
	// Succeeded members are done and have left their node.
	Succeeded
	// Failed members are done and have left their node.
	Failed
)

// Member is one pod of a gang. A pod that is being deleted is one only while it
// holds a place.
type Member struct {
	UID     types.UID
	Name    string
	Set     string
	Node    string
	State   MemberState
	Created time.Time
	// OneByOne is set for pods whose owner creates the next only when the
	// previous one runs: waiting for all to exist would wait forever.
	OneByOne bool
	// Rank is the member's number in its set, -1 if it does not tell.
	Rank int
}

// Act is what the scheduler does with a pending pod of a gang.
type Act int

const (
	// Hold keeps the pod out of scheduling.
	Hold Act = iota
	// Alone places the pod without regard to the others.
	Alone
	// Together places the pod only with the rest of its gang.
	Together
)

// Decision is an Act and, for Hold, the sentence that says why.
type Decision struct {
	Act Act
	Why string
}

// Decide says what to do with the pending members of a gang. It depends on
// nothing but its arguments.
func Decide(g Gang, members []Member) Decision {
	if g.Ends != "" {
		return Decision{Hold, g.Key.String() + " " + g.Ends}
	}
	if !g.Admitted {
		return Decision{Hold, g.Key.String() + " is not admitted yet"}
	}
	// A gang that has started is kept going: a lost pod is replaced alone, since
	// the others that are missing may never come back (an Indexed Job gives up
	// on an index, for example).
	if started(g, members) {
		return Decision{Act: Alone}
	}
	exist, need := 0, 0
	for _, s := range g.Sets {
		e, n := present(s, members)
		exist, need = exist+min(e, n), need+n
	}
	if exist < need {
		return Decision{Hold, fmt.Sprintf("%s starts as a whole: %d of %d pods exist", g.Key, exist, need)}
	}
	if need <= 1 {
		return Decision{Act: Alone}
	}
	return Decision{Act: Together}
}

// started tells whether the gang has run, or is allowed to, since it was admitted. Where
// all pods come one by one, one that has a node was given it without the others.
func started(g Gang, members []Member) bool {
	allOneByOne := !slices.ContainsFunc(members, func(m Member) bool { return !m.OneByOne })
	for _, m := range members {
		switch m.State {
		case Bound:
			return true
		case Reserved:
			if allOneByOne {
				return true
			}
		case Succeeded, Failed:
			if !m.Created.Before(g.AdmittedAt) {
				return true
			}
		case Pending, Leaving:
		}
	}
	return false
}

// present counts the live members of a set and how many of them are needed.
func present(s Set, members []Member) (exist, need int) {
	oneByOne := false
	for _, m := range members {
		if m.Set == s.Name && m.State <= Bound {
			exist++
			oneByOne = oneByOne || m.OneByOne
		}
	}
	if oneByOne || s.Later {
		return exist, min(exist, s.Need())
	}
	return exist, s.Need()
}

// Quorum picks the pending members that start together: as many of each set as
// it needs, first among them, in the order given. It picks none if
// some are missing: pods of an earlier attempt that still hold their nodes
// have to give them back first, or the gang would start without them.
func Quorum(g Gang, members []Member, first types.UID) []Member {
	var out []Member
	need := 0
	for _, s := range g.Sets {
		_, n := present(s, members)
		isIn := slices.ContainsFunc(members, func(m Member) bool {
			return m.Set == s.Name && m.State == Pending && m.UID == first
		})
		var picked []Member
		for _, m := range members {
			if m.Set != s.Name || m.State != Pending || len(picked) == n {
				continue
			}
			if m.UID == first {
				isIn = false
			} else if isIn && len(picked) == n-1 {
				continue // the last is for the first
			}
			picked = append(picked, m)
		}
		out = append(out, picked...)
		need += n
	}
	if len(out) < need {
		return nil
	}
	return out
}

// ByRank orders members by their ranks, and those that do not tell them as their names count, so that
// pod 10 comes after pod 2.
func ByRank(a, b Member) int {
	told := func(m Member) uint { return uint(m.Rank) } // who tells none comes last
	return cmp.Or(strings.Compare(a.Set, b.Set), cmp.Compare(told(a), told(b)), natural(a.Name, b.Name))
}

// natural compares names, of which runs of digits count as numbers.
func natural(a, b string) int {
	digits := func(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
	for x, y := a, b; x != "" && y != ""; {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		p, q := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// Find finds a pod set by name. A pod that names none belongs to the only one.
func (g Gang) Find(name string) (Set, bool) {
	for _, s := range g.Sets {
		if s.Name == name {
			return s, true
		}
	}
	return Set{}, false
}
