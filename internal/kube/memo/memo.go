// Package memo remembers what a controller did for objects, or found out about them, from one
// reconciliation to the next. It saves asking again: all of it is lost at a restart, which has to
// change nothing but the time that something takes.
package memo

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Table is a note on each of some objects, by name. Its zero value is empty and ready to use, by
// several goroutines at a time.
type Table[V any] struct {
	mu    sync.Mutex
	notes map[types.NamespacedName]V
}

// Get returns the note on an object; the zero value if there is none.
func (t *Table[V]) Get(object types.NamespacedName) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notes[object]
}

// Set replaces the note on an object.
func (t *Table[V]) Set(object types.NamespacedName, note V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.notes == nil {
		t.notes = map[types.NamespacedName]V{}
	}
	t.notes[object] = note
}

// Forget removes the note on an object.
func (t *Table[V]) Forget(object types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.notes, object)
}

// Due reports whether at least a pause has gone by since a time was noted for an object, or none was, and
// notes that it is now if so: for what is done or said again now and then only.
func Due(t *Table[time.Time], object types.NamespacedName, now time.Time, pause time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, noted := t.notes[object]; noted && now.Sub(last) < pause {
		return false
	}
	if t.notes == nil {
		t.notes = map[types.NamespacedName]time.Time{}
	}
	t.notes[object] = now
	return true
}

// Since is since when something is true of objects. Its zero value is empty and ready to use.
type Since struct{ Table[time.Time] }

// Of returns since when it is true of an object, which it is now: since this call, if it was not
// noted before. Forget ends it.
func (s *Since) Of(object types.NamespacedName, now time.Time) time.Time {
	since := s.Get(object)
	if since.IsZero() {
		since = now
		s.Set(object, since)
	}
	return since
}
