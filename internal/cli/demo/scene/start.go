package scene

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

func start() Scene {
	return Scene{
		Name: "start", Title: "a GPU cluster on this machine, with one command",
		Opening: "Several teams share expensive machines with GPUs; who may use them when is decided by a batch " +
			"system, and to try one usually takes a cluster, a day and a page of commands. Here it is one command: a real " +
			"Kubernetes control plane with simulated GPU machines, in processes of one program, without containers.",
		Shell: true, play: playStart,
	}
}

func playStart(ctx context.Context, s *show) (err error) {
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_, e := s.run(stop, "", "mlbatch", "down", "--delete")
		err = errors.Join(err, e)
	}()
	if _, err := s.run(ctx, "", "mlbatch", "up", "--detach", "--nodes", "4"); err != nil {
		return err
	}
	ready := s.Clock.Since(s.began)
	s.say(
		"There are two teams already, which own all of the GPUs. A third one is a command as well; teams may own more " +
			"together than there is, because they lend what they do not use, and it says so:",
	)
	if _, err := s.run(
		ctx,
		"",
		"mlbatch",
		"team",
		"create",
		"green",
		"--gpus",
		"8",
		"--users",
		"carol",
	); err != nil {
		return err
	}
	s.say("One person of each team asks for GPUs, for ten minutes of work:")
	for _, user := range []string{"alice", "bob", "carol"} {
		if _, err := s.run(
			ctx,
			user,
			"mlbatch",
			"run",
			"--detach",
			"--name",
			user+"-first",
			"--image",
			"python:3.12",
			"--gpus",
			"4",
			"--",
			"sleep",
			"600",
		); err != nil {
			return err
		}
	}
	for user, team := range teams() {
		if err := s.in(ctx, team+"/"+user+"-first", "Running"); err != nil {
			return err
		}
	}
	running := s.Clock.Since(s.began)
	s.say("What runs, and whose GPUs are in use:")
	if _, err := s.run(ctx, "", "mlbatch", "ps", "-A"); err != nil {
		return err
	}
	if _, err := s.run(ctx, "", "mlbatch", "nodes"); err != nil {
		return err
	}
	if _, err := s.run(ctx, "", "mlbatch", "queue"); err != nil {
		return err
	}
	s.say(
		"From nothing to a cluster: %.1f s. To jobs of three teams that run: %.1f s.",
		ready.Seconds(),
		running.Seconds(),
	)
	all, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	for _, user := range []string{"alice", "bob", "carol"} {
		s.claim(
			user+"'s job runs, in the namespace of team "+teams()[user],
			runs(all[teams()[user]+"/"+user+"-first"]),
		)
	}
	s.claim("there are 4 nodes with 8 GPUs each, and 12 of the 32 are in use", s.nodesHave(ctx, 4, 32, 12))
	return nil
}

func runs(j job) error {
	if j.State != "Running" {
		return fmt.Errorf("it is %q", j.State)
	}
	return nil
}

// node is what nodes tells of one.
type node struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	GPUs   int64  `json:"gpus"`
	Free   int64  `json:"free"`
	Health struct {
		State string `json:"state"`
	} `json:"health"`
}

func (s *show) nodes(ctx context.Context) ([]node, error) {
	var list struct{ Items []node }
	err := s.look(ctx, &list, "", "mlbatch", "nodes", "-o", "json")
	return list.Items, err
}

func (s *show) nodesHave(ctx context.Context, nodes int, gpus, used int64) error {
	all, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	var has, busy int64
	var each []string
	for _, n := range all {
		has += n.GPUs
		busy += n.GPUs - n.Free
		each = append(each, fmt.Sprintf("%s: %d of %d", n.Name, n.GPUs-n.Free, n.GPUs))
	}
	if len(all) != nodes || has != gpus || busy != used {
		return fmt.Errorf("in use are %s", strings.Join(each, ", "))
	}
	return nil
}
