package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEventsAreOnTheirPage: docs/look.md names the reason of every event, as far as the source
// spells it where the event is told: as a text, or as a constant.
func TestEventsAreOnTheirPage(t *testing.T) {
	_, page, found := strings.Cut(read(t, root, "docs", "look.md"), "\n## What events mean\n")
	if !found {
		t.Fatal("docs/look.md has no chapter about events")
	}
	constants := map[string]string{} // PACKAGE.NAME to value
	files := map[string][]*ast.File{}
	for _, p := range packages(t) {
		if !within(p.rel(), "internal/kube") && p.rel() != "api/kueue/v1beta2" {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(
				token.NewFileSet(),
				filepath.Join(p.Dir, name),
				nil,
				parser.SkipObjectResolution,
			)
			if err != nil {
				t.Fatal(err)
			}
			files[p.rel()] = append(files[p.rel()], file)
			pack := p.Name
			if p.rel() == "api/kueue/v1beta2" {
				pack = "kueue" // as others call it
			}
			texts(file, pack, constants)
		}
	}
	told := 0
	for dir, all := range files {
		for _, file := range all {
			for _, reason := range reasonsOfEvents(file, constants) {
				if told++; !strings.Contains(page, "`"+reason+"`") {
					t.Errorf("%s tells of an event %s, which docs/look.md does not name", dir, reason)
				}
			}
		}
	}
	if enough := 20; told < enough {
		t.Errorf("only %d events were found: they are told in another way, which is to be looked for here", told)
	}
}

// texts adds the constants of a file that are texts.
func texts(file *ast.File, pack string, to map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		decl, is := n.(*ast.GenDecl)
		if !is || decl.Tok != token.CONST {
			return true
		}
		for _, s := range decl.Specs {
			spec, is := s.(*ast.ValueSpec)
			if !is || len(spec.Names) != len(spec.Values) {
				continue
			}
			for i, v := range spec.Values {
				if text, is := literal(v); is {
					to[pack+"."+spec.Names[i].Name] = text
				}
			}
		}
		return true
	})
}

func literal(e ast.Expr) (string, bool) {
	l, is := e.(*ast.BasicLit)
	if !is || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// reasonsOfEvents are those of calls of Eventf, and of values of types that are called event, in
// the order in which they stand.
func reasonsOfEvents(file *ast.File, constants map[string]string) (out []string) {
	add := func(e ast.Expr) {
		text, is := literal(e)
		if !is {
			text = constants[spelled(file, e)]
		}
		if text != "" {
			out = append(out, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			const reason = 3 // after the objects and the type
			if f, is := n.Fun.(*ast.SelectorExpr); is && f.Sel.Name == "Eventf" && len(n.Args) > reason {
				add(n.Args[reason])
			}
		case *ast.CompositeLit:
			if !strings.HasSuffix(strings.ToLower(spelled(file, n.Type)), "event") {
				return true
			}
			for i, e := range n.Elts {
				field, keyed := e.(*ast.KeyValueExpr)
				switch {
				case keyed && slices.Contains([]string{"reason", "Reason"}, spelledName(field.Key)):
					add(field.Value)
				case !keyed && i < 2: // what comes first is its type, or its reason
					add(e)
				}
			}
		}
		return true
	})
	return slices.DeleteFunc(out, func(s string) bool { return s == "Normal" || s == "Warning" })
}

// spelled is a name with its package.
func spelled(file *ast.File, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return file.Name.Name + "." + e.Name
	case *ast.SelectorExpr:
		return spelledName(e.X) + "." + e.Sel.Name
	}
	return ""
}

func spelledName(e ast.Expr) string {
	if name, is := e.(*ast.Ident); is {
		return name.Name
	}
	return ""
}
