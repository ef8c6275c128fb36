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
		if shown[name] || now.Sub(at) > longestWait {
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

// unmade remembers why something of jobs could not be made last.
type unmade struct {
	mu    sync.Mutex
	byJob map[types.NamespacedName]string
}

func (u *unmade) of(job types.NamespacedName) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byJob[job]
}

func (u *unmade) note(job types.NamespacedName, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byJob == nil {
		u.byJob = map[types.NamespacedName]string{}
	}
	u.byJob[job] = why
}

func (u *unmade) forget(job types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byJob, job)
}

// moments remember when something was last done for a job.
type moments struct {
	mu    sync.Mutex
	byJob map[types.NamespacedName]time.Time
}

// since is how long ago that was; very long if never.
func (m *moments) since(job types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, known := m.byJob[job]
	if !known {
		return time.Hour
	}
	return now.Sub(at)
}

func (m *moments) note(job types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byJob == nil {
		m.byJob = map[types.NamespacedName]time.Time{}
	}
	m.byJob[job] = now
}

func (m *moments) forget(job types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byJob, job)
}
