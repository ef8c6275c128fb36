package appwrapper

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// made are the objects that this process created and that are not recorded yet, by
// AppWrapper. When an API server is in trouble the object may be there and its record
// fail again and again; without this memory it would be taken for another owner's, and
// deleted and created again each time, with pods that run. The zero value is empty.
type made struct {
	mu sync.Mutex
	of map[types.NamespacedName][]types.UID
}

func (m *made) add(wrapper types.NamespacedName, object types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.NamespacedName][]types.UID{}
	}
	m.of[wrapper] = append(m.of[wrapper], object)
}

func (m *made) has(wrapper types.NamespacedName, object types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.of[wrapper], object)
}

// forget drops what was created for an AppWrapper: its status tells, or it is gone.
func (m *made) forget(wrapper types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, wrapper)
}
