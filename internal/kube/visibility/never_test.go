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
	set := kueue.PodSet{Name: "main", Count: 2, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{core.GPU: resource.MustParse("9")}},
	}}}}}
	large := core.Reason{Code: core.TopologyPlacementFailed, Cause: core.PodTooLarge, PodSet: "main", Resource: core.GPU, Need: 9, Limit: 8, Nodes: 3}
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
		answer := Never(j, fake.NewClientBuilder().WithScheme(scheme.New()).Build(), convert.Rules{}, testclock.NewFakePassiveClock(time.Unix(1e6, 0)))
		if got := answer(t.Context(), "blue", "q", []kueue.PodSet{set}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if told.Key.Namespace != "blue" || told.Queue != "q" || told.PodSets[0].Count != 2 || told.PodSets[0].Requests.Of(core.GPU) != 9 {
			t.Errorf("%s: the engine is told of %+v", name, told)
		}
	}
}
