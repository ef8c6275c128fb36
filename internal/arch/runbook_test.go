package arch

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWarningsAreInTheRunbook: docs/runbook.md has a row for each event that warns, as docs/look.md lists them, for each
// reason to wait, to be evicted and of attempts to end, and for each of its own alerts; each in the chapter of its kind.
func TestWarningsAreInTheRunbook(t *testing.T) {
	page := read(t, root, "docs", "runbook.md")
	wanted := map[string][]string{}
	_, events, found := strings.Cut(read(t, root, "docs", "look.md"), "\n## What events mean\n")
	if !found {
		t.Fatal("docs/look.md has no chapter about events")
	}
	wanted["an event that warns"] = firsts(regexp.MustCompile("\\*`(\\w+)`\\*"), events)
	wanted["a reason to wait"] = firsts(
		regexp.MustCompile(`Code += "(\w+)"`), read(t, root, "internal", "core", "reason.go"),
	)
	wanted["a category"] = firsts(
		regexp.MustCompile(`Category += "(\w+)"`), read(t, root, "internal", "core", "failure.go"),
	)
	wanted["an alert"] = firsts(regexp.MustCompile(`\{alert: (\w+),`), page)
	conditions := read(t, root, "api", "kueue", "v1beta2", "conditions.go")
	for _, group := range []string{"ReasonPreempted ", "ReasonProgress ", "ReasonPodsStopping "} {
		_, rest, found := strings.Cut(conditions, "\t"+group)
		if !found {
			t.Fatalf("conditions.go has no %s", group)
		}
		block, _, _ := strings.Cut(group+rest, "\n)")
		for _, reason := range firsts(regexp.MustCompile(`Reason\w+ += "(\w+)"`), block) {
			if !slices.Contains([]string{"FlavorMigration", "DeactivatedDueTo"}, reason) { // never alone, or never
				wanted["a reason of a condition"] = append(wanted["a reason of a condition"], reason)
			}
		}
	}
	least := map[string]struct {
		count   int
		chapter string
	}{
		"an event that warns":     {30, "Warning events"},
		"a reason to wait":        {11, "Why a job waits"},
		"a category":              {14, "Why attempts end"},
		"an alert":                {8, "Alerts"},
		"a reason of a condition": {14, "Why a job was evicted"},
	}
	for what, reasons := range wanted {
		if len(reasons) < least[what].count {
			t.Errorf("only %d of %q were found: they are written in another way", len(reasons), what)
		}
		chapter := chapterOf(t, page, least[what].chapter)
		for _, reason := range reasons {
			if !slices.ContainsFunc(strings.Split(chapter, "\n"), func(line string) bool {
				return entry(line, reason)
			}) {
				t.Errorf("docs/runbook.md, %q, says nothing of %s, %s", least[what].chapter, reason, what)
			}
		}
	}
}

// chapterOf is what stands below a heading of the second level, up to the next.
func chapterOf(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("there is no chapter %q", heading)
	}
	chapter, _, _ := strings.Cut(rest, "\n## ")
	return chapter
}

// entry reports whether a line of the runbook is about a reason: a row that begins with it, or the sentence on a condition.
func entry(line, reason string) bool {
	name := "`" + reason + "`"
	if cells := strings.Split(line, "|"); len(cells) > 4 && strings.Contains(cells[1], name) {
		return !slices.ContainsFunc(
			cells[2:len(cells)-1],
			func(c string) bool { return strings.TrimSpace(c) == "" },
		)
	}
	return strings.Contains(line, "`mlbatch.dev/") && strings.Contains(line, name)
}

func firsts(of *regexp.Regexp, text string) (out []string) {
	for _, m := range of.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	return out
}
