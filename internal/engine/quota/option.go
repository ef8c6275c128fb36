package quota

import "github.com/mlbatch/mlbatch/internal/core"

// GradeOption judges one option of a plan alone, as if nothing else of the plan were
// assigned: how well it would do and, unless it fits, why not.
func (f *Forest) GradeOption(p *CompiledRequests, ask, option int, sc Oracle) (Mode, core.Reason) {
	g := f.grade(p, ask, option, sc, &Assignment{Mode: Fit})
	return g.mode, g.why
}

// LendingLimit is how much of its quota a node lends at most; Unlimited if all.
func (n *Node) LendingLimit(p FlavorResource) core.Amount { return n.cells[p].lend }
