package demo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/cli/demo/verdict"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// Statement is one thing that the tutorial promises.
type Statement struct {
	Text string
	// Check returns what is wrong, nil if the statement holds. It depends on
	// nothing but the timeline.
	Check func(Timeline) error
}

// judge checks all statements of a scenario.
func judge(scenario string, statements []Statement, t Timeline) []verdict.Result {
	var results []verdict.Result
	for _, s := range statements {
		results = append(results, verdict.Result{Scenario: scenario, Text: s.Text, Err: s.Check(t)})
	}
	return results
}

// gpus is what the tutorial's cluster has.
const gpus = 24

func noMoreThanThereIs(t Timeline) error {
	if n := t.mostGPUs(); n > gpus {
		return fmt.Errorf("pods used %d GPUs at one time, there are %d", n, gpus)
	}
	return nil
}

// ---- queueing

func queueingStatements() []Statement {
	return []Statement{
		{
			"3 of 7 short jobs run at once: alice uses blue's 8 GPUs and borrows 8 of red and 8 of slack",
			threeAtOnce,
		},
		{"the other 4 wait, and each says why", fourWait},
		{"waiting jobs start in the order of their queue as others end", inOrder},
		{"all 7 jobs succeed", allSucceed},
		{"at no time more GPUs are used than there are", noMoreThanThereIs},
	}
}

func threeAtOnce(t Timeline) error {
	shorts := t.jobs("blue/short-")
	if len(shorts) != 7 {
		return fmt.Errorf("%d jobs were submitted", len(shorts))
	}
	if n := t.mostAdmitted(); n != 3 {
		return fmt.Errorf("at most %d jobs had quota at one time", n)
	}
	if n := beforeFirstEnd(t).running(shorts, 2); n != 3 {
		return fmt.Errorf("%d jobs ran all their pods before the first ended", n)
	}
	return nil
}

// beforeFirstEnd is the timeline until the first pod ends.
func beforeFirstEnd(t Timeline) Timeline {
	for i, m := range t {
		if m.What == PodEnded {
			return t[:i]
		}
	}
	return t
}

func fourWait(t Timeline) error {
	t = beforeFirstEnd(t)
	waiting := 0
	for _, j := range t.jobs("blue/short-") {
		s := t.stand(j)
		if s.waiting() {
			waiting++
			if s.message == "" {
				return fmt.Errorf("%s waits without a word", j)
			}
		}
	}
	if waiting != 4 {
		return fmt.Errorf("%d jobs waited with a reason", waiting)
	}
	return nil
}

// inOrder compares by the second, which is what creation times are made of.
func inOrder(t Timeline) error {
	var last Moment
	for _, m := range t.all(Admitted) {
		q, ok := t.first(m.Job, Queued)
		if !ok {
			return fmt.Errorf("%s was admitted without a Workload", m.Job)
		}
		if q.Created.Before(last.Created) {
			return fmt.Errorf("%s was admitted after %s, which came later", m.Job, last.Job)
		}
		last = q
	}
	if last.Job == "" {
		return errors.New("no job was admitted")
	}
	return nil
}

func allSucceed(t Timeline) error {
	shorts := t.jobs("blue/short-")
	for _, j := range shorts {
		if s := t.stand(j); s.phase != succeeded {
			return fmt.Errorf("%s is %s", j, orNothing(s.phase))
		}
	}
	if len(shorts) == 0 {
		return errors.New("no job was submitted")
	}
	return nil
}

func orNothing(s string) string {
	if s == "" {
		return "without a phase"
	}
	return s
}

// ---- borrowing and preemption

func preemptionStatements() []Statement {
	return []Statement{
		{"of alice's 4 normal jobs 3 run, with borrowed quota, and 1 waits", threeNormalsRun},
		{"her important job runs: it evicts the newest of her normal jobs", newestGivesWay},
		{"bob's first job gets his team's quota back by evicting one job that borrows", bobReclaims},
		{"bob's second job waits", bobWaits},
		{"no eviction was in vain, and the important job was left alone", twoEvictions},
		{"evicted jobs are not lost: they wait in their queue again", evictedWait},
		{"a job starts only when the pods of those it evicted are gone", podsGoneFirst},
		{"at no time more GPUs are used than there are", noMoreThanThereIs},
	}
}

// submission finds the moment in which the first job with the prefix came.
func submission(t Timeline, prefix string) (Moment, error) {
	jobs := t.jobs(prefix)
	if len(jobs) == 0 {
		return Moment{}, fmt.Errorf("no job %s* was submitted", prefix)
	}
	m, _ := t.first(jobs[0], Submitted)
	return m, nil
}

func threeNormalsRun(t Timeline) error {
	important, err := submission(t, "blue/important-")
	if err != nil {
		return err
	}
	t = t.upTo(important)
	normals := t.jobs("blue/normal-")
	waiting := 0
	for _, j := range normals {
		if t.stand(j).waiting() {
			waiting++
		}
	}
	if n := t.running(normals, 2); len(normals) != 4 || n != 3 || waiting != 1 {
		return fmt.Errorf("of %d jobs %d ran and %d waited", len(normals), n, waiting)
	}
	return nil
}

func newestGivesWay(t Timeline) error {
	important, err := submission(t, "blue/important-")
	if err != nil {
		return err
	}
	if len(t.pods(important.Job)) != 2 {
		return fmt.Errorf("%d of its 2 pods run", len(t.pods(important.Job)))
	}
	victim, err := victimFor(t, important.Job)
	if err != nil {
		return err
	}
	if victim.Reason != "InClusterQueue" {
		return fmt.Errorf("%s was evicted with reason %s", victim.Job, victim.Reason)
	}
	held, _ := t.first(victim.Job, Queued)
	for _, j := range t.upTo(important).jobs("blue/normal-") {
		q, _ := t.first(j, Queued)
		if t.upTo(important).stand(j).admitted && q.Created.After(held.Created) {
			return fmt.Errorf("%s was evicted, but %s ran and is newer", victim.Job, j)
		}
	}
	return nil
}

// victimFor finds the one eviction that made room for a job.
func victimFor(t Timeline, job string) (Moment, error) {
	victims := slices.DeleteFunc(t.all(Evicted), func(m Moment) bool { return m.For != job })
	if len(victims) != 1 {
		return Moment{}, fmt.Errorf("%d jobs were evicted for %s", len(victims), job)
	}
	return victims[0], nil
}

func bobReclaims(t Timeline) error {
	first, err := submission(t, "red/normal-")
	if err != nil {
		return err
	}
	if len(t.pods(first.Job)) != 2 {
		return fmt.Errorf("%d of its 2 pods run", len(t.pods(first.Job)))
	}
	victim, err := victimFor(t, first.Job)
	switch {
	case err != nil:
		return err
	case victim.Reason != "InCohortReclamation":
		return fmt.Errorf("%s was evicted with reason %s", victim.Job, victim.Reason)
	case !strings.HasPrefix(victim.Job, "blue/"):
		return fmt.Errorf("%s was evicted, which does not borrow", victim.Job)
	}
	return nil
}

func bobWaits(t Timeline) error {
	jobs := t.jobs("red/normal-")
	if len(jobs) != 2 {
		return fmt.Errorf("%d jobs were submitted", len(jobs))
	}
	if _, was := t.first(jobs[1], Admitted); was {
		return fmt.Errorf("%s was admitted", jobs[1])
	}
	if !t.stand(jobs[1]).waiting() {
		return fmt.Errorf("%s does not say why it waits", jobs[1])
	}
	return nil
}

func twoEvictions(t Timeline) error {
	var names []string
	for _, m := range t.all(Evicted) {
		names = append(names, m.Job)
		if strings.HasPrefix(m.Job, "blue/important-") {
			return fmt.Errorf("%s was evicted for %s", m.Job, m.For)
		}
		if _, ran := t.after(m).first(m.For, Admitted); !ran {
			return fmt.Errorf("%s was evicted for %s, which then did not start", m.Job, m.For)
		}
	}
	if len(names) != 2 {
		return fmt.Errorf("%d evictions: %s", len(names), strings.Join(names, ", "))
	}
	return nil
}

func evictedWait(t Timeline) error {
	for _, m := range t.all(Evicted) {
		if s := t.stand(m.Job); !s.waiting() || s.removed {
			return fmt.Errorf("%s does not wait", m.Job)
		}
	}
	return nil
}

func podsGoneFirst(t Timeline) error {
	for _, m := range t.all(Evicted) {
		winner, ok := t.after(m).first(m.For, Admitted)
		if !ok {
			continue // another statement tells
		}
		if left := t.upTo(winner).pods(m.Job); len(left) > 0 {
			return fmt.Errorf("%s got quota while %d pods of %s still ran", m.For, len(left), m.Job)
		}
	}
	return nil
}

// ---- fault

// reaction is how soon the pods on a bad node must be on their way out.
const reaction = time.Second

func faultStatements() []Statement {
	return []Statement{
		{"the large job runs its 4 pods", largeRuns},
		{"when a node is labelled EVICT its pods are removed within a second", reactsAtOnce},
		{"the job is reset: all 4 pods are made anew and run again", resetWhole},
		{"no pod runs on the bad node until the label goes", nodeAvoided},
		{"the reset costs neither quota nor a retry", resetIsFree},
		{"a job that needs the bad node waits, and starts there once the label is gone", nodeComesBack},
	}
}

// strike finds the moment in which a node went bad.
func strike(t Timeline) (Moment, error) {
	for _, m := range t.all(Labelled) {
		if m.Reason == nodehealth.Evict {
			return m, nil
		}
	}
	return Moment{}, errors.New("no node was labelled EVICT")
}

func large(t Timeline) string {
	jobs := t.jobs("blue/large-")
	if len(jobs) == 0 {
		return ""
	}
	return jobs[0]
}

func largeRuns(t Timeline) error {
	bad, err := strike(t)
	if err != nil {
		return err
	}
	if n := len(t.upTo(bad).pods(large(t))); n != 4 {
		return fmt.Errorf("%d of 4 pods ran", n)
	}
	return nil
}

func reactsAtOnce(t Timeline) error {
	bad, err := strike(t)
	if err != nil {
		return err
	}
	on := 0
	for pod, node := range t.upTo(bad).pods(large(t)) {
		if node != bad.Node {
			continue
		}
		on++
		gone := slices.IndexFunc(t.after(bad), func(m Moment) bool {
			return m.Pod == pod && (m.What == PodLeaves || m.What == PodEnded)
		})
		if gone < 0 {
			return fmt.Errorf("%s was left on %s", pod, bad.Node)
		}
		if took := t.after(bad)[gone].At - bad.At; took > reaction {
			return fmt.Errorf("%s was removed after %s", pod, took.Round(time.Millisecond))
		}
	}
	if on == 0 {
		return fmt.Errorf("no pod was on %s", bad.Node)
	}
	return nil
}

func resetWhole(t Timeline) error {
	bad, err := strike(t)
	if err != nil {
		return err
	}
	before, after := t.upTo(bad).pods(large(t)), t.pods(large(t))
	for pod := range before {
		if _, same := after[pod]; same {
			return fmt.Errorf("%s was not made anew", pod)
		}
	}
	if len(after) != 4 {
		return fmt.Errorf("%d of 4 pods run", len(after))
	}
	return nil
}

func nodeAvoided(t Timeline) error {
	bad, err := strike(t)
	if err != nil {
		return err
	}
	for _, m := range t.after(bad) {
		if m.Node != bad.Node {
			continue
		}
		switch m.What {
		case Labelled:
			return nil
		case PodRuns:
			return fmt.Errorf("%s ran on %s", m.Pod, m.Node)
		default:
		}
	}
	return nil
}

func resetIsFree(t Timeline) error {
	for _, what := range []What{Evicted, Retries} {
		if m, was := t.first(large(t), what); was {
			return fmt.Errorf("%s: %s %s", m.Job, m.What, m.Reason)
		}
	}
	if large(t) == "" {
		return errors.New("no large job was submitted")
	}
	return nil
}

func nodeComesBack(t Timeline) error {
	bad, err := strike(t)
	if err != nil {
		return err
	}
	shorts := t.jobs("blue/short-")
	if len(shorts) != 1 {
		return errors.New("no job was submitted while the node was bad")
	}
	label := slices.IndexFunc(
		t.after(bad),
		func(m Moment) bool { return m.What == Labelled && m.Node == bad.Node },
	)
	if label < 0 {
		return errors.New("the label was not removed")
	}
	good := t.after(bad)[label]
	if s := t.upTo(good).stand(shorts[0]); !s.waiting() {
		return fmt.Errorf("%s did not wait while %s was bad", shorts[0], bad.Node)
	}
	for _, m := range t.after(good) {
		if m.Job == shorts[0] && m.What == PodRuns && m.Node == bad.Node {
			return nil
		}
	}
	return fmt.Errorf("%s did not start on %s", shorts[0], bad.Node)
}
