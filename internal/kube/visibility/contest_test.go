package visibility

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// contested is blue/mine waiting for what red/secret-project and blue/first hold.
func contested() queues {
	q := reasons()
	mine, red, first := core.Key{
		Namespace: "blue",
		Name:      "mine",
	}, core.Key{
		Namespace: "red",
		Name:      "secret-project",
	}, core.Key{
		Namespace: "blue",
		Name:      "first",
	}
	uses := []core.FlavorAmount{
		{FlavorResource: core.FlavorResource{Flavor: "f", Resource: core.GPU}, Amount: 8},
	}
	of := func(other core.Key, queue string) core.Comparison {
		return core.Comparison{
			Waits: q.reasons[mine],
			Self: core.Contestant{
				Key:      mine,
				Queue:    "shared",
				Stage:    core.StageWaiting,
				Priority: 5,
				Time:     time.Unix(100, 0),
				Uses:     uses,
			},
			Other: core.Contestant{
				Key:      other,
				Queue:    queue,
				Stage:    core.StageRunning,
				Priority: 9,
				Time:     time.Unix(200, 0),
				Reserved: time.Unix(300, 0),
				Uses:     uses,
			},
		}
	}
	same, elsewhere := of(first, "shared"), of(red, "red-queue")
	same.OtherFirst, same.Order, same.Spared, same.Policy = true, core.ByPriority, core.SparedByPriority, core.PreemptLowerPriority
	same.Gone = core.WereGone{
		Tried:   true,
		Instead: 1,
		Why:     core.Reason{Code: core.WaitingForQuota, Cause: core.BehindStrict, Queue: "shared", Ahead: red},
	}
	elsewhere.Cohort, elsewhere.Spared, elsewhere.Policy = "t", core.SparedByShare, core.PreemptAny
	elsewhere.Quotas = []core.QuotaUse{
		{Queue: "red-queue", FlavorResource: uses[0].FlavorResource, Nominal: 4, Used: 8, Borrowed: 4},
	}
	elsewhere.Shares = []core.SideShare{
		{Name: "shared", Weight: core.WeightOne, Now: 100, Then: 500},
		{Name: "reds", IsCohort: true, Weight: core.WeightOne / 2, Now: 400, Then: 0},
	}
	elsewhere.Gone = core.WereGone{Tried: true, Starts: true}
	q.contests = map[[2]core.Key]core.Comparison{{mine, first}: same, {mine, red}: elsewhere}
	return q
}

// TestContestHidesNamesOfOthers asks as a tenant about a job of another team by the UID that
// explanations tell: all numbers are told, and no name.
func TestContestHidesNamesOfOthers(t *testing.T) {
	x, text, code := asks(t, contested(), "alice", minePath+"?against=uid-reds", "get workloads blue")
	if code != http.StatusOK || x.Contest == nil {
		t.Fatalf("%d: %s", code, text)
	}
	for _, hidden := range []string{"secret-project", `"namespace":"red"`} {
		if strings.Contains(text, hidden) {
			t.Errorf("alice learns %s: %s", hidden, text)
		}
	}
	at := func(s int64) *metav1.Time { return new(metav1.Unix(s, 0)) }
	gpus := []v1beta2.FlavorAmount{{Flavor: "f", Resource: core.GPU, Amount: *quantity(core.GPU, 8)}}
	want := &v1beta2.Contest{
		Self: v1beta2.Contestant{
			WorkloadReference: v1beta2.WorkloadReference{
				Namespace:    "blue",
				Name:         "mine",
				Job:          "AppWrapper/job-mine",
				UID:          "uid-bluem",
				ClusterQueue: "shared",
			},
			Stage:     "Waiting",
			Priority:  5,
			QueueTime: at(100),
			Uses:      gpus,
		},
		Other: v1beta2.Contestant{
			WorkloadReference: v1beta2.WorkloadReference{UID: "uid-reds", ClusterQueue: "red-queue"},
			Stage:             "Running", Priority: 9, QueueTime: at(200), ReservedTime: at(300), Uses: gpus,
		},
		Cohort: "t",
		Spared: "FairSharing",
		Field:  "spec.preemption.reclaimWithinCohort",
		Policy: "Any",
		Quotas: []v1beta2.ContestQuota{{
			ClusterQueue: "red-queue", Flavor: "f", Resource: core.GPU,
			Nominal: *quantity(core.GPU, 4), Used: *quantity(core.GPU, 8), Borrowed: *quantity(core.GPU, 4),
		}},
		Shares: []v1beta2.ContestShare{
			{Name: "shared", Weight: "1", Now: 100, Then: 500},
			{Name: "reds", Cohort: true, Weight: "0.5", Now: 400},
		},
		OtherGone: &v1beta2.OtherGone{Starts: true},
	}
	if diff := cmp.Diff(want, x.Contest); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if x.Message == "" || len(x.Holders) == 0 || x.PositionInClusterQueue == nil ||
		len(x.Advice)+len(x.Next) > 0 {
		t.Errorf("beside the contest there are the facts and no advice: %s", text)
	}
}

func TestContestInOneQueue(t *testing.T) {
	x, text, code := asks(t, contested(), "alice", minePath+"?against=blue/first", "get workloads blue")
	if code != http.StatusOK || x.Contest == nil {
		t.Fatalf("%d: %s", code, text)
	}
	c := x.Contest
	if c.Field != "spec.preemption.withinClusterQueue" || c.Policy != "LowerPriority" || c.Order != "Priority" ||
		!c.OtherFirst ||
		c.Other.Name != "first" {
		t.Errorf("%+v", c)
	}
	if g := c.OtherGone; g == nil || g.Instead != 1 || g.Reason != "WaitingForQuota" || g.Message == "" ||
		strings.Contains(g.Message, "secret") {
		t.Errorf("%+v", g)
	}
}

func TestContestOfWhom(t *testing.T) {
	for name, tc := range map[string]struct {
		why, against string
		code         int
		rights       []string
	}{
		"hidden":    {"the name of another team's job is not to be guessed", "red/secret-project", http.StatusForbidden, []string{"get workloads blue"}},
		"guessed":   {"nor is it told that there is none", "red/none", http.StatusForbidden, []string{"get workloads blue"}},
		"gone":      {"one may know that of one's own", "blue/none", http.StatusNotFound, []string{"get workloads blue"}},
		"lost":      {"a UID of nobody", "uid-none", http.StatusNotFound, []string{"get workloads blue"}},
		"permitted": {"an administrator names it", "red/secret-project", http.StatusOK, []string{"get workloads blue", "get workloads red"}},
	} {
		if _, text, code := asks(
			t,
			contested(),
			"alice",
			minePath+"?against="+tc.against,
			tc.rights...); code != tc.code {
			t.Errorf("%s: %d, want %d: %s\n%s", name, code, tc.code, tc.why, text)
		}
	}
	x, text, code := asks(
		t,
		contested(),
		"alice",
		"/v1beta2/namespaces/blue/workloads/first/explanation?against=blue/mine",
		"get workloads blue",
	)
	if code != http.StatusOK || x.Waiting || x.Contest != nil {
		t.Errorf("one that does not wait: %d: %s", code, text)
	}
}
