package why

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/words"
)

// Foreseen is how far forecasts look ahead.
const Foreseen = "30d"

// StartText is when a job is expected to start, for a table: by when as likely as not, and by
// when in 9 of 10 cases. A guess ends in a question mark; "" is not known.
func StartText(s *visibility.Start, now time.Time) string {
	if s == nil {
		return ""
	}
	if s.P50 == nil && s.Passed {
		return "when fewer come"
	}
	text := span(s.P50, now)
	if late := span(s.P90, now); late != text {
		text += ".." + late
	}
	if s.Known == 0 {
		text += "?"
	}
	return text
}

// span is how long it is until then.
func span(at *metav1.Time, now time.Time) string {
	switch {
	case at == nil:
		return ">" + Foreseen
	case at.Sub(now) < time.Second:
		return "now"
	}
	return duration.HumanDuration(at.Sub(now).Round(time.Second))
}

// starts says when it is expected to start.
func (e *Explanation) starts(s *visibility.Start, now time.Time) {
	if s == nil {
		return
	}
	soon := func(at *metav1.Time) string {
		if at.Sub(now) < time.Second {
			return "any moment"
		}
		return fmt.Sprintf("within %s (%s)", span(at, now), at.Local().Format("Jan 2 15:04"))
	}
	late := "may well take longer than " + Foreseen
	if s.P90 != nil {
		late = "in 9 of 10 such cases starts " + soon(s.P90)
	}
	switch {
	case s.P50 == nil && e.Answer != nil && core.Code(e.Answer.Reason) == core.AdmissionGated:
		e.say("When it starts cannot be foreseen while that gate is closed")
	case s.P50 == nil && s.Passed:
		e.say(
			"Jobs that come later start before it, because they fit where it does not: it does not start before fewer of them come",
		)
	case s.P50 == nil:
		e.say("It does not start within %s, as far as can be foreseen", Foreseen)
	case s.Known == 0:
		e.say(
			"No job like it has ended yet, so that one can only guess when it starts: in %s",
			strings.TrimSuffix(StartText(s, now), "?"),
		)
	default:
		e.say(
			"Judged by %s like those before it, it is as likely as not to start %s, and %s",
			words.Count(int(s.Known), "job"),
			soon(s.P50),
			late,
		)
	}
}
