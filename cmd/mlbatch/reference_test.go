//go:build !noembed

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/testkit"
)

// reference is a page made of what the commands say of themselves.
func reference() string {
	var b bytes.Buffer
	b.WriteString(
		"# All commands\n\nWhat `mlbatch COMMAND --help` says. This page is made from the program: `go test ./cmd/mlbatch -run TestReference -update`.\n",
	)
	fmt.Fprintf(
		&b,
		"\n## Exit codes\n\nOf every command whose help says nothing else:\n\n```\n%s```\n",
		exitTable(),
	)
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
	fmt.Fprintf(b, "```\n%s\n\nUsage:\n  %s\n", strings.TrimSpace(narrow(text, c.Example)), c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(b, "\nFlags:\n%s", narrow(c.LocalFlags().FlagUsagesWrapped(helpWidth), ""))
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
	t.Log("the page is made from the program: go test ./cmd/mlbatch -run TestReference -update")
	testkit.Golden(t, file, reference())
}

// TestExitCodesAreTold: commands whose exit codes mean something of their own say what.
func TestExitCodesAreTold(t *testing.T) {
	for command, says := range map[string]string{
		"run": "Exit code: that of the container that failed first", "srun": "It exits as the container", "exec": "The exit code is that of the command", "wait": "Exit code: 0 when",
		"replay": "2 if recordings cannot be read", "check": "Exit code 1", "doctor": "Exit code 1", "lint": "Exit code 1", "status": "exits with 1", "demo": "exits with 1", "simulate": "exits with 1",
	} {
		cmd, _, err := newRootCommand().Find([]string{command})
		if err != nil || !strings.Contains(cmd.Long, says) {
			t.Errorf("the help of %s does not say %q", command, says)
		}
	}
	root := newRootCommand().Long
	for _, e := range exits() {
		if !strings.Contains(root, fmt.Sprintf("%3d  %s", e.code, e.means)) {
			t.Errorf("help does not say what exit code %d means", e.code)
		}
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

// TestHelpIsNotWide: help of every command fits a terminal of usual width, but for what
// cannot be broken: a command line, a word.
func TestHelpIsNotWide(t *testing.T) {
	t.Setenv("HOME", "/home/you")
	root := newRootCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		var text bytes.Buffer
		c.InitDefaultHelpFlag()
		c.SetOut(&text)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > helpWidth && breakAt(line, hanging(line)) >= 0 &&
				!strings.Contains(c.Example, strings.TrimSpace(line)) {
				t.Errorf("%s: a line has %d characters: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root)
}
