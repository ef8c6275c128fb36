package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
	"github.com/mlbatch/mlbatch/internal/words"
)

// ratio is a share of one, "" if it is not known.
func ratio(of *float64) string {
	if of == nil {
		return ""
	}
	return strconv.FormatFloat(*of, 'f', 2, 64)
}

// ratioOrNone is for sorting: what is not known comes below 0.
func ratioOrNone(of *float64) float64 {
	if of == nil {
		return -1
	}
	return *of
}

// ettrInFull is the effective training time ratio of a job, and what its attempts cost.
func ettrInFull(a *view.Attempts) string {
	text := fmt.Sprintf("%s in %s", ratio(a.ETTR), words.Count(int(a.Total.Attempts), "attempt"))
	if a.Total.GPUSeconds > 0 {
		text += fmt.Sprintf(
			"; %s GPU-hours, %s of them lost",
			hoursOf(a.Total.GPUSeconds),
			hoursOf(a.Total.LostGPUSeconds),
		)
	}
	return text
}

func hoursOf(seconds int64) string {
	return strconv.FormatFloat((time.Duration(seconds) * time.Second).Hours(), 'f', 2, 64)
}

// printAttempts prints the attempts of a job that had several; of one, the timeline tells all.
func printAttempts(w io.Writer, all *view.Attempts, in *time.Location, l Layout) error {
	if all == nil || len(all.Attempts.Attempts) == 1 && all.Earlier == nil && all.Total.Categories == nil {
		return nil
	}
	fmt.Fprintln(w)
	if s := all.Earlier; s != nil {
		fmt.Fprintf(
			w,
			"%s before these (%s)\n",
			words.Count(int(s.Attempts+s.Replacements), "attempt"),
			categories(s.Categories),
		)
	}
	return PrintTable(w, attemptColumns(in), all.Attempts.Attempts, l)
}

// categories are counts by category.
func categories(n map[string]int32) string {
	var parts []string
	for _, c := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%s %d", c, n[c]))
	}
	return strings.Join(parts, ", ")
}

func attemptColumns(in *time.Location) []Column[history.Attempt] {
	return []Column[history.Attempt]{
		{Title: "STARTED", Text: func(a history.Attempt) string { return clockTime(a.Start.Time, in) }},
		{Title: "ENDED", Rank: 2, Text: func(a history.Attempt) string {
			if a.End == nil {
				return ""
			}
			return clockTime(a.End.Time, in)
		}},
		{Title: "RAN", Rank: 1, Text: func(a history.Attempt) string {
			if a.End == nil {
				return ""
			}
			return duration.HumanDuration(max(a.End.Sub(a.Start.Time), 0))
		}},
		{Title: "NODES", Rank: 3, Text: func(a history.Attempt) string {
			text := strings.Join(a.Nodes, ",")
			if more := int(a.NodeCount) - len(a.Nodes); more > 0 && text != "" {
				text += fmt.Sprintf(" and %d more", more)
			}
			return text
		}},
		{Title: "GPU-HOURS", Rank: 4, Text: func(a history.Attempt) string { return hoursOf(a.GPUSeconds) }},
		{Title: "LOST", Rank: 2, Text: func(a history.Attempt) string { return hoursOf(a.LostGPUSeconds) }},
		{Title: "WHY IT ENDED", Text: func(a history.Attempt) string { return why.AttemptText(&a) }},
	}
}

// attemptsOf is how many attempts a job took, and why they ended.
func attemptsOf(r view.PastJob) string {
	t := r.AttemptsTotal
	if t == nil {
		return ""
	}
	text := strconv.Itoa(int(t.Attempts))
	if len(t.Categories) > 0 {
		text += " (" + categories(t.Categories) + ")"
	}
	return text
}
