package cli

import (
	"cmp"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/view/why"
)

// PrintComparison prints a comparison: the numbers of both side by side, in lines of at most width if that
// is not 0, and what follows.
func PrintComparison(w io.Writer, t *why.Comparison, s Style, width int) error {
	if len(t.Lines) > 0 {
		columns := []Column[why.ComparedLine]{
			{Text: func(l why.ComparedLine) string { return l.What }},
			{Title: t.Object, Text: func(l why.ComparedLine) string { return l.Mine }},
			{Title: cmp.Or(t.Title, t.Other), Text: func(l why.ComparedLine) string { return l.Theirs }},
		}
		if err := PrintTable(w, columns, t.Lines, Layout{Width: width}); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	if s.Width == 0 {
		s.Width = Width
	}
	_, err := io.WriteString(w, Wrap(strings.Join(t.Sentences, " "), s.Width, "")+"\n")
	return err
}

// UIDOf reports whether a text is the UID of a workload, as refer prints it.
func UIDOf(text string) (types.UID, bool) {
	const length = 36 // 8-4-4-4-12
	if len(text) != length || strings.Trim(text, "0123456789abcdef-") != "" || strings.Count(text, "-") != 4 {
		return "", false
	}
	return types.UID(text), true
}
