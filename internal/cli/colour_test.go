package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TestStatesHaveColours: where they are wanted states are red, yellow or green, and nothing else is;
// columns are as wide as without, and a reason behind a state has none.
func TestStatesHaveColours(t *testing.T) {
	type row struct{ name, state string }
	columns := []Column[row]{
		{Title: "NAME", Text: func(r row) string { return r.name }},
		{Title: "STATE", State: true, Text: func(r row) string { return r.state }},
		{Title: "LAST", State: true, Text: func(r row) string { return r.state + ": Failed before" }},
	}
	rows := []row{{"Failed", "Running"}, {"b", "Failed"}, {"c", "Waiting"}, {"d", "Succeeded"}}
	table := func(l Layout) string {
		var out bytes.Buffer
		if err := PrintTable(&out, columns, rows, l); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	without, with := table(Layout{Width: 60}), table(Layout{Width: 60, Colours: true})
	if strings.Contains(without, "\x1b") {
		t.Errorf("nobody asked for colours:\n%q", without)
	}
	if got := strings.NewReplacer(red, "", green, "", yellow, "", noColour, "").Replace(with); got != without {
		t.Errorf("with colours it is another table:\n%s\nand without\n%s", got, without)
	}
	for _, want := range []string{
		"\nFailed  " + green + "Running" + noColour + "    " + green + "Running" + noColour + ": Failed before\n",
		"\nb       " + red + "Failed" + noColour + "     ", "\nc       " + yellow + "Waiting" + noColour + "    ", "\nd       Succeeded  Succeeded: Failed before\n",
	} {
		if !strings.Contains(with, want) {
			t.Errorf("there is no %q in\n%q", want, with)
		}
	}
}

// TestColoursOfStates: what failed is red, what waits yellow, what runs green, of jobs and of nodes.
func TestColoursOfStates(t *testing.T) {
	want := map[string]string{
		string(view.Failed):      red,
		string(core.NodeLost):    red,
		string(core.NodeEvicted): red,
		string(view.Held):        yellow,
		string(view.Waiting):     yellow,
		string(view.Starting):    yellow,
		string(view.Resetting):   yellow,
		string(core.NodeClosed):  yellow,
		string(core.NodeWarned):  yellow,
		string(view.Running):     green,
		string(core.NodeReady):   green,
		string(view.Succeeded):   "",
		string(view.Stopping):    "",
		string(view.Unmanaged):   "",
	}
	for _, s := range view.States() {
		if _, said := want[string(s)]; !said {
			t.Errorf("say which colour %s has", s)
		}
	}
	for state, colour := range want {
		if got := colourOf(state); got != colour {
			t.Errorf("%s is %q, want %q", state, got, colour)
		}
	}
}
