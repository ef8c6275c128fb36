package strict

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Decoder fills Go values from YAML nodes and notes where each field was and
// what is wrong. It follows the json tags, as the API machinery does, but does
// not stop at the first mistake.
type Decoder struct {
	// Hints say what became of fields, by path, that other versions have.
	Hints map[string]string
	// LikeKubectl: aliases are followed, and yes, no, on, off, y and n are truth values.
	LikeKubectl bool
	Places      Places
	Problems    []Problem
}

// Complain notes that something is wrong at a field; nil is the whole.
func (d *Decoder) Complain(n *yaml.Node, at *field.Path, format string, args ...any) {
	path := ""
	if at != nil {
		path = at.String()
	}
	d.Problems = append(
		d.Problems,
		Problem{Position: Position{n.Line, n.Column}, Path: path, Text: fmt.Sprintf(format, args...)},
	)
}

// Value fills v, which can be set, from n. Null leaves it as it is.
func (d *Decoder) Value(n *yaml.Node, v reflect.Value, at *field.Path) {
	if n.Kind == yaml.AliasNode && d.LikeKubectl {
		n = n.Alias
	}
	if !d.LikeKubectl && (n.Kind == yaml.AliasNode || n.Anchor != "") {
		d.Complain(n, at, "anchors and aliases (& and *) are not supported here: write the value out")
		return
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if v.Kind() == reflect.Pointer {
		made := reflect.New(v.Type().Elem())
		d.Value(n, made.Elem(), at)
		v.Set(made)
		return
	}
	if u, own := reflect.TypeAssert[json.Unmarshaler](v.Addr()); own {
		d.custom(n, u, v, at)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, v, at)
	case reflect.Map:
		d.dictionary(n, v, at)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			d.bytes(n, v, at)
			return
		}
		d.list(n, v, at)
	case reflect.Interface:
		d.anything(n, v, at)
	default:
		d.scalar(n, v, at)
	}
}

// wrong reports a node that is not of the kind that a field takes.
func (d *Decoder) wrong(n *yaml.Node, at *field.Path, want string) {
	got := map[yaml.Kind]string{yaml.MappingNode: "fields", yaml.SequenceNode: "a list"}[n.Kind]
	if got == "" {
		got = fmt.Sprintf("%q", n.Value)
	}
	d.Complain(n, at, "must be %s, not %s", want, got)
}

// entries returns the keys and values of a mapping, each key once.
func (d *Decoder) entries(n *yaml.Node, at *field.Path) (keys, values []*yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, at, "a set of fields (name: value)")
		return nil, nil
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge":
			d.Complain(k, at, "a field name must be plain text")
			continue
		case lines[k.Value] > 0:
			d.Complain(k, child(at, k.Value), "is already set on line %d: keep one", lines[k.Value])
			continue
		}
		lines[k.Value] = k.Line
		keys, values = append(keys, k), append(values, n.Content[i+1])
	}
	return keys, values
}

func child(at *field.Path, name string) *field.Path {
	if at == nil {
		return field.NewPath(name)
	}
	return at.Child(name)
}

func (d *Decoder) object(n *yaml.Node, v reflect.Value, at *field.Path) {
	fields := FieldsOf(v)
	keys, values := d.entries(n, at)
	for i, k := range keys {
		path := child(at, k.Value)
		f, known := fields[k.Value]
		if !known {
			d.Complain(k, path, "%s", d.unknown(k.Value, path, fields))
			continue
		}
		d.Places[path.String()] = Position{k.Line, k.Column}
		d.Value(values[i], f, path)
	}
}

// unknown says what could have been meant by a field that does not exist.
func (d *Decoder) unknown(name string, at *field.Path, fields map[string]reflect.Value) string {
	if hint := d.Hints[at.String()]; hint != "" {
		return hint
	}
	known := slices.Sorted(maps.Keys(fields))
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("unknown field; did you mean %q?", near)
	}
	return "unknown field; there are " + strings.Join(known, ", ")
}

// FieldsOf returns the fields of a struct by their names in JSON, those of
// embedded structs included.
func FieldsOf(v reflect.Value) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(out, FieldsOf(v.Field(i)))
		case f.IsExported() && name != "" && name != "-":
			out[name] = v.Field(i)
		}
	}
	return out
}

func (d *Decoder) dictionary(n *yaml.Node, v reflect.Value, at *field.Path) {
	keys, values := d.entries(n, at)
	v.Set(reflect.MakeMapWithSize(v.Type(), len(keys)))
	_, own := reflect.TypeAssert[json.Unmarshaler](reflect.New(v.Type().Elem()))
	structs := !own && (v.Type().Elem().Kind() == reflect.Struct || v.Type().Elem().Kind() == reflect.Pointer)
	for i, k := range keys {
		path := at.Key(k.Value)
		d.Places[path.String()] = Position{k.Line, k.Column}
		if structs { // as fields of their own, people call them so
			path = child(at, k.Value)
			d.Places[path.String()] = Position{k.Line, k.Column}
		}
		one := reflect.New(v.Type().Elem()).Elem()
		d.Value(values[i], one, path)
		v.SetMapIndex(reflect.ValueOf(k.Value).Convert(v.Type().Key()), one)
	}
}

func (d *Decoder) list(n *yaml.Node, v reflect.Value, at *field.Path) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, at, "a list")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		path := at.Index(i)
		d.Places[path.String()] = Position{item.Line, item.Column}
		d.Value(item, v.Index(i), path)
	}
}

// custom fills a value that reads JSON itself, such as a duration.
func (d *Decoder) custom(n *yaml.Node, u json.Unmarshaler, v reflect.Value, at *field.Path) {
	examples := map[string]string{
		"Duration": `a duration such as "90s", "10m" or "1h30m"`,
		"Timeout":  `a duration such as "90s" or "10m"`,
		"Quantity": `a quantity such as 4, "500m" or "16Gi"`,
	}
	want := examples[v.Type().Name()]
	if want == "" && n.Kind != yaml.ScalarNode && v.Kind() == reflect.Struct {
		d.raw(n, u, at)
		return
	}
	if want == "" {
		want = "text or a number"
	}
	if n.Kind != yaml.ScalarNode {
		d.wrong(n, at, want)
		return
	}
	raw := []byte(n.Value)
	if tag := n.ShortTag(); tag != "!!int" && tag != "!!float" || !json.Valid(raw) {
		quoted, err := json.Marshal(n.Value)
		if err != nil {
			d.wrong(n, at, want)
			return
		}
		raw = quoted
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		d.wrong(n, at, want)
	}
}

// truths are words that YAML 1.1 takes for truth values, and YAML 1.2 for text.
var truths = map[string]bool{ //nolint:gochecknoglobals // a table
	"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true,
	"n": false, "N": false, "no": false, "No": false, "NO": false, "off": false, "Off": false, "OFF": false,
}

func (d *Decoder) scalar(n *yaml.Node, v reflect.Value, at *field.Path) {
	want, tags := "text", []string{"!!str", "!!timestamp"}
	switch v.Kind() {
	case reflect.Bool:
		want, tags = "true or false", []string{"!!bool"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		want, tags = "a whole number", []string{"!!int"}
	case reflect.Float32, reflect.Float64:
		want, tags = "a number", []string{"!!int", "!!float"}
	case reflect.String:
	default:
		panic(fmt.Sprintf("%s: no decoding of %s", at, v.Type()))
	}
	tag := n.ShortTag()
	if truth, is := truths[n.Value]; is && d.LikeKubectl && n.Style == 0 && tag == "!!str" {
		if v.Kind() == reflect.Bool {
			v.SetBool(truth)
			return
		}
		tag = "!!bool"
	}
	if n.Kind != yaml.ScalarNode || !slices.Contains(tags, tag) {
		if v.Kind() == reflect.String && n.Kind == yaml.ScalarNode {
			want = fmt.Sprintf("text: put it in quotes, %q", n.Value)
			d.Complain(n, at, "must be %s", want)
			return
		}
		d.wrong(n, at, want)
		return
	}
	if v.Kind() == reflect.String {
		v.SetString(n.Value)
		return
	}
	if err := n.Decode(v.Addr().Interface()); err != nil {
		d.wrong(n, at, want+" that is not too large")
		return
	}
	if v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		d.wrong(n, at, want)
		v.SetFloat(0)
	}
}

// bytes fills what JSON has as text in base64.
func (d *Decoder) bytes(n *yaml.Node, v reflect.Value, at *field.Path) {
	data, err := base64.StdEncoding.DecodeString(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.wrong(n, at, "text in base64")
		return
	}
	v.SetBytes(data)
}

// anything fills what has no type of its own.
func (d *Decoder) anything(n *yaml.Node, v reflect.Value, at *field.Path) {
	var value any
	if err := n.Decode(&value); err != nil {
		d.Complain(n, at, "%v", err)
		return
	}
	if value != nil {
		v.Set(reflect.ValueOf(value))
	}
}

// raw fills what reads JSON of any shape itself, such as an object of some other kind.
func (d *Decoder) raw(n *yaml.Node, u json.Unmarshaler, at *field.Path) {
	var value any
	err := n.Decode(&value)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(value); err == nil {
			err = u.UnmarshalJSON(text)
		}
	}
	if err != nil {
		d.Complain(n, at, "%v", err)
	}
}
