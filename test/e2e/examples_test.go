package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// staged says how an example is run that cannot simply be typed.
type staged struct {
	// why it cannot.
	why string
	// before and after are typed around it.
	before, after string
	// instead is typed in its place.
	instead string
	// until is what an example prints that goes on for ever: it is interrupted then. Meanwhile is
	// typed again and again until it prints it.
	until, meanwhile string
	// code is the exit code, and says is what it prints, if it is not to succeed.
	code int
	says string
	// own is for examples about a cluster on this machine, which shall not be that of the tests.
	own bool
	// notRun is for those that other tests run.
	notRun bool
}

const (
	stopped  = "waits"
	resumed  = "mlbatch resume clusterqueue blue-cluster-queue"
	theName  = "$(kubectl get workloads -n blue -o name | sed -n 's#.*/\\(pytorchjob-train-.*\\)#\\1#p')"
	noServer = "a simulated node runs no processes"
)

// sakkaraTree is the ConfigMap of a topology.
const sakkaraTree = `kubectl create configmap sakkara-tree --from-literal=name=tree --from-literal='tree={"r1": {"node-0": {}}}' && ` +
	"kubectl label configmap sakkara-tree sakkara.topology="

// inRack puts all nodes into one rack.
const inRack = "kubectl label nodes --all --overwrite cloud.provider.com/topology-rack=rack-1"

// stages are the examples that cannot simply be typed, by their text.
func stages() map[string]staged {
	named := func(line, before string) staged {
		return staged{
			why:     "the end of a Workload's name is of its job's UID",
			before:  before,
			instead: strings.Replace(line, "pytorchjob-train-02fcb", theName, 1),
		}
	}
	checked := func(line string) staged {
		return staged{
			why:     "the cluster has a controller already: what is typed is checked only",
			instead: line + " --check-config",
		}
	}
	out := map[string]staged{
		"mlbatch demo evict --time-scale 1": {
			why:    "as slow as the tutorial; the demo has tests",
			notRun: true,
		},
		"mlbatch demo kinds": {
			why:    "it starts a cluster of its own; TestEveryKindIsHeldAndLosesANode runs all kinds",
			notRun: true,
		},
		"mlbatch demo why": {
			why:    "it starts a cluster of its own; .ci/run types some, all have tests",
			notRun: true,
		},
		"mlbatch demo": {
			why:    "it starts clusters of its own for minutes; the demo has tests",
			notRun: true,
		},
		"mlbatch up": {
			why:    "the cluster of the tests is started by it",
			notRun: true,
		},
		"mlbatch up --monitoring": {
			why:    "TestPrometheusAnswersTheBoards starts a cluster by it",
			notRun: true,
		},
		"mlbatch up --data-dir /tmp/other --detach": {
			why:    "the line above it starts a second cluster, too",
			notRun: true,
		},
		"mlbatch up --detach --nodes 10 --time-scale 60": {
			why:     "not the cluster of the tests; beside it, etcd may be too slow once",
			instead: "mlbatch up --detach --nodes 10 --time-scale 60 || mlbatch up --detach",
			own:     true,
		},
		"sudo mlbatch up --runtime containerd": {
			why:    "it needs root and containerd; test/realpods runs such clusters",
			notRun: true,
		},
		"sudo mlbatch up --bare --runtime containerd": {
			why:    "the same; test/installed runs such a cluster",
			notRun: true,
		},
		"sudo mlbatch demo --runtime containerd": {
			why:    "it needs root and containerd, and takes minutes; test/realpods runs such clusters",
			notRun: true,
		},
		"mlbatch install --image registry.example.com/mlbatch:v1.2.3": {
			why:  "the cluster of mlbatch up has its mlbatch beside it; TestInstall installs",
			code: 1,
			says: "the one of mlbatch up needs no installation",
		},
		"mlbatch install --agent": {
			why:  "the cluster of mlbatch up has its mlbatch beside it; TestInstall installs",
			code: 1,
			says: "the one of mlbatch up needs no installation",
		},
		"mlbatch install --values values.yaml --dry-run=server": {
			why:     "the same, and the file is that of generate",
			instead: "echo 'nodeSelector: {system: only}' | mlbatch install --values - --dry-run=server",
			code:    1,
			says:    "mlbatch-elsewhere",
		},
		"mlbatch uninstall --keep-crds": {
			why:  "nothing is installed there; TestInstall uninstalls",
			code: 1,
			says: "nothing is installed in this cluster",
		},
		"mlbatch uninstall --yes": {
			why:  "the same",
			code: 1,
			says: "nothing is installed in this cluster",
		},
		"mlbatch upgrade --check --values values.yaml": {
			why:     "nothing is installed there, so all of it would change",
			instead: "echo 'nodeSelector: {system: only}' | mlbatch upgrade --check --values -",
			code:    1,
			says:    "No mlbatch is installed in namespace mlbatch-system",
		},

		"mlbatch down":          {why: "not the cluster of the tests", own: true},
		"mlbatch down --delete": {why: "not the cluster of the tests", own: true},

		"mlbatch eta blue/train": {
			why:    "it has to wait",
			before: stopped,
			after:  resumed,
		},
		"mlbatch events -n blue --since 1s -f": {
			why:       "it goes on until it is interrupted",
			meanwhile: "mlbatch requeue blue/train",
			until:     "train",
		},
		"mlbatch ps -n blue -w": {
			why:   "it goes on until it is interrupted",
			until: "train",
		},
		"mlbatch top nodes -w": {
			why:   "it goes on until it is interrupted",
			until: "node-0",
		},
		"mlbatch check --watch --interval 10s": {
			why:   "it goes on until it is interrupted",
			until: "blue-cluster-queue",
		},
		"mlbatch logs -f blue/train": {
			why:    "the job goes on until it is stopped",
			before: "again",
			until:  "torchrun",
		},
		"mlbatch queue delete extra -n blue --yes": {
			why:   "what was made shall not be left",
			after: "mlbatch delete clusterqueue green --yes",
		},
		`mlbatch queue edit blue-cluster-queue --cohort "" --dry-run`: {
			why:    "the example before lends nothing, for which there has to be a cohort",
			before: "mlbatch queue edit blue-cluster-queue --lending-limit nvidia.com/gpu=none",
		},
		"mlbatch queue stop blue-cluster-queue --drain --yes": {
			why:   "the others need the queue",
			after: resumed,
		},
		"mlbatch team create green --gpus 8 --users carol --create-flavor": {
			why:     "the team is there from the example before",
			instead: "mlbatch team create gold --gpus 8 --users carol --create-flavor",
			after:   "kubectl delete clusterqueue gold-cluster-queue && kubectl delete namespace gold --wait=false",
		},
		"mlbatch team create green --gpus 8 --users carol --dry-run=client -o yaml": {
			why:     "the team is there from the example before",
			instead: "mlbatch team create grey --gpus 8 --users carol --dry-run=client -o yaml",
		},
		"mlbatch team create green --gpus 8 --groups vision --borrowing-limit 8 --lending-limit 0": {
			why:     "the team is there from the example before",
			instead: "mlbatch team create vision --gpus 8 --groups vision --borrowing-limit 8 --lending-limit 0",
			after:   "kubectl delete clusterqueue vision-cluster-queue && kubectl delete namespace vision --wait=false",
		},
		"mlbatch capacity -n blue --gpus-per-pod 8 --level rack": {
			why: "nobody has said yet in which racks the nodes are", before: inRack, says: "BOUND BY",
		},
		`mlbatch drain node-1 --reason "fan broken" --wait`: {
			why:     "jobs of other examples may be there, and nobody to be asked",
			instead: `mlbatch drain node-1 --reason "fan broken" --wait --yes`,
		},
		"mlbatch topology --topology gpus": {
			why:    "nobody has said yet in which racks the nodes are",
			before: inRack + " && mlbatch topology detect | sed s/detected/gpus/ | kubectl apply -f -",
			after:  "kubectl delete topology gpus",
			says:   "rack-1",
		},
		"mlbatch topology detect": {
			why: "no node has a label that says where it is", before: inRack, says: "topology-rack",
		},
		"mlbatch topology from-sakkara": {
			why: "no ConfigMap says it", before: sakkaraTree, says: "sakkara.topology.rack",
			after: "kubectl delete configmap sakkara-tree",
		},
		"mlbatch topology from-sakkara | mlbatch kubectl apply -f -": {
			why:    "no ConfigMap says it",
			before: sakkaraTree,
			after:  "kubectl delete configmap sakkara-tree && kubectl delete topology tree",
			says:   "created",
		},
		"mlbatch topology detect | mlbatch kubectl apply -f -": {
			why:    "no node has a label that says where it is",
			before: inRack,
			after:  "kubectl delete topology detected",
		},
		"mlbatch nodes -w": {
			why:   "it goes on until it is interrupted",
			until: "node-0",
		},
		"mlbatch page": {
			why:   "it goes on until it is interrupted",
			until: "/#token=",
		},
		"mlbatch page --kubeconfig ~/.kube/config --as alice --port 7080": {
			why:     "the port may be taken",
			instead: "mlbatch page --kubeconfig ~/.kube/config --as alice",
			until:   "/#token=",
		},
		"mlbatch queue blue-cluster-queue -w": {
			why:   "it goes on until it is interrupted",
			until: "Nothing waits",
		},
		"mlbatch stop clusterqueue blue-cluster-queue --keep-already-running": {
			why:   "the others need the queue",
			after: resumed,
		},
		"mlbatch stop clusterqueue blue-cluster-queue": {
			why:   "the others need the queue",
			after: resumed,
		},
		"mlbatch stop localqueue default-queue -n blue": {
			why:   "the others need the queue",
			after: "mlbatch resume localqueue default-queue -n blue",
		},
		"mlbatch why-not blue/big blue/small": {
			why:    "they have to be there",
			before: "bigAndSmall",
		},
		"mlbatch why-not blue/big 7d0c2a8e-5f6b-4c1d-9e3a-2b4c6d8e0f1a": {
			why:     "the UID is that of a Workload",
			instead: "mlbatch why-not blue/big $(kubectl get workloads -n blue -o custom-columns=N:.metadata.name,U:.metadata.uid | sed -n 's/^job-small-[^ ]* *//p')",
		},
		"mlbatch why-not blue/big blue/small -o json": {
			why:   "they shall not be left",
			after: "mlbatch cancel blue/big blue/small --wait --yes",
		},
		"mlbatch simulate --from-flights ~/.local/share/mlbatch/flights --compare fair.yaml,more.yaml --html past.html": {
			why:    "files of policies are another thing than the worlds above; the tests of simulate have some",
			notRun: true,
		},
		"mlbatch team edit blue --add erin --remove alice": {
			why:   "the others need alice",
			after: "mlbatch team edit blue --add alice --remove erin",
		},

		"mlbatch cancel -n blue -l sweep=lr --yes --wait": {
			why:    "the example before cancelled it",
			before: "again",
		},
		"mlbatch cp blue/train:/checkpoints/last.pt .": {
			why:    noServer,
			before: "again",
			code:   1,
			says:   "is on a simulated node",
		},
		"mlbatch cp config.yaml blue/train:/work/ --rank worker-1": {
			why:  noServer,
			code: 1,
			says: "is on a simulated node",
		},
		"mlbatch exec blue/train -- nvidia-smi": {
			why:  noServer,
			code: 1,
			says: "is on a simulated node",
		},
		"mlbatch exec -it blue/train --rank worker-1 -- bash": {
			why:     "a test has no terminal, and " + noServer,
			instead: "mlbatch exec -i blue/train --rank worker-1 -- bash",
			code:    1,
			says:    "is on a simulated node",
		},
		"mlbatch port blue/ray-cluster 8265": {
			why:  noServer,
			code: 1,
			says: "is on a simulated node",
		},
		"mlbatch port blue/ray-cluster 9000:8265": {
			why:  noServer,
			code: 1,
			says: "is on a simulated node",
		},
		"mlbatch hold blue/train": {
			why:    "it has to wait",
			before: stopped,
			after:  "mlbatch release blue/train; " + resumed,
		},
		"mlbatch hold blue/train --stop": {
			why:    "it has to run",
			before: "again",
		},
		"mlbatch logs blue/train --rank 3 --previous": {
			why:    "a container has to fail first",
			before: "flaky; mlbatch wait blue/train --for succeeded; until kubectl get pod -n blue train-worker-2 -o jsonpath='{.status.containerStatuses[0].restartCount}' | grep -q '[1-9]'; do sleep 0.1; done",
		},
		"mlbatch prio blue/train high-priority": {
			why:    "it has to be there",
			before: "again",
		},
		"mlbatch release blue/train": {
			why:    "it has to be held",
			before: "mlbatch hold blue/train --stop",
		},
		"mlbatch release -n blue -l sweep=lr": {
			why:    "it has to be held",
			before: "mlbatch hold blue/train --stop",
		},
		"mlbatch requeue blue/train": {
			why:    "it has to run",
			before: "again",
		},
		"mlbatch wait blue/train --for succeeded && ./evaluate.sh": {
			why:    "it has to end",
			before: "flaky",
			after:  "again",
		},
		"mlbatch check --metrics > mlbatch.prom": {
			why:  "its exit code tells of findings, and the examples before leave some",
			code: -1,
		},
		"mlbatch import kueue --rollback --yes": {
			why:  "the cluster was never Kueue's; test/upgrade imports one that was",
			code: 1,
			says: "nothing was imported",
		},
		"mlbatch import mlbatch --rollback --yes": {
			why:  "the cluster was never MLBatch's; test/upgrade imports one that was",
			code: 1,
			says: "nothing was imported",
		},
		"mlbatch flavor create default-flavor": {
			why:  "the tutorial has it",
			code: 1,
			says: "is there already",
		},
		"mlbatch replay flights/ --until 12:00 --why blue/train": {
			why:     "at noon the cluster was not there yet",
			instead: "mlbatch replay flights/ --until $(date -u +%FT%TZ) --why blue/train",
		},
		"mlbatch replay flights/ --timeline --from 11:30 --until 12:00 --queue blue-cluster-queue": {
			why:     "before noon the cluster was not there yet",
			instead: "mlbatch replay flights/ --timeline --from $(date -u -d '-1 hour' +%FT%TZ) --until $(date -u +%FT%TZ) --queue blue-cluster-queue",
		},
		"mlbatch replay flights/flight-00000003.jsonl -o json": {
			why:     "that many need not be there",
			instead: "mlbatch replay flights/$(ls flights | head -1) -o json",
		},
		"mlbatch sbatch --namespace blue --image python:3.12 --test-only train.sh": {
			why:  "it is to say when",
			says: " in partition default-queue",
		},
		"mlbatch scancel --namespace blue train-12345": {
			why:     "sbatch chooses the number",
			instead: "mlbatch scancel --namespace blue $(mlbatch sbatch --namespace blue --image python:3.12 --parsable train.sh)",
		},
		`mlbatch create clusterqueue green --cohort default-cohort --reclaim-within-cohort Any --nominal-quota "default-flavor:cpu=10;memory=64Gi"`: {
			why:    "it is there from the example before",
			before: "mlbatch delete clusterqueue green --yes",
		},
		"mlbatch delete clusterqueue green --yes": {
			why:    "it has to be there",
			before: "mlbatch create clusterqueue green || true",
		},
		"mlbatch controller": checked("mlbatch controller"),
		"mlbatch agent --node node-0 --kubeconfig ~/.local/share/mlbatch/kubeconfig --secure=false": {
			why:     "the ports may be taken",
			instead: "mlbatch agent --node node-0 --kubeconfig ~/.kube/config --secure=false --bind-address 127.0.0.1 --port 0 --health-port 0",
			until:   "msg=Checks",
		},
		"mlbatch agent --node node-0 --write-label": {
			why:    "it needs the service account of a pod; TestAnAgentRunsToolsAndTellsItsNode runs an agent",
			notRun: true,
		},
		"mlbatch logs blue/train --evidence": {
			why: "the job does not hang, and states no steps", code: 1, says: "nothing was kept of blue/train",
		},
		"mlbatch agent check remapped xid --kernel-log /dev/kmsg -o json": {
			why:     "the kernel log is for root",
			instead: "mlbatch agent check remapped xid -o json",
		},
		"mlbatch agent copy /program/mlbatch": {
			why:     "the program would be in the root of this machine",
			instead: "mlbatch agent copy ./copied",
		},
		"mlbatch scheduler --kubeconfig ~/.kube/config": {
			why:   "it goes on until it is interrupted",
			until: "Starting scheduler",
		},
		"mlbatch scheduler --scheduler-names mlbatch-scheduler,default-scheduler": {
			why:     "the service account is that of a pod",
			instead: "mlbatch scheduler --kubeconfig ~/.kube/config --scheduler-names other-scheduler",
			until:   "Starting scheduler",
		},
	}
	for line, before := range map[string]string{
		"mlbatch delete workload pytorchjob-train-02fcb -n blue --yes": "again",
		"mlbatch stop workload pytorchjob-train-02fcb -n blue":         "again",
		"mlbatch resume workload pytorchjob-train-02fcb -n blue":       "again; mlbatch stop workload " + theName + " -n blue",
	} {
		out[line] = named(line, before)
	}
	for _, line := range []string{
		"mlbatch controller --kubeconfig ~/.kube/config --bind-address 127.0.0.1 --webhook-cert-dir ./certs",
		"mlbatch controller --kinds pytorchjob=queue,tfjob=queue,rayjob=queue,raycluster=queue",
	} {
		out[line] = checked(line)
	}
	return out
}

// examplesOf are the lines that the help of each command shows, in the order of the page that is
// made of it, save that the cluster of one's own ends last.
func examplesOf(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, more := range [][]string{{"--help"}, {"help", "--help"}} { // the page begins below them
		out, err := cluster.Run(t.Context(), more...)
		if err != nil {
			t.Fatal(err)
		}
		text += "\n### mlbatch\n" + out
	}
	var lines, last []string
	for section := range strings.SplitSeq(text, "\n### ") {
		command, _, _ := strings.Cut(section, "\n")
		const title = "\nExamples:\n"
		at := strings.LastIndex(section, title) // what a command says of itself may have such a title
		if at < 0 {
			if command != "" && strings.HasPrefix(command, "mlbatch") {
				t.Errorf("%s has no example", command)
			}
			continue
		}
		after, _, _ := strings.Cut(section[at+len(title):], "\n```")
		own := 0
		for line := range strings.SplitSeq(after, "\n") {
			if line != "" && !strings.HasPrefix(line, "  ") {
				break
			}
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if line == command || strings.HasPrefix(line, command+" ") {
				own++
			}
			if strings.HasPrefix(line, "mlbatch down") {
				last = append(last, line)
			} else {
				lines = append(lines, line)
			}
		}
		if own == 0 {
			t.Errorf("no example of %s is one of it", command)
		}
	}
	return slices.Concat(lines, last)
}

// stage is where examples are typed.
type stage struct{ dir, home string }

// newStage makes the folder that examples are typed in, and the programs beside mlbatch that they
// name.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir(), home: t.TempDir()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(file, text string) {
		must(os.WriteFile(filepath.Join(s.dir, file), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	must(os.CopyFS(s.dir, os.DirFS("testdata/examples")))
	for _, d := range []string{s.dir + "/bin", s.dir + "/manifests", s.home + "/.kube", s.home + "/.local/share"} {
		must(os.MkdirAll(d, 0o700))
	}
	must(os.Symlink("../job.yaml", s.dir+"/manifests/job.yaml"))
	must(os.Symlink(cluster.Binary, s.dir+"/bin/mlbatch"))
	must(os.Symlink(filepath.Join(cluster.Dir, "flights"), s.dir+"/flights"))
	must(os.Symlink(cluster.Dir, s.home+"/.local/share/mlbatch"))
	must(os.Symlink(filepath.Join(cluster.Dir, "kubeconfig"), s.home+"/.kube/config"))
	for _, policy := range []string{"fifo", "preempting", "fair"} {
		world, err := os.ReadFile("../../examples/simulate/fair-sharing.yaml")
		must(err)
		must(
			os.WriteFile(
				filepath.Join(s.dir, policy+".yaml"),
				bytes.Replace(world, []byte("fair sharing"), []byte(policy), 1),
				0o600,
			),
		)
	}
	write("evaluate.sh", "exit 0")
	write("bin/kubectl", `exec mlbatch kubectl "$@"`)
	// Only what the examples talk about, with its job as it was in the beginning, or so that its containers fail once and
	// then succeed; pods that still run when the master has ended stay.
	const anew = "kubectl delete pytorchjobs,jobs,jobsets,appwrappers -n blue --all >/dev/null && kubectl apply -f - >/dev/null && "
	write("bin/again", "cat cluster.yaml | { "+anew+"mlbatch wait -n blue -l sweep=lr --for running; }")
	write(
		"bin/flaky",
		`sed 's#run-for: forever#run-for: 2s, mlbatch.dev/fail-first: "1", mlbatch.dev/exit-code: "3"#; s#^  pytorchReplicaSpecs:#  runPolicy: {cleanPodPolicy: None}\n&#' cluster.yaml | { `+anew+"true; }",
	)
	write(
		"bin/waits",
		`mlbatch stop clusterqueue blue-cluster-queue && until mlbatch eta -n blue 2>/dev/null | grep -q train; do sleep 0.1; done`,
	)
	write(
		"bin/bigAndSmall",
		`kubectl apply -f big-and-small.yaml >/dev/null && mlbatch wait blue/small --for running && until mlbatch ps -n blue --state Waiting -o name | grep -q big; do sleep 0.1; done`,
	)
	return s
}

// shell is a line to be typed.
func (s *stage) shell(ctx context.Context, line string, own bool) *exec.Cmd { //nolint:revive // a fact
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
	data := cluster.Dir
	if own {
		data = s.home + "/own"
	}
	cmd.Dir = s.dir
	cmd.Env = append(
		os.Environ(),
		"HOME="+s.home,
		"MLBATCH_DATA_DIR="+data,
		"PATH="+s.dir+"/bin:"+os.Getenv("PATH"),
		"KUBECONFIG="+data+"/kubeconfig",
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// exit types a line and returns its exit code.
func (s *stage) exit(ctx context.Context, line string, own bool) (int, string) {
	cmd := s.shell(ctx, line, own)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // what it left in the background may keep the output open
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return 0, out.String()
	case errors.As(err, &ended):
		return ended.ExitCode(), out.String()
	}
	return -1, err.Error()
}

// prints collects what a program prints.
type prints struct {
	sync.Mutex
	bytes.Buffer
}

func (p *prints) Write(b []byte) (int, error) {
	p.Lock()
	defer p.Unlock()
	return p.Buffer.Write(b)
}

func (p *prints) has(text string) bool {
	p.Lock()
	defer p.Unlock()
	return strings.Contains(p.String(), text)
}

// goesOn types a line that goes on until it is interrupted.
func (s *stage) goesOn(t *testing.T, line string, how staged) {
	t.Helper()
	cmd := s.shell(t.Context(), "exec "+line, how.own)
	var out prints
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		_ = cmd.Wait() // by the interrupt, which is no news
	}()
	eventually(t, fmt.Sprintf("%s prints %q", line, how.until), func() string {
		if out.has(how.until) {
			return ""
		}
		if how.meanwhile != "" {
			if code, text := s.exit(t.Context(), how.meanwhile, how.own); code != 0 {
				return text
			}
		}
		out.Lock()
		defer out.Unlock()
		return "it printed only " + strconv.Quote(out.String())
	})
}

// TestExamples types every example of every command. The table says for which more is needed, and
// why; one that is not in it has to succeed as it is.
func TestExamples(t *testing.T) {
	another(t, "--nodes", "6")
	s, all := newStage(t), stages()
	t.Cleanup(func() {
		s.exit(context.Background(), "mlbatch down --delete", true)
	})
	if code, out := s.exit(t.Context(), "again", false); code != 0 {
		t.Fatalf("the world of the examples: %s", out)
	}
	done := map[string]bool{}
	for _, line := range examplesOf(t) {
		if done[line] {
			continue
		}
		done[line] = true
		how, is := all[line]
		if is && how.why == "" {
			t.Errorf("%s: the table does not say why", line)
		}
		if how.notRun {
			t.Logf("%s: not run: %s", line, how.why)
			continue
		}
		t.Run(line, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 4*patience)
			defer stop()
			typing := func(line string) {
				t.Helper()
				if line == "" {
					return
				}
				if code, out := s.exit(ctx, line, how.own); code != 0 {
					t.Fatalf("%s: %d\n%s", line, code, out)
				}
			}
			typing(how.before)
			typed := line
			if how.instead != "" {
				typed = how.instead
			}
			if how.until != "" {
				s.goesOn(t, typed, how)
			} else if code, out := s.exit(ctx, typed, how.own); how.code >= 0 && code != how.code || !strings.Contains(out, how.says) {
				t.Errorf("%s exits with %d, want %d and %q\n%s", typed, code, how.code, how.says, out)
			}
			typing(how.after)
		})
	}
	for _, line := range slices.Sorted(maps.Keys(all)) {
		if !done[line] {
			t.Errorf("the table has %q, which is no example of any command", line)
		}
	}
}
