// Package order says which workload is next: the order of waiting workloads in a queue,
// the order of queues by their first workload, and the heap that keeps either.
//
// It owns comparison only; when a refused workload returns is decided by
// package cycle, which knows what it waits for.
package order

import "cmp"

// Key is a waiting workload's place in its queue.
type Key struct {
	// Priority: higher first.
	Priority int64
	// Time is the queue time in nanoseconds since 1970: earlier first.
	Time int64
	// UID breaks ties.
	UID string
}

// Compare is negative if k goes before o.
func (k Key) Compare(o Key) int {
	switch {
	case k.Priority != o.Priority:
		return cmp.Compare(o.Priority, k.Priority)
	case k.Time != o.Time:
		return cmp.Compare(k.Time, o.Time)
	}
	return cmp.Compare(k.UID, o.UID)
}

// Head is the place of a queue's first workload among all queues: the one
// that borrows from the lowest level of its tree goes first.
type Head struct {
	Level int
	Key
}

// Compare is negative if h goes before o.
func (h Head) Compare(o Head) int {
	if h.Level != o.Level {
		return cmp.Compare(h.Level, o.Level)
	}
	return h.Key.Compare(o.Key)
}

// Item is what a Heap holds: it remembers its own position.
type Item[T any] interface {
	// Before reports whether the item goes before the other.
	Before(other T) bool
	// Slot returns where the heap notes the item's position plus one; zero means
	// that it is in no heap.
	Slot() *int
}

// Heap is a binary heap whose items know their position, so that any of them
// can be removed or moved in logarithmic time. The zero value is empty.
type Heap[T Item[T]] struct{ items []T }

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the first item; there must be one.
func (h *Heap[T]) First() T { return h.items[0] }

// Items returns all items in no particular order; do not change it.
func (h *Heap[T]) Items() []T { return h.items }

// Push adds an item that is in no heap.
func (h *Heap[T]) Push(x T) {
	h.items = append(h.items, x)
	*x.Slot() = len(h.items)
	h.up(len(h.items) - 1)
}

// Remove takes an item of this heap out; an item in no heap is left alone.
func (h *Heap[T]) Remove(x T) {
	i := *x.Slot() - 1
	if i < 0 {
		return
	}
	last := len(h.items) - 1
	moved := h.items[last]
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if i < last {
		h.put(moved, i)
		h.fix(i)
	}
	*x.Slot() = 0
}

// Fix restores order after the item's key changed.
func (h *Heap[T]) Fix(x T) {
	if i := *x.Slot() - 1; i >= 0 {
		h.fix(i)
	}
}

// Sort restores order after many keys changed.
func (h *Heap[T]) Sort() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *Heap[T]) fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// put notes that an item is at a position now.
func (h *Heap[T]) put(x T, i int) {
	h.items[i] = x
	*x.Slot() = i + 1
}

// up moves an item to where it belongs: those before it come down one after the other,
// and it is put once.
func (h *Heap[T]) up(i int) {
	x, start := h.items[i], i
	for i > 0 {
		parent := (i - 1) / 2
		above := h.items[parent]
		if !x.Before(above) {
			break
		}
		h.put(above, i)
		i = parent
	}
	if i != start {
		h.put(x, i)
	}
}

// down is up the other way. It reports whether the item moved.
func (h *Heap[T]) down(i int) bool {
	x, start := h.items[i], i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		below := h.items[child]
		if r := child + 1; r < len(h.items) && h.items[r].Before(below) {
			child, below = r, h.items[r]
		}
		if !below.Before(x) {
			break
		}
		h.put(below, i)
		i = child
	}
	if i == start {
		return false
	}
	h.put(x, i)
	return true
}
