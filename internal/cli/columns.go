package cli

import (
	"cmp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/view"
)

// NumberColumn makes c one of numbers, by which it is sorted, too.
func NumberColumn[T any, N int | int32 | int64](c Column[T], of func(T) N) Column[T] {
	return KnownNumberColumn(c, func(r T) *N { return new(of(r)) })
}

// KnownNumberColumn is NumberColumn of numbers that are not known of every row: it has blanks where they
// are not, and sorts them like zeros.
func KnownNumberColumn[T any, N int | int32 | int64](c Column[T], of func(T) *N) Column[T] {
	c.Text = func(r T) string {
		if n := of(r); n != nil {
			return strconv.FormatInt(int64(*n), 10)
		}
		return ""
	}
	c.Less = func(a, b T) int { return cmp.Compare(ptr.Deref(of(a), 0), ptr.Deref(of(b), 0)) }
	return c
}

// AgeColumn makes c one of how long ago something was, the last first; what has not happened comes before.
func AgeColumn[T any](c Column[T], now time.Time, of func(T) *time.Time) Column[T] {
	c.Text = func(r T) string {
		if at := of(r); at != nil {
			return age(now, *at)
		}
		return ""
	}
	c.Less = func(a, b T) int { return ptr.Deref(of(b), now).Compare(ptr.Deref(of(a), now)) }
	return c
}

// age is how long ago a moment was.
func age(now, at time.Time) string { return duration.HumanDuration(max(now.Sub(at), 0)) }

// AmountColumn makes c one of amounts, each of the resource that of says and spelled as text says:
// it is printed for people, and sorted by how much it is.
func AmountColumn[T any](c Column[T], of, text func(T) string) Column[T] {
	c.Text = func(r T) string { return view.Amount(of(r), text(r)) }
	c.Less = func(a, b T) int { return view.CompareAmounts(text(a), text(b)) }
	return c
}
