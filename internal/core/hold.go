package core

// The rule of what a job holds, in one place: quota and place are held exactly
// while an unfinished pod of the job exists or may come to exist, however it
// was made. What gives back quota, offers a place or waits for either asks here:
// the lifecycle of AppWrappers, the controllers of jobs and Workloads, the cache
// that tells engines, the scheduler and the simulator.

// PodState is as much of a pod as decides what it holds.
type PodState struct {
	// Bound is true once it has a node.
	Bound bool
	// Ended is true once its phase says that none of its containers runs or will.
	Ended bool
	// Deleting is true once it was deleted. Its containers go on as long as its
	// grace and its node let them.
	Deleting bool
}

// HoldsPlace reports whether the pod has what it asks for of its node. That it
// was deleted changes nothing: its containers may ignore the signal for as long
// as their author likes. Neither does what keeps the object of an ended one.
func (p PodState) HoldsPlace() bool { return p.Bound && !p.Ended }

// HoldsQuota reports whether the pod uses what its job was given, or may come to.
// A deleted pod without a node never gets one, whatever keeps its object.
func (p PodState) HoldsQuota() bool { return !p.Ended && (p.Bound || !p.Deleting) }

// MakerState is as much of an object that makes pods, a job or a part of one, as
// decides whether more may come. The zero value makes pods.
type MakerState struct {
	// Gone is true if there is no such object.
	Gone bool
	// Stopped is true if it is suspended, and its controller has seen that.
	Stopped bool
	// Ended is true if it ended for good, by its own account.
	Ended bool
	// Deleting is true once it was deleted: its controller makes no pods from
	// then on. Objects of its own may, see Outlived.
	Deleting bool
	// Outlived is true if its pods are made by objects of its own that were not
	// deleted with it: something may keep the deleted object for ever, and
	// until it goes these work on.
	Outlived bool
}

// MayMakePods reports whether pods may come to exist.
func (m MakerState) MayMakePods() bool {
	switch {
	case m.Gone, m.Stopped, m.Ended:
		return false
	case m.Deleting:
		return m.Outlived
	}
	return true
}

// Holds reports whether a job with these pods, and these objects to make more,
// keeps its quota.
func Holds(makers []MakerState, pods []PodState) bool {
	for _, m := range makers {
		if m.MayMakePods() {
			return true
		}
	}
	for _, p := range pods {
		if p.HoldsQuota() {
			return true
		}
	}
	return false
}
