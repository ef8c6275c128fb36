package cli

import (
	"strings"
	"time"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
)

// ExplainStart is what why says of a start.
func ExplainStart(s *visibility.Start, now time.Time) string {
	var e Explanation
	e.starts(s, now)
	return strings.Join(e.Sentences, " ")
}
