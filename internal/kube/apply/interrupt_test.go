package apply

import (
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// TestDecisionsAboutInterruptedWorkloads: an interrupted workload may be given places again once its pods have ended,
// and be evicted for another at any time; everything else that was decided of it before is out of date.
func TestDecisionsAboutInterruptedWorkloads(t *testing.T) {
	config, at := workloadlifecycle.Config{KeepNodes: time.Minute}, time.Unix(1_000_000, 0)
	places := func(node string) core.Admission {
		return core.Admission{Queue: "a", PodSets: []core.PodSetAdmission{{
			Name: "main", Count: 1, Places: []core.Place{{Node: node, Count: 1}},
		}}}
	}
	running := func() *kueue.Workload {
		w := &kueue.Workload{}
		next, ok := Decided(w, core.Admit{Admission: places("n-1")}, nil, config, at)
		if !ok {
			t.Fatal("it is not admitted")
		}
		w.Status = *next
		return w
	}
	stopping := func() *kueue.Workload {
		w := running()
		next, ok := Decided(
			w,
			core.Evict{Reason: core.NodeFailures, Interrupts: true, Failed: []string{"n-1"}},
			nil,
			config,
			at,
		)
		if !ok || convert.Interruption(w) != core.NotInterrupted {
			t.Fatal("it is not interrupted")
		}
		w.Status = *next
		return w
	}
	stopped := func() *kueue.Workload {
		w := stopping()
		next, _ := workloadlifecycle.Stopped(w, config, at)
		w.Status = *next
		return w
	}
	released := func() *kueue.Workload {
		w := stopped()
		next, _ := workloadlifecycle.Stopped(w, config, at.Add(config.KeepNodes))
		w.Status = *next
		return w
	}
	const evicted, kept = kueue.WorkloadEvicted, kueue.WorkloadNodesKept
	for name, tc := range map[string]struct {
		why      string
		is       *kueue.Workload
		decision core.Decision
		suits    bool
		writes   bool
		reasons  map[string]string // of conditions that are true
	}{
		"goes on": {
			"it has places again", stopped(),
			core.Admit{Admission: places("n-2"), Resumes: true},
			true, true,
			map[string]string{evicted: "", kept: "", kueue.WorkloadAdmitted: kueue.ReasonAdmitted},
		},
		"goes on too early": {
			"its pods have not ended", stopping(),
			core.Admit{Admission: places("n-2"), Resumes: true},
			false, false, nil,
		},
		"goes on too late": {
			"it gave back what it kept, which the engine is about to see", released(),
			core.Admit{Admission: places("n-2"), Resumes: true},
			false, false, nil,
		},
		"starts": {
			"it waits as one that never ran", released(),
			core.Admit{Admission: places("n-2")},
			true, true,
			map[string]string{evicted: "", kept: "", kueue.WorkloadAdmitted: kueue.ReasonAdmitted},
		},
		"starts without what it keeps": {
			"it was decided before it was interrupted", stopped(),
			core.Admit{Admission: places("n-2")},
			false, false, nil,
		},
		"preempted": {
			"another takes what it keeps", stopped(),
			core.Evict{Reason: core.InClusterQueue, Why: core.Reason{Queue: "a"}},
			true, true,
			map[string]string{evicted: kueue.ReasonPreempted, kept: ""},
		},
		"gives back": {
			"it would start otherwise", stopped(),
			core.Evict{Reason: core.NodeFailures},
			true, true,
			map[string]string{evicted: kueue.ReasonNodeFailures, kept: ""},
		},
		"told twice": {
			"it was written already", stopping(), core.Evict{Reason: core.NodeFailures, Interrupts: true}, true, false, nil,
		},
		"moved": {
			"its pods are not there any more", stopping(), core.Replace{Admission: places("n-2")}, false, false, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			next, ok := Decided(tc.is, tc.decision, nil, config, at)
			if ok != tc.suits || (next != nil) != tc.writes {
				t.Fatalf("%s: it suits: %t, it is written: %t", tc.why, ok, next != nil)
			}
			for kind, want := range tc.reasons {
				got := ""
				if apimeta.IsStatusConditionTrue(next.Conditions, kind) {
					got = apimeta.FindStatusCondition(next.Conditions, kind).Reason
				}
				if got != want {
					t.Errorf("%s: %s is %q, want %q", tc.why, kind, got, want)
				}
			}
		})
	}
}
