package operator

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/test/toy"
)

// TestIncomplete: of a job of which it is not known yet what it consists of nothing is made, and
// nothing said: it is no mistake. One that is suspended gives its pods up all the same.
func TestIncomplete(t *testing.T) {
	b := newBench(t, aToy("lab"))
	known := b.r.kind.Running.Operator
	unknown := *known
	unknown.Compile = func(jobs.Object) (*jobs.Plan, error) { return nil, fmt.Errorf("toy: %w", jobs.ErrIncomplete) }
	b.r.kind.Running.Operator = &unknown
	b.run()
	expect(t, "pods", b.podNames(), []string(nil))
	b.r.kind.Running.Operator = known
	b.run()
	expect(t, "once it is known", b.podNames(), three)
	b.said()
	b.r.kind.Running.Operator = &unknown
	x := b.toy("lab")
	x.Spec.Hold = true
	b.update(x)
	b.run()
	expect(t, "once it is suspended", b.podNames(), []string(nil))
	unknown.Compile = func(jobs.Object) (*jobs.Plan, error) { return nil, errors.New("no role") }
	b.run()
	if said := b.said(); said == "" {
		t.Error("mistakes are told")
	}
}

// TestStatusSeesChildren: what a status is made of are also the members that are no pods.
func TestStatusSeesChildren(t *testing.T) {
	b := newBench(t, aToy("lab", func(x *toy.Toy) { x.Spec.Jobs = true }))
	operated := *b.r.kind.Running.Operator
	project, most := operated.Project, 0
	operated.Project = func(o jobs.Object, p *jobs.Plan, s *jobs.Progress) jobs.Object {
		most = max(most, len(s.Children))
		return project(o, p, s)
	}
	b.r.kind.Running.Operator = &operated
	b.run()
	expect(t, "children", most, 3)
}

// TestDisrupted: a job knows whether it restarts because a pod was evicted.
func TestDisrupted(t *testing.T) {
	for name, tc := range map[string]struct {
		seen                  podplan.Seen
		restarting, disrupted bool
	}{
		"Evicted": {podplan.Seen{Life: podplan.Failed, Disrupted: true}, true, true},
		"Failed":  {podplan.Seen{Life: podplan.Failed, ID: "counted"}, true, false},
		"Runs":    {podplan.Seen{Life: podplan.Ready, Disrupted: true}, false, false},
	} {
		l := &look{plan: &jobs.Plan{}, seen: []podplan.Seen{tc.seen}}
		s := l.standing(&podplan.RetryState{Counted: []string{"counted"}})
		if s.Restarting != tc.restarting || s.Disrupted != tc.disrupted {
			t.Errorf("%s: %v, %v", name, s.Restarting, s.Disrupted)
		}
	}
}
