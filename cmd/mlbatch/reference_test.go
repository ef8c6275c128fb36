//go:build !noembed

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// reference is a page made of what the commands say of themselves.
func reference() string {
	var b bytes.Buffer
	b.WriteString("# All commands\n\nWhat `mlbatch COMMAND --help` says. This page is made from the program: `go test ./cmd/mlbatch -run TestReference -update`.\n")
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden {
				describe(&b, c)
			}
		}
	}
	return b.String()
}

// describe writes about a command, and then about those below it.
func describe(b *bytes.Buffer, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	fmt.Fprintf(b, "\n### %s\n\n", c.CommandPath())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "```\n%s\n\nUsage:\n  %s\n", strings.TrimSpace(text), c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(b, "\nFlags:\n%s", c.LocalFlags().FlagUsages())
	}
	b.WriteString("```\n")
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			describe(b, sub)
		}
	}
}

// TestReference: the page of all commands is what the program says.
func TestReference(t *testing.T) {
	const file = "../../docs/commands.md"
	t.Setenv("HOME", "/home/you") // defaults may name it
	got := reference()
	if *updateGolden {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the page is not what the program says: go test ./cmd/mlbatch -run TestReference -update (-want +got):\n%s", diff)
	}
}

// TestEveryCommandIsInAGroup: a command that is in none is not found in help.
func TestEveryCommandIsInAGroup(t *testing.T) {
	for _, c := range newRootCommand().Commands() {
		if c.GroupID == "" && !c.Hidden {
			t.Errorf("%s is in no group", c.Name())
		}
	}
}
