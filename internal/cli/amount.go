package cli

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// longestAmount is how long an amount may be that is printed to the last unit.
const longestAmount = 6

// shortAmount is an amount as people read it: to the last unit where that is short, and otherwise
// whole ones of what has a thousandth, or one digit after the point of the largest unit.
func shortAmount(q *resource.Quantity) string {
	text := q.String()
	if len(text) <= longestAmount {
		return text
	}
	if q.Format == resource.BinarySI {
		n, i := float64(q.Value()), 0
		units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
		for ; n >= 1024 && i < len(units)-1; i++ {
			n /= 1024
		}
		return strconv.FormatFloat(n, 'f', 1, 64) + units[i]
	}
	if text[len(text)-1] == 'm' {
		return strconv.FormatInt(q.ScaledValue(0)-roundedUp(q), 10)
	}
	return text
}

// roundedUp is 1 of an amount whose whole value was rounded up: no more is told than there is.
func roundedUp(q *resource.Quantity) int64 {
	if q.MilliValue()%1000 != 0 && q.Sign() > 0 {
		return 1
	}
	return 0
}
