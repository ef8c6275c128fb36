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

// reported is what a comparison says, which may end its goroutine.
func reported(compare func(testing.TB)) string {
	var w witness
	done := make(chan struct{})
	go func() {
		defer close(done)
		compare(&w)
	}()
	<-done
	return w.said
}

func TestFilesAreComparedAndWritten(t *testing.T) {
	const page = "# Page\n<!-- rules -->\nold\n<!-- /rules -->\nend\n"
	for name, tc := range map[string]struct {
		why, kept string
		update    bool
		compare   func(t testing.TB, file string)
		says      string // what the failure says, "" for none
		leaves    string
	}{
		"same":            {"nothing changed", "a\n", false, func(t testing.TB, f string) { Golden(t, f, "a\n") }, "", "a\n"},
		"end of line":     {"every byte counts", "a\n", false, func(t testing.TB, f string) { Golden(t, f, "a") }, "-update writes it", "a\n"},
		"other":           {"a test never writes unasked", "a\n", false, func(t testing.TB, f string) { Golden(t, f, "b\n") }, "-want +got", "a\n"},
		"written":         {"asked, it writes and passes", "a\n", true, func(t testing.TB, f string) { Golden(t, f, "b\n") }, "", "b\n"},
		"section":         {"the rest of the page is written by hand", page, false, func(t testing.TB, f string) { Section(t, f, "rules", "old\n") }, "", page},
		"other section":   {"the page is not what the program says", page, false, func(t testing.TB, f string) { Section(t, f, "rules", "new\n") }, "rules (-want +got", page},
		"section written": {"only between the marks", page, true, func(t testing.TB, f string) { Section(t, f, "rules", "new\n") }, "", strings.Replace(page, "old", "new", 1)},
		"no section":      {"a mark that was lost is not passed over", page, true, func(t testing.TB, f string) { Section(t, f, "flags", "new\n") }, `has no part between "<!-- flags -->"`, page},
		"no file":         {"a file that nobody committed fails", "", false, func(t testing.TB, f string) { Golden(t, f+".none", "") }, "no such file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(was bool) { *update = was }(*update)
			*update = tc.update
			file := filepath.Join(t.TempDir(), "kept.txt")
			if err := os.WriteFile(file, []byte(tc.kept), 0o600); err != nil {
				t.Fatal(err)
			}
			said := reported(func(w testing.TB) { tc.compare(w, file) })
			if (tc.says == "") != (said == "") || !strings.Contains(said, tc.says) {
				t.Errorf("%s: it says %q, want %q", tc.why, said, tc.says)
			}
			if left := read(t, file); left != tc.leaves {
				t.Errorf("%s: the file holds %q, want %q", tc.why, left, tc.leaves)
			}
		})
	}
}
