package cache

import (
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// priorityClass takes in a WorkloadPriorityClass.
func (b *batch) priorityClass(c ObjectUpdate) {
	old, was := b.world.priorities[c.Name]
	o, is := c.Object.(*kueue.WorkloadPriorityClass)
	if is {
		b.world.priorities[c.Name] = o.Value
	} else {
		delete(b.world.priorities, c.Name)
	}
	if was != is || is && old != o.Value {
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
		o.workload.Priority = o.priority.In(b.world.priorities)
		b.world.workloads[k] = o
		b.workloads[k] = true
	}
}
