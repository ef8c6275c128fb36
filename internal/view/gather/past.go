package gather

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
)

// pageSize is how many JobHistories are asked for at once.
const pageSize = 50

// Past reads which jobs ended since a moment, of a namespace, or of all if it is ""; the last
// to end comes first.
func Past(ctx context.Context, c client.Reader, namespace string, since time.Time) ([]view.PastJob, error) {
	var out []view.PastJob
	seen := map[types.UID]bool{}
	options := &client.ListOptions{Namespace: namespace, Limit: pageSize}
	for {
		var list history.JobHistoryList
		if err := c.List(ctx, &list, options); err != nil {
			return nil, pastUnread(err, namespace)
		}
		for i := range list.Items {
			page := &list.Items[i]
			for k := range page.Records {
				r := &page.Records[k]
				if seen[r.UID] || r.Ended.Time.Before(since) {
					continue
				}
				seen[r.UID] = true
				out = append(out, pastJob(page.Namespace, r))
			}
		}
		if list.Continue == "" {
			break
		}
		options.Continue = list.Continue
	}
	slices.SortFunc(out, func(a, b view.PastJob) int {
		return cmp.Or(
			b.Ended.Compare(a.Ended),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID),
		)
	})
	return out, nil
}

// pastUnread says what to do where histories cannot be read.
func pastUnread(err error, namespace string) error {
	switch {
	case apierrors.IsForbidden(err) && namespace == "":
		return fmt.Errorf(
			"you may not read the histories of all namespaces: -n NAMESPACE lists those of one: %w",
			err,
		)
	case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return fmt.Errorf(
			"this cluster keeps no history of jobs: its mlbatch is older, see mlbatch version: %w",
			err,
		)
	}
	return fmt.Errorf("read the history of jobs: %w", err)
}

func pastJob(namespace string, r *history.JobRecord) view.PastJob {
	row := view.PastJob{
		Namespace:    namespace,
		Kind:         view.Kind(r.Kind),
		Name:         r.Name,
		Queue:        r.Queue,
		ClusterQueue: r.ClusterQueue,
		Flavor:       r.Flavor,
		User:         r.User,
		Priority:     r.Priority,
		State:        r.State,
		Reason:       r.Reason,
		Message:      r.Message,
		ExitCode:     r.ExitCode,
		FailedPod:    r.FailedPod,
		FailedNode:   r.FailedNode,
		Submitted:    r.Submitted.UTC(),
		Ended:        r.Ended.UTC(),
		RanSeconds:   r.RanSeconds,
		Pods:         r.Pods,
		GPUs:         r.GPUs,
		Slices:       r.Slices,
		Evictions:    r.Evictions,
		Restarts:     r.Restarts,
		UID:          r.UID,

		Attempts:      r.Attempts,
		AttemptsTotal: r.AttemptsTotal,
		ETTR:          view.ETTR(r.AttemptsTotal, r.Ended.Time),
	}
	if r.Started != nil {
		row.Started = new(r.Started.UTC())
	}
	if r.State == history.Succeeded {
		row.ExitCode = new(int32(0)) // records tell codes of failures only
	}
	row.WaitedSeconds = max(0, int64(r.Ended.Sub(r.Submitted.Time)/time.Second)-r.RanSeconds)
	row.GPUHours = float64(r.GPUs) * (time.Duration(r.RanSeconds) * time.Second).Hours()
	return row
}
