package arch

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Lists of end-to-end tests name tests that there are: one that is called otherwise now would
// not run, and nobody would miss it.
func TestListsNameTests(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join(root, "test/e2e/*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, source := range sources {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(read(t, source), -1) {
			tests = append(tests, m[1])
		}
	}
	for _, list := range []string{"stock", "installed"} {
		listed := map[string]bool{}
		for line := range strings.Lines(read(t, root, "test/e2e/testdata", list+".txt")) {
			name := strings.TrimSpace(line)
			if name == "" || name[0] == '#' {
				continue
			}
			if !slices.Contains(tests, name) || listed[name] {
				t.Errorf("%s.txt: %s is no end-to-end test, or is listed twice", list, name)
			}
			listed[name] = true
		}
		if len(listed) == 0 {
			t.Errorf("%s.txt lists nothing", list)
		}
	}
}

// What others reported, and which scenario shows that it is otherwise here, is on one of two pages, so that whoever finds
// a report sees whether it has a test.
func TestScenariosOfReportsAreListed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "test/scenarios/regressions/*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios: %v", len(files), err)
	}
	listed := read(t, root, "docs/reported-elsewhere.md") + read(t, root, "docs/from-kueue.md")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		_, number, _ := strings.Cut(name, "kueue_")
		if !strings.Contains(listed, "/"+name+".txt") && (number == "" || !strings.Contains(listed, "#"+number)) {
			t.Errorf("%s is neither in docs/reported-elsewhere.md nor in docs/from-kueue.md", file)
		}
	}
}
