package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is the longest line of a printed paragraph.
const width = 96

// Text prints the explanation: one paragraph, and a line on what helps.
func (e *Explanation) Text(w io.Writer) error {
	text := wrap(strings.Join(e.Sentences, " ")) + "\n"
	if e.Helps != "" {
		text += "\nWhat helps: " + e.Helps + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// wrap breaks a text into lines of at most width.
func wrap(text string) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case used == 0:
		case used+1+n > width:
			b.WriteByte('\n')
			used = 0
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
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

// count prints a number of things: "1 pod", "3 pods".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
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
	return count(n, "pod") + " " + run(n) + ","
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func lower(k Kind) string { return strings.ToLower(string(k)) }
