package podplan_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
)

// world is a cluster with one job. Its controller looks at it as it is or as it was,
// and is killed at any moment.
type world struct {
	t    *rapid.T
	plan *podplan.Plan
	kept podplan.RetryState
	pods []podplan.Seen
	now  time.Time
	// stale is what an earlier look saw, of the pods and of what was kept.
	stale []podplan.Seen
	made  int
	// fresh: the controller sees all as it is.
	fresh bool
	// failed are pods that failed by their own fault.
	failed map[string]bool
}

func pick[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

func anyPlan(t *rapid.T) *podplan.Plan {
	fails := []podplan.OnFailure{
		podplan.FailJob,
		podplan.Replace,
		podplan.ReplaceRetriable,
		podplan.RestartJob,
		podplan.Ignore,
	}
	p := &podplan.Plan{CleanUp: pick(t, "clean up", podplan.Keep, podplan.RemoveRunning, podplan.RemoveAll)}
	p.Roles = append(
		p.Roles,
		podplan.Role{
			Name:      "a",
			Member:    "a-{index}",
			Count:     int32(pick(t, "a", 1, 2)),
			OnFailure: pick(t, "a fails", fails...),
		},
	)
	if n := int32(pick(t, "b", 0, 1, 3)); n > 0 {
		r := podplan.Role{Name: "b", Member: "b-{index}", Count: n, OnFailure: pick(t, "b fails", fails...)}
		if pick(t, "waits", false, true) {
			r.After = []podplan.Dependency{{Role: "a", Done: pick(t, "for its end", false, true)}}
		}
		p.Roles = append(p.Roles, r)
	}
	for i := range p.Roles {
		r := &p.Roles[i]
		r.Holds = pick(t, "holds", false, false, true)
		r.Kept = pick(t, "kept", false, false, true)
		r.Floating = pick(t, "floats", false, false, true)
		r.Forever = pick(t, "forever", false, false, false, true)
		if r.Floating {
			r.Unwanted = []int32{int32(pick(t, "unwanted", 0, 1, 2))}
		}
	}
	for range pick(t, "rules", 0, 0, 1, 2) {
		p.Rules = append(p.Rules, podplan.Rule{
			Roles: pick(
				t,
				"rule of",
				nil,
				[]string{"a"},
				[]string{"b"},
			),
			Reasons: pick(t, "rule for", nil, []string{"x"}),
			Then:    pick(t, "rule says", fails...),
			Free:    pick(t, "free", false, true),
		})
	}
	p.Together = pick(t, "together", false, false, true)
	p.Version, p.Renews = "1", pick(t, "renews", false, true)
	if pick(t, "succeeds", true, true, true, false) {
		p.Success = podplan.Success{{Roles: []string{"a"}, First: pick(t, "first", false, true)}}
	}
	if pick(t, "limited", true, false) {
		p.Retries = new(int32(pick(t, "retries", 0, 1, 3)))
	}
	if pick(t, "deadline", false, false, true) {
		p.Deadline, p.EachTry = 20*time.Second, pick(t, "each try", false, true)
	}
	return p
}

// step lets the controller look and do what it finds. It may be killed after each write.
func (w *world) step() {
	seen := w.pods
	w.fresh = w.stale == nil || !pick(w.t, "looks at an old state", false, false, true)
	if !w.fresh {
		seen = w.stale
	}
	seen = slices.Clone(seen)
	w.stale = slices.Clone(w.pods)
	s := w.plan.Next(seen, &w.kept, w.now)
	if again := w.plan.Next(seen, &w.kept, w.now); !cmp.Equal(s, again) {
		w.t.Fatalf("the same look gave another step:\n%s", cmp.Diff(s, again))
	}
	if s.Changed {
		if len(s.Create)+len(s.Delete)+len(s.Hold)+len(s.Release) > 0 {
			w.t.Fatalf("something is done before it was noted why: %+v", s)
		}
		if w.kept.Outcome != podplan.Open {
			w.t.Fatalf("an ended job changes: %s", cmp.Diff(w.kept, s.RetryState))
		}
		running := slices.ContainsFunc(w.pods, func(s podplan.Seen) bool { return !s.Over })
		if s.RetryState.Started.IsZero() && !w.kept.Started.IsZero() && running && w.fresh {
			w.t.Fatalf("it says that no pod is left: %v", w.pods)
		}
		if pick(w.t, "killed before it is noted", false, false, false, true) {
			return
		}
		w.kept = s.RetryState
		return
	}
	if (w.plan.Suspended || w.kept.Outcome != podplan.Open) && len(s.Create) > 0 {
		w.t.Fatalf("pods are made of a job that may have none: %v", s.Create)
	}
	for _, i := range s.Delete {
		if pick(w.t, "killed", false, false, false, false, true) {
			return
		}
		w.remove(seen[i].ID)
	}
	for _, i := range s.Hold {
		w.hold(seen[i].ID, true)
	}
	for _, i := range s.Release {
		w.hold(seen[i].ID, false)
	}
	for _, m := range s.Create {
		if pick(w.t, "killed", false, false, false, false, true) {
			return
		}
		w.create(m)
	}
}

// hold holds a member back, so that it runs no more, or releases it, as the API server would:
// not if the job is another than it was seen.
func (w *world) hold(id string, on bool) { //nolint:revive // what is done to it
	for i := range w.pods {
		s := &w.pods[i]
		if s.ID != id || s.Life >= podplan.Succeeded {
			continue
		}
		if !on && (w.plan.Suspended || w.kept.Outcome != podplan.Open) {
			w.t.Fatalf("%v is released in a job that may have none", s)
		}
		if !w.plan.Role(s.Role).Holds {
			w.t.Fatalf("%v is held, and nobody asks for that", s)
		}
		s.Held, s.Over = on, on
		if on {
			s.Life = podplan.Pending
		}
	}
}

// create makes a pod as the API server would: a name is taken once. The controller asks
// whether the job is still as it saw it before it makes pods.
func (w *world) create(m podplan.Member) {
	if w.plan.Suspended || w.kept.Outcome != podplan.Open {
		w.t.Fatalf("%v is made of a job that may have none", m)
	}
	r := w.plan.Role(m.Role)
	if r == nil || m.Index >= r.Count && !r.Floating {
		w.t.Fatalf("%v is not asked for", m)
	}
	if w.plan.Together &&
		slices.ContainsFunc(w.pods, func(s podplan.Seen) bool { return s.Attempt < w.kept.Attempt }) &&
		w.fresh {
		w.t.Fatalf("%v begins beside members of an earlier attempt: %v", m, w.pods)
	}
	if slices.ContainsFunc(w.pods, func(s podplan.Seen) bool { return s.Member == m }) {
		return // its name is taken
	}
	if w.kept.Done[m.Role].Has(m.Index) {
		w.t.Fatalf("%v is done and is made again", m)
	}
	w.made++
	w.pods = append(
		w.pods,
		podplan.Seen{Member: m, ID: fmt.Sprint("uid-", w.made), Attempt: w.kept.Attempt, Version: w.plan.Version},
	)
}

func (w *world) remove(id string) {
	for i := range w.pods {
		if w.pods[i].ID == id {
			if s := w.pods[i]; s.Life == podplan.Failed && !s.Disrupted && !s.Leaving {
				surplus := w.plan.Role(s.Role).Floating
				if w.kept.Outcome == podplan.Open && !w.plan.Suspended && s.Attempt == w.kept.Attempt && !surplus &&
					w.asked(s.Member) &&
					!slices.Contains(w.kept.Counted, id) {
					w.t.Fatalf("%v failed, was not counted and is removed", s)
				}
			}
			w.pods[i].Leaving = true
		}
	}
}

func (w *world) asked(m podplan.Member) bool {
	r := w.plan.Role(m.Role)
	return r != nil && (r.Floating || m.Index < r.Count)
}

// happen lets something happen to a pod, or somebody do something.
func (w *world) happen() {
	w.now = w.now.Add(time.Duration(pick(w.t, "seconds", 0, 1, 5)) * time.Second)
	switch pick(
		w.t,
		"what",
		"run",
		"run",
		"run",
		"fail",
		"succeed",
		"lose",
		"gone",
		"gone",
		"delete",
		"suspend",
		"resume",
		"scale",
		"edit",
	) {
	case "run":
		w.change(func(s *podplan.Seen) { s.Life = min(s.Life+1, podplan.Ready) })
	case "fail":
		w.change(func(s *podplan.Seen) {
			s.Life, s.Failures, s.Final, s.Over = podplan.Failed, s.Failures+1, pick(w.t, "final", false, true), true
			s.Reason = pick(w.t, "reason", "", "x")
			if !s.Leaving {
				w.failed[s.ID] = true
			}
		})
	case "succeed":
		w.change(func(s *podplan.Seen) { s.Life, s.Over = podplan.Succeeded, true })
	case "lose":
		w.change(func(s *podplan.Seen) { s.Life, s.Disrupted, s.Over = podplan.Failed, true, true })
	case "gone":
		w.pods = slices.DeleteFunc(w.pods, func(s podplan.Seen) bool { return s.Leaving })
	case "delete":
		if len(w.pods) > 0 {
			w.pods[rapid.IntRange(0, len(w.pods)-1).Draw(w.t, "which")].Leaving = true
		}
	case "edit":
		w.plan.Version = pick(w.t, "version", "1", "2", "3")
	case "suspend":
		w.plan.Suspended = true
	case "resume":
		w.plan.Suspended = false
	case "scale":
		w.plan.Roles[0].Count = int32(pick(w.t, "a", 1, 2, 4))
	}
}

// change is of a pod that has not ended.
func (w *world) change(f func(*podplan.Seen)) {
	var open []int
	for i := range w.pods {
		if w.pods[i].Life < podplan.Succeeded && !w.pods[i].Held {
			open = append(open, i)
		}
	}
	if len(open) > 0 {
		f(&w.pods[pick(w.t, "pod", open...)])
	}
}

// check is what holds at any time.
func (w *world) check(before podplan.RetryState) {
	if before.Outcome != podplan.Open && w.kept.Outcome != before.Outcome {
		w.t.Fatalf("it ended with %d, and now it is %d", before.Outcome, w.kept.Outcome)
	}
	if n := int(w.kept.Failures); n > len(w.failed) {
		w.t.Fatalf("%d failures are counted of %d", n, len(w.failed))
	}
	if r := w.plan.Retries; r != nil && w.kept.Outcome == podplan.Open && w.kept.Failures > *r {
		w.t.Fatalf("it goes on after %d failures, and %d are allowed", w.kept.Failures, *r)
	}
}

// settle lets the controller work, and pods that are deleted go, until nothing is left to
// do.
func (w *world) settle() {
	for range 100 {
		w.pods = slices.DeleteFunc(w.pods, func(s podplan.Seen) bool { return s.Leaving })
		s := w.plan.Next(w.pods, &w.kept, w.now)
		switch {
		case s.Changed:
			w.kept = s.RetryState
		case len(s.Create)+len(s.Delete)+len(s.Hold)+len(s.Release) == 0 && s.Again > 0 && w.kept.Outcome == podplan.Open:
			w.now = w.now.Add(s.Again)
		case len(s.Create)+len(s.Delete)+len(s.Hold)+len(s.Release) == 0:
			return
		default:
			w.fresh = true
			for _, i := range s.Delete {
				w.remove(w.pods[i].ID)
			}
			for _, i := range s.Hold {
				w.hold(w.pods[i].ID, true)
			}
			for _, i := range s.Release {
				w.hold(w.pods[i].ID, false)
			}
			for _, m := range s.Create {
				w.create(m)
			}
		}
	}
	w.t.Fatalf("it never comes to rest: %+v, %v", w.kept, w.pods)
}

// TestWhateverHappens: pods fail, nodes go, jobs are suspended, resumed and scaled, pods
// are deleted, and the controller looks at old states and is killed in the middle. No
// pod is made that may not be, none twice, no failure is lost or counted twice, an ended
// job stays ended, and at rest everything is there that should be.
func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, plan: anyPlan(t), now: start, failed: map[string]bool{}}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			before := w.kept
			before.Done = maps.Clone(before.Done)
			if pick(t, "who acts", "controller", "world") == "world" {
				w.happen()
			} else {
				w.step()
			}
			w.check(before)
		}
		w.settle()
		w.check(w.kept)
		switch {
		case w.kept.Outcome != podplan.Open:
			left := slices.ContainsFunc(
				w.pods,
				func(s podplan.Seen) bool { return s.Life < podplan.Succeeded || !w.plan.Role(s.Role).Kept },
			)
			if w.plan.CleanUp == podplan.RemoveAll && left {
				t.Fatalf("ended, and pods are left: %v", w.pods)
			}
		case w.plan.Suspended:
			running := slices.ContainsFunc(
				w.pods,
				func(s podplan.Seen) bool { return !s.Over || !w.plan.Role(s.Role).Holds },
			)
			if running || !w.kept.Started.IsZero() {
				t.Fatalf("suspended, and something is left: %v", w.pods)
			}
		default:
			w.complete()
		}
	})
}

// complete: each member of a running job is there, done, or waits for another role, and is of
// the version that is asked for.
func (w *world) complete() {
	for _, s := range w.pods {
		if w.plan.Renews && s.Version != w.plan.Version {
			w.t.Fatalf("%v stays, and %s is asked for", s, w.plan.Version)
		}
	}
	counts := w.plan.Count(w.pods, &w.kept)
	for i := range w.plan.Roles {
		r := &w.plan.Roles[i]
		t := counts[r.Name]
		there := t.Active + t.Succeeded
		switch ignored := r.OnFailure == podplan.Ignore || slices.ContainsFunc(w.plan.Rules, func(r podplan.Rule) bool { return r.Then == podplan.Ignore }); {
		case ignored:
			there += t.Failed
		case t.Failed > 0:
			w.t.Fatalf("%d failed pods of %s lie about", t.Failed, r.Name)
		}
		if len(r.After) > 0 {
			there += t.Held // until it is their turn
		}
		if there != r.Count && len(r.After) == 0 {
			w.t.Fatalf("role %s has %d of %d: %v", r.Name, there, r.Count, w.pods)
		}
		if there > r.Count {
			w.t.Fatalf("role %s has %d of %d: %v", r.Name, there, r.Count, w.pods)
		}
	}
}
