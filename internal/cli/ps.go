package cli

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// How many characters of a reason are to be seen before a list of jobs tells what is less asked
// for: its code and how the sentence begins, and in narrow lines a word of it.
const (
	reasonRoom = 32
	narrowRoom = 24
)

// RowColumns are those of a list of jobs at a moment.
func RowColumns( //nolint:revive // whether there are several
	now time.Time,
	namespaces bool,
) []Column[view.Job] {
	columns := []Column[view.Job]{
		{Title: "NAME", Text: func(r view.Job) string { return r.Name }},
		{Title: "KIND", Rank: 3, Room: narrowRoom, Text: func(r view.Job) string { return string(r.Kind) }},
		{Title: "QUEUE", Rank: 7, Room: reasonRoom, Text: func(r view.Job) string { return r.Queue }},
		{Title: "STATE", State: true, Text: func(r view.Job) string { return string(r.State) }},
		{
			Title: "PODS",
			Rank:  2,
			Text:  func(r view.Job) string { return strconv.Itoa(r.Running) + "/" + strconv.Itoa(r.Pods) },
			Less:  func(a, b view.Job) int { return cmp.Compare(a.Pods, b.Pods) },
		},
		{
			Title: "GPUS",
			Rank:  1,
			Text:  func(r view.Job) string { return devices(r.GPUs, r.Slices) },
			Less:  func(a, b view.Job) int { return cmp.Compare(a.GPUs, b.GPUs) },
		},
		KnownNumberColumn(
			Column[view.Job]{Title: "PRIORITY", Rank: 5, Room: reasonRoom},
			func(r view.Job) *int32 { return r.Priority },
		),
		AgeColumn(Column[view.Job]{Title: "AGE", Rank: 4}, now, func(r view.Job) *time.Time { return &r.Created }),
		AgeColumn(
			Column[view.Job]{Title: "STARTED", Rank: 6, Room: reasonRoom},
			now,
			func(r view.Job) *time.Time { return r.Started },
		),
		{
			Title: "SINCE", Wide: true, Text: func(r view.Job) string {
				if r.Since == nil {
					return ""
				}
				return age(now, *r.Since)
			},
		},
		{
			Title: "STARTS IN", Wide: true, Text: func(r view.Job) string { return why.StartText(r.Start, now) },
			Less: func(a, b view.Job) int { return compareStarts(a.Start, b.Start) },
		},
		KnownNumberColumn(
			Column[view.Job]{Title: "POSITION", Wide: true},
			func(r view.Job) *int { return r.Position },
		),
		{
			Title: "EVICTED", Wide: true, Text: func(r view.Job) string { return r.EvictedBy },
			Less: func(a, b view.Job) int { return cmp.Compare(a.Evictions, b.Evictions) },
		},
		NumberColumn(Column[view.Job]{Title: "RESTARTS", Wide: true}, func(r view.Job) int32 { return r.Restarts }),
		{Title: "USER", Wide: true, Text: func(r view.Job) string { return r.User }},
		{Title: "CLUSTERQUEUE", Wide: true, Text: func(r view.Job) string { return r.ClusterQueue }},
		{Title: "WORKLOAD", Wide: true, Text: func(r view.Job) string { return r.Workload }},
		{Title: "WHERE, WHY", Text: func(r view.Job) string { return where(r, now) }},
	}
	if namespaces {
		columns = append(
			[]Column[view.Job]{{Title: "NAMESPACE", Text: func(r view.Job) string { return r.Namespace }}},
			columns...)
	}
	return columns
}

// where is on which nodes a job runs, or why it does not.
func where(r view.Job, now time.Time) string {
	if r.Reason == view.ReasonNoWorkload && r.Message == "" && now.Sub(r.Created) >= why.RecordedWithin {
		return r.Reason + ": no controller has taken it up"
	}
	nodes := strings.Join(r.Nodes, ",")
	if r.Trouble != "" {
		return strings.TrimPrefix(nodes+": "+r.Trouble, ": ")
	}
	switch r.State {
	case view.Running, view.Resetting, view.Stopping:
		return nodes
	case view.Starting:
		return cmp.Or(nodes, r.Reason)
	case view.Held, view.Waiting, view.Succeeded, view.Failed, view.Unmanaged:
	}
	return reasonText(r.Reason, settled(r.Message))
}

var needed = regexp.MustCompile(`, [0-9][0-9.]*[A-Za-z]* more needed`)

// settled is what the message of a condition says still: how much more is needed changes with every
// job that comes and goes, and conditions are not written for that. Why asks how much it is.
func settled(message string) string { return needed.ReplaceAllString(message, "") }

// reasonText is a reason in a table: its code, and the sentence without what it begins with for
// those who know Kueue's, which would fill the column.
func reasonText(code, message string) string {
	if message == "" {
		return code
	}
	return code + ": " + why.Plain(message)
}
