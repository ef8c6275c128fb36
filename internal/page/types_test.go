package page

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

var update = flag.Bool("update", false, "write the types of the page anew")

// The page reads views by types that are made of the Go types that are served: none is written by hand, so that none is
// wrong when a view changes.
func TestTypesOfThePageAreThoseOfTheViews(t *testing.T) {
	t.Parallel()
	const file = "../../web/src/views.ts"
	w := writer{names: map[reflect.Type]string{}}
	for _, of := range []reflect.Type{
		reflect.TypeFor[view.JobView](), reflect.TypeFor[view.NodeView](), reflect.TypeFor[view.QueueView](),
		reflect.TypeFor[view.LocalQueueView](), reflect.TypeFor[view.DomainView](), reflect.TypeFor[view.TeamView](),
		reflect.TypeFor[why.JobDetails](), reflect.TypeFor[why.JobExplanation](),
	} {
		w.name(of)
	}
	for len(w.queue) > 0 {
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.write(next)
	}
	got := "// Made of the Go types of views by `go test ./internal/page -update`; do not edit.\n" + strings.Join(
		w.out,
		"\n",
	)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("run `go test ./internal/page -update` and build the page anew (-there +made):\n%s", d)
	}
}

// writer writes types of Go as types of TypeScript.
type writer struct {
	names map[reflect.Type]string
	queue []reflect.Type
	out   []string
}

// name is that of a struct, whose type is written once.
func (w *writer) name(t reflect.Type) string {
	if n, there := w.names[t]; there {
		return n
	}
	n := t.Name()
	for slices.Contains(slices.Collect(values(w.names)), n) {
		n += "X"
	}
	w.names[t] = n
	w.queue = append(w.queue, t)
	return n
}

func values(m map[reflect.Type]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

func (w *writer) write(t reflect.Type) {
	var b strings.Builder
	fmt.Fprintf(&b, "export type %s = {\n", w.names[t])
	w.fields(&b, t)
	b.WriteString("}\n")
	w.out = append(w.out, b.String())
}

func (w *writer) fields(b *strings.Builder, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			in := f.Type
			if in.Kind() == reflect.Pointer {
				in = in.Elem()
			}
			if in.Kind() == reflect.Struct {
				w.fields(b, in)
			}
		case f.Type == reflect.TypeFor[metav1.ObjectMeta]():
			b.WriteString(
				"  metadata: { namespace?: string; name: string; uid?: string; creationTimestamp?: string }\n",
			)
		default:
			optional := ""
			if strings.Contains(options, "omit") {
				optional = "?"
			}
			fmt.Fprintf(b, "  %s%s: %s\n", name, optional, w.of(f.Type, optional == ""))
		}
	}
}

// of is a type as it is written where it is used; null says that it may be null there.
func (w *writer) of(t reflect.Type, null bool) string { //nolint:revive // a fact
	switch t {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[resource.Quantity]():
		return "string"
	case reflect.TypeFor[json.RawMessage]():
		return "unknown"
	}
	switch t.Kind() {
	case reflect.Pointer:
		if null {
			return w.of(t.Elem(), false) + " | null"
		}
		return w.of(t.Elem(), false)
	case reflect.Slice, reflect.Array:
		each := w.of(t.Elem(), false) + "[]"
		if null {
			each += " | null"
		}
		return each
	case reflect.Map:
		return "Record<string, " + w.of(t.Elem(), false) + ">"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Struct:
		return w.name(t)
	case reflect.Interface:
		return "unknown"
	default:
		return "number"
	}
}
