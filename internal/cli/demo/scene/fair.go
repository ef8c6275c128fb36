package scene

import (
	"context"
	"fmt"
	"slices"
)

func fair() Scene {
	return Scene{
		Name:  "fair",
		Title: "why their job started before mine: a receipt",
		Opening: "Two people wait for the same GPUs; one asked first, and the other one gets them. Whoever has to wait " +
			"wants to see that this was fair: with fair sharing, what nobody owns goes to the team that has taken less of it, " +
			"and the numbers are there to be checked.",
		Cluster: &Cluster{Nodes: 3, TimeScale: 10, Configuration: fairConfiguration},
		play:    playFair,
	}
}

const fairConfiguration = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
fairSharing:
  preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]
`

const sleepScript = `#!/bin/sh
#MLBATCH --image=python:3.12 --time=2-0
sleep 90000
`

func playFair(ctx context.Context, s *show) error {
	s.say(
		"Team blue and team red own 8 GPUs each; 8 more belong to nobody, and who needs them borrows them. Alice's " +
			"job takes blue's 8 and 4 of those. Bob's two jobs take red's 8 and the other 4.",
	)
	if err := s.Shell.Write("long.sh", sleepScript); err != nil {
		return err
	}
	for _, l := range []Line{
		{User: "alice", Argv: []string{"mlbatch", "submit", "--nodes", "3", "--gpus", "4", "--name", "twelve", "long.sh"}},
		{User: "bob", Argv: []string{"mlbatch", "submit", "--nodes", "2", "--gpus", "4", "--name", "eight", "long.sh"}},
		{User: "bob", Argv: []string{"mlbatch", "submit", "--gpus", "4", "--name", "short", "long.sh"}},
	} {
		if _, err := s.typed(ctx, l, 0); err != nil {
			return err
		}
		if err := s.in(ctx, teams()[l.User]+"/"+l.Argv[len(l.Argv)-2], "Running"); err != nil {
			return err
		}
	}
	s.say("All 24 GPUs are in use. Now alice asks for 4 more, and after her bob:")
	for _, user := range []string{"alice", "bob"} {
		if _, err := s.run(
			ctx,
			user,
			"mlbatch",
			"submit",
			"--gpus",
			"4",
			"--name",
			user+"-next",
			"long.sh",
		); err != nil {
			return err
		}
		if err := s.in(ctx, teams()[user]+"/"+user+"-next", "Waiting"); err != nil {
			return err
		}
	}
	if _, err := s.run(ctx, "", "mlbatch", "queue"); err != nil {
		return err
	}
	s.say("Bob ends his short job, and 4 GPUs come free. Who gets them?")
	if _, err := s.run(ctx, "bob", "mlbatch", "cancel", "short"); err != nil {
		return err
	}
	err := s.until(ctx, "one of the two has started", func(ctx context.Context) (bool, error) {
		all, err := s.jobs(ctx)
		return all["blue/alice-next"].State == "Running" || all["red/bob-next"].State == "Running", err
	})
	if err != nil {
		return err
	}
	if _, err := s.run(ctx, "", "mlbatch", "ps", "-A"); err != nil {
		return err
	}
	all, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	s.claim(
		"alice asked before bob, and bob's job was started",
		askedFirst(all["blue/alice-next"], all["red/bob-next"]),
	)
	return s.receipt(ctx)
}

func askedFirst(alice, bob job) error {
	switch {
	case bob.State != "Running" || alice.State != "Waiting":
		return fmt.Errorf("hers is %s, his is %s", alice.State, bob.State)
	case bob.Created.Before(alice.Created):
		return fmt.Errorf("hers is of %s, his of %s", alice.Created, bob.Created)
	}
	return nil
}

// queueRow is what queue tells of one.
type queueRow struct {
	Kind, Name              string
	Borrowed, Nominal, Used string
}

// receipt shows the shares by which it was decided.
func (s *show) receipt(ctx context.Context) error {
	s.say(
		"The receipt. Of the 8 GPUs that nobody owns, blue had 4 and would have had 8; red had none any more and has 4 " +
			"now. The share is what a queue borrows of all that could be lent, in thousandths:",
	)
	if _, err := s.run(ctx, "", "mlbatch", "kubectl", "get", "clusterqueues", "-o",
		"custom-columns=QUEUE:.metadata.name,SHARE:.status.fairSharing.weightedShare"); err != nil {
		return err
	}
	asked := []string{"mlbatch", "why-not", "blue/alice-next", "red/bob-next"}
	if _, err := s.run(ctx, "", asked...); err != nil {
		return err
	}
	s.claim("why-not says that bob's job is in the way, and that fair sharing does not let alice's stop it",
		s.byShare(ctx, asked))
	var list struct{ Items []queueRow }
	if err := s.look(ctx, &list, "", "mlbatch", "queue", "-o", "json"); err != nil {
		return err
	}
	borrowed := map[string]string{}
	for _, q := range list.Items {
		borrowed[q.Name] = q.Borrowed
	}
	s.claim(
		"blue has borrowed 4 GPUs all along, and red 4 with bob's job: nobody has more than the other",
		equalParts(borrowed),
	)
	all, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	running := 0
	for _, name := range []string{"blue/twelve", "red/eight", "red/bob-next"} {
		if all[name].State == "Running" {
			running++
		}
	}
	s.claim("nobody's job was stopped for it", same(running, 3))
	return nil
}

// byShare asks again for what programs read.
func (s *show) byShare(ctx context.Context, asked []string) error {
	var told struct {
		Verdict     string
		Explanation struct{ Contest struct{ Spared string } }
	}
	if err := s.look(ctx, &told, "", append(slices.Clone(asked), "-o", "json")...); err != nil {
		return err
	}
	if told.Verdict != "InTheWay" || told.Explanation.Contest.Spared != "FairSharing" {
		return fmt.Errorf("it says %s, %s", told.Verdict, told.Explanation.Contest.Spared)
	}
	return nil
}

func equalParts(borrowed map[string]string) error {
	if blue, red := borrowed["blue-cluster-queue"], borrowed["red-cluster-queue"]; blue != "4" || red != "4" {
		return fmt.Errorf("blue has borrowed %s, red %s", blue, red)
	}
	return nil
}
