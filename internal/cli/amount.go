package cli

import (
	"github.com/mlbatch/mlbatch/internal/view"
)

// AmountColumn makes c one of amounts, each of the resource that of says and spelled as text says:
// it is printed for people, and sorted by how much it is.
func AmountColumn[T any](c Column[T], of, text func(T) string) Column[T] {
	c.Text = func(r T) string { return view.Amount(of(r), text(r)) }
	c.Less = func(a, b T) int { return view.CompareAmounts(text(a), text(b)) }
	return c
}
