package worldfile

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Duration is a time like 90s, 15m, 2h, 7d or 1d12h. A number is in seconds.
type Duration time.Duration

// UnmarshalJSON reads a duration.
func (d *Duration) UnmarshalJSON(text []byte) error {
	v, err := parseDuration(unquote(text))
	*d = Duration(v)
	return err
}

var days = regexp.MustCompile(`^(-?)(?:(\d+(?:\.\d+)?)d)?(.*)$`)

func parseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no duration: write it like 90s, 15m, 2h, 7d or 1d12h", s)
	if sec, err := strconv.ParseFloat(s, 64); err == nil {
		return positive(sec*float64(time.Second), bad)
	}
	m := days.FindStringSubmatch(s)
	if s == "" || m == nil || m[1] != "" {
		return 0, bad
	}
	var sum float64
	if m[2] != "" {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return 0, bad
		}
		sum = n * 24 * float64(time.Hour)
	}
	if m[3] != "" {
		rest, err := time.ParseDuration(m[3])
		if err != nil {
			return 0, bad
		}
		sum += float64(rest)
	}
	return positive(sum, bad)
}

func positive(ns float64, bad error) (time.Duration, error) {
	if ns < 0 || ns > math.MaxInt64/8 || math.IsNaN(ns) {
		return 0, bad
	}
	return time.Duration(ns), nil
}

func unquote(text []byte) string {
	var s string
	if json.Unmarshal(text, &s) == nil {
		return s
	}
	return string(text)
}

// Quantity is an amount as Kubernetes writes it: 500m, 2, 1.5, 64Gi.
type Quantity string

// UnmarshalJSON reads a quantity; numbers need no quotes.
func (q *Quantity) UnmarshalJSON(text []byte) error {
	*q = Quantity(unquote(text))
	_, err := q.amount(core.CPU)
	return err
}

// amount is the quantity in base units of a resource; "" is 0.
func (q Quantity) amount(resource string) (core.Amount, error) {
	s := string(q)
	if s == "" {
		return 0, nil
	}
	bad := fmt.Errorf("%q is no quantity: write it like 8, 500m, 1.5 or 64Gi", s)
	number := strings.TrimRight(s, "mkKMGTPEi")
	factor, ok := map[string]float64{
		"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
	}[s[len(number):]]
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || v < 0 {
		return 0, bad
	}
	v *= factor
	if resource == core.CPU {
		v *= 1000
	}
	if v >= math.MaxInt64 {
		return core.Unlimited, nil
	}
	return core.Amount(math.Ceil(v)), nil
}

// UnmarshalJSON reads a quota: a quantity, or an object with limits.
func (l *Limit) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return l.Nominal.UnmarshalJSON(text)
	}
	type fields Limit
	return strict(text, (*fields)(l), "a quota")
}

// Value is a number, or a duration, which stands for its seconds.
type Value float64

// UnmarshalJSON reads a value.
func (v *Value) UnmarshalJSON(text []byte) error {
	s := unquote(text)
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		*v = Value(n)
		return nil
	}
	d, err := parseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is neither a number nor a duration like 90s, 15m, 2h or 7d", s)
	}
	*v = Value(d.Seconds())
	return nil
}

// UnmarshalJSON reads a distribution; a plain value is always that.
func (d *Distribution) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		d.Fixed = new(Value)
		return d.Fixed.UnmarshalJSON(text)
	}
	type fields Distribution
	if err := strict(text, (*fields)(d), "a distribution"); err != nil {
		return err
	}
	n := 0
	for _, given := range []bool{d.Fixed != nil, d.Uniform != nil, d.Exponential != nil, d.Lognormal != nil, len(d.Choose) > 0} {
		if given {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("a distribution needs exactly one of fixed, uniform, exponential, lognormal and choose")
	}
	return nil
}

// UnmarshalJSON reads a duration, or an object with min and max.
func (b *Between) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		if err := b.Min.UnmarshalJSON(text); err != nil {
			return err
		}
		b.Max = b.Min
		return nil
	}
	type fields Between
	if err := strict(text, (*fields)(b), "a time"); err != nil {
		return err
	}
	if b.Max < b.Min {
		return fmt.Errorf("max is below min")
	}
	return nil
}

// strict decodes an object and refuses fields that it does not know.
func strict(text []byte, into any, what string) error {
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
