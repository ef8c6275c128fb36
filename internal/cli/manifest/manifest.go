// Package manifest reads the objects that people keep in files: streams of YAML, JSON, Lists of
// either, as kubectl reads them, each with the lines that its fields are in, and puts them
// together in an AppWrapper (Wrap).
//
// It asks no cluster, and judges nothing but what can be wrapped.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigs "sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// Document is one object of a file.
type Document struct {
	// File is its name in messages.
	File string
	// Node is the object as it was written; its lines are those of the file.
	Node *yaml.Node
	// Object is the same as the API server gets it.
	Object *unstructured.Unstructured
}

// GVK is the kind of the object.
func (d *Document) GVK() schema.GroupVersionKind { return d.Object.GroupVersionKind() }

// Title names the object, for people.
func (d *Document) Title() string {
	name := d.Object.GetName()
	if name == "" {
		name = d.Object.GetGenerateName()
	}
	return strings.TrimSpace(d.Object.GetKind() + " " + name)
}

// What documents are that can be read, and are no objects of Kubernetes.
const (
	noObject  = "must have an apiVersion and a kind"
	noMapping = "must be an object with apiVersion and kind"
	nothing   = "has no object in it"
)

// IsNone reports whether Read failed for a file that is no manifest: it can be read, and has no
// object of Kubernetes in it, such as the values of a chart or the settings of a program.
func IsNone(err error) bool {
	var of *strict.FileError
	return errors.As(err, &of) && len(of.List) == 1 && of.List[0].Path == "" &&
		slices.Contains([]string{noObject, noMapping, nothing}, of.List[0].Text)
}

// Read returns the objects of a file in YAML or JSON, those of Lists one by one. What cannot
// be read is a *strict.FileError with the line.
func Read(file string, data []byte) ([]Document, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	parts, err := split(data)
	if err != nil {
		return nil, strict.Failed(
			file,
			[]strict.Problem{{Position: lineOf(data, err), Text: "not JSON: " + err.Error()}},
		)
	}
	var out []Document
	for _, text := range parts {
		var root yaml.Node
		if err := yaml.Unmarshal(text, &root); err != nil {
			return nil, strict.Failed(file, []strict.Problem{*strict.SyntaxError(err)})
		}
		if len(root.Content) == 0 || root.Content[0].ShortTag() == "!!null" {
			continue // nothing but comments
		}
		docs, problem := objects(file, root.Content[0], text)
		if problem != nil {
			return nil, strict.Failed(file, []strict.Problem{*problem})
		}
		out = append(out, docs...)
	}
	if len(out) == 0 {
		return nil, strict.Failed(file, []strict.Problem{{Text: nothing}})
	}
	return out, nil
}

// split returns the texts of the documents in a file, each with as many empty lines before it
// as there are lines before it in the file.
func split(data []byte) ([][]byte, error) {
	if first := bytes.TrimLeft(
		data,
		" \t\r\n",
	); bytes.HasPrefix(first, []byte("{")) ||
		bytes.HasPrefix(first, []byte("[")) {
		if parts, err := splitJSON(data); err == nil || !looksLikeYAML(data) {
			return parts, err
		}
	}
	var parts [][]byte
	var part bytes.Buffer
	n := 0
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("---")) &&
			(len(bytes.TrimSpace(line)) == 3 || line[3] == ' ' || line[3] == '\t') {
			parts = append(parts, bytes.Clone(part.Bytes()))
			part.Reset()
			part.Write(bytes.Repeat([]byte("\n"), n))
			line = append([]byte("   "), line[3:]...) // what stands behind it is part of the document
			if rest := bytes.TrimSpace(line); len(rest) == 0 || rest[0] == '#' {
				line = []byte("\n")
			}
		}
		part.Write(line)
		n++
	}
	return append(parts, part.Bytes()), nil
}

// looksLikeYAML reports whether a file that begins like JSON is none: a flow mapping, or
// several documents.
func looksLikeYAML(data []byte) bool {
	var first yaml.Node
	return yaml.NewDecoder(bytes.NewReader(data)).Decode(&first) == nil
}

// splitJSON splits objects that follow one another. Tabs become spaces: in JSON they can only
// be between values, and YAML knows none there.
func splitJSON(data []byte) ([][]byte, error) {
	var parts [][]byte
	decoder := json.NewDecoder(bytes.NewReader(data))
	at := int64(0)
	for {
		var one json.RawMessage
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w", err)
		}
		end := decoder.InputOffset()
		text := bytes.Repeat([]byte("\n"), bytes.Count(data[:at], []byte("\n")))
		parts = append(parts, append(text, bytes.ReplaceAll(data[at:end], []byte("\t"), []byte(" "))...))
		at = end
	}
}

// lineOf is where a mistake in JSON is.
func lineOf(data []byte, err error) strict.Position {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || syntax.Offset > int64(len(data)) {
		return strict.Position{}
	}
	before := data[:syntax.Offset]
	return strict.Position{
		Line:   1 + bytes.Count(before, []byte("\n")),
		Column: max(1, len(before)-1-bytes.LastIndexByte(before, '\n')),
	}
}

// objects are those of one document.
func objects(file string, n *yaml.Node, text []byte) ([]Document, *strict.Problem) {
	here := strict.Position{Line: n.Line, Column: n.Column}
	if n.Kind != yaml.MappingNode {
		return nil, &strict.Problem{Position: here, Text: noMapping}
	}
	o, err := asServer(text)
	if err != nil {
		return nil, strict.SyntaxError(err)
	}
	d := Document{File: file, Node: n, Object: &unstructured.Unstructured{Object: o}}
	items, list := entry(n, "items"), d.Object.GetKind()
	values, isList := o["items"].([]any)
	if items == nil || !strings.HasSuffix(list, "List") || !isList {
		if d.Object.GetKind() == "" || d.Object.GetAPIVersion() == "" {
			return nil, &strict.Problem{Position: here, Text: noObject}
		}
		return []Document{d}, nil
	}
	var out []Document
	for items.Kind == yaml.AliasNode {
		items = items.Alias
	}
	for i, item := range items.Content {
		for item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		m, isObject := values[i].(map[string]any)
		one := Document{File: file, Node: item, Object: &unstructured.Unstructured{Object: m}}
		if isObject && list != "List" && one.GVK().Kind == "" { // typed lists say it once
			one.Object.SetAPIVersion(d.Object.GetAPIVersion())
			one.Object.SetKind(strings.TrimSuffix(list, "List"))
			item.Content = append(
				[]*yaml.Node{
					plain("apiVersion"),
					plain(one.Object.GetAPIVersion()),
					plain("kind"),
					plain(one.Object.GetKind()),
				},
				item.Content...)
		}
		if !isObject || one.Object.GetKind() == "" || one.Object.GetAPIVersion() == "" {
			return nil, &strict.Problem{
				Position: strict.Position{Line: item.Line, Column: item.Column},
				Path:     fmt.Sprintf("items[%d]", i),
				Text:     noObject,
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// asServer reads an object as kubectl sends it: yes and on are true, and so on.
func asServer(text []byte) (map[string]any, error) {
	data, err := sigs.YAMLToJSONStrict(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	}
	var o map[string]any
	if err := utiljson.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	return o, nil
}

// plain is a node of text.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

// entry is the value of a field of a mapping; nil if it has none.
func entry(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// Decode fills a value with the document, strictly; problems are what does not fit.
func (d *Document) Decode(into any) []strict.Problem {
	dec := strict.Decoder{Places: strict.Places{}, LikeKubectl: true}
	dec.Value(d.Node, reflect.ValueOf(into).Elem(), nil)
	return dec.Problems
}

// Below is the part of the document below a field, as a document of its own; false if it has
// none that is an object with a kind.
func (d *Document) Below(fields ...any) (Document, bool) {
	n, at := d.Node, any(d.Object.Object)
	for _, f := range fields {
		for n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		switch f := f.(type) {
		case string:
			m, _ := at.(map[string]any)
			if n == nil || n.Kind != yaml.MappingNode {
				return Document{}, false
			}
			n, at = entry(n, f), m[f]
		case int:
			list, _ := at.([]any)
			if n == nil || n.Kind != yaml.SequenceNode || f >= len(n.Content) || f >= len(list) {
				return Document{}, false
			}
			n, at = n.Content[f], list[f]
		}
	}
	m, is := at.(map[string]any)
	if n == nil || !is {
		return Document{}, false
	}
	out := Document{File: d.File, Node: n, Object: &unstructured.Unstructured{Object: m}}
	return out, out.Object.GetKind() != "" && out.Object.GetAPIVersion() != ""
}

// At is where a field is, such as spec.template.spec.containers[0].image, or else the nearest
// section around it.
func (d *Document) At(path string) strict.Position {
	all := strict.Places{"": {Line: d.Node.Line, Column: d.Node.Column}}
	note(d.Node, "", all, 0)
	return all.Find(path)
}

// deepest is how far At looks into an object: aliases may go in circles.
const deepest = 100

func note(n *yaml.Node, path string, into strict.Places, depth int) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth > deepest {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			for _, at := range []string{strings.TrimPrefix(path+"."+k.Value, "."), path + "[" + k.Value + "]"} {
				into[at] = strict.Position{Line: k.Line, Column: k.Column}
			}
			note(n.Content[i+1], strings.TrimPrefix(path+"."+k.Value, "."), into, depth+1)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			into[at] = strict.Position{Line: item.Line, Column: item.Column}
			note(item, at, into, depth+1)
		}
	default: // a value
	}
}
