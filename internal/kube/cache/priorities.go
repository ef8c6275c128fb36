package cache

import (
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// priorityClass takes in a WorkloadPriorityClass.
func (b *batch) priorityClass(c ObjectUpdate) {
	w := b.world
	value, runtime := w.priorities[c.Name], w.runtimes[c.Name]
	_, was := w.priorities[c.Name]
	_, said := w.runtimes[c.Name]
	delete(w.priorities, c.Name)
	delete(w.runtimes, c.Name)
	o, is := c.Object.(*kueue.WorkloadPriorityClass)
	says := false
	if is {
		w.priorities[c.Name] = o.Value
		var d time.Duration
		if d, says = kueue.MinimumRuntimeOf(o.Annotations); says {
			w.runtimes[c.Name] = d
		}
	}
	if was != is || said != says || value != w.priorities[c.Name] || runtime != w.runtimes[c.Name] {
		b.priorities[c.Name] = true
	}
}

// reprioritize has all workloads of a class that changed told anew together, running
// and waiting ones: none is ahead of the others for having its copy of the value first.
func (b *batch) reprioritize() {
	if len(b.priorities) == 0 {
		return
	}
	for k, o := range b.world.workloads {
		if !b.priorities[o.priority.Class] || o.leaving {
			continue
		}
		o.workload.Priority, o.workload.MinimumRuntime = o.priority.In(b.world.priorities), nil
		if d, has := b.world.runtimes[o.priority.Class]; has {
			o.workload.MinimumRuntime = &d
		}
		b.world.workloads[k] = o
		b.workloads[k] = true
	}
}
