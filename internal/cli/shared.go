package cli

import (
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Harmless writes out what a terminal would obey, instead of passing it on.
func Harmless(text string) string { return words.Harmless(text) }

// Holder names the administrator who holds a job, as its Workload has it.
func Holder(by string) string { return why.Holder(by) }

// Wrap breaks a text into lines of at most width, those after the first indented.
func Wrap(text string, width int, indent string) string { return wrap(text, width, indent) }

// Plain is a reason to wait without what it begins with for those who know Kueue's.
func Plain(message string) string { return why.Plain(message) }
