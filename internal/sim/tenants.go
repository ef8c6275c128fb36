package sim

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// What tenants do to jobs of theirs, where pods exist one by one.

// TenantAction is what a tenant does.
type TenantAction string

// The actions.
const (
	// DeletePods deletes N of the job's pods. They go on for Grace.
	DeletePods TenantAction = "DeletePods"
	// PinPods gives a finalizer to N of its pods, UnpinPods removes all.
	PinPods   TenantAction = "PinPods"
	UnpinPods TenantAction = "UnpinPods"
	// ScaleTo wants N pods in the first pod set, whatever was admitted.
	ScaleTo TenantAction = "ScaleTo"
	// ForgePods makes N pods that say that the job owns them.
	ForgePods TenantAction = "ForgePods"
	// Reapply writes the job as it is.
	Reapply TenantAction = "Reapply"
	// DeleteForeground deletes the job and keeps the object until all that it owns
	// is gone.
	DeleteForeground TenantAction = "DeleteForeground"
)

// Act is one action of a tenant.
type Act struct {
	Key    core.Key
	Action TenantAction
	N      int32
	Grace  time.Duration
}

// acts is a tenant at work.
func (r tenants) acts(a *Act) {
	j := r.cluster.byKey[a.Key]
	if j == nil || j.object == nil || !r.podLife().hasPods() || j.state == absent || j.state == done {
		return
	}
	switch a.Action {
	case DeletePods:
		n := a.N
		for _, p := range slices.Clone(j.pods) {
			if n > 0 && !p.Deleting {
				r.podLife().deletePod(j, p, a.Grace)
				n--
			}
		}
	case PinPods:
		for i := range j.pods[:min(len(j.pods), int(a.N))] {
			j.pods[i].pinned = true
		}
	case UnpinPods:
		for _, p := range slices.Clone(j.pods) {
			p.pinned = false
			r.podLife().forget(j, p)
		}
		r.podLife().startAnew(j)
	case ScaleTo:
		j.size = &a.N
		r.podLife().wants(j)
	case ForgePods:
		if j.admission != nil && j.maker.MayMakePods() {
			for range a.N {
				r.podLife().makePod(j, 0)
			}
			r.podLife().wants(j)
		}
	case Reapply:
		r.watches().showMaker(j)
	case DeleteForeground:
		r.dooms(j, core.MakerState{Stopped: j.maker.Stopped, Ended: j.maker.Ended, Deleting: true})
	}
}

// dooms deletes a job. The garbage collector deletes its Workload and its pods,
// each in a while.
func (r tenants) dooms(j *job, left core.MakerState) {
	if j.doomed {
		return
	}
	j.doomed, j.maker = true, left
	r.watches().showMaker(j)
	for _, k := range []kind{doCollect, doCollectPods} {
		r.queue.push(item{at: r.now + r.span(r.world.Cluster.Write, j), kind: k, job: j})
	}
	r.podLife().startAnew(j)
}

// collects is the garbage collector that deletes the Workload of a job that was
// deleted.
func (r tenants) collects(j *job) {
	if j.state != done {
		j.object.Delete(r.clock())
		r.workloads().follow(j)
	}
}

// collectsPods is the garbage collector that deletes the pods.
func (r tenants) collectsPods(j *job) {
	switch j.state {
	case starting, running, resetting:
		r.stop(j, stopping)
	default:
	}
	r.podLife().deleteAll(j)
}
