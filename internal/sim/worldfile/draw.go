package worldfile

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Distribution draws values; exactly one field is given, besides Min and Max. A
// plain value stands for Fixed. Values are numbers, or durations.
type Distribution struct {
	Fixed       *Value       `json:"fixed,omitempty"`
	Uniform     *Uniform     `json:"uniform,omitempty"`
	Exponential *Exponential `json:"exponential,omitempty"`
	Lognormal   *Lognormal   `json:"lognormal,omitempty"`
	Choose      []Choice     `json:"choose,omitempty"`
	// Min and Max bound what is drawn.
	Min *Value `json:"min,omitempty"`
	Max *Value `json:"max,omitempty"`
}

// Uniform draws evenly.
type Uniform struct {
	Min Value `json:"min"`
	Max Value `json:"max"`
}

// Exponential draws with a mean.
type Exponential struct {
	Mean Value `json:"mean"`
}

// Lognormal draws values whose logarithm is normal: half are below Median, two
// thirds within a factor of exp(Sigma).
type Lognormal struct {
	Median Value   `json:"median"`
	Sigma  float64 `json:"sigma"`
}

// Choice is one value of a list; Weight is 1 if not given.
type Choice struct {
	Value  Value    `json:"value"`
	Weight *float64 `json:"weight,omitempty"`
}

// check says what is wrong with a distribution.
func (d *Distribution) check(where string) error {
	var errs []error
	bad := func(at, format string, args ...any) { errs = append(errs, wrong(where+at, format, args...)) }
	if d.Min != nil && d.Max != nil && *d.Min > *d.Max {
		bad(".min", "is %g and max %g: min must not be above max", *d.Min, *d.Max)
	}
	if u := d.Uniform; u != nil && u.Min > u.Max {
		bad(".uniform", "min is %g and max %g: min must not be above max", u.Min, u.Max)
	}
	if d.Exponential != nil && d.Exponential.Mean < 0 {
		bad(".exponential.mean", "is %g: it cannot be negative", d.Exponential.Mean)
	}
	if l := d.Lognormal; l != nil && (l.Median <= 0 || l.Sigma < 0) {
		bad(".lognormal", "median must be above 0, and sigma not negative")
	}
	var sum float64
	for i, c := range d.Choose {
		w := 1.0
		if c.Weight != nil {
			w = *c.Weight
		}
		if w < 0 {
			bad(fmt.Sprintf(".choose[%d].weight", i), "is %g: it cannot be negative", w)
		}
		sum += w
	}
	if len(d.Choose) > 0 && sum <= 0 {
		bad(".choose", "all weights are 0: nothing could be chosen")
	}
	return errors.Join(errs...)
}

// draw takes a value from a distribution.
func (d *Distribution) draw(r *rand.Rand) float64 {
	var v float64
	switch {
	case d.Fixed != nil:
		v = float64(*d.Fixed)
	case d.Uniform != nil:
		v = float64(d.Uniform.Min) + r.Float64()*float64(d.Uniform.Max-d.Uniform.Min)
	case d.Exponential != nil:
		v = r.ExpFloat64() * float64(d.Exponential.Mean)
	case d.Lognormal != nil:
		v = float64(d.Lognormal.Median) * math.Exp(r.NormFloat64()*d.Lognormal.Sigma)
	default:
		v = d.choose(r)
	}
	if d.Min != nil {
		v = max(v, float64(*d.Min))
	}
	if d.Max != nil {
		v = min(v, float64(*d.Max))
	}
	return v
}

func (d *Distribution) choose(r *rand.Rand) float64 {
	weights := make([]float64, len(d.Choose))
	for i, c := range d.Choose {
		weights[i] = 1
		if c.Weight != nil {
			weights[i] = *c.Weight
		}
	}
	return float64(d.Choose[pick(r, weights)].Value)
}

// pick draws an index in proportion to its weight.
func pick(r *rand.Rand, weights []float64) int {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	x := r.Float64() * sum
	for i, w := range weights {
		if x -= w; x < 0 {
			return i
		}
	}
	return len(weights) - 1
}
