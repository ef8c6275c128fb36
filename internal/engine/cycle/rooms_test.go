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
	reflect.TypeFor[catalog](),
	reflect.TypeFor[model](),
	reflect.TypeFor[draft](),
	reflect.TypeFor[judge](),
	reflect.TypeFor[byLevel](),
	reflect.TypeFor[byShare](),
	reflect.TypeFor[pending](),
	reflect.TypeFor[stabilizer](),
	reflect.TypeFor[history](),
	reflect.TypeFor[admissions](),
	reflect.TypeFor[recovery](),
	reflect.TypeFor[Engine](),
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
	fset, files, pkg, info := source(t)
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
						t.Errorf(
							"%s: %s of %s is changed by %s, a method of %q",
							fset.Position(n.Pos()),
							sel.Sel.Name,
							of,
							fn.Name.Name,
							in,
						)
					}
				}
				return true
			})
		}
	}
}

// What a workload was given, and how far the API has it, is changed by the steps in its life that
// have a name (grant.go), and by no line elsewhere that sets some of it.
func TestGrantsChangeByNamedSteps(t *testing.T) {
	fset, files, pkg, info := source(t)
	kept := map[types.Object]bool{}
	for f := range pkg.Scope().Lookup("grant").Type().Underlying().(*types.Struct).Fields() {
		kept[f] = true
	}
	candidate := pkg.Scope().Lookup("workload").Type().Underlying().(*types.Struct).Field(0).Type()
	unseen, _, _ := types.LookupFieldOrMethod(candidate, true, pkg, "Unseen")
	kept[unseen] = true
	named := 0
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				for _, changed := range changedBy(n) {
					sel, ok := changed.(*ast.SelectorExpr)
					if !ok || info.Selections[sel] == nil || !kept[info.Selections[sel].Obj()] {
						continue
					}
					if named++; receiver(fn) != "workload" {
						t.Errorf(
							"%s: %s is changed by %s, which is no step of a workload",
							fset.Position(n.Pos()),
							sel.Sel.Name,
							fn.Name.Name,
						)
					}
				}
				return true
			})
		}
	}
	if named == 0 {
		t.Error("no step changes a grant: the rule is stale")
	}
}

// readers are what answers questions, records what they read beside the rooms.
var (
	readers = []string{"View", "question", "Excerpt"}
	records = []reflect.Type{
		reflect.TypeFor[workload](),
		reflect.TypeFor[queue](),
		reflect.TypeFor[localQueue](),
		reflect.TypeFor[group](),
		reflect.TypeFor[equivalence](),
		reflect.TypeFor[compiled](),
		reflect.TypeFor[flavor](),
		reflect.TypeFor[reservation](),
		reflect.TypeFor[timer](),
		reflect.TypeFor[oracle](),
	}
	// deciders are the rooms whose methods change what is decided.
	deciders = []string{"draft", "byLevel", "byShare", "pending", "stabilizer", "history", "admissions"}
)

// What answers questions assigns to no field of a record or a room, and calls no method of those
// that decide: it can only read and have the judge look.
func TestQuestionsChangeNothing(t *testing.T) {
	fset, files, pkg, info := source(t)
	kept := map[types.Object]string{}
	for _, of := range slices.Concat(records, rooms) {
		for f := range pkg.Scope().Lookup(of.Name()).Type().Underlying().(*types.Struct).Fields() {
			kept[f] = of.Name()
		}
	}
	looked := map[string]int{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !slices.Contains(readers, receiver(fn)) {
				continue
			}
			looked[receiver(fn)]++
			ast.Inspect(fn, func(n ast.Node) bool {
				for _, changed := range changedBy(n) {
					if sel, ok := changed.(*ast.SelectorExpr); ok && info.Selections[sel] != nil {
						if of := kept[info.Selections[sel].Obj()]; of != "" {
							t.Errorf("%s: %s changes %s of %s", fset.Position(n.Pos()), fn.Name.Name, sel.Sel.Name, of)
						}
					}
				}
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || info.Selections[sel] == nil {
					return true
				}
				called, ok := info.Selections[sel].Obj().(*types.Func)
				if !ok {
					return true
				}
				by := called.Signature().Recv().Type()
				if p, is := by.(*types.Pointer); is {
					by = p.Elem()
				}
				of := by.(*types.Named).Obj()
				if slices.Contains(deciders, of.Name()) ||
					of.Name() == "Engine" && slices.Contains([]string{"Apply", "Decide", "Follow"}, called.Name()) {
					t.Errorf("%s: %s calls %s of %s", fset.Position(n.Pos()), fn.Name.Name, called.Name(), of.Name())
				}
				return true
			})
		}
	}
	for _, r := range readers {
		if looked[r] == 0 {
			t.Errorf("%s has no methods: the rule is stale", r)
		}
	}
}

// source is what this package consists of, without its tests.
func source(t *testing.T) (*token.FileSet, []*ast.File, *types.Package, types.Info) {
	t.Helper()
	var files []*ast.File
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
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
	info := types.Info{
		Selections: map[*ast.SelectorExpr]*types.Selection{},
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", exports(t))}
	pkg, err := conf.Check("cycle", fset, files, &info)
	if err != nil {
		t.Fatal(err)
	}
	return fset, files, pkg, info
}

// exports opens what the compiler wrote of a package that this one reaches. Reading their sources
// instead takes ten seconds and more.
func exports(t *testing.T) importer.Lookup {
	t.Helper()
	out, err := exec.CommandContext(
		t.Context(),
		"go",
		"list",
		"-export",
		"-deps",
		"-f",
		"{{.ImportPath}} {{.Export}}",
		".",
	).Output()
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
