package order

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	heads := []Head{
		{0, Key{5, 10, "b"}}, {0, Key{9, 99, "z"}}, {1, Key{10, 1, "a"}}, {0, Key{5, 10, "a"}}, {0, Key{5, 9, "c"}},
	}
	slices.SortFunc(heads, Head.Compare)
	want := []Head{
		{0, Key{9, 99, "z"}}, // a queue that does not borrow goes first, then priority
		{0, Key{5, 9, "c"}},  // then time
		{0, Key{5, 10, "a"}}, // then UID
		{0, Key{5, 10, "b"}},
		{1, Key{10, 1, "a"}},
	}
	if d := gocmp.Diff(want, heads); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

type item struct{ key, slot int }

func (i *item) Before(o *item) bool { return i.key < o.key }
func (i *item) Slot() *int          { return &i.slot }

// TestHeap compares the heap with a sorted list under random operations.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[*item]
		var list []*item
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op < 2 || len(list) == 0:
				x := &item{key: rapid.IntRange(0, 9).Draw(t, "key")}
				h.Push(x)
				list = append(list, x)
			case op == 2:
				i := rapid.IntRange(0, len(list)-1).Draw(t, "i")
				h.Remove(list[i])
				h.Remove(list[i]) // removing twice does nothing
				list = slices.Delete(list, i, i+1)
			default:
				x := list[rapid.IntRange(0, len(list)-1).Draw(t, "i")]
				x.key = rapid.IntRange(0, 9).Draw(t, "key")
				h.Fix(x)
			}
			if h.Len() != len(list) {
				t.Fatalf("%d items, want %d", h.Len(), len(list))
			}
			if len(list) > 0 {
				least := slices.MinFunc(list, func(a, b *item) int { return cmp.Compare(a.key, b.key) })
				if h.First().key != least.key {
					t.Fatalf("first is %d, want %d", h.First().key, least.key)
				}
			}
			for i, x := range h.Items() {
				if *x.Slot() != i+1 {
					t.Fatalf("item at %d thinks it is at %d", i, *x.Slot()-1)
				}
			}
		}
	})
}
