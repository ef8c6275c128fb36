package events

import (
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/client-go/tools/events"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	eventrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
)

// Whatever is told fits, begins as it was meant, and is text.
func TestLongNotesAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(0, 400).Draw(t, "times"))
		got := Note("%s", text)
		if len(got) > longestNote {
			t.Fatalf("%d bytes", len(got))
		}
		if begins, cut := strings.CutSuffix(
			got,
			more,
		); got != text &&
			(!cut || !strings.HasPrefix(text, begins) || len(begins) < longestNote-len(more)-utf8.UTFMax) {
			t.Fatalf("%q became %q", text, got)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q is no text any more", got)
		}
	})
}

// more ends what was cut.
const more = "…"

type fake struct {
	manager.Manager
	*events.FakeRecorder
}

func (f fake) GetEventRecorder(string) eventrecorder.EventRecorder { return f.FakeRecorder }

func TestRecordersOfManagersCutNotes(t *testing.T) {
	f := fake{FakeRecorder: events.NewFakeRecorder(2)}
	mgr, err := Manager(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := mgr.GetEventRecorder("x")
	r.Eventf(nil, nil, "Warning", "Long", "Do", "%s %d%%", strings.Repeat("é", 1000), 5)
	r.Eventf(nil, nil, "Normal", "Short", "Do", "100% of them")
	if got, want := <-f.Events, "Warning Long "+strings.Repeat("é", 510)+more; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := <-f.Events; got != "Normal Short 100% of them" {
		t.Errorf("told %q", got)
	}
}
