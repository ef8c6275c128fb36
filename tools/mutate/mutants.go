package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small mistake: a piece of a file and what stands there instead.
type mutant struct {
	file     string
	line     int
	what     string
	source   string
	from, to int
	instead  string
}

// text is the file with the mistake.
func (m *mutant) text() string { return m.source[:m.from] + m.instead + m.source[m.to:] }

// was and is are the lines around the place before and after, on one line.
func (m *mutant) was() string { return m.around(m.source[m.from:m.to]) }
func (m *mutant) is() string  { return m.around(m.instead) }

func (m *mutant) around(piece string) string {
	begin := strings.LastIndexByte(m.source[:m.from], '\n') + 1
	end := m.to
	if i := strings.IndexByte(m.source[m.to:], '\n'); i >= 0 {
		end += i
	}
	return strings.Join(strings.Fields(m.source[begin:m.from]+piece+m.source[m.to:end]), " ")
}

func shuffle(all []mutant, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not for secrets
	r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
}

// mutantsOf lists all mutants of a package, in the order of files and places.
func mutantsOf(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := mutantsIn(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no Go files to mutate", dir)
	}
	return all, nil
}

func mutantsIn(name, text string) ([]mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	c := &collector{set: set, file: name, text: text}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			c.results = f.Type.Results
			ast.Inspect(f.Body, c.visit)
		}
	}
	slices.SortStableFunc(c.found, func(a, b mutant) int { return a.from - b.from })
	return c.found, nil
}

// collector gathers the mutants of a file.
type collector struct {
	set        *token.FileSet
	file, text string
	results    *ast.FieldList // of the function that it is in
	found      []mutant
}

func (c *collector) add(from, to token.Pos, what, instead string) {
	at := c.set.Position(from)
	c.found = append(c.found, mutant{
		file: c.file, line: at.Line, what: what, source: c.text,
		from: at.Offset, to: c.set.Position(to).Offset, instead: instead,
	})
}

func (c *collector) source(n ast.Node) string {
	return c.text[c.set.Position(n.Pos()).Offset:c.set.Position(n.End()).Offset]
}

// swapped is what an operator is taken for.
func swapped(op token.Token) []token.Token {
	switch op {
	case token.LSS:
		return []token.Token{token.LEQ, token.GEQ}
	case token.LEQ:
		return []token.Token{token.LSS, token.GTR}
	case token.GTR:
		return []token.Token{token.GEQ, token.LEQ}
	case token.GEQ:
		return []token.Token{token.GTR, token.LSS}
	case token.EQL:
		return []token.Token{token.NEQ}
	case token.NEQ:
		return []token.Token{token.EQL}
	case token.LAND:
		return []token.Token{token.LOR}
	case token.LOR:
		return []token.Token{token.LAND}
	case token.ADD:
		return []token.Token{token.SUB}
	case token.SUB:
		return []token.Token{token.ADD}
	case token.MUL:
		return []token.Token{token.QUO}
	case token.QUO:
		return []token.Token{token.MUL}
	default:
		return nil
	}
}

func (c *collector) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		inner := &collector{set: c.set, file: c.file, text: c.text, results: n.Type.Results}
		ast.Inspect(n.Body, inner.visit)
		c.found = append(c.found, inner.found...)
		return false
	case *ast.BinaryExpr:
		for _, op := range swapped(n.Op) {
			c.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), "operator", op.String())
		}
	case *ast.IfStmt:
		if _, binary := n.Cond.(*ast.BinaryExpr); !binary {
			c.add(n.Cond.Pos(), n.Cond.End(), "condition", "!("+c.source(n.Cond)+")")
		}
	case *ast.BasicLit:
		c.number(n)
	case *ast.ReturnStmt:
		c.returns(n)
	default:
		c.statement(n)
	}
	return true
}

// statement leaves a statement out.
func (c *collector) statement(n ast.Node) {
	switch n := n.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt:
		c.add(n.Pos(), n.End(), "statement left out", "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			c.add(n.Pos(), n.End(), "statement left out", "")
		}
	case *ast.BranchStmt:
		if n.Tok == token.CONTINUE || n.Tok == token.BREAK {
			c.add(n.Pos(), n.End(), "statement left out", "")
		}
	}
}

func (c *collector) number(n *ast.BasicLit) {
	v, err := strconv.ParseInt(n.Value, 0, 64)
	if n.Kind != token.INT || err != nil {
		return
	}
	for _, by := range []int64{1, -1} {
		c.add(n.Pos(), n.End(), "number", strconv.FormatInt(v+by, 10))
	}
}

// returns has a function return nothing, or the contrary.
func (c *collector) returns(n *ast.ReturnStmt) {
	if c.results == nil || len(n.Results) != c.results.NumFields() {
		return
	}
	i := 0
	for _, f := range c.results.List {
		for range max(1, len(f.Names)) {
			r := n.Results[i]
			i++
			was := c.source(r)
			if zero := zeroOf(f.Type, was); zero != "" && zero != was {
				c.add(r.Pos(), r.End(), "result", zero)
			}
		}
	}
}

// zeroOf is the zero value of a type, or true instead of false.
func zeroOf(t ast.Expr, was string) string {
	switch t := t.(type) {
	case *ast.StarExpr, *ast.ArrayType, *ast.MapType, *ast.FuncType, *ast.InterfaceType:
		return "nil"
	case *ast.Ident:
		switch t.Name {
		case "bool":
			if was == "false" {
				return "true"
			}
			return "false"
		case "string":
			return `""`
		case "error", "any":
			return "nil"
		case "int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float64", "Amount":
			return "0"
		}
	case *ast.SelectorExpr:
		switch t.Sel.Name {
		case "Amount", "Duration":
			return "0"
		case "Time":
			return "time.Time{}"
		}
	}
	return ""
}
