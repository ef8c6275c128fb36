package words

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harmless writes out what a terminal would obey, such as escapes in a message that
// another user wrote, instead of passing it on.
func Harmless(text string) string {
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

// Sentence makes text begin with a capital letter and end with a full stop.
// Messages in conditions come in both styles.
func Sentence(text string) string {
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

// Verb is the form of a verb that goes with a number of things.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Is is the form that goes with a number of things.
func Is(n int) string { return Verb(n, "is", "are") }

// Has is the form that goes with a number of things.
func Has(n int) string { return Verb(n, "has", "have") }

// Do is the form that goes with a number of things.
func Do(n int) string { return Verb(n, "does", "do") }

// Run is the form that goes with a number of things.
func Run(n int) string { return Verb(n, "runs", "run") }
