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
	h.swap(i, last)
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	*x.Slot() = 0
	if i < last {
		h.fix(i)
	}
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

func (h *Heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.items[i].Slot(), *h.items[j].Slot() = i+1, j+1
}

func (h *Heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.items[i].Before(h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *Heap[T]) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return i > start
		}
		if r := child + 1; r < len(h.items) && h.items[r].Before(h.items[child]) {
			child = r
		}
		if !h.items[child].Before(h.items[i]) {
			return i > start
		}
		h.swap(i, child)
		i = child
	}
}
