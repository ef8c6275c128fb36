package simnode

import (
	"strings"
	"testing"
	"time"
)

// TestNodesAreInTheDomainsOfAFile: the nodes of a ragged topology follow each other through its domains by name, and
// what is wrong with a file is named.
func TestNodesAreInTheDomainsOfAFile(t *testing.T) {
	const file = "levels: [block, rack]\ndomains:\n  b1: 1\n  b2: {r9: 2, r10: 1}\n"
	domains, err := ReadDomains([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	f := DefaultFleet()
	f.Count, f.Domains, f.Racks = 5, domains, 3
	for i, want := range []string{"b1/", "b2/r9", "b2/r9", "b2/r10", "/"} {
		l := f.Node(i, time.Time{}).Labels
		if got := l["block"] + "/" + l["rack"]; got != want || l[LabelRack] != "" {
			t.Errorf("node %d is in %s (rack %q of --racks), want %s", i, got, l[LabelRack], want)
		}
	}
	for _, tc := range []struct{ why, file, says string }{
		{"a typo", "level: [rack]\ndomains: {r: 1}", "level"},
		{"nothing is nested", "domains: {r: 1}", "levels: is missing"},
		{"no label", "levels: ['a rack']\ndomains: {r: 1}", `levels[0]: "a rack" is no label`},
		{"one twice", "levels: [rack, rack]\ndomains: {r: 1}", "levels[1]: rack is listed twice"},
		{"deeper than levels", "levels: [rack]\ndomains: {b: {r: 1}}", "domains.b: rack is the last of the levels"},
		{"half a node", "levels: [rack]\ndomains: {r: 1.5}", `domains.r: "1.5" is no number of nodes`},
		{"fewer than none", "levels: [rack]\ndomains: {r: -1}", `domains.r: "-1" is no number of nodes`},
		{"a word", "levels: [block, rack]\ndomains: {b: many}", `domains.b: "many" is no number of nodes from 0 to`},
		{"a list", "levels: [rack]\ndomains: [r]", "domains: give names of level rack"},
		{"a name twice", "levels: [rack]\ndomains: {r: 1, r: 2}", "domains.r: is listed twice"},
		{"a value that labels cannot have", "levels: [rack]\ndomains: {'r 1': 1}", `"r 1" is no value of a label`},
		{"no nodes", "levels: [rack]\ndomains: {}", "domains: have 0 nodes together"},
	} {
		if _, err := ReadDomains([]byte(tc.file)); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want it to say %q", tc.why, err, tc.says)
		}
	}
}
