package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/engine/forecast"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/calibration"
)

func eta() Scene {
	return Scene{
		Name:  "eta",
		Title: "when will my job start? Estimates, and what came",
		Opening: "Whoever waits in a line wants to know for how long. mlbatch eta says two times for each job: one that is " +
			"as likely too early as too late, and one by which nine in ten such jobs have started. Here four weeks of 32 " +
			"shared GPUs pass in seconds; every half hour all that wait are told, and at the end what they were told is " +
			"compared with what came.",
		play: playEta,
	}
}

// Those of mlbatch eta --calibration, as in a controller.
const (
	etaEvery   = 30 * time.Minute
	etaFutures = 20
	etaDecides = 20_000
	// etaShown is how many jobs are listed, at the first moment after showAfter at which so
	// many wait.
	etaShown  = 8
	showAfter = 14 * 24 * time.Hour
	// How far from perfect the parts in time may be: the aims of docs/ask.md.
	aimP50, aimP90 = 0.05, 0.03
)

func playEta(ctx context.Context, s *show) error {
	world, err := worldOf("queue-of-a-month", nil)
	if err != nil {
		return err
	}
	trial := calibration.New(calibration.Options{
		Every: etaEvery, Engine: world.Engine, Futures: etaFutures, Decides: etaDecides,
		Limit: calibration.AskedLimits(world.Jobs),
	})
	run := sim.New(*world, sim.Watch{Log: trial, Look: trial.Look})
	for run.Advance(1000) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err := run.Err(); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	s.say(
		"%d jobs came. One moment in the middle, what those were told that waited then, and how long it took:",
		len(world.Jobs),
	)
	s.claim(
		fmt.Sprintf("%d jobs were listed with their estimates, and what came of each is known", etaShown),
		s.listTold(trial.Told(), world.Start),
	)
	report, err := trial.Report()
	if err != nil {
		return fmt.Errorf("sum up: %w", err)
	}
	s.say(
		"All of them, and beside them what a scheduler would have said that only knows the time limits that people set:",
	)
	fmt.Fprintln(s.Out)
	if err := report.Text(s.Out); err != nil {
		return err
	}
	return s.judgeEta(report)
}

// listTold prints what was told at one moment.
func (s *show) listTold(told []calibration.Told, start time.Time) error {
	for len(told) > 0 {
		n := slices.IndexFunc(told, func(t calibration.Told) bool { return !t.At.Equal(told[0].At) })
		if n < 0 {
			n = len(told)
		}
		now := told[:n]
		told = told[n:]
		if now[0].At.Sub(start) < showAfter || n < etaShown {
			continue
		}
		fmt.Fprintf(s.Out, "\n%-18s %14s %14s   %s\n", "JOB", "EVEN CHANCE", "9 IN 10", "CAME")
		for _, t := range now[:etaShown] {
			if !t.Started {
				return fmt.Errorf("%s never started", t.Key)
			}
			fmt.Fprintf(
				s.Out,
				"%-18s %14s %14s   after %s%s\n",
				t.Key,
				in(t.Said.P50),
				in(t.Said.P90),
				briefly(t.Wait),
				late(t),
			)
		}
		return nil
	}
	return errors.New("never did so many wait")
}

func in(d time.Duration) string {
	if d >= forecast.Never {
		return "not foreseen"
	}
	return "in " + briefly(d)
}

func late(t calibration.Told) string {
	if t.Wait > t.Said.P90 {
		return ", later than 9 in 10 do"
	}
	return ""
}

// judgeEta compares what came with the aims, for estimates that jobs got when they came.
func (s *show) judgeEta(r calibration.Report) error {
	i := slices.IndexFunc(r.Rows, func(row calibration.Row) bool { return row.Way == calibration.WhenItCame })
	j := slices.IndexFunc(r.Rows, func(row calibration.Row) bool { return row.Way == calibration.ByLimits })
	if i < 0 || j < 0 {
		return errors.New("the report says nothing of jobs when they came")
	}
	own, limits := r.Rows[i], r.Rows[j]
	s.claim(
		fmt.Sprintf(
			"of %d jobs that had to wait, %.1f %% started by the first time they were told: half, within 5 points",
			own.Estimates,
			100*own.P50,
		),
		near(own.P50, 0.5, aimP50),
	)
	s.claim(
		fmt.Sprintf("%.1f %% started by the second: nine in ten, within 3 points", 100*own.P90),
		near(own.P90, 0.9, aimP90),
	)
	s.claim(
		fmt.Sprintf(
			"the first is off by %s (median); by time limits alone it would be %s",
			briefly(own.Error),
			briefly(limits.Error),
		),
		closer(own.Error, limits.Error),
	)
	return nil
}

func near(is, want, off float64) error {
	if math.Abs(is-want) > off {
		return fmt.Errorf("that is %.1f points off", 100*math.Abs(is-want))
	}
	return nil
}

func closer(own, other time.Duration) error {
	if cmp.Compare(own, other) >= 0 {
		return errors.New("that is no better")
	}
	return nil
}
