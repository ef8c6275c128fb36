package slurm

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// unknown is what is said where there is nothing to say.
const unknown = "N/A"

// jobFields are those of squeue. all says that jobs are of several namespaces.
func jobFields(now time.Time, all bool) []field[view.Job] { //nolint:revive // names are then longer
	id := func(r view.Job) string {
		if all {
			return r.Namespace + "/" + r.Name
		}
		return r.Name
	}
	return []field[view.Job]{
		{key: "i", title: "JOBID", text: id},
		{key: "A", title: "JOBID", text: id},
		{key: "P", title: "PARTITION", text: func(r view.Job) string { return r.Queue }},
		{key: "j", title: "NAME", text: title},
		{key: "u", title: "USER", text: func(r view.Job) string { return r.User }},
		{key: "t", title: "ST", text: func(r view.Job) string { return StateOf(r).Code }},
		{key: "T", title: "STATE", text: func(r view.Job) string { return StateOf(r).Word }},
		{key: "M", title: "TIME", text: func(r view.Job) string { return clock(ran(r, now)) }},
		{key: "D", title: "NODES", text: func(r view.Job) string { return strconv.Itoa(r.Pods) }},
		{key: "R", title: "NODELIST(REASON)", text: func(r view.Job) string {
			if s := StateOf(r); s != pending && len(r.Nodes) > 0 {
				return strings.Join(r.Nodes, ",")
			}
			return "(" + r.Reason + ")"
		}},
		{key: "N", title: "NODELIST", text: func(r view.Job) string { return strings.Join(r.Nodes, ",") }},
		{key: "r", title: "REASON", text: func(r view.Job) string { return r.Reason }},
		{key: "Q", title: "PRIORITY", text: priority},
		{key: "p", title: "PRIORITY", text: priority},
		{key: "q", title: "QOS", text: func(r view.Job) string { return cmp.Or(r.PriorityClass, unknown) }},
		{key: "V", title: "SUBMIT_TIME", text: func(r view.Job) string { return stamp(&r.Created) }},
		{key: "S", title: "START_TIME", text: func(r view.Job) string {
			switch {
			case StateOf(r) == running:
				return stamp(r.Since)
			case r.Start != nil && r.Start.P50 != nil:
				return stamp(&r.Start.P50.Time)
			}
			return unknown
		}},
		{key: "l", title: "TIME_LIMIT", text: func(r view.Job) string {
			if l := limit(r); l > 0 {
				return clock(l)
			}
			return noLimit
		}},
		{key: "L", title: "TIME_LEFT", text: func(r view.Job) string {
			if l := limit(r); l > 0 {
				return clock(max(l-ran(r, now), 0))
			}
			return noLimit
		}},
		{key: "e", title: "END_TIME", text: func(r view.Job) string {
			if l := limit(r); l > 0 && StateOf(r) == running && r.Since != nil {
				return stamp(new(r.Since.Add(l)))
			}
			return unknown
		}},
		{key: "a", title: "ACCOUNT", text: func(r view.Job) string { return r.Namespace }},
		{key: "b", title: "TRES_PER_JOB", text: gpus},
		{key: "Y", title: "SCHEDNODES", text: func(view.Job) string { return "(null)" }},
	}
}

// noLimit is said of jobs that may run for ever.
const noLimit = "UNLIMITED"

// limit is how long a job may run, 0 for ever.
func limit(r view.Job) time.Duration {
	if r.TimeLimit == nil {
		return 0
	}
	return time.Duration(*r.TimeLimit) * time.Second
}

func priority(r view.Job) string {
	if r.Priority == nil {
		return unknown
	}
	return strconv.Itoa(int(*r.Priority))
}

func gpus(r view.Job) string {
	return cmp.Or(devices("gres/gpu", ":", r.GPUs, r.Slices), unknown)
}

// devices are GPUs, and parts of them by their type, as Slurm writes generic resources: all of a
// kind are gpu:8, and of a type gpu:mig-1g.5gb:3.
func devices(name, is string, gpus int64, parts map[string]int64) string {
	var out []string
	if gpus > 0 {
		out = append(out, name+is+strconv.FormatInt(gpus, 10))
	}
	for _, sort := range slices.Sorted(maps.Keys(parts)) {
		if n := parts[sort]; n > 0 {
			out = append(out, name+":"+sort+is+strconv.FormatInt(n, 10))
		}
	}
	return strings.Join(out, ",")
}

// ran is how long a job has been running.
func ran(r view.Job, now time.Time) time.Duration {
	if StateOf(r) != running || r.Since == nil {
		return 0
	}
	return now.Sub(*r.Since)
}

// Queue is how a list of jobs is printed.
type Queue struct {
	Now time.Time
	// All says that jobs are of several namespaces.
	All bool
	// Format is one of squeue, "" for a table of the usual columns, or those of expected starts.
	Format string
	Starts bool
	// Sort are letters of formats by which jobs are sorted, the first first, each with - before
	// it for the other way round, such as "P,-p"; "" leaves their order.
	Sort string
	// Long has the states in words, and time limits.
	Long  bool
	Bare  bool
	Width int
	// Colours prints states in their colours.
	Colours bool
}

// Print prints jobs.
func (q *Queue) Print(w io.Writer, rows []view.Job) error {
	fields := jobFields(q.Now, q.All)
	if err := sortBy(rows, fields, q.Sort); err != nil {
		return err
	}
	if q.Format != "" {
		return printFormat(w, fields, q.Format, rows, q.Bare)
	}
	which := "i P j u t M D R"
	if q.Starts {
		which = "i P j u t S D Y R"
	}
	if q.Long {
		which = strings.NewReplacer("t", "T", "M", "M l").Replace(which)
	}
	ranks := map[string]int{"P": 4, "j": 6, "u": 7, "M": 3, "D": 1, "S": 2, "Y": 8, "l": 5}
	return cli.PrintTable(
		w,
		columns(fields, which, ranks),
		rows,
		cli.Layout{Width: q.Width, Bare: q.Bare, Colours: q.Colours},
	)
}

// SortError is a mistake in Queue.Sort.
type SortError struct{ error }

// sortBy sorts rows by the fields with these letters.
func sortBy[T any](rows []T, fields []field[T], keys string) error {
	if keys == "" {
		return nil
	}
	type key struct {
		field *field[T]
		back  bool
	}
	var by []key
	for letter := range strings.SplitSeq(keys, ",") {
		name, back := strings.CutPrefix(letter, "-")
		f := find(fields, strings.TrimPrefix(name, "+"), false)
		if f == nil {
			return SortError{fmt.Errorf("%q is no letter of formats (-o)", letter)}
		}
		by = append(by, key{f, back})
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		for _, k := range by {
			order := compareTexts(k.field.text(a), k.field.text(b))
			if k.back {
				order = -order
			}
			if order != 0 {
				return order
			}
		}
		return 0
	})
	return nil
}

// compareTexts compares numbers as numbers, times as times, and all else as texts.
func compareTexts(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case isClock(a) && isClock(b):
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}

// isClock reports whether a text is a time as clock prints it.
func isClock(text string) bool {
	return strings.Contains(text, ":") && strings.Trim(text, "0123456789:-") == "" &&
		!strings.Contains(text, "T")
}
