package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is how wide help is at most, examples left out.
const helpWidth = 100

// narrowHelp has a command and all below it print help that is not wider.
func narrowHelp(root *cobra.Command) {
	root.SetUsageTemplate(
		strings.ReplaceAll(
			root.UsageTemplate(),
			"Flags.FlagUsages ",
			fmt.Sprintf("Flags.FlagUsagesWrapped %d ", helpWidth),
		),
	)
	write := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		write(cmd, args)
		cmd.SetOut(out)
		_, _ = io.WriteString(out, narrow(text.String(), cmd.Example)) // help that nobody reads any more
	})
}

// narrow breaks lines that are too wide, but for those of examples: what goes on stands below what
// the line explains, if it begins with a word that it does.
func narrow(text, examples string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		whole := strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(whole) <= helpWidth || strings.Contains(examples, strings.TrimSpace(whole)) {
			b.WriteString(line)
			continue
		}
		indent := hanging(whole)
		for utf8.RuneCountInString(whole) > helpWidth {
			at := breakAt(whole, indent)
			if at < 0 {
				break
			}
			b.WriteString(strings.TrimRight(whole[:at], " ") + "\n")
			whole = strings.Repeat(" ", indent) + strings.TrimLeft(whole[at:], " ")
		}
		b.WriteString(whole + "\n")
	}
	return b.String()
}

// hanging is where a line goes on: below the text of a line that begins with a word or flags and a
// gap, or else below its beginning.
func hanging(line string) int {
	begin := len(line) - len(strings.TrimLeft(line, " "))
	if begin == 0 {
		return 0
	}
	gap := strings.Index(line[begin:], "  ")
	if gap < 0 {
		return begin
	}
	rest := line[begin+gap:]
	return begin + gap + len(rest) - len(strings.TrimLeft(rest, " "))
}

// breakAt is where a line is broken: after the last space, or else comma, that is within the width;
// -1 if there is none.
func breakAt(line string, indent int) int {
	end := 0
	for i := range line {
		if utf8.RuneCountInString(line[:i]) > helpWidth {
			break
		}
		end = i
	}
	for _, mark := range []string{" ", ","} {
		if at := strings.LastIndex(line[:end], mark); at > indent {
			return at + 1
		}
	}
	return -1
}
