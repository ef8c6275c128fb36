package arch

import (
	"encoding/json"
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
	// npm ci takes what web/package-lock.json has hashes of, and fails at anything else.
	fetches := regexp.MustCompile(
		`\b(curl|wget|git clone|git fetch|apt-get|npm (add|exec|i|install|run|x)|npx|pip3?|docker|podman|go install|go get)\b|@(latest|main|master|v[0-9])`,
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

// The packages that the page is built of have exact versions and hashes, too.
func TestPackagesOfThePageArePinned(t *testing.T) {
	var asked struct{ Dependencies, DevDependencies map[string]string }
	if err := json.Unmarshal([]byte(read(t, root, "web", "package.json")), &asked); err != nil {
		t.Fatal(err)
	}
	exact := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	for _, all := range []map[string]string{asked.Dependencies, asked.DevDependencies} {
		if len(all) == 0 {
			t.Error("web/package.json has no packages: nothing was looked at")
		}
		for name, version := range all {
			if !exact.MatchString(version) {
				t.Errorf("web/package.json: %s %s is no exact version", name, version)
			}
		}
	}
	var lock struct {
		Packages map[string]struct{ Integrity string }
	}
	if err := json.Unmarshal([]byte(read(t, root, "web", "package-lock.json")), &lock); err != nil {
		t.Fatal(err)
	}
	for name, is := range lock.Packages {
		if name != "" && !strings.HasPrefix(is.Integrity, "sha512-") {
			t.Errorf("web/package-lock.json: %s has no hash", name)
		}
	}
}
