package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/mlbatch/mlbatch/api/config/v1beta1"
	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/strict"
)

// maxSize bounds a file; a ConfigMap holds no more.
const maxSize = 1 << 20

// File is a configuration as it was written, converted to v1beta2.
type File struct {
	// Name is what it is called in messages.
	Name string
	// Configuration has no defaults yet.
	Configuration *v1beta2.Configuration
	// Notices tell of fields that are accepted and have no effect.
	Notices []Notice

	places strict.Places
	absent bool // there is no file
}

// has reports whether a field is written in the file.
func (f *File) has(path string) bool {
	_, written := f.places[path]
	return written
}

// Empty is what a file without any setting says.
func Empty() *File {
	return &File{
		Name:          "configuration",
		Configuration: &v1beta2.Configuration{},
		places:        strict.Places{},
		absent:        true,
	}
}

// Read decodes a file in YAML or JSON. What is wrong is a *FileError that names
// everything at once.
func Read(name string, data []byte) (*File, error) {
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: has %d bytes, at most %d are read", name, len(data), maxSize)
	}
	root, problem := parse(data)
	if problem != nil {
		return nil, strict.Failed(name, []Problem{*problem})
	}
	d := &strict.Decoder{Places: strict.Places{}}
	f := &File{Name: name, places: d.Places}
	switch version := versionOf(root); version {
	case v1beta2.APIVersion:
		d.Hints = hintsV1beta2()
		f.Configuration = &v1beta2.Configuration{}
		d.Value(root, reflect.ValueOf(f.Configuration).Elem(), nil)
	case v1beta1.APIVersion:
		old := &v1beta1.Configuration{}
		d.Value(root, reflect.ValueOf(old).Elem(), nil)
		d.Problems = append(d.Problems, problems(d.Places, v1beta1.Validate(old))...)
		f.Notices = noticesV1beta1(old, d.Places)
		f.Configuration = v1beta1.Convert(old)
	default:
		d.Complain(
			root,
			nil,
			"apiVersion is %q: must be %s or %s, with kind %s",
			version,
			v1beta2.APIVersion,
			v1beta1.APIVersion,
			v1beta2.Kind,
		)
		return nil, strict.Failed(name, d.Problems)
	}
	if kind := f.Configuration.Kind; kind != v1beta2.Kind {
		d.Complain(root, nil, "kind is %q: must be %s", kind, v1beta2.Kind)
	}
	return f, strict.Failed(name, d.Problems)
}

// parse returns the fields of the only document.
func parse(data []byte) (*yaml.Node, *Problem) {
	documents := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := documents.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Problem{
				Text: "is empty; it must start with apiVersion: " + v1beta2.APIVersion + " and kind: " + v1beta2.Kind,
			}
		}
		return nil, strict.SyntaxError(err)
	}
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, strict.SyntaxError(err)
		}
		return nil, &Problem{
			Position: Position{Line: second.Line, Column: 1},
			Text:     "has a second document: keep one",
		}
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, &Problem{
			Position: Position{Line: root.Line, Column: root.Column},
			Text:     "must be a set of fields (name: value)",
		}
	}
	return root, nil
}

func versionOf(root *yaml.Node) string {
	version := ""
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "apiVersion" {
			version = root.Content[i+1].Value
		}
	}
	return version
}

// hintsV1beta2 say what became of fields that only v1beta1 has.
func hintsV1beta2() map[string]string {
	return map[string]string{
		"waitForPodsReady.enable": "is a field of v1beta1: in v1beta2 it is always on; the feature gate DisableWaitForPodsReady turns it off",
		"fairSharing.enable":      "is a field of v1beta1: in v1beta2 the section itself turns it on; take the section out to turn it off",
		"queueVisibility":         "is a field of v1beta1: take it out; queues do not list who waits in their status",
		"integrations.podOptions": "is a field of v1beta1: use managedJobsNamespaceSelector",
	}
}

func noticesV1beta1(c *v1beta1.Configuration, at strict.Places) []Notice {
	var out []Notice
	note := func(path, text string) {
		out = append(out, Notice{Position: at.Find(path), Path: path, Text: text})
	}
	if c.QueueVisibility != nil {
		note("queueVisibility", "has no effect: queues do not list who waits in their status")
	}
	if c.Integrations != nil && c.Integrations.PodOptions != nil {
		note(
			"integrations.podOptions",
			"has no effect: plain pods are not queued; managedJobsNamespaceSelector chooses namespaces",
		)
	}
	if w := c.WaitForPodsReady; w != nil && !w.Enable &&
		(w.Timeout != nil || w.BlockAdmission != nil || w.RecoveryTimeout != nil || w.RequeuingStrategy != nil) {
		note("waitForPodsReady", "is ignored but for \"enable: false\"")
	}
	if f := c.FairSharing; f != nil && !f.Enable && len(f.PreemptionStrategies) > 0 {
		note("fairSharing", "is ignored: enable is false")
	}
	return out
}
