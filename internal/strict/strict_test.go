package strict_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/mlbatch/mlbatch/internal/strict"
)

type role struct {
	Replicas *int32 `json:"replicas"`
}

// free reads JSON of any shape.
type free struct{ text string }

func (f *free) UnmarshalJSON(b []byte) error { f.text = string(b); return nil }

type thing struct {
	Name  string           `json:"name"`
	Key   []byte           `json:"key"`
	Any   any              `json:"any"`
	Free  free             `json:"free"`
	Port  uint16           `json:"port"`
	Roles map[string]*role `json:"roles"`
	Tags  map[string]string
}

// TestDecode: every mistake is told, where it is, with what helps.
func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		why, text string
		want      []string
	}{
		"Fine":      {"nothing to say", "name: a\nkey: YQ==\nany: {b: [1]}\nfree: {c: d}\nport: 7\nroles: {Master: {replicas: 1}}", nil},
		"Near":      {"a slip of the finger", "nam: a", []string{`1:1 nam: unknown field; did you mean "name"?`}},
		"Far":       {"or something else", "zzzzzz: a", []string{"1:1 zzzzzz: unknown field; there are any, free, key, name, port, roles"}},
		"Twice":     {"the last one would win in silence", "name: a\nname: b", []string{"2:1 name: is already set on line 1: keep one"}},
		"Number":    {"what YAML reads as another type", "name: 1", []string{`1:7 name: must be text: put it in quotes, "1"`}},
		"Role":      {"roles are called like fields", "roles:\n  Master: {replica: 1}", []string{`2:12 roles.Master.replica: unknown field; did you mean "replicas"?`}},
		"Truth":     {"kubectl reads no as false", "name: no", []string{`1:7 name: must be text: put it in quotes, "no"`}},
		"Quoted":    {"in quotes it is text", "name: 'no'", nil},
		"Base64":    {"bytes are base64", "key: '?'", []string{`1:6 key: must be text in base64, not "?"`}},
		"Alias":     {"aliases are followed if that is wanted", "free: &x {a: b}\nany: *x", nil},
		"SeveralOf": {"all of them at once", "nam: a\nport: x", []string{`1:1 nam: unknown field; did you mean "name"?`, `2:7 port: must be a whole number, not "x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var doc yaml.Node
			if err := yaml.Unmarshal([]byte(c.text), &doc); err != nil {
				t.Fatal(err)
			}
			d := strict.Decoder{Places: strict.Places{}, LikeKubectl: true}
			d.Value(doc.Content[0], reflect.ValueOf(&thing{}).Elem(), nil)
			var got []string
			for line := range strings.SplitSeq(textOf(strict.Failed("f", d.Problems)), "\n") {
				if line = strings.TrimPrefix(line, "f:"); line != "" {
					got = append(got, strings.Replace(line, ": ", " ", 1))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.why, diff)
			}
		})
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
