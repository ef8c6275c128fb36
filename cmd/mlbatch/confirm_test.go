package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestConfirm: what changes what others have is asked about, and silence is no consent.
func TestConfirm(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, tc := range map[string]struct {
		why  string
		in   io.Reader
		yes  bool
		want string
	}{
		"yes":       {"said on the command line", strings.NewReader(""), true, ""},
		"y":         {"said at the terminal", strings.NewReader("y\n"), false, ""},
		"Yes":       {"in any case, without an end of line", strings.NewReader("Yes"), false, ""},
		"no":        {"the default", strings.NewReader("\n"), false, "nothing was done"},
		"end":       {"nobody answers", strings.NewReader(""), false, "nothing was done"},
		"something": {"only yes is yes", strings.NewReader("yellow\n"), false, "nothing was done"},
		"pipe":      {"a script has to say so", null, false, "--yes"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := &cobra.Command{}
			cmd.SetIn(tc.in)
			cmd.SetErr(io.Discard)
			got := ""
			if err := confirm(cmd, tc.yes, "Go on?"); err != nil {
				got = err.Error()
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q: %s", got, tc.want, tc.why)
			}
			var usage usageError
			if tc.in == null && !errors.As(confirm(cmd, false, ""), &usage) {
				t.Error("a script without --yes is no mistake in the command line")
			}
		})
	}
}

// TestConfirmEndsAtOnce: whoever interrupts a command at a question need not answer it.
func TestConfirmEndsAtOnce(t *testing.T) {
	silent, never := io.Pipe()
	defer func() { _ = never.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	cmd := &cobra.Command{}
	cmd.SetIn(silent)
	cmd.SetErr(io.Discard)
	cmd.SetContext(ctx)
	interrupt()
	if err := confirm(cmd, false, "Go on?"); err == nil || !strings.Contains(err.Error(), "nothing was done") {
		t.Errorf("%v", err)
	}
}
