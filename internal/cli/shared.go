package cli

import "github.com/mlbatch/mlbatch/internal/words"

// Harmless writes out what a terminal would obey, instead of passing it on.
func Harmless(text string) string { return words.Harmless(text) }

// Wrap breaks a text into lines of at most width, those after the first indented.
func Wrap(text string, width int, indent string) string { return wrap(text, width, indent) }
