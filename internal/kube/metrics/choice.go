package metrics

import "k8s.io/apimachinery/pkg/labels"

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

// Chosen shows the series of a choice.
type Chosen struct {
	*Metrics
	Choice Choice
}

// SetQueue shows the state of a ClusterQueue.
func (c Chosen) SetQueue(q Queue) {
	if c.Choice.NoQueueResources {
		q.Resources = nil
	}
	c.Metrics.SetQueue(q)
}

// SetLocalQueue shows the state of a LocalQueue, or drops it if it is not, or
// no longer, among the chosen.
func (c Chosen) SetLocalQueue(q LocalQueue) {
	if c.Choice.NoLocalQueues || (c.Choice.LocalQueues != nil && !c.Choice.LocalQueues.Matches(labels.Set(q.Labels))) {
		c.ForgetLocalQueue(q.Namespace, q.Name)
		return
	}
	c.Metrics.SetLocalQueue(q)
}
