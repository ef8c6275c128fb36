package view

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// longestAmount is how long an amount may be that is printed to the last unit.
const longestAmount = 6

// anyAmount is an amount that nothing exceeds.
const anyAmount = "any number"

// Amount is an amount of a resource as people read it, and not more than there is: to the last
// unit where that is short, and otherwise in the largest unit, as "1.8Ti" or "149.3". It is the one
// place where that is decided; text is how quantities are spelled, as objects and -o json have it,
// and what is none stays as it is.
func Amount(of, text string) string {
	bound, amount := "", text
	if rest, is := strings.CutPrefix(text, AtMost); is {
		bound, amount = AtMost, rest
	}
	q, err := resource.ParseQuantity(amount)
	if err != nil {
		return text
	}
	return bound + AmountOf(of, &q)
}

// Amounts are several amounts of a resource that are told beside one another: where two that
// differ would read the same, all are told to the last unit.
func Amounts(of string, texts ...string) []string {
	out, from := make([]string, len(texts)), map[string]string{}
	for i, text := range texts {
		out[i] = Amount(of, text)
		if other, known := from[out[i]]; known && other != text {
			return texts
		}
		from[out[i]] = text
	}
	return out
}

// AmountOf is Amount of a quantity.
func AmountOf(of string, q *resource.Quantity) string {
	text := q.String()
	switch {
	case q.Sign() < 0:
		positive := q.DeepCopy()
		positive.Neg()
		return "-" + AmountOf(of, &positive)
	case q.Value() == math.MaxInt64: // more is not told in quantities
		return anyAmount
	case strings.HasSuffix(text, "m") && q.Value() > 1:
		return thousandths(q)
	case len(text) <= longestAmount:
		return text
	case q.Format == resource.BinarySI || isBytes(of):
		return inUnits(
			uint64(q.Value()), //nolint:gosec // it is positive
			1024,
			[]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"},
		)
	case q.Value() < 1_000_000 && q.Value() > 1:
		return strconv.FormatInt(q.Value(), 10)
	case q.Value() <= 1: // a small part of one
		return text
	}
	return inUnits(
		uint64(q.Value()), //nolint:gosec // it is positive
		1000,
		[]string{"", "k", "M", "G", "T", "P", "E"},
	)
}

// thousandths is more than one of what has thousandths, with four digits.
func thousandths(q *resource.Quantity) string {
	milli := q.MilliValue() // of more than fit, whole ones are told by their own value
	if q.Value() >= 1_000_000 {
		whole := resource.NewQuantity(q.Value()-1, resource.DecimalSI)
		return AmountOf("", whole)
	}
	drop := int64(1)
	for milli/drop >= 10_000 {
		drop *= 10
	}
	if drop > 1000 {
		drop = 1000 // whole ones are all told
	}
	return strconv.FormatFloat(float64(milli/drop*drop)/1000, 'f', -1, 64)
}

// inUnits is a number in the largest unit that it has one of, with one digit after the point unless
// it is even.
func inUnits(n, base uint64, units []string) string {
	unit, i := uint64(1), 0
	for n/unit >= base && i < len(units)-1 {
		unit, i = unit*base, i+1
	}
	if n%unit == 0 || n/unit >= 1000 {
		return strconv.FormatUint(n/unit, 10) + units[i]
	}
	return fmt.Sprintf("%d.%d%s", n/unit, n%unit*10/unit, units[i])
}

// isBytes reports whether a resource is counted in bytes.
func isBytes(name string) bool {
	return name == string(corev1.ResourceMemory) || strings.HasSuffix(name, "-storage") ||
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}

// longAmounts are amounts in sentences that are made for conditions.
var longAmounts = regexp.MustCompile(`\b[0-9]{4,}(?:m|[KMGTPE]i)(?:\b|$)`)

// ShortAmounts is a sentence in which amounts are told as people read them, unless two of them would
// read the same.
func ShortAmounts(sentence string) string {
	found := longAmounts.FindAllString(sentence, -1)
	if found == nil {
		return sentence
	}
	short := Amounts("", found...)
	next := 0
	return longAmounts.ReplaceAllStringFunc(sentence, func(string) string {
		next++
		return short[next-1]
	})
}

// AtMost is in front of an amount that is a bound.
const AtMost = "≤"

// CompareAmounts orders amounts as they are spelled; what is none comes first.
func CompareAmounts(a, b string) int {
	x, xErr := resource.ParseQuantity(strings.TrimPrefix(a, AtMost))
	y, yErr := resource.ParseQuantity(strings.TrimPrefix(b, AtMost))
	switch {
	case xErr != nil && yErr != nil:
		return strings.Compare(a, b)
	case xErr != nil:
		return -1
	case yErr != nil:
		return 1
	}
	return x.Cmp(y)
}
