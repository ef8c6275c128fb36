package cycle

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// rooms are the parts that an engine is made of. Each may use those above it.
var rooms = []reflect.Type{
	reflect.TypeFor[catalog](), reflect.TypeFor[model](), reflect.TypeFor[draft](), reflect.TypeFor[judge](),
	reflect.TypeFor[byLevel](), reflect.TypeFor[byShare](), reflect.TypeFor[pending](), reflect.TypeFor[stabilizer](), reflect.TypeFor[history](),
	reflect.TypeFor[admissions](), reflect.TypeFor[Engine](),
}

// A room knows those above it and no other, so that there is no circle; and stays small
// enough to be understood alone.
func TestRoomsUseThoseAbove(t *testing.T) {
	for i, room := range rooms {
		state := 0
		for f := range room.Fields() {
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			at := slices.Index(rooms, of)
			switch {
			case of == reflect.TypeFor[turns]():
				at = slices.Index(rooms, reflect.TypeFor[byShare]())
			case at < 0:
				state++
			}
			if at >= i {
				t.Errorf("%s uses %s, which is not above it", room.Name(), of.Name())
			}
		}
		if state > 15 {
			t.Errorf("%s has %d fields of its own, more than 15", room.Name(), state)
		}
	}
}

// What a room keeps is changed by its own methods only.
func TestRoomsChangeTheirOwnState(t *testing.T) {
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", exports(t))}
	pkg, err := conf.Check("cycle", fset, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	owner, methods := map[types.Object]string{}, map[string]int{}
	for _, room := range rooms {
		named := pkg.Scope().Lookup(room.Name()).Type().(*types.Named)
		for f := range named.Underlying().(*types.Struct).Fields() {
			if owner[f] = room.Name(); owner[f] == "model" {
				owner[f] = "catalog" // which is a part of it
			}
		}
		if methods[room.Name()] = named.NumMethods(); methods[room.Name()] > 60 {
			t.Errorf("%s has %d methods, more than 60", room.Name(), methods[room.Name()])
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			in := receiver(fn)
			if in == "" && strings.HasPrefix(fn.Name.Name, "new") {
				continue // it makes a room
			}
			if in == "model" {
				in = "catalog" // which is a part of it
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				for _, changed := range changedBy(n) {
					sel, ok := changed.(*ast.SelectorExpr)
					if !ok || info.Selections[sel] == nil {
						continue
					}
					if of := owner[info.Selections[sel].Obj()]; of != "" && of != in {
						t.Errorf("%s: %s of %s is changed by %s, a method of %q", fset.Position(n.Pos()), sel.Sel.Name, of, fn.Name.Name, in)
					}
				}
				return true
			})
		}
	}
}

// exports opens what the compiler wrote of a package that this one reaches. Reading their sources
// instead takes ten seconds and more.
func exports(t *testing.T) importer.Lookup {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	if err != nil {
		t.Fatalf("list what this package reaches: %v", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// changedBy lists what a statement assigns to, as far as it is a field: of an element,
// the field that it is in.
func changedBy(n ast.Node) []ast.Expr {
	var out []ast.Expr
	switch s := n.(type) {
	case *ast.AssignStmt:
		if s.Tok != token.DEFINE {
			out = s.Lhs
		}
	case *ast.IncDecStmt:
		out = []ast.Expr{s.X}
	case *ast.CallExpr:
		if f, ok := s.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") {
			out = s.Args[:1]
		}
	}
	out = slices.Clone(out)
	for i, x := range out {
		for {
			index, ok := x.(*ast.IndexExpr)
			if !ok {
				break
			}
			x = index.X
		}
		out[i] = x
	}
	return out
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	x := fn.Recv.List[0].Type
	if p, ok := x.(*ast.StarExpr); ok {
		x = p.X
	}
	return x.(*ast.Ident).Name
}
