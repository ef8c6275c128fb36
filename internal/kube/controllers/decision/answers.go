package decision

import (
	"errors"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
	"github.com/mlbatch/mlbatch/internal/engine/inquiry"
)

// Answers answers questions about which workload waits where: from the loop once it decides,
// before that from a follower.
type Answers struct {
	Loop *Loop
	// Follower may be nil: no other process decides.
	Follower *Follower
	// Forecasts may be nil: nothing is said of when workloads start.
	Forecasts *Forecasts
}

// Forecast is when a workload is expected to start; false if that is not known.
func (a Answers) Forecast(k core.Key) (forecast.Forecast, bool) { return a.Forecasts.Of(k) }

// SupposeStart is when a workload that is not there would start; false if that is not known.
func (a Answers) SupposeStart(w core.Workload) (forecast.Forecast, bool) {
	return a.Forecasts.Suppose(w)
}

// errUnknown says that there is no whole picture yet.
var errUnknown = errors.New("this controller has just started and does not know all queues yet: ask again")

// Line lists the workloads that wait in a ClusterQueue, in order; known is false if there is no
// such queue. It fails until the picture is whole.
func (a Answers) Line(queue string) (line []cycle.Waiting, known bool, err error) {
	err = a.Ask(func(e *cycle.Engine) { line, known = e.Line(queue) })
	return line, known, err
}

// QueueOf names the ClusterQueue of a LocalQueue; it fails as Line does.
func (a Answers) QueueOf(namespace, name string) (queue string, known bool, err error) {
	err = a.Ask(func(e *cycle.Engine) { queue, known = e.QueueOf(namespace, name) })
	return queue, known, err
}

// Explain says why a workload waits and what would help; waits is false if it does
// not wait. It fails as Line does. Decisions do not wait while advice is tried.
func (a Answers) Explain(
	k core.Key,
	now time.Time,
	higher []int64,
) (why core.Explanation, waits bool, err error) {
	a.Loop.asking.Lock()
	defer a.Loop.asking.Unlock()
	return inquiry.Explain(a.view, k, now, higher)
}

// Compare says how a workload that waits stands to another one; waits is false if it does not
// wait. It fails as Line does. Decisions do not wait while it is tried.
func (a Answers) Compare(k, other core.Key, now time.Time) (out core.Comparison, waits bool, err error) {
	a.Loop.asking.Lock()
	defer a.Loop.asking.Unlock()
	return inquiry.Compare(a.view, k, other, now)
}

// Suppose says what would become of a workload that is not there; it fails as Line does. Decisions
// do not wait while it is found out.
func (a Answers) Suppose(w core.Workload, now time.Time, higher []int64) (inquiry.Supposed, error) {
	a.Loop.asking.Lock()
	defer a.Loop.asking.Unlock()
	return inquiry.Suppose(a.view, w, now, higher)
}

// Never says why a workload that is not there could never start as it is; it fails as Line does.
// Decisions do not wait while it is found out.
func (a Answers) Never(w core.Workload, now time.Time) (why core.Reason, impossible bool, err error) {
	return inquiry.Never(a.view, w, now)
}

// Stats counts; false until the picture is whole.
func (a Answers) Stats() (stats cycle.Stats, known bool) {
	err := a.Ask(func(e *cycle.Engine) { stats = e.Stats() })
	return stats, err == nil
}

// Ask gives a question the engine that knows; it fails as Line does.
func (a Answers) Ask(question func(*cycle.Engine)) error {
	if a.Loop.look(question) || a.Follower.look(question) {
		return nil
	}
	return errUnknown
}

// view shows a question the engine that knows, to be read; it fails as Line does.
func (a Answers) view(ask func(cycle.View)) error {
	return a.Ask(func(e *cycle.Engine) { ask(e.View()) })
}
