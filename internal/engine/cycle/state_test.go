package cycle

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestEveryFieldIsDumpedOrNot walks all types that an engine consists of and
// compares their fields with testdata/state.txt, which says for each of them what
// becomes of it. A new field fails this test until that was thought about.
func TestEveryFieldIsDumpedOrNot(t *testing.T) {
	text, err := os.ReadFile("testdata/state.txt")
	if err != nil {
		t.Fatal(err)
	}
	known, of, fate := map[string]string{}, "", ""
	for line := range strings.Lines(string(text)) {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		for i, word := range strings.Fields(line) {
			switch {
			case strings.HasPrefix(line, "#"):
			case indent == 0:
				of = word
			case indent == 2 && i == 0:
				if fate = strings.TrimSuffix(
					word,
					":",
				); !slices.Contains(
					[]string{"dumped", "computed", "scratch", "option"},
					fate,
				) {
					t.Errorf("%s: %q is no fate", of, fate)
				}
			default:
				if old, twice := known[of+"."+word]; twice {
					t.Errorf("%s.%s is listed twice, as %s and %s", of, word, old, fate)
				}
				known[of+"."+word] = fate
			}
		}
	}
	found := map[string]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[Engine](), reflect.TypeFor[byLevel](), reflect.TypeFor[byShare]()} {
		walk(of, found)
	}
	for _, f := range slices.Sorted(maps.Keys(found)) {
		if _, ok := known[f]; !ok {
			t.Errorf("%s is new: does Dump need it? Then note it in testdata/state.txt", f)
		}
	}
	for _, f := range slices.Sorted(maps.Keys(known)) {
		if !found[f] {
			t.Errorf("testdata/state.txt names %s, which is gone", f)
		}
	}
}

// walk collects the fields of a type and of all types of the engine that it
// leads to. Values of package core are dumped whole.
func walk(t reflect.Type, found map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		walk(t.Elem(), found)
	case reflect.Map:
		walk(t.Key(), found)
		walk(t.Elem(), found)
	case reflect.Struct:
		if !strings.Contains(t.PkgPath(), "/engine/") {
			return
		}
		name, _, _ := strings.Cut(t.String(), "[")
		for f := range t.Fields() {
			key := fmt.Sprintf("%s.%s", name, f.Name)
			if _, generic, _ := strings.Cut(t.String(), "["); found[key] && generic == "" {
				return
			}
			found[key] = true
			walk(f.Type, found)
		}
	default:
	}
}
