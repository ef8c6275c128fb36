package core

import (
	"math"
	"strconv"
)

// Amount is a quantity of one resource in base units: milli-units for cpu,
// bytes for memory, pieces for everything else. Arithmetic saturates and never
// wraps; Unlimited stays Unlimited.
type Amount int64

// Unlimited is the amount that no sum exceeds. A quota that overflows int64
// becomes Unlimited (Kueue's saturating Amount).
const Unlimited Amount = math.MaxInt64

const lowest Amount = math.MinInt64

// Add returns a+b, saturating. Unlimited plus anything is Unlimited.
func (a Amount) Add(b Amount) Amount {
	if a == Unlimited || b == Unlimited {
		return Unlimited
	}
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return Unlimited
	case a < 0 && b < 0 && s >= 0:
		return lowest
	}
	return s
}

// Sub returns a-b, saturating. Unlimited minus anything is Unlimited; a finite
// amount minus Unlimited is the lowest amount.
func (a Amount) Sub(b Amount) Amount {
	if a == Unlimited {
		return Unlimited
	}
	if b == Unlimited {
		return lowest
	}
	d := a - b
	switch {
	case a >= 0 && b < 0 && d < 0:
		return Unlimited
	case a < 0 && b > 0 && d >= 0:
		return lowest
	}
	return d
}

// Mul returns a*n, saturating.
func (a Amount) Mul(n int64) Amount {
	if a == 0 || n == 0 {
		return 0
	}
	if a == Unlimited {
		if n < 0 {
			return lowest
		}
		return Unlimited
	}
	p := int64(a) * n
	if p/n != int64(a) || (int64(a) == -1 && n == math.MinInt64) || (n == -1 && int64(a) == math.MinInt64) {
		if (a < 0) != (n < 0) {
			return lowest
		}
		return Unlimited
	}
	return Amount(p)
}

// String prints the base units, or "unlimited".
func (a Amount) String() string {
	if a == Unlimited {
		return "unlimited"
	}
	return strconv.FormatInt(int64(a), 10)
}
