package scene

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

func slurm() Scene {
	return Scene{
		Name:  "slurm",
		Title: "a script for Slurm runs as it is, and is shown as plain YAML",
		Opening: "Researchers who come from a supercomputer know its commands by heart: a script with #SBATCH lines, " +
			"sbatch to hand it in, squeue to look, sacct to see how it ended. They type the same here; the one line that is " +
			"new says which container image has the programs.",
		Cluster: &Cluster{Nodes: 3, TimeScale: 10},
		play:    playSlurm,
	}
}

const sweepScript = `#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-9%3
#SBATCH --gpus-per-node=2
#SBATCH --time=30
#MLBATCH --image=python:3.12

echo "trial $SLURM_ARRAY_TASK_ID"
sleep 30
`

const torchScript = `#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#MLBATCH --image=python:3.12

torchrun train.py
`

const (
	sweepTasks  = 10
	sweepAtOnce = 3
)

// batchJob is what is looked at of a Job of Kubernetes.
type batchJob struct {
	Kind string
	Spec struct {
		Completions, Parallelism int
	}
	Status struct {
		Active, Succeeded, Failed int
	}
}

func playSlurm(ctx context.Context, s *show) error {
	if err := s.file("sweep.sh", sweepScript); err != nil {
		return err
	}
	said, err := s.run(ctx, "alice", "sbatch", "sweep.sh")
	if err != nil {
		return err
	}
	name, is := strings.CutPrefix(said, "Submitted batch job ")
	if !is {
		return fmt.Errorf("sbatch said %q", said)
	}
	if err := s.in(ctx, "blue/"+name, "Running"); err != nil {
		return err
	}
	listed, err := s.run(ctx, "alice", "squeue")
	if err != nil {
		return err
	}
	most, end, err := s.watchArray(ctx, name)
	if err != nil {
		return err
	}
	s.say("Ten trials, three at a time; until all of them have ended:")
	if _, err := s.run(ctx, "alice", "mlbatch", "wait", name, "--for", "succeeded"); err != nil {
		return err
	}
	ended, err := s.run(ctx, "alice", "sacct")
	if err != nil {
		return err
	}
	s.claim("squeue lists the job as running (R)", has(listed, name, " R "))
	s.claim("all 10 trials of --array=0-9 end well", same(end.Status.Succeeded, sweepTasks))
	s.claim("3 of them run at once, and never more: that is the %3", same(most, sweepAtOnce))
	s.claim("sacct says COMPLETED with exit code 0:0", has(ended, name, "COMPLETED", "0:0"))
	return s.asYAML(ctx)
}

// watchArray follows an array to its end. Most is how many tasks were seen at once.
func (s *show) watchArray(ctx context.Context, name string) (most int, end batchJob, err error) {
	err = s.until(ctx, "the array has ended", func(ctx context.Context) (bool, error) {
		err := s.look(ctx, &end, "alice", "mlbatch", "kubectl", "get", "job", name, "-o", "json")
		most = max(most, end.Status.Active)
		if end.Status.Failed > 0 {
			return true, nil
		}
		return end.Status.Succeeded == sweepTasks, err
	})
	return most, end, err
}

// asYAML shows the same script as a manifest, and has the API server judge that.
func (s *show) asYAML(ctx context.Context) error {
	s.say("The same file as a manifest of plain Kubernetes, for any cluster with mlbatch (or Kueue):")
	if _, err := s.head(ctx, 16, "alice", "mlbatch", "submit", "-o", "yaml", "sweep.sh"); err != nil {
		return err
	}
	if _, err := s.typed(
		ctx,
		Line{User: "alice", Argv: []string{"mlbatch", "submit", "-o", "yaml", "sweep.sh"}, Into: "sweep.yaml"},
		0,
	); err != nil {
		return err
	}
	var judged batchJob
	_, err := s.run(ctx, "alice", "mlbatch", "kubectl", "create", "--dry-run=server", "-f", "sweep.yaml")
	if err == nil {
		err = s.look(
			ctx,
			&judged,
			"alice",
			"mlbatch",
			"kubectl",
			"create",
			"--dry-run=server",
			"-o",
			"json",
			"-f",
			"sweep.yaml",
		)
	}
	if err == nil &&
		(judged.Kind != "Job" || judged.Spec.Completions != sweepTasks || judged.Spec.Parallelism != sweepAtOnce) {
		err = fmt.Errorf("it is %+v", judged)
	}
	s.claim("the manifest is a Job of 10 tasks, 3 at once, which a real API server accepts", err)
	s.say("A script that trains on two machines becomes the kind of object that its framework has:")
	if err := s.file("train.sh", torchScript); err != nil {
		return err
	}
	said, err := s.head(ctx, 8, "alice", "mlbatch", "submit", "-o", "yaml", "train.sh")
	if err != nil {
		return err
	}
	s.claim("a script that starts torchrun on two nodes becomes a PyTorchJob", has(said, "kind: PyTorchJob"))
	return nil
}

func has(text string, parts ...string) error {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return fmt.Errorf("there is no %q", strings.TrimSpace(p))
		}
	}
	return nil
}

func same(got, want int) error {
	if got != want {
		return errors.New("it was " + fmt.Sprint(got))
	}
	return nil
}
