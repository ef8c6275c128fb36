package order

import (
	"math"
	"math/big"
	"math/bits"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Past usage, for admission fair sharing: what was used long
// ago counts less. All of it is arithmetic of integers, so that every machine
// and every replay gives the same order.

// Factor is a number from 0 to 1, in units of 2^-32.
type Factor uint64

// One is the factor 1.
const One Factor = 1 << 32

// Decay is how much of past usage still counts after some time: half of it after
// each half-life. A half-life of 0 or less forgets at once.
func Decay(elapsed, halfLife time.Duration) Factor {
	if elapsed <= 0 {
		return One
	}
	if halfLife <= 0 || elapsed/halfLife >= 32 {
		return 0
	}
	// 2^-x is 2^-n for the whole part n of x, times 2^-(1/2), 2^-(1/4), ... for
	// the bits of its fraction. The roots are in units of 2^-64.
	roots := [...]uint64{
		0xb504f333f9de6484,
		0xd744fccad69d6af4,
		0xeac0c6e7dd24392f,
		0xf5257d152486cc2c,
		0xfa83b2db722a033a,
		0xfd3e0c0cf486c175,
		0xfe9e115c7b8f884c,
		0xff4ecb59511ec8a5,
		0xffa756521c8daed2,
		0xffd3a751c0f7e10c,
		0xffe9d2b2f7db2756,
		0xfff4e91bff1b8c3e,
		0xfffa747ea0040664,
		0xfffd3a3b7814eb54,
		0xfffe9d1cc60ddab1,
		0xffff4e8e25879bfa,
		0xffffa7470363f451,
		0xffffd3a37dda0313,
		0xffffe9d1bdf703af,
		0xfffff4e8debe025e,
		0xfffffa746f4fa150,
		0xfffffd3a37a3f8b0,
		0xfffffe9d1bd1065a,
		0xffffff4e8de845ae,
		0xffffffa746f41377,
		0xffffffd3a37a05e4,
		0xffffffe9d1bd01fc,
		0xfffffff4e8de80c0,
		0xfffffffa746f4051,
		0xfffffffd3a37a025,
		0xfffffffe9d1bd011,
		0xffffffff4e8de808,
	}
	rest := uint64(elapsed % halfLife) //nolint:gosec // not negative
	fraction, _ := bits.Div64(rest>>32, rest<<32, uint64(halfLife))
	f := uint64(math.MaxUint64)
	for i, root := range roots {
		if fraction&(1<<(31-i)) != 0 {
			f, _ = bits.Mul64(f, root)
		}
	}
	return Factor(f>>32+f>>31&1) >> uint(elapsed/halfLife) //nolint:gosec // not negative
}

// Past is an amount with a fraction, in units of 2^-64 of the resource's base
// unit. It never goes below 0, and saturates. Roundings add up over samplings; so
// fine a unit keeps their sum far below the grain of a standing.
type Past struct {
	whole, part uint64
}

// PastOf is the inverse of Parts.
func PastOf(whole, part uint64) Past { return Past{whole, part} }

// Parts are the whole base units, and the rest in units of 2^-64.
func (p Past) Parts() (whole, part uint64) { return p.whole, p.part }

// Share is the part of an amount that a factor says; negative amounts count as 0.
func Share(a core.Amount, f Factor) Past {
	return Past{whole: uint64(max(a, 0))}.times(f)
}

// Thousandths reads an amount that is given in thousandths of base units.
func Thousandths(a core.Amount) Past {
	n := uint64(max(a, 0))
	part, _ := bits.Div64(n%1000, 0, 1000)
	return Past{whole: n / 1000, part: part}
}

// Thousandths is the amount in thousandths of base units, rounded; it saturates.
func (p Past) Thousandths() core.Amount {
	hi, lo := bits.Mul64(p.whole, 1000)
	if hi > 0 || lo > math.MaxInt64-1000 {
		return core.Unlimited
	}
	more, rest := bits.Mul64(p.part, 1000)
	return core.Amount(lo + more + rest>>63) //nolint:gosec // checked above
}

// Fade is p after some time during which an amount was in use: the older part
// counts as much as keep says, the newer one fills up the rest.
func (p Past) Fade(keep Factor, inUse core.Amount) Past {
	return p.times(keep).Plus(Share(inUse, One-keep))
}

func (p Past) times(f Factor) Past {
	if f >= One {
		return p
	}
	hi, lo := bits.Mul64(p.whole, uint64(f)) // hi is below 2^32, as is more
	more, rest := bits.Mul64(p.part, uint64(f))
	return Past{whole: hi<<32 | lo>>32, part: lo << 32}.Plus(Past{part: more<<32 | rest>>32})
}

// Plus returns p+o.
func (p Past) Plus(o Past) Past {
	part, carry := bits.Add64(p.part, o.part, 0)
	whole, over := bits.Add64(p.whole, o.whole, carry)
	if over > 0 {
		return Past{math.MaxUint64, math.MaxUint64}
	}
	return Past{whole, part}
}

// Minus returns p-o, at least 0.
func (p Past) Minus(o Past) Past {
	part, borrow := bits.Sub64(p.part, o.part, 0)
	whole, under := bits.Sub64(p.whole, o.whole, borrow)
	if under > 0 {
		return Past{}
	}
	return Past{whole, part}
}

// IsZero reports whether there is nothing.
func (p Past) IsZero() bool { return p == Past{} }

// Weighed is one resource of a standing: a past usage and what it counts.
type Weighed struct {
	Resource string
	Past     Past
	Weight   core.Weight
}

// A standing is rounded to a grain of 2^-10 thousandths, about a millionth of a
// core or GPU, so that LocalQueues that used the same for their weights stand
// equal however their usage was rounded on the way there. The borders between
// two grains lie where sums of simple fractions do not: at 1-0.618... of a grain.
const (
	grainBits = 64 - 10 // in units of 2^-64 thousandths
	offset    = 0x9e3779b97f4a7c15 >> (64 - grainBits)
)

// StandingOf sums up past usage, divides it by a weight and rounds it to a grain.
// Processors count in cores, everything else in base units, as in Kueue: without
// weights of their own a byte of memory counts as much as a core.
func StandingOf(usage []Weighed, weight core.Weight) core.UsageRank {
	if weight <= 0 {
		return core.UsageRank{Last: true}
	}
	sum := new(big.Int)
	for _, u := range usage {
		v := new(big.Int).SetUint64(u.Past.whole)
		v.Lsh(v, 64).Add(v, new(big.Int).SetUint64(u.Past.part))
		v.Mul(v, big.NewInt(int64(max(u.Weight, 0))))
		if u.Resource != core.CPU { // which is in thousandths already
			v.Mul(v, big.NewInt(1000))
		}
		sum.Add(sum, v)
	}
	sum.Quo(sum, big.NewInt(int64(weight)))
	sum.Add(sum, big.NewInt(offset)).Rsh(sum, grainBits)
	sum.Lsh(sum, grainBits-32) // to units of 2^-32
	if sum.BitLen() > 128 {
		return core.UsageRank{Hi: math.MaxUint64, Lo: math.MaxUint64}
	}
	lo := new(big.Int).And(sum, new(big.Int).SetUint64(math.MaxUint64))
	return core.UsageRank{Hi: sum.Rsh(sum, 64).Uint64(), Lo: lo.Uint64()}
}
