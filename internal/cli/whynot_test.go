package cli_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// contests answers how blue/big stands to another job.
type contests struct {
	answer *visibility.Explanation
	err    error
	asked  string
}

func (c *contests) Contest(
	_ context.Context,
	namespace, name, against string,
) (*visibility.Explanation, error) {
	c.asked = namespace + "/" + name + " against " + against
	return c.answer, c.err
}

func minutes(n int) *metav1.Time {
	return new(metav1.NewTime(now().Add(time.Duration(n) * time.Minute)))
}

func gpus(n int64) []visibility.FlavorAmount {
	return []visibility.FlavorAmount{
		{Flavor: "h100", Resource: "nvidia.com/gpu", Amount: *resource.NewQuantity(n, resource.DecimalSI)},
	}
}

// ruled is an answer in which blue/big waits and another job runs; change makes it the one that
// a test is about.
func ruled(change func(*visibility.Explanation, *visibility.Contest)) *visibility.Explanation {
	big := visibility.WorkloadReference{
		Namespace:    "blue",
		Name:         "job-big",
		Job:          "Job/big",
		UID:          "u-big",
		ClusterQueue: "blue-queue",
	}
	small := visibility.WorkloadReference{
		Namespace:    "blue",
		Name:         "job-small",
		Job:          "Job/small",
		UID:          "u-small",
		ClusterQueue: "blue-queue",
	}
	quota := func(queue string, nominal, used, borrowed int64) visibility.ContestQuota {
		return visibility.ContestQuota{
			ClusterQueue: queue,
			Flavor:       "h100",
			Resource:     "nvidia.com/gpu",
			Nominal:      *resource.NewQuantity(nominal, resource.DecimalSI),
			Used:         *resource.NewQuantity(used, resource.DecimalSI),
			Borrowed:     *resource.NewQuantity(borrowed, resource.DecimalSI),
		}
	}
	c := &visibility.Contest{
		Self: visibility.Contestant{
			WorkloadReference: big,
			Stage:             "Waiting",
			Priority:          5,
			QueueTime:         minutes(-8),
			Uses:              gpus(16),
		},
		Other: visibility.Contestant{
			WorkloadReference: small,
			Stage:             "Running",
			Priority:          5,
			QueueTime:         minutes(-10),
			ReservedTime:      minutes(-9),
			Uses:              gpus(8),
		},
		Order:      "QueueTime",
		OtherFirst: true,
		Spared:     "Priority",
		Field:      "spec.preemption.withinClusterQueue",
		Policy:     "LowerPriority",
		Quotas:     []visibility.ContestQuota{quota("blue-queue", 16, 8, 0), quota("red-queue", 8, 12, 4)},
		OtherGone:  &visibility.OtherGone{Starts: true},
	}
	x := &visibility.Explanation{
		At:           metav1.NewTime(now()),
		Waiting:      true,
		Reason:       "WaitingForQuota",
		Cause:        "QuotaShort",
		Message:      "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed",
		ClusterQueue: "blue-queue",
		Priority:     5,
		Contest:      c,
		Shortage:     &visibility.Shortage{Flavor: "h100", Resource: "nvidia.com/gpu"},
	}
	change(x, c)
	return x
}

// elsewhere makes the other job one of red, whose names the user may not know.
func elsewhere(c *visibility.Contest) {
	c.Other.WorkloadReference = visibility.WorkloadReference{UID: "u-red", ClusterQueue: "red-queue"}
	c.Order, c.OtherFirst, c.Cohort, c.Field, c.Policy = "", false, "all", "spec.preemption.reclaimWithinCohort", "Any"
}

// ask tells of blue/big and another job as the command would.
func receipt(t *testing.T, against string, ask *contests) (why.Comparison, error) {
	t.Helper()
	c := cluster(t, "testdata/whynot.yaml").Build()
	ref := view.Ref{Namespace: "blue", Name: "big"}
	if of, other, both := strings.Cut(against, " against "); both {
		ref.Name, against = of, other
	}
	var r why.Rivals
	var err error
	if uid, is := strings.CutPrefix(against, "uid "); is {
		r, err = why.GatherRivals(t.Context(), c, ask, ref, why.Other{UID: types.UID(uid)}, now())
	} else {
		r, err = why.GatherRivals(
			t.Context(),
			c,
			ask,
			ref,
			why.Other{Ref: view.Ref{Namespace: "blue", Name: against}},
			now(),
		)
	}
	return why.Compare(r), err
}

func TestWhyNot(t *testing.T) {
	as := func(change func(*visibility.Explanation, *visibility.Contest)) *contests {
		return &contests{answer: ruled(change)}
	}
	tests := map[string]struct {
		why     string
		against string
		ask     *contests
		verdict why.Verdict
		state   view.State
		says    []string
		never   []string
	}{
		"queued earlier": {
			"times decide between equal priorities",
			"small",
			as(func(*visibility.Explanation, *visibility.Contest) {}),
			why.InTheWay,
			view.Running,
			[]string{
				"Job blue/small was admitted 9m ago, 60s before Job blue/big was queued, with 8 nvidia.com/gpu of h100.",
				"Job blue/small comes before Job blue/big: both have priority 5, and it was queued earlier",
				"may not stop it: spec.preemption.withinClusterQueue of ClusterQueue blue-queue is LowerPriority, and its priority 5 is not below 5.",
				"Tried: without it Job blue/big would start.",
			},
			[]string{"BestEffort", "Fair"},
		},
		"higher priority": {
			"priority comes first",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) { c.Order, c.Other.Priority = "Priority", 10 }),
			why.InTheWay,
			view.Running,
			[]string{"priority 10 is higher than 5", "its priority 10 is not below 5"},
			nil,
		},
		"newer of equal priority": {
			"what the policy means is said",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) { c.Policy = "LowerOrNewerEqualPriority" }),
			why.InTheWay,
			view.Running,
			[]string{
				"is LowerOrNewerEqualPriority, and of jobs of the same priority only those may be stopped that were queued later",
			},
			nil,
		},
		"it passed": {
			"the one that waits comes first, and a smaller one passed",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) {
				c.Order, c.OtherFirst, c.Other.Priority, c.Other.ReservedTime, c.Spared = "Priority", false, 1, minutes(
					-3,
				), ""
				c.OtherGone = &visibility.OtherGone{Message: "insufficient unused quota", Reason: "WaitingForQuota"}
			}),
			why.NotInTheWay,
			view.Running,
			[]string{
				"5m after Job blue/big was queued",
				"Job blue/big comes before Job blue/small: priority 5 is higher than 1",
				"BestEffortFIFO (spec.queueingStrategy)",
				"By spec.preemption.withinClusterQueue of ClusterQueue blue-queue, which is LowerPriority, it could be stopped",
				"without it Job blue/big would wait still: insufficient unused quota",
			},
			nil,
		},
		"strict": {
			"nobody passes the first of a strict queue", "small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) {
				c.Strict, c.Other.Stage, c.Spared = true, "Waiting", "NotRunning"
			}), why.InTheWay, view.Running,
			[]string{"Job blue/small waits too.", "StrictFIFO (spec.queueingStrategy), so nobody passes it there"},
			[]string{"may not stop"},
		},
		"others are ahead": {
			"what comes free goes to others", "small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) {
				c.OtherGone = &visibility.OtherGone{Instead: 2, Reason: "WaitingForQuota", Message: "too little"}
			}),
			why.OthersAreAhead, view.Running,
			[]string{"without it 2 other jobs would start instead, and Job blue/big would wait still: too little"},
			nil,
		},
		"evictions follow": {
			"others would be stopped then",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) {
				c.OtherGone = &visibility.OtherGone{Starts: true, Awaits: true, Preempts: 1}
			}),
			why.InTheWay,
			view.Running,
			[]string{
				"without it Job blue/big would start once what is being stopped has ended, and 1 more job would be stopped for it",
			},
			nil,
		},
		"anyway": {
			"it was asked a moment too early", "small", as(func(_ *visibility.Explanation, c *visibility.Contest) {
				c.OtherGone = &visibility.OtherGone{Anyway: true}
			}), why.StartsAnyway, view.Running,
			[]string{"starts in a moment, with it or without it"},
			nil,
		},
		"not tried": {
			"too much to copy",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) { c.OtherGone = nil }),
			why.UnknownVerdict,
			view.Running,
			[]string{"cannot be told here"},
			nil,
		},
		"another team": {
			"its name is not known, its queue is",
			"uid u-red",
			as(
				func(_ *visibility.Explanation, c *visibility.Contest) { elsewhere(c); c.Spared = "WithinNominal" },
			),
			why.InTheWay,
			view.Running,
			[]string{
				"A job of ClusterQueue red-queue (UID u-red) was admitted",
				"ClusterQueues blue-queue and red-queue lend to each other in cohort all",
				"only what is borrowed is taken back",
			},
			nil,
		},
		"shares": {
			"fair sharing in numbers",
			"uid u-red",
			as(func(_ *visibility.Explanation, c *visibility.Contest) {
				elsewhere(c)
				c.Spared = "FairSharing"
				c.Shares = []visibility.ContestShare{
					{Name: "blue-queue", Weight: "1", Now: 250, Then: 750},
					{Name: "others", Cohort: true, Weight: "2", Now: 1<<63 - 1, Then: 0},
				}
			}),
			why.InTheWay,
			view.Running,
			[]string{
				"in thousandths of what cohort all can lend: ClusterQueue blue-queue (weight 1) has 250, and would have 750 with Job blue/big; cohort others (weight 2) has infinite, and 0 without the other job",
				"its side would have the larger share then (fairSharing.preemptionStrategies)",
			},
			nil,
		},
		"no reclaim": {
			"the policy's field by its name", "uid u-red", as(func(_ *visibility.Explanation, c *visibility.Contest) {
				elsewhere(c)
				c.Spared, c.Policy = "Policy", "Never"
			}), why.InTheWay, view.Running,
			[]string{"may not stop it: spec.preemption.reclaimWithinCohort of ClusterQueue blue-queue is Never."},
			nil,
		},
		"would have to borrow": {
			"borrowing is no reason to stop others",
			"uid u-red",
			as(
				func(_ *visibility.Explanation, c *visibility.Contest) { elsewhere(c); c.Spared = "BorrowWithinCohort" },
			),
			why.InTheWay,
			view.Running,
			[]string{
				"it asks for more than the nominal quota of ClusterQueue blue-queue would leave it, and spec.preemption.borrowWithinCohort there does not let it stop",
			},
			nil,
		},
		"was its benefactor": {
			"no circles",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) { c.Spared = "EvictedForIt" }),
			why.InTheWay,
			view.Running,
			[]string{"Job blue/big was stopped for it before"},
			nil,
		},
		"a gate": {
			"it may stop nobody",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) { c.Spared = "PreemptionGate" }),
			why.InTheWay,
			view.Running,
			[]string{"a preemption gate of Job blue/big is closed"},
			nil,
		},
		"other quota": {
			"what it has is of no use",
			"small",
			as(func(_ *visibility.Explanation, c *visibility.Contest) { c.Spared = "OtherQuota" }),
			why.InTheWay,
			view.Running,
			[]string{"It uses no quota that Job blue/big may use"},
			nil,
		},
		"no cohort": {
			"only nodes are shared", "uid u-red", as(func(_ *visibility.Explanation, c *visibility.Contest) {
				elsewhere(c)
				c.Cohort, c.Spared, c.Policy = "", "NoCommonCohort", ""
			}), why.InTheWay, view.Running,
			[]string{"have no cohort in common: no quota passes", "its quota is of another tree of cohorts"},
			nil,
		},
		"a flavor it may not use": {
			"taints by name", "small",
			as(func(x *visibility.Explanation, c *visibility.Contest) {
				c.Other.Uses[0].Flavor = "a100"
				x.Tried = []visibility.FlavorAttempt{
					{Flavor: "h100"},
					{
						Flavor:  "a100",
						Reason:  "NoMatchingFlavor",
						Message: "untolerated taint {old=true:NoSchedule} in flavor a100",
					},
				}
			}),
			why.InTheWay, view.Running,
			[]string{"uses flavor a100, which Job blue/big may not: untolerated taint {old=true:NoSchedule}"},
			nil,
		},
		"a flavor its queue lacks": {
			"no quota of it", "small",
			as(func(x *visibility.Explanation, c *visibility.Contest) {
				c.Other.Uses[0].Flavor = "a100"
				x.Tried = []visibility.FlavorAttempt{{Flavor: "h100"}}
			}),
			why.InTheWay, view.Running,
			[]string{"uses flavor a100, of which ClusterQueue blue-queue has no quota"},
			nil,
		},
		"held": {
			"nobody is in the way of what has no queue", "small",
			as(func(x *visibility.Explanation, c *visibility.Contest) {
				x.Reason, c.OtherGone = "Suspended", &visibility.OtherGone{Message: "LocalQueue q is stopped"}
			}),
			why.HeldByItself, view.Running,
			[]string{"would wait still: LocalQueue q is stopped"},
			nil,
		},
		"nobody answers": {
			"what is known is said",
			"small",
			&contests{err: errors.New("503 Service Unavailable")},
			why.UnknownVerdict,
			view.Running,
			[]string{
				"Job blue/big has waited for 8m.",
				"Job blue/small is running",
				"No controller says how both stand to each other (503 Service Unavailable).",
			},
			nil,
		},
		"just admitted": {
			"the controller knows more than was read",
			"small",
			&contests{answer: &visibility.Explanation{}},
			why.StartsAnyway,
			view.Running,
			[]string{"it got its quota just now"},
			nil,
		},
		"it has ended": {
			"nothing is held by what is over",
			"over",
			as(func(*visibility.Explanation, *visibility.Contest) {}),
			why.HoldsNothing,
			view.Succeeded,
			[]string{"Job blue/over has ended, succeeded: it holds nothing any more"},
			nil,
		},
		"no job": {
			"a pod outside of all queues takes nodes only",
			"stray",
			as(func(*visibility.Explanation, *visibility.Contest) {}),
			why.HoldsNothing,
			view.Unmanaged,
			[]string{"Pod blue/stray has no Workload", "1 pod on node-7 (1) takes of what nodes have"},
			nil,
		},
		"the other way round": {
			"the first one runs",
			"small against big",
			&contests{},
			why.NotWaiting,
			view.Waiting,
			[]string{
				"So it does not wait for Job blue/big.",
				"It is Job blue/big that waits: mlbatch why-not blue/big blue/small asks",
			},
			nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := receipt(t, tc.against, tc.ask)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(got.Sentences, " ")
			if got.Verdict != tc.verdict || got.OtherState != tc.state {
				t.Errorf("%s: %s %s, want %s %s: %s", tc.why, got.Verdict, got.OtherState, tc.verdict, tc.state, text)
			}
			for _, s := range tc.says {
				if !strings.Contains(text, s) {
					t.Errorf("%s: %q is not said:\n%s", tc.why, s, text)
				}
			}
			for _, s := range tc.never {
				if strings.Contains(text, s) {
					t.Errorf("%s: %q is said:\n%s", tc.why, s, text)
				}
			}
		})
	}
}

func TestWhyNotRefuses(t *testing.T) {
	for against, want := range map[string]string{
		"big":        "are the same job",
		"nobody":     "there is no job blue/nobody",
		"uid u-big":  "is the UID of Job blue/big itself",
		"uid u-lost": "no Workload has the UID u-lost",
	} {
		if _, err := receipt(
			t,
			against,
			&contests{err: fmt.Errorf("ask: %w", &why.NoWorkloadError{})},
		); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", against, err, want)
		}
	}
}

// TestWhyNotAsksByWhatIsKnown: the controller is asked about Workloads, by name or by UID.
func TestWhyNotAsksByWhatIsKnown(t *testing.T) {
	for against, want := range map[string]string{"small": "blue/job-big against blue/job-small", "uid u-red": "blue/job-big against u-red"} {
		ask := &contests{answer: ruled(func(*visibility.Explanation, *visibility.Contest) {})}
		if _, err := receipt(t, against, ask); err != nil || ask.asked != want {
			t.Errorf("%s: asked %q, want %q: %v", against, ask.asked, want, err)
		}
	}
}

func TestWhyNotPrints(t *testing.T) {
	x := ruled(func(_ *visibility.Explanation, c *visibility.Contest) {
		elsewhere(c)
		c.Spared = "FairSharing"
		c.Shares = []visibility.ContestShare{
			{Name: "blue-queue", Weight: "1", Now: 250, Then: 750},
			{Name: "red-queue", Weight: "2", Now: 250, Then: 0},
		}
	})
	for _, width := range []int{60, 80, 140} {
		got, err := receipt(t, "uid u-red", &contests{answer: x})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := cli.PrintComparison(&out, &got, cli.Style{Width: width}, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if len([]rune(line)) > width {
				t.Errorf("wider than %d: %s", width, line)
			}
		}
		testkit.Golden(t, fmt.Sprintf("testdata/whynot_%d.txt", width), out.String())
	}
}

func TestUIDOf(t *testing.T) {
	for text, want := range map[string]bool{
		"239ec384-fb3d-4917-a814-d748c0057fbe": true, "blue/239ec384-fb3d-4917-a814-d748c0057": false, "big": false, "a-b-c-d-e": false,
		"239EC384-fb3d-4917-a814-d748c0057fbe": false,
	} {
		if _, is := cli.UIDOf(text); is != want {
			t.Errorf("%s: %v", text, is)
		}
	}
}
