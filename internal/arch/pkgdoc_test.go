package arch

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPackageDocsNameWhatExists: package comments say which file holds what, and files
// are renamed. Every file, page and folder that one names must be there.
func TestPackageDocsNameWhatExists(t *testing.T) {
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if file.Doc == nil || strings.HasPrefix(file.Doc.Text(), "Code generated") {
				continue
			}
			for _, path := range named(file.Doc.Text()) {
				if !exists(p.Dir, path) {
					t.Errorf("%s/%s: the package comment names %s, which is not there", p.rel(), filepath.Base(name), path)
				}
			}
		}
	}
}

var (
	fileName = regexp.MustCompile(
		`(?:^|[\s("'` + "`" + `])((?:[\w.*-]+/)*[\w*-][\w.*-]*\.(?:go|md|txt|yaml|sh|svg|mod|csv))\b`,
	)
	// folder ends with a slash, or begins with one of our folders.
	folder = regexp.MustCompile(
		`(?:^|[\s("'` + "`" + `])((?:[\w.*-]+/)+|(?:` + strings.Join(
			tops,
			"|",
		) + `)/[\w*/-]+)(?:[),;:"'` + "`" + `]|\.?(?:\s|$))`,
	)
	tops = []string{
		"api",
		"cmd",
		"config",
		"docs",
		"examples",
		"internal",
		"test",
		"tools",
		"core",
		"engine",
		"kube",
		"local",
		"sim",
	}
)

// named lists the files and folders that a text names. A star stands for anything.
func named(text string) []string {
	var paths []string
	for _, pattern := range []*regexp.Regexp{fileName, folder} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			paths = append(paths, strings.TrimSuffix(m[1], "."))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// exists looks for a path where people would: beside the package, from the root, and
// from internal.
func exists(dir, path string) bool {
	for _, base := range []string{dir, root, filepath.Join(root, "internal"), filepath.Join(root, "internal", "kube")} {
		found, err := filepath.Glob(filepath.Join(base, path))
		if err != nil || len(found) == 0 {
			continue
		}
		info, err := os.Stat(found[0])
		if err == nil && (info.IsDir() || !strings.HasSuffix(path, "/")) {
			return true
		}
	}
	return false
}

func TestWhatPackageDocsNameIsFound(t *testing.T) {
	cases := map[string]struct {
		why, text string
		want      []string
	}{
		"files": {
			"each file of a tour",
			"see judge.go, (commit.go) and audit_*.go.",
			[]string{"audit_*.go", "commit.go", "judge.go"},
		},
		"pages": {
			"pages have paths from the root",
			"docs/metrics.md says it; testdata/why.txt too",
			[]string{"docs/metrics.md", "testdata/why.txt"},
		},
		"folders": {
			"with a slash at the end, or below one of ours",
			"all of testdata/ and internal/kube/install, not and/or",
			[]string{"internal/kube/install", "testdata/"},
		},
		"labels": {
			"names of Kubernetes are no paths",
			"kueue.x-k8s.io/workload, batch/v1, kubernetes.io/hostname",
			nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := named(c.text); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
}
