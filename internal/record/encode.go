package record

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Codec encodes plain values: structs of exported fields, slices, arrays, maps
// with string keys, pointers, strings, numbers, booleans and times. Make one with
// NewCodec; it is not safe for concurrent use.
type Codec struct{ structs map[reflect.Type][]string }

// NewCodec returns a codec.
func NewCodec() *Codec { return &Codec{structs: map[reflect.Type][]string{}} }

const (
	unlimited = "unlimited"
	lowest    = "lowest"
)

// Append appends the encoding of v. It fails for kinds of values that it does not
// know, text that is not UTF-8, floats that are no numbers, and years beyond 9999.
func (c *Codec) Append(b []byte, v any) ([]byte, error) {
	return c.value(b, reflect.ValueOf(v))
}

func (c *Codec) value(b []byte, v reflect.Value) ([]byte, error) {
	if !v.IsValid() {
		return nil, fmt.Errorf("nothing to encode")
	}
	switch t := v.Type(); {
	case t == reflect.TypeFor[time.Time]():
		return appendTime(b, v.Interface().(time.Time)) //nolint:forcetypeassert // the case says so
	case t == reflect.TypeFor[core.Amount]():
		return appendAmount(b, core.Amount(v.Int())), nil
	case t == reflect.TypeFor[core.Key]():
		if k := v.Interface().(core.Key); !strings.Contains( //nolint:forcetypeassert // the case says so
			k.Namespace,
			"/",
		) {
			return appendString(b, k.String())
		}
	}
	switch v.Kind() {
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%v is no number", f)
		}
		return strconv.AppendFloat(b, v.Float(), 'g', -1, 64), nil
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return c.value(b, v.Elem())
	case reflect.Slice, reflect.Array:
		return c.list(b, v)
	case reflect.Map:
		return c.dict(b, v)
	case reflect.Struct:
		return c.object(b, v)
	default:
		return nil, fmt.Errorf("a %s cannot be recorded", v.Type())
	}
}

func (c *Codec) list(b []byte, v reflect.Value) ([]byte, error) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return append(b, "null"...), nil
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = c.value(b, v.Index(i)); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(b, ']'), nil
}

// dict writes a map sorted by key.
func (c *Codec) dict(b []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(b, "null"...), nil
	}
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("a %s cannot be recorded: keys must be text", v.Type())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, k.String()); err != nil {
			return nil, err
		}
		if b, err = c.value(append(b, ':'), v.MapIndex(k)); err != nil {
			return nil, fmt.Errorf("[%q]: %w", k.String(), err)
		}
	}
	return append(b, '}'), nil
}

func (c *Codec) object(b []byte, v reflect.Value) ([]byte, error) {
	names, err := c.fields(v.Type())
	if err != nil {
		return nil, err
	}
	b = append(b, '{')
	first := true
	for i, name := range names {
		f := v.Field(i)
		if f.IsZero() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(b, '"'), name...), `":`...)
		if b, err = c.value(b, f); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return append(b, '}'), nil
}

// fields returns the names of a struct's fields.
func (c *Codec) fields(t reflect.Type) ([]string, error) {
	if names, known := c.structs[t]; known {
		return names, nil
	}
	var names []string
	for f := range t.Fields() {
		if !f.IsExported() {
			return nil, fmt.Errorf("a %s cannot be recorded: field %s is not exported", t, f.Name)
		}
		if k := f.Type.Kind(); k == reflect.Slice || k == reflect.Array {
			if e := f.Type.Elem(); e.Kind() == reflect.Pointer && nilable(e.Elem().Kind()) {
				return nil, fmt.Errorf(
					"a %s cannot be recorded: in field %s, two kinds of nothing look the same",
					t,
					f.Name,
				)
			}
		}
		names = append(names, f.Name)
	}
	c.structs[t] = names
	return names, nil
}

func nilable(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Slice || k == reflect.Map
}

func appendAmount(b []byte, a core.Amount) []byte {
	switch a {
	case core.Unlimited:
		return append(b, `"`+unlimited+`"`...)
	case math.MinInt64:
		return append(b, `"`+lowest+`"`...)
	}
	return strconv.AppendInt(b, int64(a), 10)
}

func appendTime(b []byte, t time.Time) ([]byte, error) {
	u := t.UTC()
	if y := u.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("the year %d cannot be recorded", y)
	}
	b = append(b, '"')
	b = u.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"'), nil
}

const hex = "0123456789abcdef"

func appendString(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%q is not UTF-8", s)
	}
	b = append(b, '"')
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[ch>>4], hex[ch&15])
		default:
			b = append(b, ch)
		}
	}
	return append(b, '"'), nil
}
