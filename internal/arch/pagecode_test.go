package arch

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPagesNameCodeThatExists: documents lead to files, folders and tests by name, and
// those are renamed. Whatever stands in backticks and looks like a path of ours must
// be there, and so must every test that is named as what would notice something.
func TestPagesNameCodeThatExists(t *testing.T) {
	files, tests := inventory(t)
	for _, page := range pages(t) {
		text := read(t, page)
		if filepath.Base(page) == "CHANGELOG.md" { // what was is not there any more
			continue
		}
		for _, p := range codePaths(text) {
			if !slices.ContainsFunc(files, func(file string) bool { return endsWith(file, p) }) {
				t.Errorf("%s names %s, which is not there", page, p)
			}
		}
		for _, name := range testNames(text) {
			prefix, open := strings.CutSuffix(name, "*")
			if !slices.ContainsFunc(tests, func(test string) bool {
				return test == prefix || open && strings.HasPrefix(test, prefix)
			}) {
				t.Errorf("%s names %s, and there is no such test", page, name)
			}
		}
	}
}

// inventory lists all files and folders, by their paths from the root, and all tests.
func inventory(t *testing.T) (files, tests []string) {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == ".git" || name == "bin") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		files = append(files, filepath.ToSlash(rel))
		if strings.HasSuffix(file, "_test.go") {
			for _, m := range function.FindAllStringSubmatch(read(t, file), -1) {
				tests = append(tests, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, tests
}

// endsWith reports whether the last parts of a file's path are those of p, in which a
// star stands for anything.
func endsWith(file, p string) bool {
	parts := strings.Split(file, "/")
	n := strings.Count(p, "/") + 1
	if len(parts) < n {
		return false
	}
	same, err := path.Match(p, strings.Join(parts[len(parts)-n:], "/"))
	return err == nil && same
}

// codePaths lists what a page names in backticks and is a path of ours: it ends in .go,
// or begins with one of our folders.
func codePaths(text string) []string {
	span := regexp.MustCompile("`([\\w*./{},-]+)`")
	ours := regexp.MustCompile(`^(?:` + strings.Join(tops, "|") + `)/`)
	call := regexp.MustCompile(`/[\w-]+\.[A-Z]\w*$`) // kube/manager.Options: a name in a package
	var paths []string
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		for _, p := range alternatives(strings.TrimSuffix(m[1], "/")) {
			switch {
			case call.MatchString(p):
				p = p[:strings.LastIndex(p, ".")]
			case strings.HasSuffix(p, ".go"), ours.MatchString(p):
			default:
				continue
			}
			paths = append(paths, p)
		}
	}
	return paths
}

// alternatives writes out {a,b}.
func alternatives(p string) []string {
	before, rest, open := strings.Cut(p, "{")
	inner, after, closed := strings.Cut(rest, "}")
	if !open || !closed {
		return []string{p}
	}
	var all []string
	for one := range strings.SplitSeq(inner, ",") {
		all = append(all, before+one+after)
	}
	return all
}

// testNames lists the tests that a page names. A star at the end stands for anything.
func testNames(text string) []string {
	return regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*\*?`).FindAllString(text, -1)
}

func TestWhatPagesNameIsFound(t *testing.T) {
	text := "`kube/jobs/{a,b}`, `chaos/file.go`, `internal/sim/`, `kube/manager.Options`, `make check`, `kueue.x-k8s.io/queue-name`, `docs/` and TestOne, TestTwo*, Testing"
	want := []string{"kube/jobs/a", "kube/jobs/b", "chaos/file.go", "internal/sim", "kube/manager"}
	if got := codePaths(text); !slices.Equal(got, want) {
		t.Errorf("paths: got %q, want %q", got, want)
	}
	if got := testNames(text); !slices.Equal(got, []string{"TestOne", "TestTwo*"}) {
		t.Errorf("tests: got %q", got)
	}
	if !endsWith("internal/sim/audit_pods.go", "sim/audit_*.go") || endsWith("internal/sim/run.go", "m/run.go") {
		t.Error("ends of paths are compared part by part")
	}
}
