package raycluster_test

import (
	"math"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// How many pods a group of Ray's workers has.
func TestWrappedWorkers(t *testing.T) {
	for name, tc := range map[string]struct {
		group map[string]any
		want  int32
		wrong bool
	}{
		"nothing said":   {map[string]any{}, 0, false},
		"some":           {map[string]any{"replicas": int64(3)}, 3, false},
		"none":           {map[string]any{"replicas": int64(0)}, 0, false},
		"on two hosts":   {map[string]any{"replicas": int64(3), "numOfHosts": int64(2)}, 6, false},
		"on no hosts":    {map[string]any{"replicas": int64(3), "numOfHosts": int64(0)}, 3, false},
		"at least":       {map[string]any{"replicas": int64(1), "minReplicas": int64(4)}, 4, false},
		"only at least":  {map[string]any{"minReplicas": int64(4)}, 4, false},
		"at most":        {map[string]any{"replicas": int64(3), "maxReplicas": int64(2)}, 2, false},
		"no most":        {map[string]any{"maxReplicas": "x"}, 0, true},
		"suspended":      {map[string]any{"replicas": int64(3), "suspend": true}, 3, false}, // other controllers know no such field
		"as many as int": {map[string]any{"replicas": int64(math.MaxInt32)}, math.MaxInt32, false},
		"too many":       {map[string]any{"replicas": int64(1 << 30), "numOfHosts": int64(2)}, 0, true},
		"no number":      {map[string]any{"replicas": "x"}, 0, true},
		"no least":       {map[string]any{"minReplicas": "x"}, 0, true},
		"no hosts":       {map[string]any{"numOfHosts": "x"}, 0, true},
	} {
		got, err := raycluster.WrappedWorkers(tc.group)
		if got != tc.want || (err != nil) != tc.wrong {
			t.Errorf("%s: %d, %v", name, got, err)
		}
		ray := map[string]any{
			"spec": map[string]any{
				"headGroupSpec":    map[string]any{},
				"workerGroupSpecs": []any{map[string]any{}, tc.group},
			},
		}
		sets, err := raycluster.WrappedPods("spec")(ray)
		switch {
		case tc.wrong:
			if err == nil || !strings.HasPrefix(err.Error(), "workerGroupSpecs[1]: ") {
				t.Errorf("%s: %v, %v", name, sets, err)
			}
		case err != nil || len(sets) != 3 || *sets[0].Replicas != 1 || *sets[2].Replicas != tc.want:
			t.Errorf("%s: %+v, %v", name, sets, err)
		}
	}
}
