package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// Scenario is one part of the tutorial.
type Scenario struct {
	Name       string
	Title      string
	Statements []Statement
	// drive does what the tutorial's users do. An error means that something
	// did not come about in time; the statements then tell what.
	drive func(context.Context, *stage) error
}

// Scenarios returns the tutorial's scenarios in its order.
func Scenarios() []Scenario {
	return []Scenario{
		{"queueing", "Alice submits 7 short jobs", queueingStatements(), driveQueueing},
		{"preemption", "Alice borrows, then bob wants his quota back", preemptionStatements(), drivePreemption},
		{"evict", "A GPU fails under alice's large job", faultStatements(), driveFault},
	}
}

// Names are the names by which scenarios are chosen.
func Names() []string {
	var names []string
	for _, s := range Scenarios() {
		names = append(names, s.Name)
	}
	return append(names, "all")
}

// Choose returns the scenario of a name, or all.
func Choose(name string) ([]Scenario, error) {
	all := Scenarios()
	if name == "all" {
		return all, nil
	}
	if i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name }); i >= 0 {
		return all[i : i+1], nil
	}
	return nil, fmt.Errorf("there is no scenario %q: use one of %s", name, strings.Join(Names(), ", "))
}

func driveQueueing(ctx context.Context, s *stage) error {
	for range 7 {
		if err := s.submit(ctx, "alice", "blue", "short"); err != nil {
			return err
		}
	}
	return s.until(ctx, "all 7 jobs succeed", func(t Timeline) bool { return allSucceed(t) == nil })
}

func drivePreemption(ctx context.Context, s *stage) error {
	for range 4 {
		if err := s.submit(ctx, "alice", "blue", "normal"); err != nil {
			return err
		}
		// Creation times count seconds, and the newest job is the one that gives
		// way: leave no doubt which one that is.
		if err := s.pause(ctx, time.Second); err != nil {
			return err
		}
	}
	err := s.until(ctx, "3 normal jobs run and 1 waits", func(t Timeline) bool {
		jobs := t.jobs("blue/normal-")
		return len(jobs) == 4 && t.running(jobs, 2) == 3 && waiters(t, jobs) == 1
	})
	if err != nil {
		return err
	}
	if err := s.submit(ctx, "alice", "blue", "important"); err != nil {
		return err
	}
	err = s.until(ctx, "the important job runs and its victim waits", func(t Timeline) bool {
		return t.running(t.jobs("blue/important-"), 2) == 1 && waiters(t, t.jobs("blue/normal-")) == 2
	})
	if err != nil {
		return err
	}
	for range 2 {
		if err := s.submit(ctx, "bob", "red", "normal"); err != nil {
			return err
		}
	}
	err = s.until(ctx, "bob's first job runs, his second waits, and so do alice's", func(t Timeline) bool {
		bob := t.jobs("red/normal-")
		return t.running(bob, 2) == 1 && waiters(t, bob) == 1 && waiters(t, t.jobs("blue/normal-")) == 3
	})
	if err != nil {
		return err
	}
	// A wrong further eviction would come at once; give it the time.
	return s.pause(ctx, time.Second)
}

func waiters(t Timeline, jobs []string) int {
	n := 0
	for _, j := range jobs {
		if t.stand(j).waiting() {
			n++
		}
	}
	return n
}

func driveFault(ctx context.Context, s *stage) error {
	if err := s.submit(ctx, "alice", "blue", "large"); err != nil {
		return err
	}
	if err := s.until(
		ctx,
		"the large job runs",
		func(t Timeline) bool { return t.running(t.jobs("blue/large-"), 4) == 1 },
	); err != nil {
		return err
	}
	// The worst node to lose is any on which the job runs.
	bad := slices.Min(slices.Collect(maps.Values(s.recorder.Timeline().pods(large(s.recorder.Timeline())))))
	if err := s.label(ctx, bad, nodehealth.Evict); err != nil {
		return err
	}
	err := s.until(ctx, "the large job runs again", func(t Timeline) bool { return resetWhole(t) == nil })
	if err != nil {
		return err
	}
	if err := s.submit(ctx, "alice", "blue", "short"); err != nil {
		return err
	}
	err = s.until(
		ctx,
		"a job waits for the node",
		func(t Timeline) bool { return waiters(t, t.jobs("blue/short-")) == 1 },
	)
	if err != nil {
		return err
	}
	if err := s.pause(ctx, time.Second); err != nil {
		return err
	}
	if err := s.label(ctx, bad, ""); err != nil {
		return err
	}
	return s.until(
		ctx,
		"the job runs on the mended node",
		func(t Timeline) bool { return nodeComesBack(t) == nil },
	)
}
