package leaderworkerset

import (
	"fmt"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// Warnings tell of annotations that do less than they say if a set is queued.
func Warnings(l *api.LeaderWorkerSet) (out []string) {
	for _, key := range []string{api.ExclusiveTopologyAnnotation, api.SubGroupExclusiveTopologyAnnotation} {
		if topology := l.Annotations[key]; topology != "" {
			out = append(
				out,
				fmt.Sprintf(
					"annotation %s: groups that are queued prefer to be apart by %s, and are not kept waiting where they cannot be",
					key,
					topology,
				),
			)
		}
	}
	return out
}
