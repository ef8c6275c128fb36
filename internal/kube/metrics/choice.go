package metrics

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// Choice says which series of queues there are. The zero value is all.
type Choice struct {
	// NoQueueResources leaves out quotas and usage of ClusterQueues by flavor and
	// resource.
	NoQueueResources bool
	// NoLocalQueues leaves out LocalQueues.
	NoLocalQueues bool
	// LocalQueues chooses LocalQueues by their labels; nil is all.
	LocalQueues labels.Selector
}

// chosen knows which LocalQueues are among the chosen. With a selector, one that
// was not shown yet is not.
type chosen struct {
	Choice

	mu     sync.RWMutex
	queues map[localQueue]bool
}

type localQueue struct{ namespace, name string }

// learn notes the labels of a LocalQueue and reports whether it is chosen.
func (c *chosen) learn(q LocalQueue) bool {
	if c.NoLocalQueues || c.LocalQueues == nil {
		return !c.NoLocalQueues
	}
	id := localQueue{q.Namespace, q.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.LocalQueues.Matches(labels.Set(q.Labels)) {
		delete(c.queues, id)
		return false
	}
	c.queues[id] = true
	return true
}

// has reports whether a LocalQueue is chosen.
func (c *chosen) has(namespace, name string) bool {
	if c.NoLocalQueues || c.LocalQueues == nil {
		return !c.NoLocalQueues
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.queues[localQueue{namespace, name}]
}

// forget drops what is known of a LocalQueue that is gone.
func (c *chosen) forget(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues, localQueue{namespace, name})
}
