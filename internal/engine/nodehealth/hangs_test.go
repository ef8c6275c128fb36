package nodehealth

import (
	"testing"
	"time"
)

func TestHangs(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ago := func(h int) time.Time { return now.Add(-time.Duration(h) * time.Hour) }
	report := func(node, namespace, job string, hours int) HangReport {
		return HangReport{Node: node, Namespace: namespace, Job: job, At: ago(hours)}
	}
	by := func(user string, r HangReport) HangReport {
		r.User = user
		return r
	}
	for name, c := range map[string]struct {
		why     string
		reports []HangReport
		suspect bool
		next    time.Time
	}{
		"nothing": {"", nil, false, time.Time{}},
		"one tenant, many jobs": {
			"a tenant alone takes no node from others, not even a little",
			[]HangReport{report("a", "blue", "x", 1), report("a", "blue", "y", 1), report("a", "blue", "z", 2)},
			false,
			time.Time{},
		},
		"two tenants": {"", []HangReport{report("a", "blue", "x", 1), report("a", "red", "x", 3)}, true, ago(3).Add(24 * time.Hour)},
		"two tenants, other nodes": {
			"each has a node of its own", []HangReport{report("a", "blue", "x", 1), report("b", "red", "x", 3)}, false, time.Time{},
		},
		"long ago": {
			"a day is over", []HangReport{report("a", "blue", "x", 1), report("a", "red", "x", 24)}, false, time.Time{},
		},
		"still to come": {
			"a clock was set back", []HangReport{report("a", "blue", "x", 1), report("a", "red", "x", -1)}, false, time.Time{},
		},
		"three tenants": {
			"two are left when the first lapses",
			[]HangReport{report("a", "blue", "x", 1), report("a", "red", "x", 3), report("a", "green", "x", 9)},
			true, ago(3).Add(24 * time.Hour),
		},
		"two namespaces of one": {
			"whoever has two could have any node avoided",
			[]HangReport{by("ann", report("a", "blue", "x", 1)), by("ann", report("a", "red", "x", 3))},
			false,
			time.Time{},
		},
		"two of one namespace": {
			"they may be one team",
			[]HangReport{by("ann", report("a", "blue", "x", 1)), by("bob", report("a", "blue", "y", 3))},
			false,
			time.Time{},
		},
		"a second user in a second namespace": {
			"the one who is known in both counts once",
			[]HangReport{
				by("ann", report("a", "blue", "x", 1)), by("ann", report("a", "red", "x", 3)), by("bob", report("a", "blue", "y", 5)),
			},
			true, ago(5).Add(24 * time.Hour),
		},
		"nowhere": {"ranks were equal", []HangReport{report("", "blue", "x", 1), report("", "red", "x", 3)}, false, time.Time{}},
	} {
		found, next := Hangs(c.reports, now)
		f, is := found["a"]
		if is != c.suspect || len(found) > 1 || !next.Equal(c.next) {
			t.Errorf("%s: %v, again at %v: %s", name, found, next, c.why)
		}
		if is && (f.Severity != Warned || f.Source != SourceHang || !f.Since.Equal(ago(1))) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// What tenants say is a warning, whatever else is found, and a deep test that passed since has the last word.
func TestHangsAreAdded(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := Finding{Source: SourceHang, Name: "jobs", Severity: Warned, Since: at}
	var p Patient
	p.DeepPassed = at.Add(time.Second)
	if !p.Overrules(f) {
		t.Error("a deep test passed since, and it counts")
	}
	p = Patient{Found: []Finding{{Source: SourceCheck, Severity: Failed}}}
	p.Add(DefaultRules(), f)
	if len(p.Found) != 2 || p.Found[0].Severity != Failed || p.Found[1].Source != SourceHang {
		t.Errorf("the worst is first: %v", p.Found)
	}
	p = Patient{}
	if p.Add([]Rule{{Source: SourceHang, Name: "*", Severity: Ignored}}, f); len(p.Found) != 0 {
		t.Errorf("a rule ignores it: %v", p.Found)
	}
}
