package whatif

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// Comparison is a recorded past under its own policy and under others.
type Comparison struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Jobs int       `json:"jobs"`
	// Recorded is what really happened; Policies are simulations, the first that of the
	// recorded policy. Differences are between these.
	Recorded    *sim.Result   `json:"recorded"`
	Policies    []*sim.Result `json:"policies"`
	Differences []Difference  `json:"differences"`
	Assumed     Assumed       `json:"assumed"`
	Trust       Trust         `json:"trust"`
	Notes       []string      `json:"notes,omitempty"`
}

// Trust says how near the simulation of the recorded policy comes to what was recorded.
type Trust struct {
	// Jobs had quota in both, Near of them after a wait that differs by a minute at most, or
	// by a tenth.
	Jobs int `json:"jobs"`
	Near int `json:"near"`
	// Used is what was held in the simulation over what was recorded: 1 if both are the same.
	Used float64 `json:"usedRatio"`
}

// recordedPolicy is what the first world is called.
const recordedPolicy = "recorded policy"

// Compare decides a past under its own policy and under others, each in a goroutine. When
// it is told to stop, it returns the context's error.
func Compare(ctx context.Context, p *replay.Past, policies []*Policy) (*Comparison, error) {
	h := newHistory(p)
	worlds := []*sim.World{h.world(recordedPolicy)}
	c := &Comparison{From: p.First.UTC(), To: p.Last.UTC(), Jobs: len(h.jobs), Assumed: h.assumed}
	for _, policy := range policies {
		w := h.world(policy.Name)
		for _, name := range policy.lay(w) {
			c.Notes = append(
				c.Notes,
				fmt.Sprintf("%s: %s was never recorded; it is there from the beginning", policy.Name, name),
			)
		}
		worlds = append(worlds, w)
	}
	c.Notes = append(c.Notes, gaps(p)...)
	for _, w := range worlds {
		weigh(w)
	}
	var err error
	if c.Policies, err = runAll(ctx, worlds); err != nil {
		return nil, err
	}
	c.Recorded = h.recorded(c.Policies[0])
	c.Trust = h.trust(c.Recorded, c.Policies[0])
	c.Differences = c.differences()
	return c, nil
}

// gaps says what is missing in a past.
func gaps(p *replay.Past) (out []string) {
	if p.Runs > 1 {
		out = append(
			out,
			fmt.Sprintf(
				"the controller was started %d times: what it was not there to see is known from when it came back",
				p.Runs,
			),
		)
	}
	if p.Gaps > 0 {
		out = append(out, fmt.Sprintf("recordings are missing in %d places, where writing was too slow", p.Gaps))
	}
	if p.CutShort {
		out = append(out, "a recording ends within a line: its writer was stopped there")
	}
	return out
}

// weigh gives teams the weights of their queues, where the world shares by weight.
func weigh(w *sim.World) {
	if w.Engine.FairSharing == nil {
		return
	}
	for _, ev := range w.Objects {
		if q, ok := ev.(core.QueueSet); ok && q.Queue.Weight != nil {
			for i := range w.Teams {
				if w.Teams[i].Queue == q.Queue.Name {
					w.Teams[i].Weight = float64(*q.Queue.Weight) / float64(core.WeightOne)
				}
			}
		}
	}
}

// momentsPerLook is how many moments pass between looks at whether to stop.
const momentsPerLook = 500

// runAll runs worlds beside each other: they share nothing that changes.
func runAll(ctx context.Context, worlds []*sim.World) ([]*sim.Result, error) {
	results, broken := make([]*sim.Result, len(worlds)), make([]error, len(worlds))
	var group sync.WaitGroup
	for i, w := range worlds {
		group.Go(func() {
			run := sim.New(*w, sim.Watch{})
			for run.Advance(momentsPerLook) {
				if ctx.Err() != nil {
					return
				}
			}
			results[i], broken[i] = run.Result(), run.Err()
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("stopped before the end: %w", err)
	}
	for i, err := range broken {
		if err != nil {
			return nil, fmt.Errorf("%s: the engine broke a promise: %w", worlds[i].Name, err)
		}
	}
	return results, nil
}

// trust compares the waits of each job.
func (h *history) trust(recorded, base *sim.Result) Trust {
	var t Trust
	waits := make(map[core.Key]float64, len(base.Jobs()))
	for _, j := range base.Jobs() {
		if j.Started >= 0 {
			waits[j.Key] = j.Wait
		}
	}
	for i := range h.jobs {
		j := &h.jobs[i]
		simulated, ok := waits[j.key]
		if !ok || len(j.past.Stays) == 0 {
			continue
		}
		t.Jobs++
		was := j.past.Stays[0].From.Sub(j.past.Told).Seconds()
		if math.Abs(was-simulated) <= max(60, was/10) {
			t.Near++
		}
	}
	if recorded.Total.Used > 0 {
		t.Used = round(base.Total.Used / recorded.Total.Used)
	}
	return t
}
