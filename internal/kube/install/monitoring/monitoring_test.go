package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs is a page of the documentation.
func docs(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// dcgm are the metrics of DCGM's exporter that boards ask for, in all spellings.
func dcgm() []string {
	return []string{
		"DCGM_FI_DEV_XID_ERRORS",
		"DCGM_FI_DEV_GPU_TEMP",
		"DCGM_FI_DEV_GPU_UTIL",
		"DCGM_FI_DEV_POWER_USAGE",
		"DCGM_FI_DEV_FB_USED",
		"DCGM_FI_DEV_CLOCK",
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE",
		"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
	}
}

// Whatever a board or a rule asks for is a metric that the documentation lists, as a test of the metrics demands of it.
func TestQueriesAskForMetricsThatThereAre(t *testing.T) {
	known := docs(t, "metrics.md") + docs(t, "agent.md")
	asked := regexp.MustCompile(`\b(?:kueue|mlbatch|autopilot|DCGM)_\w+`)
	tail := regexp.MustCompile(`_(bucket|sum|count)$`)
	queries := map[string][]string{"alerts": nil}
	for _, g := range Alerts("") {
		for _, r := range g.Rules {
			queries["alerts"] = append(queries["alerts"], r.Expr)
		}
	}
	for _, b := range Boards() {
		queries[b.Name] = b.Queries()
		for _, v := range b.Variables {
			queries[b.Name] = append(queries[b.Name], v.Values)
		}
	}
	for where, all := range queries {
		count := 0
		for _, q := range all {
			for _, name := range asked.FindAllString(q, -1) {
				count++
				name = tail.ReplaceAllString(name, "")
				written := []string{"`" + name, "`" + strings.TrimPrefix(name, "kueue_")}
				if strings.HasPrefix(name, "DCGM_") {
					if !slices.Contains(dcgm(), name) {
						t.Errorf("%s: %s is none of the exporter's", where, name)
					}
				} else if !strings.Contains(known, written[0]+"`") && !strings.Contains(known, written[0]+"{") &&
					!strings.Contains(known, written[1]+"`") {
					t.Errorf("%s asks for %s, which docs/metrics.md and docs/agent.md do not list", where, name)
				}
			}
			if strings.Contains(q, "kueue_") && !strings.Contains(q, "replica_role") &&
				!strings.Contains(q, "increase(") &&
				!strings.HasPrefix(q, "label_values") &&
				!strings.Contains(q, "build_info") {
				t.Errorf("%s counts followers, too: %s", where, q)
			}
		}
		if count == 0 {
			t.Errorf("%s asks for nothing", where)
		}
	}
}

// Boards are drawn without a gap and a panel upon another, and each panel says what it shows.
func TestBoardsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range Boards() {
		if seen[b.Name] || b.Title == "" || b.About == "" {
			t.Errorf("board %q: a name of its own, a title and what it is about are missing", b.Name)
		}
		seen[b.Name] = true
		for _, r := range b.Rows {
			width := 0
			for i := range r.Panels {
				p := &r.Panels[i]
				width += p.Width
				if p.Title == "" || p.About == "" || p.Unit == "" || p.Kind == "" || len(p.Series) == 0 {
					t.Errorf("%s, %s: a panel lacks something: %+v", b.Name, r.Title, p)
				}
			}
			if width != 24 {
				t.Errorf("%s, %s: %d of 24 columns are taken", b.Name, r.Title, width)
			}
		}
		var read struct {
			UID    string
			Panels []struct {
				ID      int
				GridPos struct{ X, Y, W, H int }
			}
		}
		if err := json.Unmarshal(b.JSON(), &read); err != nil || read.UID != "mlbatch-"+b.Name {
			t.Fatalf("%s: %v, uid %q", b.Name, err, read.UID)
		}
		cells := map[[2]int]int{}
		for _, p := range read.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := cells[[2]int{x, y}]; other != 0 {
						t.Fatalf("%s: panels %d and %d are on each other", b.Name, other, p.ID)
					}
					cells[[2]int{x, y}] = p.ID
				}
			}
		}
		if regexp.MustCompile(`\$[a-z_{]`).MatchString(strings.Join(b.Queries(), "\n")) {
			t.Errorf("%s: a query has a variable that is not replaced: %s", b.Name, b.Queries())
		}
	}
}

// An alert says how bad it is, what is the matter and, where it is known, where to read on.
func TestAlertsSayWhatToDo(t *testing.T) {
	page := docs(t, "runbook.md")
	for _, g := range Alerts("https://runbooks.example.com/mlbatch") {
		for _, r := range g.Rules {
			if !strings.Contains(page, "\n| `"+r.Alert+"` |") {
				t.Errorf("docs/runbook.md has no row for %s", r.Alert)
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" ||
				r.Annotations["runbook_url"] != "https://runbooks.example.com/mlbatch" {
				t.Errorf("%s lacks something: %+v", r.Alert, r)
			}
		}
		if len(g.Rules) < 8 {
			t.Errorf("there are %d alerts", len(g.Rules))
		}
	}
	if got := Alerts("")[0].Rules[0].Annotations["runbook_url"]; got != "" {
		t.Errorf("without a link the runbook is at %q", got)
	}
}
