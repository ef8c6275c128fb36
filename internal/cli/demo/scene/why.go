package scene

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

func why() Scene {
	return Scene{
		Name:  "why",
		Title: "why a job waits though GPUs are free, and what helps",
		Opening: "A program that needs 8 GPUs at once waits, although 9 are free: the most asked question wherever " +
			"GPUs are shared. mlbatch why answers it in plain words and says what would help; each piece of advice has " +
			"been tried on a copy of the cluster's state before it is given, and here it is followed.",
		Cluster: &Cluster{Nodes: 3, TimeScale: 1},
		play:    playWhy,
	}
}

// answer is what why tells of a job.
type answer struct {
	State, Reason string
	Explanation   struct {
		Nodes struct {
			Free, Largest, Need string
		}
		Advice []struct {
			Kind      string
			Amount    string
			Workloads []struct{ Namespace, Job string }
		}
	}
}

const trainScript = `#!/bin/sh
#MLBATCH --image=python:3.12 --time=60
sleep 3000 # it would train a model
`

func playWhy(ctx context.Context, s *show) error {
	if err := s.file("train.sh", trainScript); err != nil {
		return err
	}
	s.say("Three jobs of 5 GPUs each, on three machines of 8:")
	for _, name := range []string{"one", "two", "three"} {
		if _, err := s.run(
			ctx,
			"alice",
			"mlbatch",
			"submit",
			"--gpus",
			"5",
			"--name",
			name,
			"train.sh",
		); err != nil {
			return err
		}
	}
	if _, err := s.run(ctx, "alice", "mlbatch", "wait", "one", "two", "three", "--for", "running"); err != nil {
		return err
	}
	if _, err := s.run(ctx, "", "mlbatch", "nodes"); err != nil {
		return err
	}
	s.say("9 GPUs are free. A job that needs 8 on one machine:")
	if _, err := s.run(
		ctx,
		"alice",
		"mlbatch",
		"submit",
		"--gpus",
		"8",
		"--name",
		"big",
		"train.sh",
	); err != nil {
		return err
	}
	var is answer
	err := s.until(ctx, "it is said why big waits", func(ctx context.Context) (bool, error) {
		err := s.look(ctx, &is, "alice", "mlbatch", "why", "big", "-o", "json")
		return len(is.Explanation.Advice) > 0, err
	})
	if err != nil {
		return err
	}
	if _, err := s.run(ctx, "alice", "mlbatch", "why", "big"); err != nil {
		return err
	}
	s.claim("why names the free GPUs and the most on one machine as the machines have them", s.freeAs(ctx, is))
	if err := s.smaller(ctx, is); err != nil {
		return err
	}
	return s.afterTheEnd(ctx, is)
}

// freeAs compares what why says is free with what the nodes say.
func (s *show) freeAs(ctx context.Context, is answer) error {
	all, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	var free, largest int64
	for _, n := range all {
		free += n.Free
		largest = max(largest, n.Free)
	}
	said := is.Explanation.Nodes
	if said.Free != strconv.FormatInt(free, 10) || said.Largest != strconv.FormatInt(largest, 10) {
		return fmt.Errorf("it says %s and %s, there are %d and %d", said.Free, said.Largest, free, largest)
	}
	if largest >= 8 || free < 8 {
		return fmt.Errorf("%d are free, %d on one node: nothing was shown", free, largest)
	}
	return nil
}

// smaller follows the advice to ask for less.
func (s *show) smaller(ctx context.Context, is answer) error {
	for _, a := range is.Explanation.Advice {
		if core.AdviceKind(a.Kind) != core.SmallerPods {
			continue
		}
		s.say("The first way: ask for %s. The same job, smaller, must start now:", a.Amount)
		if _, err := s.run(
			ctx,
			"alice",
			"mlbatch",
			"submit",
			"--gpus",
			a.Amount,
			"--name",
			"smaller",
			"train.sh",
		); err != nil {
			return err
		}
		_, err := s.run(ctx, "alice", "mlbatch", "wait", "smaller", "--for", "running", "--timeout", "1m")
		s.claim("advised to ask for "+a.Amount+" GPUs: the job that asks for "+a.Amount+" starts", err)
		s.say("It makes way again:")
		if _, err := s.run(ctx, "alice", "mlbatch", "cancel", "smaller"); err != nil {
			return err
		}
		return s.until(ctx, "smaller is gone", func(ctx context.Context) (bool, error) {
			all, err := s.jobs(ctx)
			_, there := all["blue/smaller"]
			return !there, err
		})
	}
	s.claim("why says how much smaller the job would have to be", errors.New("it did not"))
	return nil
}

// afterTheEnd follows the advice to wait for the end of a job.
func (s *show) afterTheEnd(ctx context.Context, is answer) error {
	for _, a := range is.Explanation.Advice {
		if core.AdviceKind(a.Kind) != core.WaitFor || len(a.Workloads) == 0 {
			continue
		}
		named := make([]string, 0, len(a.Workloads))
		for _, w := range a.Workloads {
			named = append(named, strings.TrimPrefix(w.Job, "Job/"))
		}
		before, err := s.jobs(ctx)
		if err != nil {
			return err
		}
		s.claim("big has waited so far, with 9 GPUs free", waits(before["blue/big"]))
		s.say(
			"The other way: wait for the end of %s. Rather than waiting, alice ends it:",
			strings.Join(named, " and "),
		)
		if _, err := s.run(ctx, "alice", append([]string{"mlbatch", "cancel"}, named...)...); err != nil {
			return err
		}
		_, err = s.run(ctx, "alice", "mlbatch", "wait", "big", "--for", "running", "--timeout", "1m")
		s.claim(
			"advised to wait for the end of "+strings.Join(named, " and ")+": when it has ended, big starts",
			err,
		)
		_, err = s.run(ctx, "alice", "mlbatch", "ps")
		return err
	}
	s.claim("why says after whose end the job starts", errors.New("it did not"))
	return nil
}

func waits(j job) error {
	if j.State != "Waiting" {
		return fmt.Errorf("it is %s", j.State)
	}
	return nil
}
