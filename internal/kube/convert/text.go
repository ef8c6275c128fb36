package convert

import "unicode/utf8"

// more ends a text that was cut.
const more = "…"

// Cut returns a text of at most so many bytes, as the API limits most texts:
// whole if it is not longer, else its beginning and the sign that more was to
// follow.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(most-len(more), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
