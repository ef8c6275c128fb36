package record

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Version is the version of the format. It grows when an old recording would be
// read with another meaning.
const Version = 1

// Line is one line of a recording: exactly one of the fields but Number is set.
type Line struct {
	Number int // from 1
	Header *Header
	Event  core.Event
	Decide *Decide
}

// Header is the first line of a recording.
type Header struct {
	Version int
	// Decided is how many decisions the engine had made before: where that is how
	// many the recording before ends with, nothing was left out.
	Decided uint64
	// options and state are the texts of both; state is nil for an engine that
	// knew nothing.
	options, state []byte
}

// Options decodes the options of the engine.
func (h *Header) Options(into any) error {
	if err := NewCodec().Decode(h.options, into); err != nil {
		return fmt.Errorf("line 1: options: %w", err)
	}
	return nil
}

// State is the text of what the engine knew at the start, nil if that was nothing. Its
// version says how to read it.
func (h *Header) State() []byte { return h.state }

// Decide says that the engine decided, when, and what.
type Decide struct {
	At   time.Time
	Plan core.Plan
}

// events has one value of each type of event.
func events() []core.Event {
	return []core.Event{
		core.FlavorSet{},
		core.FlavorGone{},
		core.CohortSet{},
		core.CohortGone{},
		core.QueueSet{},
		core.QueueGone{},
		core.LocalQueueSet{},
		core.LocalQueueGone{},
		core.NamespaceSet{},
		core.NamespaceGone{},
		core.NodeSet{},
		core.NodeGone{},
		core.WorkloadSet{},
		core.WorkloadGone{},
		core.Refused{},
		core.Applied{},
	}
}

// decisions has one value of each type of decision.
func decisions() []core.Decision {
	return []core.Decision{core.Admit{}, core.Replace{}, core.Evict{}, core.Refuse{}}
}

// typed finds types by name.
func typed[T any](all []T) map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, v := range all {
		t := reflect.TypeOf(v)
		m[t.Name()] = t
	}
	return m
}

// AppendHeader appends a header line. A nil state is that of an engine that knows
// nothing; decided is how many decisions it has made.
func (c *Codec) AppendHeader(b []byte, options, state any, decided uint64) ([]byte, error) {
	b = fmt.Appendf(b, `{"recording":%d,`, Version)
	if decided > 0 {
		b = fmt.Appendf(b, `"decided":%d,`, decided)
	}
	b = append(b, `"options":`...)
	b, err := c.Append(b, options)
	if err != nil {
		return nil, fmt.Errorf("record options: %w", err)
	}
	if state != nil {
		if b, err = c.Append(append(b, `,"state":`...), state); err != nil {
			return nil, fmt.Errorf("record state: %w", err)
		}
	}
	return append(b, "}\n"...), nil
}

// AppendEvent appends the line of an event.
func (c *Codec) AppendEvent(b []byte, ev core.Event) ([]byte, error) {
	b, err := c.tagged(b, ev)
	if err != nil {
		return nil, fmt.Errorf("record %T: %w", ev, err)
	}
	return append(b, '\n'), nil
}

// AppendDecide appends the line of a decision.
func (c *Codec) AppendDecide(b []byte, at time.Time, plan core.Plan) ([]byte, error) {
	b, err := appendTime(append(b, `{"decide":`...), at)
	if err != nil {
		return nil, fmt.Errorf("record a decision: %w", err)
	}
	for i, d := range plan {
		if i == 0 {
			b = append(b, `,"plan":[`...)
		} else {
			b = append(b, ',')
		}
		if b, err = c.tagged(b, d); err != nil {
			return nil, fmt.Errorf("record %T: %w", d, err)
		}
	}
	if len(plan) > 0 {
		b = append(b, ']')
	}
	return append(b, "}\n"...), nil
}

// AppendDecision appends one decision, without a line's end.
func (c *Codec) AppendDecision(b []byte, d core.Decision) ([]byte, error) { return c.tagged(b, d) }

// tagged writes a value with the name of its type.
func (c *Codec) tagged(b []byte, v any) ([]byte, error) {
	b = append(append(append(b, `{"`...), reflect.TypeOf(v).Name()...), `":`...)
	b, err := c.Append(b, v)
	return append(b, '}'), err
}

// lines reads single lines.
type lines struct {
	codec     *Codec
	events    map[string]reflect.Type
	decisions map[string]reflect.Type
}

func newLines() *lines {
	return &lines{codec: NewCodec(), events: typed(events()), decisions: typed(decisions())}
}

// parse reads the text of a line without its end.
func (l *lines) parse(text []byte) (Line, error) {
	p := parser{text: text, codec: l.codec}
	var out Line
	n := 0
	err := p.members(func(name string) error {
		n++
		t, isEvent := l.events[name]
		switch {
		case name == "recording" && n == 1:
			out.Header = &Header{}
			return p.scalar(reflect.ValueOf(&out.Header.Version).Elem())
		case out.Header != nil:
			return l.header(&p, name, out.Header)
		case name == "decide" && n == 1:
			out.Decide = &Decide{}
			return p.time(reflect.ValueOf(&out.Decide.At).Elem())
		case name == "plan" && n == 2 && out.Decide != nil:
			return l.plan(&p, &out.Decide.Plan)
		case isEvent && n == 1:
			v := reflect.New(t).Elem()
			err := p.value(v)
			out.Event, _ = reflect.TypeAssert[core.Event](v)
			return err
		}
		return errors.New("neither a header, nor an event, nor a decision")
	})
	if err == nil {
		err = p.end()
	}
	if err == nil && n == 0 {
		err = errors.New("says nothing")
	}
	return out, err
}

func (l *lines) header(p *parser, name string, h *Header) (err error) {
	switch {
	case h.Version != Version:
		return fmt.Errorf("recorded in version %d of the format, this program reads version %d", h.Version, Version)
	case name == "decided" && h.Decided == 0 && h.options == nil:
		err = p.scalar(reflect.ValueOf(&h.Decided).Elem())
	case name == "options" && h.options == nil:
		h.options, err = p.skip()
	case name == "state" && h.state == nil:
		h.state, err = p.skip()
	default:
		return errors.New("there is no such field in a header, or it is given twice")
	}
	return err
}

func (l *lines) plan(p *parser, plan *core.Plan) error {
	if err := p.expect('['); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if more, err := p.more(n, ']'); err != nil || !more {
			return err
		}
		var d core.Decision
		err := p.members(func(name string) error {
			t, known := l.decisions[name]
			if !known || d != nil {
				return errors.New("not one decision")
			}
			v := reflect.New(t).Elem()
			err := p.value(v)
			d, _ = reflect.TypeAssert[core.Decision](v)
			return err
		})
		if err == nil && d == nil {
			err = errors.New("not one decision")
		}
		if err != nil {
			return fmt.Errorf("[%d]: %w", n, err)
		}
		*plan = append(*plan, d)
	}
}
