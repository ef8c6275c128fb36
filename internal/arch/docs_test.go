package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the documents for people: those at the root and all below docs.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "docs/kinds/*.md"} {
		some, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentsAreListedAndLinked: docs/README.md leads to every page, and no link
// between pages leads nowhere.
func TestDocumentsAreListedAndLinked(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(read(t, target)), m[2]) {
				t.Errorf("%s links to %s#%s, and there is no such heading", page, m[1], m[2])
			}
		}
	}
	index := read(t, root, "docs", "README.md")
	for _, page := range pages(t) {
		if name := filepath.Base(
			page,
		); filepath.Base(filepath.Dir(page)) == "docs" && name != "README.md" &&
			!strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		} else if filepath.Base(filepath.Dir(page)) == "kinds" &&
			!strings.Contains(index, "](kinds/"+name+")") {
			t.Errorf("docs/README.md does not lead to kinds/%s", name)
		}
	}
}

// anchors are the names under which headings of a page can be linked to.
func anchors(text string) []string {
	var names []string
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for line := range strings.Lines(text) {
		if level := strings.TrimLeft(line, "#"); strings.HasPrefix(level, " ") && len(level) < len(line) {
			name := drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(level)), "")
			names = append(names, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return names
}

// TestDecisionRecords: each has a number, a status with a date and its three parts,
// and the index has its title.
func TestDecisionRecords(t *testing.T) {
	shape := regexp.MustCompile(
		`^# (\d+)\. (.+)\n\n(?:Accepted|Superseded by \[.+\]\(.+\)), \d{4}-\d{2}-\d{2}(?:; .+)?\n\n## Context\n\n(?s:.+)\n## Decision\n\n(?s:.+)\n## Consequences\n\n`,
	)
	files, err := filepath.Glob(filepath.Join(root, "docs", "adr", "[0-9]*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no decision records (%v)", err)
	}
	index := read(t, root, "docs", "adr", "README.md")
	for _, file := range files {
		m := shape.FindStringSubmatch(read(t, file))
		if m == nil {
			t.Errorf(
				"%s is not shaped as the other records: number and title, status and date, context, decision, consequences",
				file,
			)
			continue
		}
		name := filepath.Base(file)
		if strings.TrimLeft(name[:4], "0") != m[1] {
			t.Errorf("%s calls itself number %s", file, m[1])
		}
		if row := "| " + m[1] + " | [" + m[2] + "](" + name + ") |"; !strings.Contains(index, row) {
			t.Errorf("docs/adr/README.md has no row %q", row)
		}
	}
}
