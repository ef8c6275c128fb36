package cli_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// pages are two of a namespace and one of another; a record is in both of them, as after a death of
// the controller.
func pages() client.Reader {
	at := func(minutes int) metav1.Time { return metav1.NewTime(now().Add(time.Duration(minutes) * time.Minute)) }
	failed := history.JobRecord{
		UID:          "1",
		Kind:         "PyTorchJob",
		Name:         "train",
		Queue:        "default-queue",
		ClusterQueue: "blue-queue",
		Flavor:       "h100",
		Priority:     new(int32(5)),
		State:        history.Failed,
		Reason:       "Failed",
		Message:      "PyTorchJob train failed: a \x1b[31mred message",
		ExitCode:     new(int32(137)),
		FailedPod:    "train-worker-2",
		FailedNode:   "node-3",
		Submitted: at(
			-200,
		),
		Started:    new(at(-190)),
		Ended:      at(-10),
		RanSeconds: 10800,
		Pods:       4,
		GPUs:       32,
		Evictions:  1,
		Restarts:   2,
	}
	well := history.JobRecord{
		UID:          "2",
		Kind:         "AppWrapper",
		Name:         "sweep",
		Queue:        "default-queue",
		ClusterQueue: "blue-queue",
		User:         "alice",
		State:        history.Succeeded,
		Reason:       "Succeeded",
		Message:      "done",
		Submitted:    at(-100),
		Started:      new(at(-90)),
		Ended:        at(-30),
		RanSeconds:   3600,
		Pods:         1,
		GPUs:         8,
	}
	gone := history.JobRecord{
		UID:       "3",
		Kind:      "AppWrapper",
		Name:      "nightly",
		Queue:     "default-queue",
		User:      "alice",
		State:     history.Cancelled,
		Reason:    "Deleted",
		Message:   "It waited: 8 more needed",
		Submitted: at(-100),
		Ended:     at(-5),
		Pods:      8,
		GPUs:      64,
	}
	old := history.JobRecord{
		UID:       "4",
		Kind:      "Job",
		Name:      "old",
		State:     history.Succeeded,
		Submitted: at(-3000),
		Ended:     at(-2000),
	}
	page := func(namespace, name string, records ...history.JobRecord) *history.JobHistory {
		return &history.JobHistory{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Records:    records,
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(
		page(
			"blue",
			"jobs-00000001",
			old,
			well,
			failed,
		),
		page("blue", "jobs-00000002", failed),
		page("red", "jobs-00000001", gone),
	).Build()
}

// TestHist: what ended, in terminals of several widths, each job once.
func TestHist(t *testing.T) {
	rows, err := gather.Past(t.Context(), pages(), "", now().Add(-24*time.Hour))
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, width := range []int{60, 80, 140, 0} {
		var out bytes.Buffer
		if err := cli.PrintTable(
			&out,
			cli.PastColumns(time.UTC, true),
			rows,
			cli.Layout{Width: width, Wide: width == 0},
		); err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
		if err := cli.PrintTable(
			&out,
			cli.PastSumColumns("user"),
			cli.SumPast(rows, time.UTC, "user"),
			cli.Layout{Width: width},
		); err != nil {
			t.Fatal(err)
		}
		fits(t, out.String(), width)
		testkit.Golden(t, filepath.Join("testdata", "hist", strconv.Itoa(width)+".txt"), out.String())
	}
	if rows[1].WaitedSeconds != 600 || rows[1].GPUHours != 96 {
		t.Errorf(
			"what ran 3 of 3 hours and 10 minutes waited 10 minutes, and had 32 GPUs for 3 hours: %+v",
			rows[1],
		)
	}
	for i, want := range []string{"", "137", "0"} { // it was cancelled, failed, succeeded
		got := ""
		if code := rows[i].ExitCode; code != nil {
			got = strconv.Itoa(int(*code))
		}
		if got != want {
			t.Errorf(
				"%s ended with %q, not with %q: what succeeded has 0, as ps has it, and of what was cancelled nobody saw one",
				rows[i].Name,
				got,
				want,
			)
		}
	}
	one, err := gather.Past(t.Context(), pages(), "blue", time.Time{})
	if err != nil || len(one) != 3 {
		t.Errorf("of one namespace, for ever: %d rows, %v", len(one), err)
	}
}

// TestSumPastByMonth: months are those of a place, the last one comes first, and within one whoever
// had most.
func TestSumPastByMonth(t *testing.T) {
	at := func(text string) time.Time {
		out, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	rows := []view.PastJob{
		{Namespace: "blue", Ended: at("2026-01-31T23:30:00Z"), GPUHours: 100},
		{Namespace: "red", Ended: at("2026-02-10T00:00:00Z"), GPUHours: 1},
		{Namespace: "blue", Ended: at("2026-02-11T00:00:00Z"), GPUHours: 2},
		{Namespace: "red", Ended: at("2026-01-02T00:00:00Z"), GPUHours: 3},
	}
	told := func(in *time.Location, by ...string) (out []string) {
		for _, s := range cli.SumPast(rows, in, by...) {
			out = append(out, fmt.Sprintf("%s %g", s.Name, s.GPUHours))
		}
		return out
	}
	if got, want := told(
		time.UTC,
		"month",
		"team",
	), []string{
		"2026-02 blue 2",
		"2026-02 red 1",
		"2026-01 blue 100",
		"2026-01 red 3",
	}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := told(
		time.FixedZone("east", 3600),
		"month",
	), []string{
		"2026-02 103",
		"2026-01 3",
	}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("east of Greenwich: %q, want %q", got, want)
	}
	columns := cli.PastSumColumns("month", "team")
	if columns[0].Title != "MONTH" || columns[1].Title != "TEAM" ||
		columns[1].Text(cli.SumPast(rows, time.UTC, "month", "team")[1]) != "red" {
		t.Error("each has a column of its own")
	}
}

// TestSumPast: sums add up what is listed.
func TestSumPast(t *testing.T) {
	rows, err := gather.Past(t.Context(), pages(), "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for by, want := range map[string]int{"user": 2, "queue": 3, "namespace": 2, "team": 2, "month": 2, "month,team": 3} {
		jobs, hours := 0, 0.0
		sums := cli.SumPast(rows, time.UTC, strings.Split(by, ",")...)
		for _, s := range sums {
			jobs, hours = jobs+s.Jobs, hours+s.GPUHours
			if s.Succeeded+s.Failed+s.Cancelled != s.Jobs {
				t.Errorf("by %s: %+v", by, s)
			}
		}
		if len(sums) != want || jobs != 4 || hours != 104 {
			t.Errorf("by %s: %d sums of %d jobs and %f GPU-hours", by, len(sums), jobs, hours)
		}
	}
}
