package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" {
			t.Errorf("%s has no package comment: say what it owns and what it does not do", p.rel())
		}
	}
}

func TestPackagesAreNamedForWhatTheyProvide(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base"}
	for _, p := range packages(t) {
		for dir := range strings.SplitSeq(p.rel(), "/") {
			if slices.Contains(vague, dir) || strings.HasSuffix(dir, "_util") || strings.HasSuffix(dir, "utils") {
				t.Errorf("%s: %q says nothing, name the package for what it provides", p.rel(), dir)
			}
		}
	}
}

// numbered is a test that is named by a number, which only those know who keep the list.
var numbered = regexp.MustCompile(`(?m)^func Test(?:[A-Z][0-9]+)+[A-Z]\w*\(`)

func TestNamesOfTestsSayTheRuleAndNoNumber(t *testing.T) {
	for _, p := range packages(t) {
		sources, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sources {
			for _, name := range numbered.FindAllString(read(t, source), -1) {
				t.Errorf("%s: %s: name the rule that it proves", source, name)
			}
		}
	}
	if !numbered.MatchString("func TestA1B2OtherWords(t *testing.T) {") ||
		numbered.MatchString("func TestPVCsAreBound(t *testing.T) {") {
		t.Error("it does not find what it is to find")
	}
}

// pure are the folders whose code may depend on nothing but its arguments.
var pure = []string{
	"internal/core", "internal/engine", "internal/sim", "internal/view",
	"internal/kube/convert", "internal/kube/jobs", "internal/kube/workloadlifecycle",
}

func TestTheEngineIsPure(t *testing.T) {
	for _, p := range packages(t) {
		if !withinAny(p.rel(), pure) {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range impure(file) {
				t.Errorf("%s: %s", fset.Position(bad.at), bad.what)
			}
		}
	}
}

type sin struct {
	at   token.Pos
	what string
}

// impure finds clocks, goroutines and channels in a file.
func impure(file *ast.File) []sin {
	clocks := []string{"Now", "Since", "Until", "Sleep", "After", "Tick", "NewTimer", "NewTicker", "AfterFunc"}
	var sins []sin
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			sins = append(
				sins,
				sin{n.Pos(), "goroutine: what is pure has one thread, concurrency belongs to its callers"},
			)
		case *ast.ChanType:
			sins = append(
				sins,
				sin{n.Pos(), "channel: what is pure has one thread, concurrency belongs to its callers"},
			)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
				sins = append(sins, sin{n.Pos(), "time." + n.Sel.Name + ": take the time as an argument"})
			}
		}
		return true
	})
	return sins
}

func TestImpureCodeIsFound(t *testing.T) {
	cases := map[string]struct {
		why, src string
		want     int
	}{
		"clock": {
			"a decision that reads the clock cannot be replayed",
			"package p; import \"time\"; var t = time.Now()",
			1,
		},
		"goroutine": {"concurrency makes order a matter of luck", "package p; func f() { go f() }", 1},
		"values": {
			"times as values are fine",
			"package p; import \"time\"; func f(now time.Time) time.Time { return now.Add(time.Second) }",
			0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "p.go", c.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := impure(file); len(got) != c.want {
				t.Errorf("%s: got %v, want %d findings", c.why, got, c.want)
			}
		})
	}
}
