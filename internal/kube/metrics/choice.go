package metrics

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/view"
)

// Choice says which series of queues there are. The zero value is all.
type Choice struct {
	// NoQueueResources leaves out quotas and usage of ClusterQueues by flavor and
	// resource, and what is pending by resource.
	NoQueueResources bool
	// NoLocalQueues leaves out LocalQueues.
	NoLocalQueues bool
	// LocalQueues chooses LocalQueues by their labels; nil is all.
	LocalQueues labels.Selector
}

func (c Choice) takes(set map[string]string) bool {
	return !c.NoLocalQueues && (c.LocalQueues == nil || c.LocalQueues.Matches(labels.Set(set)))
}

// surroundings is what is known of queues beyond what a Workload says.
type surroundings struct {
	choice Choice

	mu sync.RWMutex
	// localQueues are the LocalQueues that were shown last.
	localQueues map[types.NamespacedName]localQueue
	// cohorts are those above each ClusterQueue, the nearest first.
	cohorts map[string][]string
}

type localQueue struct {
	queue  string
	chosen bool
}

func newSurroundings(c Choice) *surroundings {
	return &surroundings{
		choice:      c,
		localQueues: map[types.NamespacedName]localQueue{},
		cohorts:     map[string][]string{},
	}
}

// set notes a LocalQueue and reports whether it is among the chosen.
func (s *surroundings) set(q view.LocalQueue) bool {
	d := localQueue{queue: q.Queue, chosen: s.choice.takes(q.Labels)}
	s.mu.Lock()
	s.localQueues[types.NamespacedName{Namespace: q.Namespace, Name: q.Name}] = d
	s.mu.Unlock()
	return d.chosen
}

func (s *surroundings) forget(namespace, name string) {
	s.mu.Lock()
	delete(s.localQueues, types.NamespacedName{Namespace: namespace, Name: name})
	s.mu.Unlock()
}

// shows reports whether there are series of a LocalQueue. While nothing is known
// of it there are, unless the choice depends on its labels.
func (s *surroundings) shows(namespace, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if d, known := s.localQueues[types.NamespacedName{Namespace: namespace, Name: name}]; known {
		return d.chosen
	}
	return !s.choice.NoLocalQueues && s.choice.LocalQueues == nil
}

// behind is the ClusterQueue of a LocalQueue, "" while nothing is known of it.
func (s *surroundings) behind(namespace, name string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.localQueues[types.NamespacedName{Namespace: namespace, Name: name}].queue
}

// noteCohorts notes the cohorts above a ClusterQueue and returns the cohorts that had no
// other below them, and have none now.
func (s *surroundings) noteCohorts(queue string, cohorts []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.cohorts[queue]
	if s.cohorts[queue] = cohorts; len(cohorts) == 0 {
		delete(s.cohorts, queue)
	}
	if slices.Equal(before, cohorts) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(before), func(cohort string) bool {
		for _, above := range s.cohorts { // any will do, so order does not matter
			if slices.Contains(above, cohort) {
				return true
			}
		}
		return false
	})
}

func (s *surroundings) above(queue string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.cohorts[queue]
}
