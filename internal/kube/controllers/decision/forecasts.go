package decision

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Forecasts estimates, again and again, when the workloads that wait will start. It works
// beside the decisions, on copies, and takes a small part of one processor.
type Forecasts struct {
	opts ForecastOptions
	// looking is held while the future is played: book and its oracle are no more than one's.
	looking sync.Mutex
	book    book

	mu     sync.Mutex
	at     time.Time
	latest map[core.Key]forecast.Estimate
	known  map[core.Key]int
	tally  forecast.Tally
}

// ForecastOptions are what Forecasts work with.
type ForecastOptions struct {
	// Look gives the engine to a question; it fails if there is none.
	Look   func(func(*cycle.Engine)) error
	Engine cycle.Options
	// Workloads reads Workloads from a cache.
	Workloads client.Reader
	Clock     clock.WithTicker
}

// Bounds of forecasts.
const (
	// leastPause is between two looks at least, share the part of the time that looks may
	// take.
	leastPause = 10 * time.Second
	share      = 20
	// futures are played in each look, within budget; fewest are in any case. A future ends
	// after so many decisions.
	futures, fewest = 20, 5
	budget          = 250 * time.Millisecond
	mostDecides     = 20_000
)

// NewForecasts returns forecasts that Start makes.
func NewForecasts(o ForecastOptions) *Forecasts {
	return &Forecasts{opts: o, book: book{jobs: map[types.UID]*remembered{}}}
}

// NeedLeaderElection is false: every replica answers, also one that does not decide.
func (f *Forecasts) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (f *Forecasts) Start(ctx context.Context) error {
	pause := leastPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.opts.Clock.After(pause):
		}
		began := f.opts.Clock.Now()
		if err := f.look(ctx, began); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("When jobs will start is not known now", "because", err.Error())
		}
		pause = max(leastPause, share*f.opts.Clock.Since(began))
	}
}

// look makes the estimates anew.
func (f *Forecasts) look(ctx context.Context, now time.Time) error {
	f.looking.Lock()
	defer f.looking.Unlock()
	var all kueue.WorkloadList
	if err := f.opts.Workloads.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list workloads: %w", err)
	}
	f.book.read(all.Items)
	q, err := f.question(now)
	if err != nil {
		return err
	}
	said, err := f.book.oracle.Look(q)
	if err != nil {
		return fmt.Errorf("look ahead: %w", err)
	}
	known := make(map[core.Key]int, len(said))
	for k := range said { // each alone
		known[k] = f.book.oracle.Known(f.book.job(k))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.latest, f.known, f.tally = now, said, known, f.book.oracle.Tally()
	return nil
}

// question is what is asked of the future at a moment.
func (f *Forecasts) question(now time.Time) (q forecast.Question, err error) {
	q = forecast.Question{
		Options: f.opts.Engine, Now: now, Jobs: f.book.job, Futures: futures, Decides: mostDecides,
		Enough: func(played int) bool { return played >= fewest && f.opts.Clock.Since(now) > budget },
	}
	if unknown := f.opts.Look(func(e *cycle.Engine) { q.State, err = e.Dump() }); unknown != nil {
		return q, unknown
	}
	return q, err
}

// Suppose is when a workload that is not there would start, were it submitted now; false if that
// is not known. One is estimated at a time.
func (f *Forecasts) Suppose(w core.Workload) (forecast.Forecast, bool) {
	if f == nil {
		return forecast.Forecast{}, false
	}
	f.looking.Lock()
	defer f.looking.Unlock()
	now := f.opts.Clock.Now()
	q, err := f.question(now)
	if err != nil {
		return forecast.Forecast{}, false
	}
	job := forecast.Job{Classes: []string{w.Key.Namespace + "/" + w.Queue, ""}}
	for i := range w.PodSets {
		job.GPUs += int64(w.PodSets[i].Count) * int64(w.PodSets[i].Requests.Of(core.GPU))
	}
	q.Also = &w
	q.Jobs = func(k core.Key) forecast.Job {
		if k == w.Key {
			return job
		}
		return f.book.job(k)
	}
	e, err := f.book.oracle.Suppose(q)
	if err != nil {
		return forecast.Forecast{}, false
	}
	out := e.From(now)
	out.Known = f.book.oracle.Known(job)
	return out, true
}

// Of is when a workload is expected to start; false if nothing is known of it.
func (f *Forecasts) Of(k core.Key) (forecast.Forecast, bool) {
	if f == nil {
		return forecast.Forecast{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e, is := f.latest[k]
	if !is {
		return forecast.Forecast{}, false
	}
	out := e.From(f.at)
	out.Known = f.known[k]
	return out, true
}

// Tally is how right forecasts were since the process started.
func (f *Forecasts) Tally() forecast.Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally
}

// book is what is known of the jobs there are, and of ended ones.
type book struct {
	oracle forecast.Forecaster
	jobs   map[types.UID]*remembered
	byKey  map[core.Key]*remembered
}

// remembered is what is known of one job.
type remembered struct {
	forecast.Job
	key   core.Key
	ended bool
	seen  bool
}

// job is what is known of a workload.
func (b *book) job(k core.Key) forecast.Job {
	if r := b.byKey[k]; r != nil {
		return r.Job
	}
	return forecast.Job{}
}

// read takes in the Workloads there are, and what became of Workloads that were there before.
func (b *book) read(all []kueue.Workload) {
	for _, r := range b.jobs {
		r.seen = false
	}
	b.byKey = make(map[core.Key]*remembered, len(all))
	var ended []*kueue.Workload
	for i := range all {
		w := &all[i]
		r := b.jobs[w.UID]
		if r == nil {
			r = &remembered{Job: jobOf(w), key: core.Key{Namespace: w.Namespace, Name: w.Name}}
			b.jobs[w.UID] = r
		}
		r.seen = true
		b.byKey[r.key] = r
		switch reserved := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved); {
		case apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished):
			if !r.ended {
				r.ended = true
				ended = append(ended, w)
			}
			b.oracle.Gone(r.key)
		case w.Status.Admission != nil && reserved != nil:
			b.oracle.Started(r.key, reserved.LastTransitionTime.Time)
		case !ptr.Deref(w.Spec.Active, true):
			b.oracle.Gone(r.key)
		}
	}
	slices.SortFunc(ended, func(a, b *kueue.Workload) int {
		return cmp.Or(finishedAt(a).Compare(finishedAt(b)), cmp.Compare(a.UID, b.UID))
	})
	for _, w := range ended {
		if ran := ranFor(w); ran > 0 {
			b.oracle.Ended(b.jobs[w.UID].Job, ran)
		}
	}
	for uid, r := range b.jobs {
		if !r.seen {
			delete(b.jobs, uid)
			if b.byKey[r.key] == nil {
				b.oracle.Gone(r.key)
			}
		}
	}
}

func finishedAt(w *kueue.Workload) time.Time {
	return apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished).LastTransitionTime.Time
}

// ranFor is for how long a finished Workload was admitted, the last time; 0 if it was not.
func ranFor(w *kueue.Workload) time.Duration {
	admitted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
	if admitted == nil || admitted.Status != metav1.ConditionTrue {
		return 0
	}
	return finishedAt(w).Sub(admitted.LastTransitionTime.Time)
}

// jobOf is what a Workload says of how long it may run. Jobs are alike that have a name in
// common but for numbers and what Kubernetes adds, that are of one kind and size, and that
// are of one queue.
func jobOf(w *kueue.Workload) forecast.Job {
	j := forecast.Job{Endless: convert.Endless(w)}
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		j.GPUs += int64(set.Count) * int64(convert.PodRequests(&set.Template.Spec).Of(core.GPU))
	}
	kind, name := "Pod", w.Name
	if of, is := convert.Owner(w); is != "" {
		kind, name = of.Kind, is
	}
	queue := w.Namespace + "/" + string(w.Spec.QueueName)
	size := bits.Len64(uint64(j.GPUs)) //nolint:gosec // not negative
	j.Classes = []string{
		fmt.Sprintf("%s %s %s %d", queue, kind, stem(name), size),
		fmt.Sprintf("%s %s %d", queue, kind, size), queue, "",
	}
	if most := w.Spec.MaximumExecutionTimeSeconds; most != nil {
		past := ptr.Deref(w.Status.AccumulatedPastExecutionTimeSeconds, 0)
		j.Limit = time.Duration(max(*most-past, 1)) * time.Second
	}
	return j
}

// generated is what Kubernetes adds to names that it makes, and numbers are what people do.
var generated, numbers = regexp.MustCompile(
	`-?[bcdfghjklmnpqrstvwxz2456789]{5}$`,
), regexp.MustCompile(
	`[0-9]+`,
)

// stem is a name without what tells one of many apart.
func stem(name string) string {
	return numbers.ReplaceAllString(generated.ReplaceAllString(name, ""), "#")
}
