package admin_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

// workloads are one in each status, and the job of one of them.
func workloads() []client.Object {
	made := func(name, condition string, queue kueue.LocalQueueName) *kueue.Workload {
		w := &kueue.Workload{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         "blue",
				Name:              name,
				CreationTimestamp: metav1.NewTime(noon().Add(-time.Minute)),
			},
			Spec: kueue.WorkloadSpec{QueueName: queue},
		}
		if condition != "" {
			w.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue}}
		}
		return w
	}
	owned := made("d", kueue.WorkloadAdmitted, "q")
	owned.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "u", Controller: new(true)},
	}
	owned.Status.Admission = &kueue.Admission{ClusterQueue: "cq"}
	return []client.Object{
		made(
			"a",
			"",
			"q",
		),
		made("b", kueue.WorkloadQuotaReserved, "other"),
		made("c", kueue.WorkloadFinished, ""),
		owned,
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "q"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "cq"},
		},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "train"}},
	}
}

// TestWorkloadsAreListed by what kueuectl lists them by, in terminals of three widths.
func TestWorkloadsAreListed(t *testing.T) {
	c := cluster(workloads()...)
	for want, filter := range map[string]admin.WorkloadFilter{
		"a b c d": {}, "a": {Statuses: []string{"pending"}}, "b c": {Statuses: []string{"quotareserved", "finished"}}, "a b c d ": {Statuses: []string{"all"}},
		"a d": {LocalQueue: "q"}, "a d ": {ClusterQueue: "cq"}, "": {Namespace: "red"}, "d": {Namespace: "blue", Statuses: []string{"admitted"}},
	} {
		rows, err := admin.TakeWorkloads(t.Context(), c, filter)
		var got []string
		for _, r := range rows {
			got = append(got, r.Name)
		}
		if err != nil || strings.Join(got, " ") != strings.TrimSpace(want) {
			t.Errorf("%+v: %v, want %s: %v", filter, got, want, err)
		}
	}
	rows, err := admin.TakeWorkloads(t.Context(), c, admin.WorkloadFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{60, 80, 140} {
		var out bytes.Buffer
		if err := cli.PrintTable(&out, admin.WorkloadColumns(noon()), rows, cli.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, fmt.Sprintf("testdata/workloads-%d.txt", width), out.String())
	}
}

// TestFlavorsAreListed with what serves them, in terminals of three widths.
func TestFlavorsAreListed(t *testing.T) {
	flavors := func(nodes, gpus *int) []admin.FlavorRow {
		return []admin.FlavorRow{
			{
				Name:   "h100",
				Labels: map[string]string{"pool": "h100", "zone": "a"},
				Nodes:  nodes,
				GPUs:   gpus,
				Queues: []string{"blue-cluster-queue", "red-cluster-queue"},
			},
			{Name: "spot", Labels: map[string]string{"pool": "\x1b[31mspot"}, Nodes: nodes, GPUs: gpus},
		}
	}
	for name, rows := range map[string][]admin.FlavorRow{"flavors": flavors(new(3), new(24)), "flavors-unread": flavors(nil, nil)} {
		for _, width := range []int{60, 80, 140} {
			var out bytes.Buffer
			if err := cli.PrintTable(&out, admin.FlavorColumns(), rows, cli.Layout{Width: width}); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, fmt.Sprintf("testdata/%s-%d.txt", name, width), out.String())
		}
	}
}

// TestWorkloadGoesWithItsJob: alone it would come again.
func TestWorkloadGoesWithItsJob(t *testing.T) {
	for name, want := range map[string]string{"a": "workload/a in blue", "d": "job/train in blue"} {
		c := cluster(workloads()...)
		for _, dry := range []bool{true, false} {
			got, err := admin.DeleteWorkload(t.Context(), c, "blue", name, dry)
			if err != nil || got != want {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
			var jobs batchv1.JobList
			if err := c.List(t.Context(), &jobs); err != nil {
				t.Fatal(err)
			}
			if gone := len(jobs.Items) == 0; gone != (name == "d" && !dry) {
				t.Errorf("%s, dry run %v: the job is gone: %v", name, dry, gone)
			}
		}
	}
	if _, err := admin.DeleteWorkload(
		t.Context(),
		cluster(),
		"blue",
		"z",
		false,
	); err == nil ||
		!strings.Contains(err.Error(), "mlbatch list workload -n blue") {
		t.Errorf("of none: %v", err)
	}
}
