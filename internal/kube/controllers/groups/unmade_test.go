package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// The leaders, and one group's workers for all, are tried where pods are missing.
func TestWorkersOfOneGroupStandForThoseOfAll(t *testing.T) {
	now := time.Unix(1000, 0)
	made := func(name string, ago time.Duration) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-ago))},
		}
	}
	for name, tc := range map[string]struct {
		leaders *appsv1.StatefulSet
		workers []time.Duration // how long ago the sets of groups were made
		tried   string
		left    time.Duration
	}{
		"none yet":           {nil, nil, "", 0},
		"leaders only":       {made("s", time.Minute), nil, "s", 0},
		"both":               {made("s", time.Minute), []time.Duration{time.Minute, time.Minute, time.Minute}, "s s-0", 0},
		"the first is young": {made("s", time.Minute), []time.Duration{0, time.Minute, time.Minute}, "s s-1", missedAfter},
		"all are young":      {made("s", 0), []time.Duration{0}, "", missedAfter},
	} {
		t.Run(name, func(t *testing.T) {
			g := &jobs.Groups{
				Now:     now,
				Leaders: tc.leaders,
				Sets:    map[string]*appsv1.StatefulSet{},
				Pods:    []*corev1.Pod{},
			}
			for i, ago := range tc.workers {
				group := fmt.Sprintf("s-%d", i)
				g.Sets[group] = made(group, ago)
			}
			sets, left := lacking(g)
			var names []string
			for _, s := range sets {
				names = append(names, s.Name)
			}
			if got := strings.Join(names, " "); got != tc.tried || left != tc.left {
				t.Errorf("tried are %q and in %v, want %q and in %v", got, left, tc.tried, tc.left)
			}
		})
	}
}
