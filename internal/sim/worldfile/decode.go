package worldfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Parse reads a file's text. Unknown and repeated fields are errors; all that is
// wrong is told at once.
func Parse(text []byte) (*File, error) {
	f := &File{}
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(text, &doc); err != nil {
		return nil, Problems{syntax(err)}
	}
	if len(doc.Content) > 0 {
		f.root = doc.Content[0]
		if renameFields(f.root) {
			var err error
			if text, err = yamlv3.Marshal(f.root); err != nil {
				return nil, Problems{syntax(err)}
			}
		}
		c := checker{}
		c.value(f.root, reflect.TypeFor[File](), "")
		if err := errors.Join(c.faults...); err != nil {
			return nil, f.collect(err)
		}
	}
	if err := yaml.UnmarshalStrict(text, f); err != nil {
		return nil, Problems{{Text: plain(err.Error())}}
	}
	return f, nil
}

// renameFields gives the fields of a file their present names and reports whether
// there were others: files that people have are read as well.
func renameFields(root *yamlv3.Node) (renamed bool) {
	formerNames := map[string]string{"edge": "clusterModel"}
	if root.Kind != yamlv3.MappingNode {
		return false
	}
	for i := 0; i < len(root.Content); i += 2 {
		if now, former := formerNames[root.Content[i].Value]; former {
			root.Content[i].Value, renamed = now, true
		}
	}
	return renamed
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func syntax(err error) *Problem {
	m := yamlLine.FindStringSubmatch(err.Error())
	fault := &Problem{Text: err.Error()}
	if m != nil {
		fault.Line, _ = strconv.Atoi(m[1])
		fault.Text = err.Error()[len(m[0]):]
	}
	return fault
}

// checker compares a text with the type that it is read into, and finds all that does
// not suit and not just the first of it.
type checker struct{ faults []error }

func (c *checker) fault(n *yamlv3.Node, where, format string, args ...any) {
	c.faults = append(c.faults, &Problem{Where: where, Text: fmt.Sprintf(format, args...), Line: n.Line})
}

// value checks one value against its type.
func (c *checker) value(n *yamlv3.Node, t reflect.Type, where string) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, custom := reflect.TypeAssert[json.Unmarshaler](reflect.New(t))
	switch {
	case n.ShortTag() == "!!null":
	case custom || t.Kind() != reflect.Struct && t.Kind() != reflect.Slice && t.Kind() != reflect.Map:
		c.leaf(n, t, where)
	case t.Kind() == reflect.Slice:
		if n.Kind != yamlv3.SequenceNode {
			c.fault(n, where, "this must be a list")
			return
		}
		for i, x := range n.Content {
			c.value(x, t.Elem(), fmt.Sprintf("%s[%d]%s", where, i, nameOf(x)))
		}
	case n.Kind != yamlv3.MappingNode:
		c.fault(n, where, "this must have fields of its own")
	default:
		c.fields(n, t, where)
	}
}

// nameOf is what people call an entry of a list.
func nameOf(n *yamlv3.Node) string {
	if n.Kind != yamlv3.MappingNode {
		return ""
	}
	line := 0
	if name := member(n, "name", &line); name != nil && name.Value != "" {
		return " (" + name.Value + ")"
	}
	return ""
}

// fields checks an object, or a dictionary.
func (c *checker) fields(n *yamlv3.Node, t reflect.Type, where string) {
	var known []string
	types := map[string]reflect.Type{}
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() {
				known, types[name] = append(known, name), f.Type
			}
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, x := n.Content[i], n.Content[i+1]
		name := key.Value
		at := strings.TrimPrefix(where+"."+name, ".")
		of, ok := types[name]
		if t.Kind() == reflect.Map {
			at, of, ok = where+"["+name+"]", t.Elem(), true
		}
		switch {
		case seen[name]:
			c.fault(key, at, "this is given twice")
		case !ok:
			slices.Sort(known)
			c.fault(key, at, "there is no such field, only %s (docs/simulate.md)", strings.Join(known, ", "))
		default:
			c.value(x, of, at)
		}
		seen[name] = true
	}
}

// leaf checks a value that is read as a whole.
func (c *checker) leaf(n *yamlv3.Node, t reflect.Type, where string) {
	var v any
	err := n.Decode(&v)
	var text []byte
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err == nil {
		return
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field == "" {
		c.fault(
			n,
			where,
			"%q is no %s",
			n.Value,
			map[bool]string{true: "number", false: t.Kind().String()}[t.Kind() != reflect.String && t.Kind() != reflect.Bool],
		)
		return
	}
	c.fault(n, where, "%s", plain(err.Error()))
}

var decoderWords = regexp.MustCompile(
	`error (un)?marshaling JSON: |error converting YAML to JSON: |while decoding JSON: |json: |Go struct field |Go value of type |yaml: `,
)

// plain takes the decoder's own words out of its message.
func plain(s string) string { return strings.TrimSpace(decoderWords.ReplaceAllString(s, "")) }
