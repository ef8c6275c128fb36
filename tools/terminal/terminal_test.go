package main

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScreen(t *testing.T) {
	cases := map[string]struct{ why, written, want string }{
		"lines":     {"a terminal needs both ends of a line", "one\r\ntwo", "one\ntwo\n"},
		"overwrite": {"progress on one line", "compiled 9\rcompiled 10\x1b[K\r\n", "compiled 10\n"},
		"shorter":   {"what is left of a longer line goes", "a long line\r\x1b[Kshort", "short\n"},
		"live":      {"a screen that is drawn again in place", "head\r\n1\r\n2\r\n\x1b[2A\x1b[J3\r\n", "head\n3\n"},
		"wrap":      {"lines longer than the terminal", "123456789012345", "123456789012\n345\n"},
		"tabs":      {"every eight columns", "a\tb", "a       b\n"},
		"letters":   {"a character is a column, however many bytes it has", "né…\r\nx", "né…\nx\n"},
		"unknown":   {"what is not known is not shown", "a\x1b[?25l\x07b", "ab\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			whole, split := newScreen(12), newScreen(12)
			_, _ = io.WriteString(whole, c.written)
			for _, b := range []byte(c.written) { // as it may come
				_, _ = split.Write([]byte{b})
			}
			if d := cmp.Diff(c.want, whole.text()); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, d)
			}
			if d := cmp.Diff(whole.text(), split.text()); d != "" {
				t.Errorf("%s, byte by byte (-whole +split):\n%s", c.why, d)
			}
		})
	}
}

func TestDraw(t *testing.T) {
	s := newScreen(40)
	_, _ = io.WriteString(s, "QUEUE   \x1b[1;32mACTIVE\x1b[0m\r\na<b   data in /tmp/x/data")
	got := string(draw(s.lines(), 40, [2]string{"/tmp/x", "~"}))
	for _, want := range []string{
		`<text x="16" y="29" textLength="40"`, ">QUEUE<",
		`<text x="80" y="29" textLength="48" lengthAdjust="spacingAndGlyphs" xml:space="preserve" fill="#7ee787" font-weight="600">ACTIVE<`,
		">a&lt;b<", `<text x="64" y="47"`, ">data in ~/data<",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	d := xml.NewDecoder(strings.NewReader(got))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWatch runs a program that asks whether it has a terminal, waits for what is done
// outside, and is ended by Ctrl-C.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	o := options{
		columns: 60,
		when:    regexp.MustCompile(`waits on a terminal of 60`),
		do:      "echo > " + dir + "/go",
		until:   regexp.MustCompile(`goes on`),
		argv: []string{
			"sh",
			"-c",
			`trap 'exit 0' INT; [ -t 1 ] && echo "waits on a terminal of $(stty size | cut -d ' ' -f 2)"
			while [ ! -e ` + dir + `/go ]; do sleep 0.01; done; echo goes on; while :; do sleep 0.01; done`,
		},
	}
	picture, err := watch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(picture), ">goes on<") {
		t.Errorf("drawn:\n%s", picture)
	}
}

// TestProgramsThatEnd are drawn if they wrote what was waited for. Else there is no
// picture, and what was on the screen is told.
func TestProgramsThatEnd(t *testing.T) {
	all := options{columns: 60, until: regexp.MustCompile(`\nthat`), argv: []string{"echo", "that", "is", "all"}}
	if picture, err := watch(
		t.Context(),
		all,
	); err != nil ||
		!strings.Contains(string(picture), ">that is all<") {
		t.Errorf("drawn (%v):\n%s", err, picture)
	}
	all.until = regexp.MustCompile(`never`)
	_, err := watch(t.Context(), all)
	if err == nil || !strings.Contains(err.Error(), "that is all\n") {
		t.Errorf("got %v", err)
	}
}
