package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/facts"
)

// TestWhatOneSubmitsIsFoundByThatName: a StatefulSet, a LeaderWorkerSet, a Deployment and a group of
// which a pod is missing have one name in all commands, that under which they were submitted.
func TestWhatOneSubmitsIsFoundByThatName(t *testing.T) {
	c := cluster(t, "testdata/submitted/cluster.yaml").Build()
	s, err := cli.TakeSurvey(t.Context(), c, "blue", client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range s.Rows {
		r := &s.Rows[i]
		lines = append(lines, fmt.Sprintf("%s %s %s %d/%d %d", r.Kind, r.Name, r.State, r.Running, r.Pods, r.Held))
	}
	slices.Sort(lines)
	want := []string{
		"Deployment web Waiting 1/2 1", "LeaderWorkerSet llm Waiting 1/2 1", "Pod shards Held 0/2 0", "StatefulSet db Running 2/2 2",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("ps has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}

	for name, want := range map[string]struct {
		state  facts.State
		reason string
		says   string
	}{
		"db":     {facts.Running, "Admitted", "StatefulSet blue/db was admitted"},
		"llm":    {facts.Waiting, "PodsQueued", "its pods are, as Workloads leaderworkerset-llm-0, leaderworkerset-llm-1"},
		"web":    {facts.Waiting, "PodsQueued", "its pods are, one by one"},
		"shards": {facts.Held, "GroupIncomplete", "is held until all 3 pods of it are created; there are 2 pods: shard-0, shard-1"},
	} {
		p, err := cli.Gather(t.Context(), c, story{}, cli.Ref{Namespace: "blue", Name: name}, now())
		if err != nil {
			t.Errorf("why %s: %v", name, err)
			continue
		}
		if e := cli.Explain(p); e.State != want.state || e.Reason != want.reason || !strings.Contains(strings.Join(e.Sentences, " "), want.says) {
			t.Errorf("why %s: %s %s %q, want %+v", name, e.State, e.Reason, e.Sentences, want)
		}
		shown, err := cli.Show(t.Context(), c, nil, cli.Ref{Namespace: "blue", Name: name}, 0, now())
		if err != nil {
			t.Errorf("show %s: %v", name, err)
			continue
		}
		if shown.State != want.state || shown.Queue != "q" || len(shown.Pods) != 2 {
			t.Errorf("show %s: %s, queue %q, %d pods", name, shown.State, shown.Queue, len(shown.Pods))
		}
	}

	nodes, _, err := cli.TakeNodes(t.Context(), c)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	if got := fmt.Sprint(nodes[0].Jobs); got != "map[blue/db:2 blue/llm:1 blue/web:1]" {
		t.Errorf("nodes have %s", got)
	}
}
