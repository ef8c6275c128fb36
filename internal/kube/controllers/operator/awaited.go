package operator

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// awaited are objects that were made and that the cache does not show yet. They are
// made once anyway, since their names are taken; it saves asking.
type awaited struct {
	mu    sync.Mutex
	byJob map[types.NamespacedName]map[string]time.Time
}

// longestWait is how long an object is awaited: it may have been deleted before the cache
// showed it.
const longestWait = 10 * time.Second

// made notes an object.
func (a *awaited) made(job types.NamespacedName, name string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byJob == nil {
		a.byJob = map[types.NamespacedName]map[string]time.Time{}
	}
	if a.byJob[job] == nil {
		a.byJob[job] = map[string]time.Time{}
	}
	a.byJob[job][name] = now
}

// missing returns those of a job that are not among what the cache shows.
func (a *awaited) missing(job types.NamespacedName, shown map[string]bool, now time.Time) map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]bool{}
	for name, at := range a.byJob[job] {
		if shown[name] || now.Sub(at) >= longestWait {
			delete(a.byJob[job], name)
			continue
		}
		out[name] = true
	}
	return out
}

func (a *awaited) forget(job types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byJob, job)
}

// ago is for how long a moment is past; an hour if it never was.
func ago(at, now time.Time) time.Duration {
	if at.IsZero() {
		return time.Hour
	}
	return now.Sub(at)
}
