package visibility

import (
	"fmt"
	"math"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// page is which part of a line is asked for.
type page struct{ offset, limit int }

// pageOf reads the query of a request.
func pageOf(q url.Values) (page, error) {
	p := page{limit: v1beta2.DefaultLimit}
	for _, f := range []struct {
		name string
		into *int
	}{{"offset", &p.offset}, {"limit", &p.limit}} {
		text := q.Get(f.name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return p, fmt.Errorf("%s=%s: must be a whole number, 0 or more", f.name, text)
		}
		*f.into = int(min(n, math.MaxInt32))
	}
	if p.limit == 0 {
		p.limit = v1beta2.DefaultLimit
	}
	p.limit = min(p.limit, v1beta2.MaxLimit)
	return p, nil
}

// filter says whose workloads are listed: those of one LocalQueue, or all.
type filter struct{ namespace, localQueue string }

// summarize makes the answer from a queue's line and the Workloads there are.
// Workloads that are switched off stand in no queue. One that the engine knows
// and the API has no more counts as gone.
func summarize(
	line []cycle.Waiting,
	objects map[core.Key]*kueue.Workload,
	of filter,
	p page,
) []v1beta2.PendingWorkload {
	type localQueue struct{ namespace, name string }
	items := []v1beta2.PendingWorkload{}
	inQueue, inLocalQueue, listed := int32(0), map[localQueue]int32{}, 0
	for _, w := range line {
		o := objects[w.Key]
		if o == nil || !ptr.Deref(o.Spec.Active, true) {
			continue
		}
		d := localQueue{w.Key.Namespace, w.LocalQueue}
		item := v1beta2.PendingWorkload{
			ObjectMeta: metav1.ObjectMeta{
				Name:              o.Name,
				Namespace:         o.Namespace,
				OwnerReferences:   o.OwnerReferences,
				CreationTimestamp: o.CreationTimestamp,
			},
			Priority: shown(w.Priority), LocalQueueName: w.LocalQueue,
			PositionInClusterQueue: inQueue, PositionInLocalQueue: inLocalQueue[d],
		}
		inQueue++
		inLocalQueue[d]++
		if of.localQueue != "" && (localQueue{of.namespace, of.localQueue}) != d {
			continue
		}
		if listed++; listed > p.offset && len(items) < p.limit {
			items = append(items, item)
		}
	}
	return items
}

// shown is a priority as the API has room for it: a boosted one may be larger.
func shown(priority int64) int32 {
	return int32(min(max(priority, math.MinInt32), math.MaxInt32))
}
