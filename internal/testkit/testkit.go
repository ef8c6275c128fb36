// Package testkit compares what tests print with files that are kept: golden files, and parts of
// pages that are made from the program. A package whose tests import it has the flag -update,
// which writes those files afresh:
//
//	go test ./internal/cli -run TestWhy -update
//
// Only tests import it, and it knows nothing of mlbatch.
package testkit

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool( //nolint:gochecknoglobals // a flag of the test binary
	"update",
	false,
	"write golden files, and parts of pages that are made from the program",
)

// Golden fails the test if file does not hold got, byte for byte. With -update it writes got
// into the file.
func Golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		write(t, file, got)
	}
	if diff := cmp.Diff(read(t, file), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", file, diff)
	}
}

// Section fails the test if the part of a page between the lines "<!-- name -->" and
// "<!-- /name -->" is not want. With -update it writes want there.
func Section(t testing.TB, page, name, want string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	text := read(t, page)
	before, rest, begins := strings.Cut(text, begin)
	got, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no part between %q and %q", page, strings.TrimSpace(begin), end)
	}
	if *update {
		write(t, page, before+begin+want+end+after)
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, %s (-want +got; -update writes it):\n%s", page, name, diff)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // a file of the repository
		t.Fatal(err)
	}
}
