package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// witness is a test that only notes what is reported to it.
type witness struct {
	testing.TB
	said string
}

func (w *witness) Helper() {}

func (w *witness) Errorf(format string, args ...any) { w.said += fmt.Sprintf(format, args...) }

func (w *witness) Fatal(args ...any) {
	w.said += fmt.Sprint(args...)
	runtime.Goexit()
}

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

// reported is what the comparison of a file with a text says, as a whole or in a section. It may end
// its goroutine.
func reported(file, section, text string) string {
	var w witness
	done := make(chan struct{})
	go func() {
		defer close(done)
		if section == "" {
			Golden(&w, file, text)
		} else {
			Section(&w, file, section, text)
		}
	}()
	<-done
	return w.said
}

func TestFilesAreComparedAndWritten(t *testing.T) {
	const page = "# Page\n<!-- rules -->\nold\n<!-- /rules -->\nend\n"
	for name, tc := range map[string]struct {
		why, kept     string
		update        bool
		section, text string
		says          string // what the failure says, "" for none
		leaves        string
	}{
		"same":            {"nothing changed", "a\n", false, "", "a\n", "", "a\n"},
		"end of line":     {"every byte counts", "a\n", false, "", "a", "-update writes it", "a\n"},
		"other":           {"a test never writes unasked", "a\n", false, "", "b\n", "-want +got", "a\n"},
		"written":         {"asked, it writes and passes", "a\n", true, "", "b\n", "", "b\n"},
		"section":         {"the rest of the page is written by hand", page, false, "rules", "old\n", "", page},
		"other section":   {"the page is not what the program says", page, false, "rules", "new\n", "rules (-want +got", page},
		"section written": {"only between the marks", page, true, "rules", "new\n", "", strings.Replace(page, "old", "new", 1)},
		"no section":      {"a mark that was lost is not passed over", page, true, "flags", "new\n", `has no part between "<!-- flags -->"`, page},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(was bool) { *update = was }(*update)
			*update = tc.update
			file := filepath.Join(t.TempDir(), "kept.txt")
			if err := os.WriteFile(file, []byte(tc.kept), 0o600); err != nil {
				t.Fatal(err)
			}
			said := reported(file, tc.section, tc.text)
			if (tc.says == "") != (said == "") || !strings.Contains(said, tc.says) {
				t.Errorf("%s: it says %q, want %q", tc.why, said, tc.says)
			}
			if left := read(t, file); left != tc.leaves {
				t.Errorf("%s: the file holds %q, want %q", tc.why, left, tc.leaves)
			}
		})
	}
	if said := reported(
		filepath.Join(t.TempDir(), "none.txt"),
		"",
		"",
	); !strings.Contains(
		said,
		"no such file",
	) {
		t.Errorf("it says %q of a file that nobody committed", said)
	}
}
