package gather

import (
	"context"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Place finds out where waiting jobs stand in the lines of their queues, and when they are
// expected to start, as far as line, which lists what waits in a ClusterQueue or, in a
// namespace, in a LocalQueue, tells. It asks line at most so often.
func Place(
	ctx context.Context,
	s *view.JobList,
	most int,
	line func(ctx context.Context, namespace, queue string) ([]visibility.PendingWorkload, error),
) {
	at := map[string]*visibility.PendingWorkload{} // by NAMESPACE/NAME
	asked := map[[2]string]bool{}
	ask := func(namespace, queue string) bool {
		key := [2]string{namespace, queue}
		ok, before := asked[key]
		if queue == "" || before || len(asked) >= most {
			return ok
		}
		items, err := line(ctx, namespace, queue)
		asked[key] = err == nil
		for i := range items {
			at[items[i].Namespace+"/"+items[i].Name] = &items[i]
		}
		return err == nil
	}
	for i := range s.Items {
		r := &s.Items[i]
		if r.State != view.Waiting || r.Workload == "" || r.ClusterQueue != "" {
			continue
		}
		if !ask("", r.Target) {
			ask(r.Namespace, r.Queue)
		}
	}
	for i := range s.Items {
		r := &s.Items[i]
		if w := at[r.Namespace+"/"+r.Workload]; w != nil && r.State == view.Waiting {
			r.Position, r.Start = new(int(w.PositionInClusterQueue)+1), w.Start
		}
	}
}

// MostLines is how many lines a command asks for at most.
const MostLines = 100
