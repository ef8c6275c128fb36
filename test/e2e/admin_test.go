package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/finding"
)

// enter types commands as the administrator, each of which has to succeed.
func enter(t *testing.T, commands ...string) string {
	t.Helper()
	last := ""
	for _, c := range commands {
		out, err := tries(t, c)
		if err != nil {
			t.Fatalf("%v\n%s", err, story(t))
		}
		last = out
	}
	return last
}

// tries types a command: of mlbatch, or of kubectl.
func tries(t *testing.T, command string) (string, error) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(command, "'", ""))
	switch words[0] {
	case "kubectl":
		words = slices.Concat([]string{"kubectl", "--data-dir", cluster.Dir}, words[1:])
	case "mlbatch":
		words = words[1:]
	}
	return cluster.Run(t.Context(), words...)
}

// diagnose asks the doctor.
func diagnose(t *testing.T) []finding.Finding {
	t.Helper()
	var answer struct {
		Findings []finding.Finding `json:"findings"`
	}
	out := enter(t, "doctor -o json --fail-on none")
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return answer.Findings
}

// isWell is a check that the doctor finds nothing.
func isWell(t *testing.T) func() string {
	t.Helper()
	return func() string {
		if found := diagnose(t); len(found) > 0 {
			return fmt.Sprintf("%+v", found)
		}
		return ""
	}
}

// An administrator sets up an empty cluster by commands alone: a flavor, a team whose people run
// jobs, changes, a stop, the end. What is wrong on the way the doctor finds, and what it says
// helps.
func TestAdministratorSetsUpACluster(t *testing.T) {
	another(t, "--empty", "--nodes", "3")
	eventually(t, "an empty cluster is well", isWell(t))
	if _, err := tries(
		t,
		"team create green --gpus 8 --users alice",
	); err == nil ||
		!strings.Contains(err.Error(), "mlbatch flavor create default-flavor") {
		t.Errorf("a team without a flavor: %v", err)
	}
	enter(
		t,
		"flavor create default-flavor",
		"team create green --gpus 8 --users alice",
		"team create gold --gpus 8 --users bob",
	)
	if out := enter(t, "team create green --gpus 8 --users alice"); strings.Contains(out, "created") {
		t.Errorf("again it makes something: %s", out)
	}
	if out, err := tries(
		t,
		"team create green --gpus 4 --users alice",
	); err == nil ||
		!strings.Contains(err.Error(), "is 8, asked for 4") {
		t.Errorf("another quota: %v, %s", err, out)
	}
	eventually(t, "a cluster with teams is well", isWell(t))

	alice := user(t, "alice")
	create(t, alice, gang("train", 2, 8, 6000), "green")
	eventually(t, "alice's job runs, on what gold lends", inPhase(t, "Running", "green", "train"))
	says := func(command string, words ...string) func() string {
		return func() string { // what queues use is written a moment after a job runs
			out := enter(t, command)
			if i := slices.IndexFunc(words, func(w string) bool { return !strings.Contains(out, w) }); i >= 0 {
				return fmt.Sprintf("%q is not in %s", words[i], out)
			}
			return ""
		}
	}
	eventually(t, "the team is shown", says("team green", "Jobs: 1 running", "People: alice"))
	eventually(
		t,
		"and what alice may see of it, her quota with it",
		says("team green --as alice", "You may not read RoleBindings", "nvidia.com/gpu  8        16    8"),
	)
	if _, err := tries(t, "team edit green --gpus 4"); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("less than is in use, without a word: %v", err)
	}
	enter(t, "team edit green --gpus 16 --add carol", "queue stop green-cluster-queue --drain --yes")
	eventually(t, "what runs is stopped", inPhase(t, "Suspended", "green", "train"))
	enter(t, "queue resume green-cluster-queue")
	eventually(t, "and runs again", inPhase(t, "Running", "green", "train"))

	faultsAreCured(t)

	if _, err := tries(t, "team delete green --yes"); err == nil || !strings.Contains(err.Error(), "--drain") {
		t.Errorf("a team whose jobs run: %v", err)
	}
	enter(t, "team delete green --drain --yes")
	if out := enter(t, "team list"); strings.Contains(out, "green") || !strings.Contains(out, "gold") {
		t.Errorf("teams afterwards: %s", out)
	}
	if out := enter(t, "queue"); strings.Contains(out, "green") {
		t.Errorf("queues afterwards: %s", out)
	}
}

// faultsAreCured makes things wrong one by one. The doctor finds each, and nothing is left of it
// once its cure was typed.
func faultsAreCured(t *testing.T) {
	t.Helper()
	for _, tc := range []struct {
		rule, object string
		make, after  []string
	}{
		{"queue-stopped", "clusterqueue/gold-cluster-queue", []string{"queue stop gold-cluster-queue"}, nil},
		{"weight-zero", "clusterqueue/gold-cluster-queue", []string{"queue edit gold-cluster-queue --weight 0"}, nil},
		{"lent-for-ever", "clusterqueue/gold-cluster-queue", []string{"queue edit gold-cluster-queue --reclaim-within-cohort Never"}, nil},
		{"flavor-unused", "resourceflavor/old", []string{"flavor create old"}, nil},
		{"queue-without-quota", "clusterqueue/none", []string{"queue create none --quota nvidia.com/gpu=0 --flavor default-flavor"}, []string{"queue delete none --yes"}},
		{"queue-without-namespaces", "clusterqueue/closed", []string{"create cq closed --nominal-quota default-flavor:cpu=1", `kubectl patch clusterqueue closed --type=merge -p '{"spec":{"namespaceSelector":null}}'`}, []string{"queue delete closed --yes"}},
		{"queue-inactive", "clusterqueue/typo", []string{"queue create typo --nominal-quota gone:cpu=1"}, []string{"queue delete typo --yes", "flavor delete gone"}},
		{"flavor-without-nodes", "resourceflavor/spot", []string{"flavor create spot --node-labels pool=spot", "queue create spotty --nominal-quota spot:cpu=1"}, []string{"queue delete spotty --yes", "flavor delete spot"}},
		{"localqueue-leads-nowhere", "localqueue/lost in gold", []string{"queue create lost -n gold -c nowhere -i"}, []string{"queue delete lost -n gold --yes", "queue delete nowhere --yes"}},
		{"team-without-queue", "namespace/gold", []string{"queue delete default-queue -n gold --yes"}, nil},
		{"node-out", "node/node-0", []string{"drain node-0 --reason fan --yes"}, nil},
		{"default-priority-highest", "priorityclass/top", []string{"kubectl create priorityclass low --value=1", "kubectl create priorityclass top --value=10 --global-default=true"}, []string{"kubectl delete priorityclass low top"}},
		{"other-manager", "deployment/kueue-controller-manager in default", []string{"kubectl create deployment kueue-controller-manager --image=x -n default"}, []string{"kubectl delete deployment kueue-controller-manager -n default"}},
	} {
		enter(t, tc.make...)
		var found finding.Finding
		eventually(t, tc.rule+" is found", func() string {
			all := diagnose(t)
			at := slices.IndexFunc(
				all,
				func(x finding.Finding) bool { return x.Rule == tc.rule && x.Object == tc.object },
			)
			if at < 0 {
				return fmt.Sprintf("%+v", all)
			}
			found = all[at]
			return ""
		})
		enter(t, strings.ReplaceAll(found.Cure, "NODE", "node-1"))
		eventually(t, tc.rule+" is cured by "+found.Cure, func() string {
			if all := diagnose(
				t,
			); slices.ContainsFunc(
				all,
				func(x finding.Finding) bool { return x.Rule == tc.rule },
			) {
				return fmt.Sprintf("%+v", all)
			}
			return ""
		})
		enter(t, tc.after...)
	}
	// One node's job may have to start again; what the faults left is nothing.
	eventually(t, "the cluster is well again", isWell(t))
}
