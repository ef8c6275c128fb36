package view

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// What the fields of views mean is written once, at the fields.
var (
	//go:embed job.go
	jobSource string
	//go:embed node.go
	nodeSource string
	//go:embed eviction.go
	evictionSource string
	//go:embed quota.go
	quotaSource string
	//go:embed served.go
	servedSource string
)

// FieldDocs says what the fields of the types of this package mean that are served, by the name of the type
// and the field in JSON. Fields that share a comment share what it says.
func FieldDocs() map[string]map[string]string {
	return FieldDocsOf(jobSource, nodeSource, quotaSource, servedSource, evictionSource)
}

// FieldDocsOf is the same of the types in Go sources, which compile.
func FieldDocsOf(sources ...string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
		if err != nil {
			panic(err) // it was compiled
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if t, is := n.(*ast.TypeSpec); is {
				if s, is := t.Type.(*ast.StructType); is {
					out[t.Name.Name] = fieldDocs(s)
				}
			}
			return true
		})
	}
	return out
}

func fieldDocs(s *ast.StructType) map[string]string {
	out, last := map[string]string{}, ""
	for _, f := range s.Fields.List {
		if text := strings.Join(strings.Fields(f.Doc.Text()), " "); text != "" || len(f.Names) == 0 {
			last = text
		}
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = last
		}
	}
	return out
}
