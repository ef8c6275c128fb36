package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/mlbatch/mlbatch/internal/view/why"
)

// EventColumns are those of a list of events; in says how times are told.
func EventColumns( //nolint:revive // whether there are several
	in *time.Location,
	namespaces bool,
) []Column[why.Event] {
	columns := []Column[why.Event]{
		{
			Title: "TIME",
			Text:  func(r why.Event) string { return clockTime(r.At, in) },
			Less:  func(a, b why.Event) int { return a.At.Compare(b.At) },
		},
		{Title: "TYPE", Wide: true, Text: func(r why.Event) string { return r.Type }},
		{Title: "OBJECT", Rank: 1, Text: func(r why.Event) string { return r.Kind + "/" + r.Name }},
		{Title: "REASON", Rank: 2, Text: func(r why.Event) string { return r.Reason }},
		{Title: "WHAT HAPPENED", Text: func(r why.Event) string {
			if r.Times > 1 {
				return r.Message + " (" + strconv.Itoa(r.Times) + " times)"
			}
			return r.Message
		}},
	}
	if namespaces {
		columns = slices.Insert(
			columns,
			1,
			Column[why.Event]{Title: "NAMESPACE", Rank: 3, Text: func(r why.Event) string { return r.Namespace }},
		)
	}
	return columns
}

// clockTime is a moment as it is printed in lists.
func clockTime(t time.Time, in *time.Location) string { return t.In(in).Format("2006-01-02 15:04:05") }
