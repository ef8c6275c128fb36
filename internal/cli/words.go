package cli

import (
	"cmp"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Width is the longest line of a printed paragraph where it is not known how wide
// the terminal is.
const Width = 96

// Style is how an explanation is printed.
type Style struct {
	// Width is the longest line; 0 means Width.
	Width int
	// Kubectl is what runs kubectl; "" means kubectl.
	Kubectl string
}

// PrintExplanation prints an explanation: one paragraph, and what helps. Commands stand in lines
// of their own, to be copied.
func PrintExplanation(w io.Writer, e *why.Explanation, s Style) error {
	if s.Width == 0 {
		s.Width = Width
	}
	var text strings.Builder
	text.WriteString(Wrap(strings.Join(e.Sentences, " "), s.Width, "") + "\n")
	switch {
	case len(e.Advice) == 1:
		text.WriteString("\n" + s.advice("What helps: "+e.Advice[0], ""))
	case len(e.Advice) > 1:
		text.WriteString("\nWhat helps, each alone:\n")
		for _, a := range e.Advice {
			text.WriteString(s.advice("- "+a, "  "))
		}
	case e.Helps != "":
		text.WriteString("\n" + s.advice("What helps: "+e.Helps, ""))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// advice breaks a piece of advice into lines, the command in it in one of its own.
func (s Style) advice(text, indent string) string {
	for program, typed := range map[string]string{"kubectl": cmp.Or(s.Kubectl, "kubectl"), "mlbatch": "mlbatch"} {
		if said, command, found := strings.Cut(text, ": "+program+" "); found {
			return Wrap(
				said+":",
				s.Width,
				indent,
			) + "\n" + indent + "  " + typed + " " + words.Harmless(
				command,
			) + "\n"
		}
	}
	return Wrap(text, s.Width, indent) + "\n"
}

// Wrap breaks a text into lines of at most width, those after the first indented.
func Wrap(text string, width int, indent string) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(words.Harmless(text)) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n > width:
			b.WriteString("\n" + indent)
			used = len(indent)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
