package record

import (
	"bytes"
	"errors"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mlbatch/mlbatch/internal/core"
)

// draw fills a value of any type that can be recorded. It knows nothing of the
// fields of core, so a new one is drawn, and must come back, like the others.
func draw(t *rapid.T, v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		if !rapid.Bool().Draw(t, "no time") {
			at := time.Unix(rapid.Int64Range(-1<<35, 1<<37).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
			v.Set(reflect.ValueOf(at.In(time.FixedZone("", 3600))))
		}
		return
	case reflect.TypeFor[core.Amount]():
		v.SetInt(
			rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64})).Draw(t, "amount"),
		)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.SampledFrom([]string{"", "a", "a/b"}), rapid.String()).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		v.SetInt(rapid.Int64Range(-1<<(bits-1), 1<<(bits-1)-1).Draw(t, "int"))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64Max(1<<v.Type().Bits()-1).Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "points") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 2).Draw(t, "len"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				draw(t, v.Index(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			draw(t, v.Index(i))
		}
	case reflect.Map:
		if n := rapid.IntRange(-1, 2).Draw(t, "len"); n >= 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				draw(t, key)
				draw(t, val)
				v.SetMapIndex(key, val)
			}
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			draw(t, f)
		}
	default:
		t.Fatalf("%s cannot be recorded", v.Type())
	}
}

func drawn[T any](t *rapid.T, like T) T {
	v := reflect.New(reflect.TypeOf(like)).Elem()
	draw(t, v)
	out, _ := reflect.TypeAssert[T](v)
	return out
}

// readAll reads a whole recording.
func readAll(r *Reader) (all []Line, err error) {
	for {
		l, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, l)
	}
}

type settings struct {
	Budget int
	Weight float64
	Pack   string
	Marks  [2]bool
}

// checkLossless writes events and decisions, reads them back, and writes what
// was read: nothing may change.
func checkLossless(t *rapid.T) {
	var buf bytes.Buffer
	opts, state := drawn(t, settings{}), drawn(t, map[string][]*core.Reason{})
	w, err := NewWriter(&buf, opts, state)
	if err != nil {
		t.Fatal(err)
	}
	var want []any
	for range rapid.IntRange(0, 4).Draw(t, "lines") {
		if rapid.Bool().Draw(t, "event") {
			ev := drawn(t, rapid.SampledFrom(events()).Draw(t, "type"))
			want, err = append(want, ev), w.Event(ev)
		} else {
			d := Decide{At: drawn(t, time.Time{})}
			for range rapid.IntRange(0, 2).Draw(t, "decisions") {
				d.Plan = append(d.Plan, drawn(t, rapid.SampledFrom(decisions()).Draw(t, "type")))
			}
			want, err = append(want, d), w.Decide(d.At, d.Plan)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text := bytes.Clone(buf.Bytes())
	all, err := readAll(NewReader(&buf))
	if !errors.Is(err, io.EOF) || len(all) != len(want)+1 {
		t.Fatalf("%d lines, %v\n%s", len(all), err, text)
	}
	var gotOpts settings
	var gotState map[string][]*core.Reason
	err = NewCodec().Decode(all[0].Header.State(), &gotState)
	if err := errors.Join(err, all[0].Header.Options(&gotOpts)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{opts, state}, []any{gotOpts, gotState}); diff != "" {
		t.Fatalf("header (-want +got):\n%s\n%s", diff, text)
	}
	var again bytes.Buffer
	w, err = NewWriter(&again, gotOpts, gotState)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range all[1:] {
		var got any = l.Event
		if l.Decide != nil {
			got, err = *l.Decide, w.Decide(l.Decide.At, l.Decide.Plan)
		} else {
			err = w.Event(l.Event)
		}
		if diff := cmp.Diff(want[i], got); diff != "" || err != nil {
			t.Fatalf("line %d (-want +got): %v\n%s\n%s", l.Number, err, diff, text)
		}
	}
	if diff := cmp.Diff(string(text), again.String()); diff != "" {
		t.Fatalf("equal values must give equal bytes:\n%s", diff)
	}
}

func TestNothingIsLost(t *testing.T) { rapid.Check(t, checkLossless) }

func FuzzNothingIsLost(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkLossless)) }

// FuzzReader feeds the reader with anything: it must not panic, and what it
// takes it must take again after writing it.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"NodeSet":{"Node":{"Name":"n","Allocatable":[{"Resource":"cpu","Amount":"unlimited"}]}}}`))
	f.Add(
		[]byte(`{"decide":"2026-01-02T03:04:05.6Z","plan":[{"Admit":{"Key":"a/b","Admission":{"Queue":"q"}}}]}`),
	)
	f.Add([]byte(`{"recording":1,"options":{"a":[1,{}]},"state":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := newLines().parse(text)
		if err != nil || l.Header != nil {
			return
		}
		c := NewCodec()
		var b []byte
		if l.Decide != nil {
			b, err = c.AppendDecide(nil, l.Decide.At, l.Decide.Plan)
		} else {
			b, err = c.AppendEvent(nil, l.Event)
		}
		if err != nil {
			return // text that is not UTF-8
		}
		again, err := newLines().parse(bytes.TrimSpace(b))
		if err != nil {
			t.Fatalf("%s\nwas taken, and written as\n%s\nis not: %v", text, b, err)
		}
		if diff := cmp.Diff(l, again); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestEveryTypeIsKnown finds the types of events and decisions in the source of
// package core: one that was added there must be added here.
func TestEveryTypeIsKnown(t *testing.T) {
	pkgs, err := goparser.ParseDir( //nolint:staticcheck // names of receivers are all that is looked at
		token.NewFileSet(),
		"../core",
		nil,
		goparser.SkipObjectResolution,
	)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, f := range pkgs["core"].Files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				if id, ok := fn.Recv.List[0].Type.(*ast.Ident); ok {
					found[fn.Name.Name] = append(found[fn.Name.Name], id.Name)
				}
			}
		}
	}
	for method, known := range map[string]map[string]reflect.Type{"event": typed(events()), "decision": typed(decisions())} {
		want := slices.Sorted(slices.Values(found[method]))
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(known))); diff != "" {
			t.Errorf("types with the method %s (-in core +recorded):\n%s", method, diff)
		}
	}
}

func TestFormat(t *testing.T) {
	var buf bytes.Buffer
	w, err := NewWriter(&buf, settings{Pack: "gpu"}, nil)
	all := core.Selector{}
	var missing core.Selector
	lend := core.Amount(0)
	at := time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)
	err = errors.Join(
		err,
		w.Event(core.QueueSet{Queue: core.Queue{Name: "q", Namespaces: &all, Groups: []core.ResourceGroup{
			{
				Covered: []string{core.CPU},
				Flavors: []core.FlavorQuotas{
					{Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: core.Unlimited, Lending: &lend}}},
				},
			},
		}}}),
		w.Event(core.QueueSet{Queue: core.Queue{Name: "r", Namespaces: &missing}}),
		w.Event(
			core.NamespaceSet{
				Namespace: core.Namespace{Name: "n", Labels: map[string]string{"b": "1", "a": "\"\\\n"}},
			},
		),
		w.Event(core.Applied{Key: core.Key{Namespace: "a", Name: "b"}, Seq: math.MaxUint64}),
		w.Decide(
			at,
			core.Plan{core.Refuse{Key: core.Key{Namespace: "a", Name: "b"}, Why: core.Reason{Code: core.OnHold}}},
		),
		w.Decide(at, nil),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"recording":1,"options":{"Pack":"gpu"}}
{"QueueSet":{"Queue":{"Name":"q","Groups":[{"Covered":["cpu"],"Flavors":[{"Flavor":"f","Quotas":[{"Resource":"cpu","Nominal":"unlimited","Lending":0}]}]}],"Namespaces":[]}}}
{"QueueSet":{"Queue":{"Name":"r","Namespaces":null}}}
{"NamespaceSet":{"Namespace":{"Name":"n","Labels":{"a":"\"\\\u000a","b":"1"}}}}
{"Applied":{"Key":"a/b","Seq":18446744073709551615}}
{"decide":"2026-01-02T03:04:05.6Z","plan":[{"Refuse":{"Key":"a/b","Why":{"Code":"OnHold"}}}]}
{"decide":"2026-01-02T03:04:05.6Z"}
`
	if diff := cmp.Diff(want, buf.String()); diff != "" {
		t.Errorf(
			"old recordings must stay readable; a change of the format needs a new version (-want +got):\n%s",
			diff,
		)
	}
}

func TestBadRecordings(t *testing.T) {
	head := `{"recording":1,"options":{}}` + "\n"
	tests := map[string]struct {
		why, text, says string
	}{
		"empty":       {"no recording at all", "", "line 1: the recording is empty"},
		"no header":   {"options are unknown", `{"NodeGone":{"Name":"n"}}` + "\n", "line 1: the first line"},
		"two headers": {"two files glued together", head + head, "line 2: the first line"},
		"no options": {
			"an engine cannot be made",
			`{"recording":1}` + "\n",
			"line 1: the header has no options",
		},
		"newer": {
			"says which version it takes",
			`{"recording":2,"options":{},"extra":1}` + "\n",
			"version 2 of the format, this program reads version 1",
		},
		"unknown event": {
			"a newer program wrote it",
			head + `{"NodeBurnt":{}}` + "\n",
			"line 2: NodeBurnt: neither",
		},
		"unknown field": {
			"ignoring it would decide otherwise",
			head + `{"NodeSet":{"Node":{"Nam":"n"}}}` + "\n",
			"line 2: NodeSet: Node: Nam: there is no such field",
		},
		"field twice": {
			"one of them would be lost",
			head + `{"NodeGone":{"Name":"n","Name":"m"}}` + "\n",
			"Name: given twice",
		},
		"wrong type": {
			"names the place",
			head + `{"WorkloadSet":{"Workload":{"PodSets":[{"Count":"x"}]}}}` + "\n",
			"PodSets: [0]: Count:",
		},
		"overflow": {
			"no silent wrap",
			head + `{"WorkloadSet":{"Workload":{"PodSets":[{"Count":2147483648}]}}}` + "\n",
			"Count: \"2147483648\" is not of type int32",
		},
		"cut in between": {
			"only the last line may be cut",
			head + `{"NodeGone":{"Na` + "\n" + `{"NodeGone":{}}` + "\n",
			"line 2: NodeGone: the text ends too early",
		},
		"cut header": {"nothing is left of it", `{"recording":1,"opt`, "line 1"},
		"more text": {
			"two objects in a line",
			head + `{"NodeGone":{}} {}` + "\n",
			"line 2: more text after the end",
		},
		"no such decision": {
			"a newer program wrote it",
			head + `{"decide":"2026-01-02T03:04:05Z","plan":[{"Wait":{}}]}` + "\n",
			"line 2: plan: [0]: Wait: not one decision",
		},
		"bad time":   {"names the value", head + `{"decide":"noon"}` + "\n", `decide: "noon" is not a time`},
		"blank line": {"strict", head + "\n", "line 2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(NewReader(strings.NewReader(tc.text)))
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: got %v, want %q", tc.why, err, tc.says)
			}
		})
	}
}

// TestCutAnywhere cuts a recording at every byte of its last line, as kill -9
// may: what came before is read, and nothing is made up.
func TestCutAnywhere(t *testing.T) {
	head := `{"recording":1,"options":{}}` + "\n" + `{"NodeGone":{"Name":"n"}}` + "\n"
	last := `{"decide":"2026-01-02T03:04:05Z","plan":[{"Refuse":{"Key":"a/b","Why":{"Code":"OnHold","Need":12}}}]}`
	for n := range last {
		r := NewReader(strings.NewReader(head + last[:n]))
		all, err := readAll(r)
		if !errors.Is(err, io.EOF) || len(all) != 2 || r.Cut() != (n > 0) {
			t.Fatalf("cut after %q: %d lines, cut %t, %v", last[:n], len(all), r.Cut(), err)
		}
	}
	if all, err := readAll(NewReader(strings.NewReader(head + last))); len(all) != 3 {
		t.Errorf("only the line's end is missing: %d lines, %v", len(all), err)
	}
}

func TestWhatCannotBeRecorded(t *testing.T) {
	tests := map[string]struct {
		why   string
		value any
	}{
		"interface":        {"its type would be lost", struct{ E core.Event }{core.NodeGone{}}},
		"function":         {"is no value", struct{ F func() }{func() {}}},
		"unexported field": {"it would be lost", struct{ n int }{1}},
		"not a number":     {"JSON has none", math.NaN()},
		"not UTF-8":        {"JSON has none", "\xff"},
		"lists of nothing": {
			"nil pointers and pointers to nil would look alike",
			struct{ L []*[]int }{[]*[]int{nil}},
		},
		"far future": {
			"the format of times has four digits for the year",
			time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if b, err := NewCodec().Append(nil, tc.value); err == nil {
				t.Errorf("%s: recorded as %s", tc.why, b)
			}
		})
	}
}
