package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Decode fills into, a pointer, with what Append wrote. It is strict: unknown and
// repeated fields, wrong types and trailing text are errors that name the field.
func (c *Codec) Decode(data []byte, into any) error {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("decode into a %T", into)
	}
	p := parser{text: data, codec: c}
	if err := p.value(v.Elem()); err != nil {
		return err
	}
	return p.end()
}

// parser reads one JSON text.
type parser struct {
	text  []byte
	at    int
	codec *Codec
}

var errCut = errors.New("the text ends too early")

func (p *parser) peek() byte {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) end() error {
	if p.peek() != 0 || p.at < len(p.text) {
		return fmt.Errorf("more text after the end, at byte %d", p.at+1)
	}
	return nil
}

func (p *parser) expect(ch byte) error {
	switch got := p.peek(); {
	case got == ch:
		p.at++
		return nil
	case p.at == len(p.text):
		return errCut
	default:
		return fmt.Errorf("%q instead of %q, at byte %d", got, ch, p.at+1)
	}
}

// more steps to the next item of a list or an object, false at its end.
func (p *parser) more(n int, closing byte) (bool, error) {
	if p.peek() == closing {
		p.at++
		return false, nil
	}
	if n > 0 {
		return true, p.expect(',')
	}
	return true, nil
}

// word reads a number, true, false or null.
func (p *parser) word() string {
	p.peek()
	from := p.at
	for p.at < len(p.text) && !strings.ContainsRune(`,:[]{}" `, rune(p.text[p.at])) {
		p.at++
	}
	return string(p.text[from:p.at])
}

func (p *parser) null() bool {
	if p.peek() == 'n' && strings.HasPrefix(string(p.text[p.at:min(len(p.text), p.at+4)]), "null") {
		p.at += 4
		return true
	}
	return false
}

func (p *parser) str() (string, error) {
	if err := p.expect('"'); err != nil {
		return "", err
	}
	from, plain := p.at, true
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			plain = false
			p.at++
		case '"':
			p.at++
			if plain {
				return string(p.text[from : p.at-1]), nil
			}
			var s string
			if err := json.Unmarshal(p.text[from-1:p.at], &s); err != nil {
				return "", fmt.Errorf("text at byte %d: %w", from, err)
			}
			return s, nil
		}
	}
	p.at = len(p.text)
	return "", errCut
}

func (p *parser) value(v reflect.Value) error {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		return p.time(v)
	case reflect.TypeFor[core.Amount]():
		return p.amount(v)
	case reflect.TypeFor[core.Key]():
		if p.peek() == '"' {
			s, err := p.str()
			namespace, name, ok := strings.Cut(s, "/")
			if err == nil && !ok {
				err = fmt.Errorf("%q is not NAMESPACE/NAME", s)
			}
			v.Set(reflect.ValueOf(core.Key{Namespace: namespace, Name: name}))
			return err
		}
	}
	switch v.Kind() {
	case reflect.String:
		s, err := p.str()
		v.SetString(s)
		return err
	case reflect.Pointer:
		return p.pointer(v)
	case reflect.Slice, reflect.Array:
		return p.list(v)
	case reflect.Map:
		return p.dict(v)
	case reflect.Struct:
		return p.object(v)
	default:
		return p.scalar(v)
	}
}

func (p *parser) time(v reflect.Value) error {
	s, err := p.str()
	if err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("%q is not a time", s)
	}
	v.Set(reflect.ValueOf(t.UTC()))
	return nil
}

func (p *parser) amount(v reflect.Value) error {
	if p.peek() != '"' {
		return p.scalar(v)
	}
	s, err := p.str()
	switch {
	case err != nil:
		return err
	case s == unlimited:
		v.SetInt(int64(core.Unlimited))
	case s == lowest:
		v.SetInt(math.MinInt64)
	default:
		return fmt.Errorf("%q is not an amount", s)
	}
	return nil
}

func (p *parser) scalar(v reflect.Value) error {
	w := p.word()
	if w == "" && p.at == len(p.text) {
		return errCut
	}
	var err error
	switch v.Kind() {
	case reflect.Bool:
		var x bool
		if x, err = strconv.ParseBool(w); err == nil && w != "true" && w != "false" {
			err = strconv.ErrSyntax
		}
		v.SetBool(x)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		var x int64
		x, err = strconv.ParseInt(w, 10, v.Type().Bits())
		v.SetInt(x)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		var x uint64
		x, err = strconv.ParseUint(w, 10, v.Type().Bits())
		v.SetUint(x)
	case reflect.Float64:
		var x float64
		x, err = strconv.ParseFloat(w, 64)
		v.SetFloat(x)
	default:
		return fmt.Errorf("a %s cannot be read", v.Type())
	}
	if err != nil {
		return fmt.Errorf("%q is not of type %s, at byte %d", w, v.Type(), p.at+1)
	}
	return nil
}

// pointer reads what a pointer points at. A pointer that points at nothing is
// left out or, in a list, null; null where lists and maps are meant is a nil one.
func (p *parser) pointer(v reflect.Value) error {
	if !nilable(v.Type().Elem().Kind()) && p.null() {
		v.SetZero()
		return nil
	}
	v.Set(reflect.New(v.Type().Elem()))
	return p.value(v.Elem())
}

func (p *parser) list(v reflect.Value) error {
	slice := v.Kind() == reflect.Slice
	if slice && p.null() {
		v.SetZero()
		return nil
	}
	if err := p.expect('['); err != nil {
		return err
	}
	if slice {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	for n := 0; ; n++ {
		if more, err := p.more(n, ']'); err != nil || !more {
			if err == nil && !slice && n != v.Len() {
				err = fmt.Errorf("%d items instead of %d", n, v.Len())
			}
			return err
		}
		switch {
		case slice:
			v.Grow(1)
			v.SetLen(n + 1)
		case n == v.Len():
			return fmt.Errorf("more than %d items", n)
		}
		if err := p.value(v.Index(n)); err != nil {
			return fmt.Errorf("[%d]: %w", n, err)
		}
	}
}

func (p *parser) dict(v reflect.Value) error {
	if p.null() {
		v.SetZero()
		return nil
	}
	v.Set(reflect.MakeMap(v.Type()))
	return p.members(func(name string) error {
		key := reflect.ValueOf(name).Convert(v.Type().Key())
		if v.MapIndex(key).IsValid() {
			return errors.New("given twice")
		}
		item := reflect.New(v.Type().Elem()).Elem()
		err := p.value(item)
		v.SetMapIndex(key, item)
		return err
	})
}

func (p *parser) object(v reflect.Value) error {
	names, err := p.codec.fields(v.Type())
	if err != nil {
		return err
	}
	v.SetZero()
	seen := make([]bool, len(names))
	return p.members(func(name string) error {
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return fmt.Errorf("there is no such field in %s", v.Type())
		case seen[i]:
			return errors.New("given twice")
		}
		seen[i] = true
		return p.value(v.Field(i))
	})
}

// members reads an object and calls f at each value with its name.
func (p *parser) members(f func(name string) error) error {
	if err := p.expect('{'); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if more, err := p.more(n, '}'); err != nil || !more {
			return err
		}
		name, err := p.str()
		if err == nil {
			err = p.expect(':')
		}
		if err != nil {
			return err
		}
		if err := f(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// skip passes over any value and returns its text.
func (p *parser) skip() ([]byte, error) {
	p.peek()
	from, depth := p.at, 0
	for {
		switch ch := p.peek(); {
		case p.at == len(p.text):
			return nil, errCut
		case ch == '"':
			if _, err := p.str(); err != nil {
				return nil, err
			}
		case ch == '{' || ch == '[':
			depth++
			p.at++
		case ch == '}' || ch == ']':
			depth--
			p.at++
		case ch == ',' || ch == ':':
			p.at++
		default:
			if p.word() == "" {
				return nil, fmt.Errorf("%q is not expected, at byte %d", ch, p.at+1)
			}
		}
		if depth == 0 {
			return p.text[from:p.at], nil
		}
		if depth < 0 {
			return nil, fmt.Errorf("a bracket too much, at byte %d", p.at)
		}
	}
}
