package slurm

import (
	"cmp"
	"slices"
	"time"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
)

// WithPast are the jobs that are there and the ones that only the history remembers, the newest first. Of one
// that is both, what is there counts, save for what it has lost: its exit code with its
// pods, and when it began.
func WithPast(rows []view.Job, past []view.PastJob) []view.Job {
	type key struct {
		kind            view.Kind
		namespace, name string
	}
	there := make(map[key]int, len(rows))
	for i, r := range rows {
		there[key{r.Kind, r.Namespace, r.Name}] = i
	}
	out := slices.Clone(rows)
	known := map[key]bool{}
	for _, p := range past {
		k := key{p.Kind, p.Namespace, p.Name}
		if i, is := there[k]; is && !isOlder(p, rows[i].Created) {
			if StateOf(out[i]).Ended() && !known[k] {
				out[i].ExitCode, out[i].Started = cmp.Or(out[i].ExitCode, p.ExitCode), p.Started
			}
			known[k] = true
			continue
		}
		out = append(out, pastRow(p))
	}
	slices.SortStableFunc(out, func(a, b view.Job) int { return b.Created.Compare(a.Created) })
	return out
}

// isOlder reports whether what is remembered is of another job of the same name, which had ended
// when this one was created. A job may be submitted in the second before the one that the API
// server notes as that of its creation.
func isOlder(p view.PastJob, created time.Time) bool {
	return p.Submitted.Before(created) && !p.Ended.After(created)
}

// cancelledReason is the reason of rows of jobs that were deleted before they ended.
const cancelledReason = "Cancelled"

// pastRow is a remembered job as a line of a list of jobs.
func pastRow(p view.PastJob) view.Job {
	r := view.Job{
		Namespace:    p.Namespace,
		Kind:         p.Kind,
		Name:         p.Name,
		Queue:        p.Queue,
		ClusterQueue: p.ClusterQueue,
		User:         p.User,
		Priority:     p.Priority,
		Reason:       p.Reason,
		Message:      p.Message,
		ExitCode:     p.ExitCode,
		Pods:         int(p.Pods),
		GPUs:         p.GPUs,
		Slices:       p.Slices,
		Created:      p.Submitted,
		Since:        new(p.Ended),
		Started:      p.Started,
	}
	switch p.State {
	case history.Succeeded:
		r.State = view.Succeeded
	case history.Cancelled:
		r.State, r.Reason = view.Failed, cancelledReason
	default:
		r.State = view.Failed
	}
	return r
}
