package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// File is values as people wrote them.
type File struct {
	Name   string
	Data   []byte
	Places strict.Places
}

// ReadValues lays a file over values, as Helm does: what is a set of fields is merged, all else
// replaced, and null takes away. What is wrong is a *strict.FileError, with lines and cures.
func (v *Values) ReadValues(name string, data []byte) (*File, error) {
	f := &File{Name: name, Data: data, Places: strict.Places{}}
	var doc, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	err := documents.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return f, nil
	}
	if err == nil && !errors.Is(documents.Decode(&second), io.EOF) {
		err = fmt.Errorf("line %d: there is a second document: keep one", max(second.Line, doc.Line))
	}
	if err != nil {
		return nil, strict.Failed(name, []strict.Problem{*strict.SyntaxError(err)})
	}
	if doc.Content[0].ShortTag() == "!!null" {
		return f, nil
	}
	withoutGlobal(doc.Content[0])
	// 1. Is it such a file?
	d := strict.Decoder{Places: f.Places, LikeKubectl: true, Hints: map[string]string{
		"replicaCount": "unknown field; say it of each program: controller.replicas, scheduler.replicas",
		"replicas":     "unknown field; say it of each program: controller.replicas, scheduler.replicas",
		"resources":    "unknown field; say it of each program: controller.resources, scheduler.resources",
	}}
	tried := *v
	d.Value(doc.Content[0], reflect.ValueOf(&tried).Elem(), nil)
	if err := strict.Failed(name, d.Problems); err != nil {
		return nil, err
	}
	// 2. Lay it over what there is.
	var under, over map[string]any
	has, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(has, &under)
	}
	if err == nil {
		err = sigsyaml.Unmarshal(data, &over)
		delete(over, global)
	}
	if err == nil {
		has, err = json.Marshal(merged(under, over))
	}
	merged := Values{}
	if err == nil {
		err = json.Unmarshal(has, &merged)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	*v = merged
	return f, nil
}

// global is what Helm hands to charts within charts. Files that are for both have it, and nothing here
// reads it.
const global = "global"

func withoutGlobal(values *yaml.Node) {
	for i := 0; values.Kind == yaml.MappingNode && i+1 < len(values.Content); i += 2 {
		if values.Content[i].Value == global {
			values.Content = slices.Delete(values.Content, i, i+2)
			return
		}
	}
}

func merged(under, over map[string]any) map[string]any {
	out := make(map[string]any, len(under))
	maps.Copy(out, under)
	for k, v := range over {
		a, isA := out[k].(map[string]any)
		b, isB := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case isA && isB:
			out[k] = merged(a, b)
		default:
			out[k] = v
		}
	}
	return out
}

// Check says what is wrong with values, where they are written. The file may be nil.
func (v *Values) Check(f *File) error {
	if f == nil {
		f = &File{Name: "values"}
	}
	var problems []strict.Problem
	for _, e := range v.Validate() {
		text := e.ErrorBody()
		if e.Type == field.ErrorTypeForbidden || e.Type == field.ErrorTypeRequired {
			text = e.Detail
		}
		problems = append(problems, strict.Problem{Position: f.Places.Find(e.Field), Path: e.Field, Text: text})
	}
	return strict.Failed(f.Name, problems)
}
