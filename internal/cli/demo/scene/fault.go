package scene

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

func fault() Scene {
	return Scene{
		Name:  "fault",
		Title: "a GPU dies under a job: found, left, tested, back",
		Opening: "Of a few hundred machines one breaks each day, and a large job has to get on without somebody at a " +
			"keyboard. A check on a machine finds a dead GPU; the pods there go elsewhere, the others stay where they are, " +
			"nothing new starts on the machine until a deep test passes, and each step says why.",
		Cluster: &Cluster{Nodes: 5, TimeScale: 1, Configuration: faultConfiguration},
		play:    playFault,
	}
}

// faultConfiguration has mlbatch write labels of nodes, and give those back early that are well again.
const faultConfiguration = `apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
nodeHealth: {mode: Act, returnAfter: 3s}
`

// faultPods are the pods of the job, one on each machine.
const faultPods = 3

const faultJob = `apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {kueue.x-k8s.io/queue-name: default-queue}
spec:
  parallelism: 3
  completions: 3
  completionMode: Indexed
  podFailurePolicy: # to lose a machine is no failure of the program
    rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - {name: train, image: "python:3.12", command: [sleep, "100000"], resources: {limits: {nvidia.com/gpu: 8}}}
`

// checks is the report of an agent on a machine, as it writes it there.
func checks(found time.Time, passed time.Time) string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	xid := fmt.Sprintf(
		`{"name":"xid","result":"Fatal","at":%q,"devices":["3"],"message":"XID 79: the GPU has fallen off the bus"}`,
		at(found),
	)
	if passed.IsZero() {
		return fmt.Sprintf(`mlbatch.dev/checks={"at":%q,"checks":[%s]}`, at(found), xid)
	}
	return fmt.Sprintf(
		`mlbatch.dev/checks={"at":%q,"checks":[{"name":"invasive","result":"Passed","deep":true,"at":%q},%s]}`,
		at(passed), at(passed), xid,
	)
}

func playFault(ctx context.Context, s *show) error {
	s.say("mlbatch may act on machines here, which an administrator allows:")
	if _, err := s.run(
		ctx, "", "mlbatch", "kubectl", "create", "clusterrolebinding", "mlbatch-controller-nodes",
		"--clusterrole=mlbatch-controller-nodes", "--user=mlbatch-controller",
	); err != nil {
		return err
	}
	s.say("Alice trains on three of five machines, 24 GPUs:")
	if err := s.file("train.yaml", faultJob); err != nil {
		return err
	}
	if _, err := s.run(ctx, "alice", "mlbatch", "kubectl", "apply", "-f", "train.yaml"); err != nil {
		return err
	}
	var before []pod
	err := s.until(ctx, "all pods run", func(ctx context.Context) (bool, error) {
		all, err := s.running(ctx)
		before = all["train"]
		return len(before) == faultPods, err
	})
	if err != nil {
		return err
	}
	if _, err := s.run(ctx, "", "mlbatch", "nodes"); err != nil {
		return err
	}
	bad := before[0].Spec.NodeName
	s.say(
		"GPU 3 of %s falls off the bus. The agent on it reads that in the kernel log, and tells it by an annotation of "+
			"its machine, which is typed here in its place:",
		bad,
	)
	found := s.Clock.Now()
	if _, err := s.run(
		ctx, "", "mlbatch", "kubectl", "annotate", "node", bad, checks(found, time.Time{}),
	); err != nil {
		return err
	}
	if err := s.leaves(ctx, bad, before, found); err != nil {
		return err
	}
	return s.returns(ctx, bad, found)
}

// leaves waits until a machine is left by the job, and judges what became of that.
func (s *show) leaves(ctx context.Context, bad string, before []pod, found time.Time) error {
	if err := s.health(ctx, bad, "Draining"); err != nil {
		return err
	}
	seen := s.Clock.Since(found)
	var after []pod
	err := s.until(ctx, "the job runs elsewhere", func(ctx context.Context) (bool, error) {
		all, err := s.running(ctx)
		after = all["train"]
		return len(after) == faultPods && !on(after, bad), err
	})
	if err != nil {
		return err
	}
	s.say(
		"The machine was out of service after %.1f s, and all pods of the job run again after %.1f s. (Kubernetes waits "+
			"for ten seconds before it makes a pod anew.)",
		seen.Seconds(),
		s.Clock.Since(found).Seconds(),
	)
	if _, err := s.run(ctx, "", "mlbatch", "nodes"); err != nil {
		return err
	}
	s.claim("the finding took the machine out of service within 5 s", within(seen, 5*time.Second))
	s.claim("one pod moved, and the others did not notice", moved(before, after, bad))
	said, err := s.run(ctx, "alice", "mlbatch", "events", "train")
	if err != nil {
		return err
	}
	s.claim("the events of the job name the pod that left and its machine", errors.Join(
		contains(said, "Evacuated"), contains(said, bad)))
	all, err := s.jobs(ctx)
	if err != nil {
		return err
	}
	s.claim("the job kept its quota all the time", keptQuota(all["blue/train"], found))
	return nil
}

// returns has a deep test pass on a machine, and waits until that takes work again.
func (s *show) returns(ctx context.Context, bad string, found time.Time) error {
	s.say(
		"Somebody swaps the GPU. The other checks pass, and that is not enough for what was fatal: only a deep test " +
			"that passes, or an administrator (mlbatch nodes clear), brings the machine back. The test passes:",
	)
	passed := s.Clock.Now()
	if passed.Sub(found) < 2*time.Second { // reports have whole seconds, and it must be later
		passed = found.Add(2 * time.Second)
	}
	still, err := s.node(ctx, bad)
	if err != nil {
		return err
	}
	s.claim("the machine takes no work until then", is(still.Health.State, "Draining"))
	if _, err := s.run(
		ctx, "", "mlbatch", "kubectl", "annotate", "node", bad, "--overwrite", checks(found, passed),
	); err != nil {
		return err
	}
	err = s.until(ctx, bad+" takes work", func(ctx context.Context) (bool, error) {
		n, err := s.node(ctx, bad)
		return n.State == "Ready", err
	})
	if err != nil {
		return err
	}
	s.say("A job that needs two machines, of which one must be this one, as the others are in use:")
	if err := s.Shell.Write("next.yaml", strings.NewReplacer(
		"name: train\n", "name: next\n", "parallelism: 3", "parallelism: 2", "completions: 3", "completions: 2",
	).Replace(faultJob)); err != nil {
		return err
	}
	if _, err := s.run(ctx, "alice", "mlbatch", "kubectl", "apply", "-f", "next.yaml"); err != nil {
		return err
	}
	var next []pod
	err = s.until(ctx, "the next job runs", func(ctx context.Context) (bool, error) {
		all, err := s.running(ctx)
		next = all["next"]
		return len(next) == 2, err
	})
	if err != nil {
		return err
	}
	var there error
	if !on(next, bad) {
		there = errors.New("it runs elsewhere")
	}
	s.claim("after the test the machine takes work again, and the next job starts there", there)
	_, err = s.run(ctx, "", "mlbatch", "nodes")
	return err
}

// health waits until findings give a machine a state.
func (s *show) health(ctx context.Context, name, state string) error {
	return s.until(ctx, name+" is "+state, func(ctx context.Context) (bool, error) {
		n, err := s.node(ctx, name)
		return n.Health.State == state, err
	})
}

func (s *show) node(ctx context.Context, name string) (node, error) {
	all, err := s.nodes(ctx)
	if err != nil {
		return node{}, err
	}
	i := slices.IndexFunc(all, func(n node) bool { return n.Name == name })
	if i < 0 {
		return node{}, fmt.Errorf("there is no node %s", name)
	}
	return all[i], nil
}

func on(pods []pod, node string) bool {
	return slices.ContainsFunc(pods, func(p pod) bool { return p.Spec.NodeName == node })
}

// moved says what is wrong if other pods than those on a machine are not the same as before.
func moved(before, after []pod, bad string) error {
	stay := slices.DeleteFunc(slices.Clone(before), func(p pod) bool { return p.Spec.NodeName == bad })
	for _, p := range stay {
		if !slices.ContainsFunc(after, func(o pod) bool { return o.Metadata.UID == p.Metadata.UID }) {
			return fmt.Errorf("the pod on %s is gone, too", p.Spec.NodeName)
		}
	}
	if len(stay) != len(before)-1 {
		return fmt.Errorf("%d of %d pods were elsewhere", len(stay), len(before))
	}
	return nil
}

func within(took, most time.Duration) error {
	if took > most {
		return fmt.Errorf("it took %.1f s", took.Seconds())
	}
	return nil
}

func is(got, want string) error {
	if got != want {
		return fmt.Errorf("it is %q", got)
	}
	return nil
}

// keptQuota says what is wrong if a job was given quota after a moment.
func keptQuota(j job, since time.Time) error {
	if j.State != "Running" || j.Started.After(since) {
		return fmt.Errorf("it is %s, since %s", j.State, j.Started.UTC().Format(time.TimeOnly))
	}
	return nil
}
