// Package kuberules keeps the Workloads of simulated jobs as API objects, and runs
// the controllers' own rules on them: package workloadlifecycle for what is between
// quota and end, package apply for decisions of the engine, package convert for
// what the engine is told, package cache for what it makes of pods. So the
// simulator finds faults in these rules and not in a copy of them. What the job's
// reconciler does is short and written again here, because there it is tied to
// kinds of jobs.
//
//   - object.go is one Workload and what is written to it;
//   - cache.go is what a process makes of the objects that it is shown;
//   - stranded.go finds Workloads that nothing would ever move on.
//
// It reads no clock and writes nowhere.
package kuberules

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// Rules are the controllers' rules; the zero value is ready.
type Rules struct{}

var _ sim.Rules = Rules{}

// object is one job's Workload.
type object struct {
	w      *kueue.Workload
	job    *sim.Job
	config workloadlifecycle.Config
	rules  convert.Rules
	gone   bool
}

// rulesOf are the choices of the installation that a world is.
func rulesOf(w *sim.World) convert.Rules {
	return convert.Rules{
		Spares:            w.Spares,
		RequeueByCreation: w.Lifecycle.PodsReady != nil && w.Lifecycle.PodsReady.Creation,
	}
}

// NewWorkload is the Workload of a job that is submitted now.
func (Rules) NewWorkload(w *sim.World, j *sim.Job, now time.Time) sim.WorkloadObject {
	p := &object{job: j, rules: rulesOf(w), w: &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         j.Key.Namespace,
			Name:              j.Key.Name,
			UID:               types.UID(j.UID),
			CreationTimestamp: metav1.NewTime(now.Truncate(time.Second)),
			Annotations:       map[string]string{kueue.SubmittedAtAnnotation: now.UTC().Format(time.RFC3339Nano)},
		},
		Spec: kueue.WorkloadSpec{
			QueueName: kueue.LocalQueueName(j.Queue),
			Priority:  &j.Priority,
			Active:    new(true),
		},
	}}
	for i := range j.PodSets {
		ps := kueue.PodSet{Name: kueue.PodSetReference(j.PodSets[i].Name), Count: j.PodSets[i].Count}
		if n := j.PodSets[i].MinCount; n > 0 {
			ps.MinCount = &n
		}
		p.w.Spec.PodSets = append(p.w.Spec.PodSets, ps)
	}
	if j.Limit > 0 {
		p.w.Spec.MaximumExecutionTimeSeconds = new(
			int32(j.Limit / time.Second), //nolint:gosec // seconds of a simulation
		)
	}
	p.gate(j.GatedBy)
	if j.PreemptionGate != "" {
		p.w.Spec.PreemptionGates = []kueue.PreemptionGate{{Name: j.PreemptionGate}}
	}
	p.config.KeepNodes = w.Cluster.KeepNodes
	if r := w.Lifecycle.PodsReady; r != nil {
		p.config.PodsReady = &workloadlifecycle.PodsReady{
			Timeout:         r.Timeout,
			RecoveryTimeout: r.Recovery,
			BackoffBase:     r.Base,
			BackoffMax:      r.Max,
			BackoffLimit:    r.Limit,
		}
	}
	return p
}

func (p *object) gate(by string) {
	delete(p.w.Annotations, kueue.AdmissionGatedByAnnotation)
	if by != "" {
		p.w.Annotations[kueue.AdmissionGatedByAnnotation] = by
	}
}

// Workload is what the engine is told. What its pods ask for is the job's: it
// never was a pod template.
func (p *object) Workload() core.Workload {
	out := convert.Workload(p.w, p.rules, convert.Surroundings{})
	asks(p.job, &out)
	return out
}

// Decide writes down a decision of the engine.
func (p *object) Decide(d core.Decision, f sim.Observation) bool {
	next, ok := apply.Decided(p.w, d, clusterQueue(f), p.config, f.Now)
	if ok && next != nil {
		p.store(next)
	}
	return ok
}

// Reconcile is the next write of the job's controller or the Workload's.
func (p *object) Reconcile(f sim.Observation) (bool, time.Time) {
	if f.JobFirst {
		if acts, _ := p.jobs(f); acts {
			return true, time.Time{}
		}
	}
	next := workloadlifecycle.Next(p.observation(f))
	switch {
	case next.Deactivate:
		if !ptr.Deref(p.w.Spec.Active, true) {
			panic("kuberules: it is inactive already")
		}
		p.w.Spec.Active = new(false)
		return true, time.Time{}
	case next.Status != nil:
		p.store(next.Status)
		return true, time.Time{}
	case next.Unpin:
		p.gone = true
		return true, time.Time{}
	case next.Priority != nil || next.Delete != workloadlifecycle.DeleteNothing:
		panic(fmt.Sprintf("kuberules: not asked for: %+v", next))
	}
	acts, again := p.jobs(f)
	if again.IsZero() || !next.Again.IsZero() && next.Again.Before(again) {
		again = next.Again
	}
	return acts, again
}

// jobs is the next write of the job's reconciler.
func (p *object) jobs(f sim.Observation) (acts bool, again time.Time) {
	w := p.w
	switch {
	case w.DeletionTimestamp != nil: // its job was deleted, which its reconciler does not look at
		return false, time.Time{}
	case convert.Evicted(w) && w.Status.Admission != nil:
		if next := workloadlifecycle.NoteRefused(w, p.refused(f), f.Now); next != nil {
			p.store(next)
			return true, time.Time{}
		}
		if f.Live {
			return false, time.Time{}
		}
		next, again := workloadlifecycle.Stopped(w, p.config, f.Now)
		if next == nil {
			return false, again
		}
		next.ReclaimablePods = p.done(f.Some, f.Rest)
		p.store(next)
		return true, time.Time{}
	case w.Status.Admission == nil:
		return p.tellDone(p.done(f.Some, f.Rest)), time.Time{}
	case !convert.Admitted(w):
		return false, time.Time{}
	}
	if next := workloadlifecycle.ObservePods(w, f.Ready, p.config, f.Now); next != nil {
		p.store(next)
		return true, time.Time{}
	}
	if next := p.withdrawn(f); next != nil {
		p.store(next)
		return true, time.Time{}
	}
	return f.Some && p.tellDone(p.done(true, f.Left)), time.Time{}
}

// withdrawn calls back a plan whose nodes refuse the job's pods; nil if they do not.
func (p *object) withdrawn(f sim.Observation) *kueue.WorkloadStatus {
	refused := p.refused(f)
	if _, due := refused.Due(f.Now); !due {
		return nil
	}
	next, _ := workloadlifecycle.Withdraw(p.w, refused, f.Now)
	return next
}

// refused is which planned nodes refuse the job's pods.
func (p *object) refused(f sim.Observation) workloadlifecycle.Refused {
	refused := workloadlifecycle.Refused{}
	for _, r := range f.Refused {
		refused.Nodes = append(refused.Nodes, convert.Refusal{PodSet: p.job.PodSets[0].Name, NodeRefusal: r})
	}
	return refused
}

// done says which pods of the first pod set are done; nil for none.
func (p *object) done( //nolint:revive // one fact in two numbers
	some bool,
	left int32,
) []kueue.ReclaimablePod {
	if !some {
		return nil
	}
	return []kueue.ReclaimablePod{convert.GivenBack(&p.w.Spec.PodSets[0], left)}
}

func (p *object) tellDone(done []kueue.ReclaimablePod) bool {
	if equality.Semantic.DeepEqual(p.w.Status.ReclaimablePods, done) {
		return false
	}
	next := p.w.Status.DeepCopy()
	next.ReclaimablePods = done
	p.store(next)
	return true
}

func (p *object) observation(f sim.Observation) workloadlifecycle.Facts {
	out := workloadlifecycle.Facts{
		Workload:     p.w,
		Owned:        f.Owned || p.w.DeletionTimestamp == nil,
		LivePods:     f.Pods,
		ClusterQueue: clusterQueue(f),
		Config:       p.config,
		Now:          f.Now,
	}
	if f.LocalQueue != nil {
		out.LocalQueue = &kueue.LocalQueue{ObjectMeta: metav1.ObjectMeta{Name: f.LocalQueue.Name}}
		out.LocalQueue.Spec.StopPolicy = policy(f.LocalQueue.Stop)
	}
	return out
}

// clusterQueue is what the rules read of a queue; nil if there is none.
func clusterQueue(f sim.Observation) *kueue.ClusterQueue {
	if f.Queue == nil {
		return nil
	}
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: f.Queue.Name}}
	q.Spec.StopPolicy = policy(f.Queue.Stop)
	if len(f.Checks) > 0 {
		q.Spec.AdmissionChecksStrategy = &kueue.AdmissionChecksStrategy{}
	}
	for _, n := range f.Checks {
		q.Spec.AdmissionChecksStrategy.AdmissionChecks = append(q.Spec.AdmissionChecksStrategy.AdmissionChecks,
			kueue.AdmissionCheckStrategyRule{Name: checkName(n)})
	}
	return q
}

func policy(s core.StopPolicy) *kueue.StopPolicy {
	switch s {
	case core.Hold:
		return new(kueue.StopPolicyHold)
	case core.HoldAndDrain:
		return new(kueue.StopPolicyHoldAndDrain)
	case core.StopNone:
	}
	return nil
}

func checkName(n int) kueue.AdmissionCheckReference {
	return kueue.AdmissionCheckReference("check-" + strconv.Itoa(n))
}

// Asked are the checks that are pending while the job has quota.
func (p *object) Asked() []int {
	if p.w.Status.Admission == nil {
		return nil
	}
	var out []int
	for _, c := range p.w.Status.AdmissionChecks {
		if n, err := strconv.Atoi(
			string(c.Name)[len("check-"):],
		); err == nil &&
			c.State == kueue.CheckStatePending {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// Answer is the word of a check, if it is listed.
func (p *object) Answer(check int, a sim.Answer, backoff time.Duration, now time.Time) {
	next := p.w.Status.DeepCopy()
	for i := range next.AdmissionChecks {
		c := &next.AdmissionChecks[i]
		if c.Name != checkName(check) {
			continue
		}
		c.State, c.Message, c.RequeueAfterSeconds = kueue.CheckState(a), "says "+string(a), nil
		c.LastTransitionTime = metav1.NewTime(now)
		if a == sim.AnswerRetry {
			c.RequeueAfterSeconds = new(int32(backoff / time.Second)) //nolint:gosec // seconds of a simulation
		}
	}
	p.set(next)
}

// Edit is what the user changes.
func (p *object) Edit(c *sim.JobEdit, now time.Time) {
	if c.Priority != nil {
		p.w.Spec.Priority = c.Priority
	}
	if c.Held != nil {
		p.w.Spec.Active = new(*c.Held == "")
	}
	if c.GatedBy != nil {
		p.gate(*c.GatedBy)
	}
	if c.PreemptionGate == nil {
		return
	}
	next := p.w.Status.DeepCopy()
	if name := *c.PreemptionGate; name != "" {
		p.w.Spec.PreemptionGates, next.PreemptionGates = []kueue.PreemptionGate{{Name: name}}, nil
	} else {
		next.PreemptionGates = nil
		for _, g := range p.w.Spec.PreemptionGates {
			next.PreemptionGates = append(
				next.PreemptionGates,
				kueue.PreemptionGateState{
					Name:               g.Name,
					Position:           kueue.GateOpen,
					LastTransitionTime: metav1.NewTime(now),
				},
			)
		}
	}
	p.set(next)
}

// store writes a status as the controllers do, which never write what is there
// already.
func (p *object) store(next *kueue.WorkloadStatus) {
	was := p.w.Status.DeepCopy()
	p.set(next)
	if equality.Semantic.DeepEqual(*was, p.w.Status) {
		panic(
			fmt.Sprintf("kuberules: a write to %s/%s that changes nothing: %+v", p.w.Namespace, p.w.Name, p.w.Status),
		)
	}
}

// set keeps a status as the API does: times have whole seconds.
func (p *object) set(next *kueue.WorkloadStatus) {
	for i := range next.Conditions {
		second(&next.Conditions[i].LastTransitionTime)
	}
	for i := range next.AdmissionChecks {
		second(&next.AdmissionChecks[i].LastTransitionTime)
	}
	for i := range next.PreemptionGates {
		second(&next.PreemptionGates[i].LastTransitionTime)
	}
	if next.RequeueState != nil && next.RequeueState.RequeueAt != nil {
		second(next.RequeueState.RequeueAt)
	}
	p.w.Status = *next
}

func second(t *metav1.Time) { t.Time = t.Truncate(time.Second) }
