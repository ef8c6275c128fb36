package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// T14 of docs/security.md: what mlbatch is built of has a version and a hash, and comes by the go
// command alone, which checks both. Nothing stands in for a module of another name, and no
// script of the build fetches or runs what is written down nowhere.
func TestNothingIsFetchedUnpinned(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, mod := range []string{"go", "tools"} {
		sums := read(mod + ".sum")
		required := 0
		for line := range strings.SplitSeq(read(mod+".mod"), "\n") {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
			if from, to, is := strings.Cut(strings.TrimPrefix(line, "replace "), "=>"); is {
				name, version, versioned := strings.Cut(strings.TrimSpace(to), " ")
				if name != strings.Fields(from)[0] || !versioned || !strings.HasPrefix(version, "v") {
					t.Errorf("%s.mod: %s: another module stands in for one", mod, line)
				}
				continue
			}
			words := strings.Fields(strings.TrimPrefix(line, "require "))
			if len(words) != 2 || !strings.HasPrefix(words[1], "v") {
				continue
			}
			required++
			// A module that nothing of ours links is in the list of sums by its go.mod alone.
			if !strings.Contains(sums, words[0]+" v") {
				t.Errorf("%s.sum has no hash of %s", mod, words[0])
			}
		}
		if required == 0 {
			t.Errorf("no module was found in %s.mod: nothing was looked at", mod)
		}
	}
	scripts, err := filepath.Glob(filepath.Join(root, ".ci", "*"))
	if err != nil || len(scripts) < 5 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	fetches := regexp.MustCompile(
		`\b(curl|wget|git clone|git fetch|apt-get|npm|npx|pip3?|docker|podman|go install|go get)\b|@(latest|main|master|v[0-9])`,
	)
	for _, file := range append(scripts, filepath.Join(root, "Makefile"), filepath.Join(root, "docs", "pictures", "up.sh")) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(data), "\n") {
			if code, _, _ := strings.Cut(line, "#"); fetches.MatchString(code) {
				t.Errorf("%s:%d fetches what no list of hashes is about: %s", file, n+1, strings.TrimSpace(line))
			}
		}
	}
}
