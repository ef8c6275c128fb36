package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli/demo/verdict"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// ErrFailed says that a statement of the tutorial did not hold.
var ErrFailed = errors.New("a statement of the tutorial did not hold")

// Theatre is where scenarios are played.
type Theatre struct {
	// Config reaches, as its admin, a cluster in which the tutorial's teams
	// exist and nothing runs.
	Config *rest.Config
	Clock  clock.Clock
	// TimeScale is how many times faster than real time jobs run there.
	TimeScale float64
	// Out is where the story is told.
	Out io.Writer
}

// patience is how long one step of a scenario may take: three rounds of short
// jobs, and time for a busy machine.
func (t Theatre) patience() time.Duration {
	return time.Minute + time.Duration(float64(3*30*time.Second)/t.TimeScale)
}

// Play plays scenarios one after the other. It returns ErrFailed if a statement
// failed.
func (t Theatre) Play(ctx context.Context, scenarios []Scenario) error {
	cfg := rest.CopyConfig(t.Config)
	cfg.QPS = -1 // the API server limits by itself
	admin, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme.New()})
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	recorder, err := Record(ctx, admin, t.Clock)
	if err != nil {
		cancel()
		return err
	}
	defer recorder.Wait()
	defer cancel()

	s := &stage{
		config:   cfg,
		admin:    admin,
		users:    map[string]client.Client{},
		clock:    t.Clock,
		patience: t.patience(),
		recorder: recorder,
	}
	var results []verdict.Result
	for i, scenario := range scenarios {
		vs, err := s.play(ctx, scenario, t.Out)
		if err != nil {
			return err
		}
		results = append(results, vs...)
		if i == len(scenarios)-1 {
			break
		}
		if err := s.clear(ctx); err != nil {
			return err
		}
	}
	if verdict.Report(t.Out, "statements of the tutorial", results) > 0 {
		return ErrFailed
	}
	return nil
}

// play runs one scenario and judges what was seen of it.
func (s *stage) play(ctx context.Context, scenario Scenario, out io.Writer) ([]verdict.Result, error) {
	fmt.Fprintf(out, "\n== %s: %s\n\n", scenario.Name, scenario.Title)
	s.recorder.Begin(newPrinter(out).tell)
	err := scenario.drive(ctx, s)
	s.recorder.Hush()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		fmt.Fprintf(out, "\nThe scenario did not go on: %v\n", err)
	}
	return judge(scenario.Name, scenario.Statements, s.recorder.Timeline()), nil
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
