package visibility

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

type judge func(core.Workload) (core.Reason, bool, error)

func (j judge) Never(w core.Workload, _ time.Time) (core.Reason, bool, error) { return j(w) }

// TestNever: the engine is told of the pods as of those of a Workload, and answers in a sentence.
func TestNever(t *testing.T) {
	set := kueue.PodSet{
		Name:  "main",
		Count: 2,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{
				Name:      "c",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{core.GPU: resource.MustParse("9")}},
			},
		}}},
	}
	large := core.Reason{
		Code:     core.TopologyPlacementFailed,
		Cause:    core.PodTooLarge,
		PodSet:   "main",
		Resource: core.GPU,
		Need:     9,
		Limit:    8,
		Nodes:    3,
	}
	for name, tc := range map[string]struct {
		never bool
		err   error
		want  string
	}{
		"never":     {true, nil, "couldn't assign flavors to pod set main: a pod is larger than any of the 3 node(s): it asks for 9 of nvidia.com/gpu, and the largest has 8"},
		"may":       {false, nil, ""},
		"not known": {true, errors.New("later"), ""},
	} {
		var told core.Workload
		j := judge(func(w core.Workload) (core.Reason, bool, error) { told = w; return large, tc.never, tc.err })
		answer := Never(
			j,
			fake.NewClientBuilder().WithScheme(scheme.New()).Build(),
			convert.Rules{},
			testclock.NewFakePassiveClock(time.Unix(1e6, 0)),
		)
		if got := answer(t.Context(), "blue", "q", []kueue.PodSet{set}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if told.Key.Namespace != "blue" || told.Queue != "q" || told.PodSets[0].Count != 2 ||
			told.PodSets[0].Requests.Of(core.GPU) != 9 {
			t.Errorf("%s: the engine is told of %+v", name, told)
		}
	}
}

// TestOneOfManyAlikeIsJudged: jobs that ask for the same are judged once in a while, whatever they run;
// those that ask for something else, or elsewhere, each.
func TestOneOfManyAlikeIsJudged(t *testing.T) {
	set := func(gpus, command string) []kueue.PodSet {
		return []kueue.PodSet{
			{
				Name:  "main",
				Count: 1,
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
					{
						Name:      "c",
						Command:   []string{command},
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{core.GPU: resource.MustParse(gpus)}},
					},
				}}},
			},
		}
	}
	now := testclock.NewFakePassiveClock(time.Unix(1e6, 0))
	judged := 0
	fail := errors.New("not yet")
	j := judge(func(core.Workload) (core.Reason, bool, error) {
		judged++
		return core.Reason{Code: core.ExceedsMaxQuota}, true, fail
	})
	answer := Never(j, fake.NewClientBuilder().WithScheme(scheme.New()).Build(), convert.Rules{}, now)
	for i, step := range []struct {
		why         string
		queue       string
		sets        []kueue.PodSet
		known       bool // the engine knows by now
		later       time.Duration
		judged      int
		wantsAnswer bool
	}{
		{"nothing is known", "q", set("9", "a"), false, 0, 1, false},
		{"no answer is no answer to the next", "q", set("9", "a"), true, 0, 2, true},
		{"the same", "q", set("9", "a"), true, 0, 2, true},
		{"it runs something else", "q", set("9", "b"), true, 0, 2, true},
		{"it asks for more", "q", set("10", "a"), true, 0, 3, true},
		{"another queue", "r", set("9", "a"), true, 0, 4, true},
		{"nodes may have changed", "q", set("9", "a"), true, foreseenFor + time.Second, 5, true},
	} {
		if step.known {
			fail = nil
		}
		now.SetTime(now.Now().Add(step.later))
		if got := answer(
			t.Context(),
			"blue",
			step.queue,
			step.sets,
		); (got != "") != step.wantsAnswer ||
			judged != step.judged {
			t.Errorf("%d, %s: %q after %d judgements, want %d", i, step.why, got, judged, step.judged)
		}
	}
}
