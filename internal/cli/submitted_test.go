package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// TestWhatOneSubmitsIsFoundByThatName: a StatefulSet, a LeaderWorkerSet, a Deployment and a group of
// which a pod is missing have one name in all commands, that under which they were submitted.
func TestWhatOneSubmitsIsFoundByThatName(t *testing.T) {
	c := cluster(t, "testdata/submitted/cluster.yaml").Build()
	s, err := gather.Jobs(t.Context(), c, "blue", client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range s.Items {
		r := &s.Items[i]
		lines = append(lines, fmt.Sprintf("%s %s %s %d/%d %d", r.Kind, r.Name, r.State, r.Running, r.Pods, r.Held))
	}
	slices.Sort(lines)
	want := []string{
		"Deployment web Waiting 1/2 1",
		"LeaderWorkerSet llm Waiting 1/2 1",
		"Pod shards Held 0/2 0",
		"StatefulSet db Running 2/2 2",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("ps has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}

	for name, want := range map[string]struct {
		state  view.State
		reason string
		says   string
	}{
		"db":     {view.Running, "Admitted", "StatefulSet blue/db was admitted"},
		"llm":    {view.Waiting, "PodsQueued", "its pods are, as Workloads leaderworkerset-llm-0, leaderworkerset-llm-1"},
		"web":    {view.Waiting, "PodsQueued", "its pods are, one by one"},
		"shards": {view.Held, "GroupIncomplete", "is held until all 3 pods of it are created; there are 2 pods: shard-0, shard-1"},
	} {
		p, err := why.Gather(t.Context(), c, story{}, view.Ref{Namespace: "blue", Name: name}, now())
		if err != nil {
			t.Errorf("why %s: %v", name, err)
			continue
		}
		if e := why.Explain(
			p,
		); e.State != want.state || e.Reason != want.reason ||
			!strings.Contains(strings.Join(e.Sentences, " "), want.says) {
			t.Errorf("why %s: %s %s %q, want %+v", name, e.State, e.Reason, e.Sentences, want)
		}
		shown, err := why.Show(t.Context(), c, nil, view.Ref{Namespace: "blue", Name: name}, 0, now())
		if err != nil {
			t.Errorf("show %s: %v", name, err)
			continue
		}
		if shown.State != want.state || shown.Queue != "q" || len(shown.Pods) != 2 {
			t.Errorf("show %s: %s, queue %q, %d pods", name, shown.State, shown.Queue, len(shown.Pods))
		}
	}

	nodes, _, err := gather.Nodes(t.Context(), c)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	if got := fmt.Sprint(nodes[0].Jobs); got != "map[blue/db:2 blue/llm:1 blue/web:1]" {
		t.Errorf("nodes have %s", got)
	}
}

// TestWhatHasNoPodsIsListedWithTheReason: what makes pods that are queued one by one or in groups is
// in no queue before the first of them is there. It is listed all the same, and why says what keeps
// them from being made.
func TestWhatHasNoPodsIsListedWithTheReason(t *testing.T) {
	c := cluster(t, "testdata/submitted/unmade.yaml").Build()
	s, err := gather.Jobs(t.Context(), c, "", client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range s.Items {
		r := &s.Items[i]
		lines = append(
			lines,
			fmt.Sprintf(
				"%s %s %s %q %d/%d %d %s",
				r.Kind,
				r.Name,
				r.State,
				r.Queue,
				r.Running,
				r.Pods,
				r.GPUs,
				r.Trouble,
			),
		)
	}
	slices.Sort(lines)
	want := []string{
		`Deployment soon Starting "" 0/1 0 its pods are not there yet`,
		`Deployment web Starting "q" 0/1 0 its pods could not be made: error looking up service account blue/x`,
		`LeaderWorkerSet llm Starting "q" 0/6 0 its pods could not be made: violates PodSecurity`,
		`StatefulSet db Starting "" 0/2 2 its pods could not be made: create Pod db-0 in StatefulSet db failed error: exceeded quota`,
		`StatefulSet kept Starting "q" 0/2 0 its pods could not be made: there is another Pod kept-0, which is not this set's: delete it, or give the set another name`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("ps has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for name, says := range map[string]string{
		"db":  "They could not be made, 8m ago: StatefulSet db: create Pod db-0 in StatefulSet db failed error: exceeded quota",
		"llm": "They could not be made, 8m ago: LeaderWorkerSet llm: violates PodSecurity",
		"web": "They could not be made, 8m ago: ReplicaSet web-5d8f: error looking up service account blue/x",
	} {
		p, err := why.Gather(t.Context(), c, story{}, view.Ref{Namespace: "blue", Name: name}, now())
		if err != nil {
			t.Fatal(err)
		}
		e := why.Explain(p)
		if e.State != "Starting" || e.Reason != "PodsQueued" ||
			!strings.Contains(strings.Join(e.Sentences, " "), says) {
			t.Errorf("why %s: %s %s %q, want %q", name, e.State, e.Reason, e.Sentences, says)
		}
		shown, err := why.Show(t.Context(), c, nil, view.Ref{Namespace: "blue", Name: name}, 0, now())
		if err != nil || shown.State != "Starting" || shown.Reason != "PodsQueued" {
			t.Errorf("show %s: %v, %+v", name, err, shown)
		}
	}
}

// TestAHeldGroupTellsWhatItsEventSays: pods of a group that something else describes do not know how many they are; what
// that lacks, or what contradicts it, is why they are held, and not that pods are missing.
func TestAHeldGroupTellsWhatItsEventSays(t *testing.T) {
	c := cluster(t, "testdata/submitted/mismatch.yaml").Build()
	p, err := why.Gather(t.Context(), c, story{}, view.Ref{Namespace: "blue", Name: "train"}, now())
	if err != nil {
		t.Fatal(err)
	}
	e := why.Explain(p)
	const want = `Pod group blue/train is held. The group train waits: there is no ConfigMap with label sakkara.group whose key name is "train": create it`
	if got := strings.Join(
		e.Sentences,
		" ",
	); e.State != view.Held || e.Reason != gather.ReasonGroupMismatch ||
		!strings.Contains(got, want) {
		t.Errorf("%s %s %q", e.State, e.Reason, got)
	}
	shown, err := why.Show(t.Context(), c, nil, view.Ref{Namespace: "blue", Name: "train"}, 0, now())
	if err != nil || shown.Reason != gather.ReasonGroupMismatch {
		t.Errorf("show: %v, %s", err, shown.Reason)
	}
	all, err := gather.Jobs(t.Context(), c, "blue", client.ListOptions{})
	if err != nil || len(all.Items) != 1 || all.Items[0].Reason != gather.ReasonGroupMismatch ||
		!strings.Contains(all.Items[0].Message, "there is no ConfigMap") {
		t.Errorf("ps: %v, %+v", err, all.Items)
	}
}
