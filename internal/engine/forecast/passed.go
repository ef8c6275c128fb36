package forecast

// Workloads of queues that let smaller ones pass may be passed again and again, for as long
// as more come. Futures have an end of what comes, and what is passed would start then: that
// is no start that anyone may plan by.

const (
	// fewestPass is how many must come to the queue of a workload that is passed, and
	// leastPart which part of them must start before it.
	fewestPass = 10
	leastPart  = 0.3
)

// queue is one that workloads are submitted to.
type queue struct{ namespace, name string }

// comer is one that came in a future, and whether it started while others came.
type comer struct {
	priority int64
	started  bool
}

func (c *course) queue() queue { return queue{c.told.Key.Namespace, c.told.Queue} }

// close notes, once the last job has come, which of the jobs that came have started.
func (f *future) close() {
	if _, more := f.coming.next(); more || f.late != nil || len(f.came) == 0 {
		return
	}
	f.late = map[queue][]comer{}
	for _, c := range f.came {
		f.late[c.queue()] = append(f.late[c.queue()], comer{priority: c.told.Priority, started: c.ran})
	}
}

// passed says whether one that starts now does so only because nobody comes any more: leastPart of
// jobs that came to its queue and do not go before it have started before, and it starts as
// one of them ends.
func (f *future) passed(c *course) bool {
	if f.late == nil || !f.made {
		return false
	}
	var came, started float64
	for _, o := range f.late[c.queue()] {
		if o.priority > c.told.Priority {
			continue
		}
		came++
		if o.started {
			started++
		}
	}
	return came >= fewestPass && started >= leastPart*came
}
