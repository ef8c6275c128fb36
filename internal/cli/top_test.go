package cli_test

import (
	"bytes"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// TestTop: who uses GPUs, in terminals of several widths.
func TestTop(t *testing.T) {
	s, err := gather.Jobs(t.Context(), populace(t, ""), "", client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"jobs", "users", "queues", "namespaces", "nodes"} {
		rows := cli.Use(s.Items, by, now())
		if by == "nodes" {
			nodes, _, err := gather.Nodes(t.Context(), cluster(t, "testdata/nodes/cluster.yaml").Build())
			if err != nil {
				t.Fatal(err)
			}
			rows = cli.UseOfNodes(nodes, now())
		}
		for _, width := range []int{60, 80, 140} {
			var out bytes.Buffer
			if err := cli.PrintTable(&out, cli.UseColumns(by, now()), rows, cli.Layout{Width: width}); err != nil {
				t.Fatal(err)
			}
			fits(t, out.String(), width)
			testkit.Golden(t, filepath.Join("testdata", "top", by+"-"+strconv.Itoa(width)+".txt"), out.String())
		}
	}
}

// TestUse: what counts as use.
func TestUse(t *testing.T) {
	hourAgo := now().Add(-time.Hour)
	rows := []view.Job{
		{Namespace: "blue", Name: "big", User: "alice", GPUs: 16, Held: 8, State: "Running", Started: &hourAgo},
		{Namespace: "blue", Name: "waits", User: "alice", GPUs: 4, State: "Waiting"},
		{Namespace: "blue", Name: "done", User: "alice", GPUs: 4, State: "Succeeded"},
		{Namespace: "red", Name: "cpu", User: "bob", State: "Running", Started: &hourAgo},
		{Namespace: "red", Name: "held", User: "bob", GPUs: 4, State: "Held"},
	}
	jobs := cli.Use(rows, "jobs", now())
	if len(jobs) != 1 || jobs[0].GPUs != 8 || jobs[0].GPUHours != 8 || jobs[0].Share != 1 {
		t.Errorf("what gave back some of its quota uses the rest, and what waits or has ended uses none: %+v", jobs)
	}
	users := cli.Use(rows, "users", now())
	if len(users) != 1 || users[0].Name != "alice" || users[0].Jobs != 1 || users[0].Waiting != 1 {
		t.Errorf("who has no GPUs and waits for none is not listed: %+v", users)
	}
}
