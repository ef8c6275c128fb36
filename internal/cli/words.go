package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mlbatch/mlbatch/internal/view"
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

// Text prints the explanation: one paragraph, and what helps. Commands stand in lines
// of their own, to be copied.
func (e *Explanation) Text(w io.Writer, s Style) error {
	if s.Width == 0 {
		s.Width = Width
	}
	var text strings.Builder
	text.WriteString(wrap(strings.Join(e.Sentences, " "), s.Width, "") + "\n")
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
	for program, typed := range map[string]string{"kubectl": orElse(s.Kubectl, "kubectl"), "mlbatch": "mlbatch"} {
		if said, command, found := strings.Cut(text, ": "+program+" "); found {
			return wrap(said+":", s.Width, indent) + "\n" + indent + "  " + typed + " " + harmless(command) + "\n"
		}
	}
	return wrap(text, s.Width, indent) + "\n"
}

// wrap breaks a text into lines of at most width, those after the first indented.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(harmless(text)) {
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

// harmless writes out what a terminal would obey, such as escapes in a message that
// another user wrote, instead of passing it on.
func harmless(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == utf8.RuneError:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// sentence makes text begin with a capital letter and end with a full stop.
// Messages in conditions come in both styles.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if !strings.ContainsRune(".!?", rune(text[len(text)-1])) {
		text += "."
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func is(n int) string  { return verb(n, "is", "are") }
func has(n int) string { return verb(n, "has", "have") }
func do(n int) string  { return verb(n, "does", "do") }
func run(n int) string { return verb(n, "runs", "run") }

// runs says that all pods run.
func runs(n, want int) string {
	if n == want && n > 1 {
		return fmt.Sprintf("Its %d pods run,", n)
	}
	return words.Count(n, "pod") + " " + run(n) + ","
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func lower(k view.Kind) string { return strings.ToLower(string(k)) }
