package leaderworkerset

import (
	"fmt"

	api "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
)

// Warnings tell of annotations that do less than they say if a set is queued.
func Warnings(l *api.LeaderWorkerSet) (out []string) {
	if topology := l.Annotations[api.ExclusiveTopologyAnnotation]; topology != "" {
		out = append(out, fmt.Sprintf(
			"annotation %s: the pods of a queued group are in one %s; that no others are there is preferred, and keeps nobody waiting",
			api.ExclusiveTopologyAnnotation,
			topology,
		))
	}
	if topology := l.Annotations[api.SubGroupExclusiveTopologyAnnotation]; topology != "" {
		out = append(out, fmt.Sprintf(
			"annotation %s: each part of a queued group is in one %s; that no others are there is preferred, and keeps nobody waiting",
			api.SubGroupExclusiveTopologyAnnotation,
			topology,
		))
	}
	return out
}
