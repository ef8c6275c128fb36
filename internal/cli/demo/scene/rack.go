package scene

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

func rack() Scene {
	return Scene{
		Name:  "rack",
		Title: "a run that needs one rack, while none is free",
		Opening: "The machines of a rack are wired together, and large training needs one rack and not just machines. " +
			"Where quota and place are decided one after the other, such a run can wait for hours: the cluster has free " +
			"machines, the team has quota, no rack has enough of them, and nobody is asked to make way. Here it is one decision.",
		Cluster: &Cluster{Nodes: 12, Racks: 3, TimeScale: 1},
		play:    playRack,
	}
}

const (
	rackLabel = "cloud.provider.com/topology-rack"
	rackNodes = 4 // of each rack
)

// rackJob is a job of pods with eight GPUs each in one rack.
func rackJob(name, priority string, pods int) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata:
  name: %s
  labels: {kueue.x-k8s.io/queue-name: default-queue, kueue.x-k8s.io/priority-class: %s}
spec:
  parallelism: %[3]d
  completions: %[3]d
  completionMode: Indexed
  template:
    metadata:
      annotations: {kueue.x-k8s.io/podset-required-topology: %s}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - {name: train, image: "python:3.12", command: [sleep, "100000"], resources: {limits: {nvidia.com/gpu: 8}}}
`, name, priority, pods, rackLabel)
}

// pod is what kubectl tells of one.
type pod struct {
	Metadata struct {
		UID               string
		Labels            map[string]string
		DeletionTimestamp string
	}
	Spec   struct{ NodeName string }
	Status struct{ Phase string }
}

// running are the pods of alice's jobs that run, by job.
func (s *show) running(ctx context.Context) (map[string][]pod, error) {
	var list struct{ Items []pod }
	if err := s.look(ctx, &list, "alice", "mlbatch", "kubectl", "get", "pods", "-o", "json"); err != nil {
		return nil, err
	}
	out := map[string][]pod{}
	for _, p := range list.Items {
		if p.Status.Phase == "Running" && p.Metadata.DeletionTimestamp == "" {
			name := p.Metadata.Labels["batch.kubernetes.io/job-name"]
			out[name] = append(out[name], p)
		}
	}
	return out, nil
}

// racks are the racks in which pods run.
func (s *show) racks(ctx context.Context, pods []pod) ([]string, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
		}
	}
	if err := s.look(ctx, &list, "", "mlbatch", "kubectl", "get", "nodes", "-o", "json"); err != nil {
		return nil, err
	}
	var out []string
	for _, n := range list.Items {
		on := func(p pod) bool { return p.Spec.NodeName == n.Metadata.Name }
		if in := n.Metadata.Labels[rackLabel]; slices.ContainsFunc(pods, on) && !slices.Contains(out, in) {
			out = append(out, in)
		}
	}
	slices.Sort(out)
	return out, nil
}

func playRack(ctx context.Context, s *show) error {
	experiments := []string{"experiment-a", "experiment-b", "experiment-c"}
	s.say("Three racks of four machines. Alice tries three things, each on three machines of one rack:")
	for _, name := range experiments {
		if err := s.Shell.Write(name+".yaml", rackJob(name, "low-priority", rackNodes-1)); err != nil {
			return err
		}
		if _, err := s.run(ctx, "alice", "mlbatch", "kubectl", "apply", "-f", name+".yaml"); err != nil {
			return err
		}
		if err := s.in(ctx, "blue/"+name, "Running"); err != nil {
			return err
		}
	}
	if _, err := s.run(ctx, "", "mlbatch", "topology"); err != nil {
		return err
	}
	before, err := s.running(ctx)
	if err != nil {
		return err
	}
	s.say("Three machines are free, and no rack has four. The run that counts needs a whole one:")
	if err := s.file("production.yaml", rackJob("production", "high-priority", rackNodes)); err != nil {
		return err
	}
	if _, err := s.run(ctx, "alice", "mlbatch", "kubectl", "apply", "-f", "production.yaml"); err != nil {
		return err
	}
	if err := s.in(ctx, "blue/production", "Running"); err != nil {
		return err
	}
	if _, err := s.run(ctx, "", "mlbatch", "ps", "-A"); err != nil {
		return err
	}
	return s.afterRack(ctx, experiments, before)
}

// afterRack judges what became of the experiments.
func (s *show) afterRack(ctx context.Context, experiments []string, before map[string][]pod) error {
	after, err := s.running(ctx)
	if err != nil {
		return err
	}
	in, err := s.racks(ctx, after["production"])
	if err != nil {
		return err
	}
	s.claim("all four machines of the run that counts are in one rack", oneRack(after["production"], in))
	var stopped []string
	for _, name := range experiments {
		if !sameRun(before[name], after[name]) {
			stopped = append(stopped, name)
		}
	}
	s.claim("one experiment made way, and the others did not notice", exactlyOne(stopped))
	if len(stopped) != 1 {
		return nil
	}
	was, err := s.racks(ctx, before[stopped[0]])
	if err != nil {
		return err
	}
	s.claim("it is the one that was in that rack", equal(was, in))
	s.say("%s waits for its turn, and says for whom:", stopped[0])
	said, err := s.run(ctx, "alice", "mlbatch", "why", stopped[0])
	if err != nil {
		return err
	}
	s.claim(
		"why says for whom it made way",
		contains(said, "Preempted to accommodate the workload blue/production"),
	)
	return nil
}

func oneRack(pods []pod, racks []string) error {
	if len(pods) != rackNodes || len(racks) != 1 {
		return fmt.Errorf("%d pods run, in %s", len(pods), strings.Join(racks, ", "))
	}
	return nil
}

// sameRun reports whether the same pods run as before.
func sameRun(before, after []pod) bool {
	return len(before) == len(after) && !slices.ContainsFunc(before, func(p pod) bool {
		return !slices.ContainsFunc(after, func(o pod) bool { return o.Metadata.UID == p.Metadata.UID })
	})
}

func exactlyOne(stopped []string) error {
	if len(stopped) != 1 {
		return fmt.Errorf("stopped are %q", stopped)
	}
	return nil
}

func equal(a, b []string) error {
	if !slices.Equal(a, b) {
		return fmt.Errorf("it was in %q, the run is in %q", a, b)
	}
	return nil
}

func contains(text, part string) error {
	if !strings.Contains(strings.Join(strings.Fields(text), " "), part) {
		return errors.New("it does not")
	}
	return nil
}
