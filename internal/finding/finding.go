// Package finding is what every command says that judges something by rules: doctor and check of a cluster,
// lint of manifests, import of another system, install of a cluster before it changes it.
package finding

import (
	"cmp"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // something does not work, or would do harm
	Warning Severity = "warning" // something does not do what it seems to, or will be regretted
	Note    Severity = "note"    // to know
)

// Severities are all of them, the worst first.
func Severities() []Severity { return []Severity{Error, Warning, Note} }

// AtLeast reports whether a severity is as bad as another one, or worse.
func (s Severity) AtLeast(than Severity) bool {
	return slices.Index(Severities(), s) <= slices.Index(Severities(), than)
}

// Finding is something that a rule found. Its JSON is stable.
type Finding struct {
	// Rule is the name of the rule.
	Rule     string   `json:"rule,omitempty"`
	Severity Severity `json:"severity"`
	// File, Line and Column are where it is in a manifest, counted from 1.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Object is what it is about, as KIND/NAME, and Path the field of that.
	Object string `json:"object,omitempty"`
	Path   string `json:"path,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Cure is what helps: a command or, where none does alone, what to do.
	Cure string `json:"cure,omitempty"`
}

// Sort puts the worst first, and leaves those of a severity in their order.
func Sort(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(Severities(), a.Severity), slices.Index(Severities(), b.Severity))
	})
}

// Count is how many findings there are of a severity.
func Count(all []Finding, of Severity) (n int) {
	for i := range all {
		if all[i].Severity == of {
			n++
		}
	}
	return n
}

// Worst reports whether one of the findings is at least as bad as a severity.
func Worst(all []Finding, than Severity) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Severity.AtLeast(than) })
}
