package jobset

import (
	"fmt"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// warnings tell of annotations that do less than they say.
func warnings(o jobs.Object, _ lifecycle.Policy) []string {
	js, err := cast(o)
	if err != nil {
		return nil
	}
	r := read(js)
	for i := range r.roles {
		x := &r.roles[i]
		key := r.exclusive(x)
		if key == "" {
			continue
		}
		out := []string{
			fmt.Sprintf(
				"annotation %s: Jobs that are queued prefer to be apart by %s, and are not kept waiting where they cannot be",
				api.ExclusiveKey,
				key,
			),
		}
		_, all := js.Annotations[api.NodeSelectorStrategyKey]
		if _, one := x.Template.Annotations[api.NodeSelectorStrategyKey]; all || one {
			out = append(
				out,
				fmt.Sprintf(
					"annotation %s has no effect: Jobs are kept apart without labels of nodes",
					api.NodeSelectorStrategyKey,
				),
			)
		}
		return out
	}
	return nil
}
