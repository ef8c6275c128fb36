// Package verdict says of statements whether they held: what every demo ends with.
package verdict

import (
	"fmt"
	"io"
)

// Result is what became of a statement.
type Result struct {
	// Scenario is where it was made; empty if there is but one.
	Scenario string
	Text     string
	// Err says what is wrong, nil if the statement held.
	Err error
}

// Report prints a line for each result and returns how many failed. Whose says what the
// statements are: "statements of the tutorial".
func Report(out io.Writer, whose string, results []Result) int {
	failed, width := 0, 0
	for _, v := range results {
		if v.Err != nil {
			failed++
		}
		width = max(width, len(v.Scenario))
	}
	fmt.Fprintf(out, "\n%d of %d %s hold:\n\n", len(results)-failed, len(results), whose)
	for _, v := range results {
		where := ""
		if width > 0 {
			where = fmt.Sprintf("%-*s  ", width, v.Scenario)
		}
		if v.Err != nil {
			fmt.Fprintf(out, "FAIL  %s%s: %v\n", where, v.Text, v.Err)
			continue
		}
		fmt.Fprintf(out, "PASS  %s%s\n", where, v.Text)
	}
	return failed
}
