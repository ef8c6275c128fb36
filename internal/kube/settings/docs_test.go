package settings

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/api/config/v1beta1"
	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/strict"
)

const page = "../../../docs/configuration.md"

// A developer who adds a field decides what it means here and writes it down.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, c := range []any{v1beta1.Configuration{}, v1beta2.Configuration{}} {
		leaves(reflect.TypeOf(c), "", paths)
	}
	delete(paths, "apiVersion")
	delete(paths, "kind")
	for p := range paths {
		if !documented(string(text), p) {
			t.Errorf("%s does not say what %s means", page, p)
		}
	}
}

// documented reports whether a page has a field, or a section with all that is
// below it, written section.*, in code quotes.
func documented(text, path string) bool {
	if strings.Contains(text, "`"+path+"`") {
		return true
	}
	for i := strings.LastIndexByte(path, '.'); i > 0; i = strings.LastIndexByte(path[:i], '.') {
		if strings.Contains(text, "`"+path[:i]+".*`") {
			return true
		}
	}
	return false
}

// leaves collects the paths of the fields that hold values.
func leaves(t reflect.Type, at string, out map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	unmarshaler := reflect.TypeFor[json.Unmarshaler]()
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(unmarshaler) ||
		t.Name() == "LabelSelector" {
		out[at] = true
		return
	}
	for f := range strict.FieldsOf(reflect.New(t).Elem()) {
		path := f
		if at != "" {
			path = at + "." + f
		}
		leaves(strict.FieldsOf(reflect.New(t).Elem())[f].Type(), path, out)
	}
}

func TestEveryGateIsDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gates() {
		if g.offer == choice && !strings.Contains(string(text), "`"+g.name+"`") {
			t.Errorf("%s does not say what %s chooses", page, g.name)
		}
	}
}
