package slurm

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// accountFields are those of sacct, with the widths that it gives them.
func accountFields(now time.Time) []field[view.Job] {
	when := func(is bool, t *time.Time) string {
		if !is || t == nil {
			return "Unknown"
		}
		return stamp(t)
	}
	return []field[view.Job]{
		{"JobID", "JobID", 12, func(r view.Job) string { return r.Name }},
		{"JobName", "JobName", 10, title},
		{"Partition", "Partition", 10, func(r view.Job) string { return r.Queue }},
		{"Account", "Account", 10, func(r view.Job) string { return r.Namespace }},
		{"User", "User", 9, func(r view.Job) string { return r.User }},
		{"AllocTRES", "AllocTRES", 12, func(r view.Job) string {
			return devices("gres/gpu", "=", r.GPUs, r.Slices)
		}},
		{"AllocNodes", "AllocNodes", 10, func(r view.Job) string { return strconv.Itoa(r.Pods) }},
		{"NNodes", "NNodes", 8, func(r view.Job) string { return strconv.Itoa(r.Pods) }},
		{"NodeList", "NodeList", 15, func(r view.Job) string {
			if len(r.Nodes) == 0 {
				return "None assigned"
			}
			return strings.Join(r.Nodes, ",")
		}},
		{"Priority", "Priority", 10, priority},
		{"State", "State", 10, func(r view.Job) string { return StateOf(r).Word }},
		{"ExitCode", "ExitCode", 8, exitCode},
		{"Reason", "Reason", 22, func(r view.Job) string { return r.Reason }},
		{"Submit", "Submit", 19, func(r view.Job) string { return stamp(&r.Created) }},
		{"Start", "Start", 19, func(r view.Job) string { return when(began(r) != nil, began(r)) }},
		{"End", "End", 19, func(r view.Job) string { return when(StateOf(r).Ended(), r.Since) }},
		{"Elapsed", "Elapsed", 10, func(r view.Job) string {
			switch start := began(r); {
			case start == nil:
				return "Unknown"
			case StateOf(r).Ended():
				return fullClock(r.Since.Sub(*start))
			}
			return fullClock(ran(r, now))
		}},
	}
}

// began is when a job that runs or is over began to run, nil if that is not known.
func began(r view.Job) *time.Time {
	switch state := StateOf(r); {
	case state == running:
		return r.Since
	case state.Ended() && r.Since != nil:
		return r.Started
	}
	return nil
}

// exitCode is CODE:SIGNAL of a job that is over.
func exitCode(r view.Job) string {
	const signals = 128 // and more are exit codes of what a signal ended
	switch {
	case r.ExitCode != nil && *r.ExitCode > signals:
		return "0:" + strconv.Itoa(int(*r.ExitCode-signals))
	case r.ExitCode != nil:
		return strconv.Itoa(int(*r.ExitCode)) + ":0"
	case StateOf(r) == failed:
		return "" // its pods are gone
	}
	return "0:0"
}

// Accounts is how jobs are printed as sacct does.
type Accounts struct {
	Now time.Time
	// Fields are names with commas between them, each with %WIDTH behind it or not; "" for the
	// usual ones.
	Fields string
	// Parsable prints | between fields, and behind the last one too if Ends says so.
	Parsable, Ends bool
	Bare           bool
}

// usual are the fields of those who name none.
const usual = "JobID,JobName,Partition,Account,AllocTRES,State,ExitCode"

// Brief are the fields of those who want few.
const Brief = "JobID,State,ExitCode"

// Print prints jobs.
func (a *Accounts) Print(w io.Writer, rows []view.Job) error {
	fields := accountFields(a.Now)
	if strings.EqualFold(a.Fields, "all") {
		var all []string
		for _, f := range fields {
			all = append(all, f.key)
		}
		a.Fields = strings.Join(all, ",")
	}
	list := a.Fields
	if list == "" {
		list = usual
	}
	var format strings.Builder
	var chosen []field[view.Job]
	for word := range strings.SplitSeq(list, ",") {
		name, width, sized := strings.Cut(word, "%")
		f := find(fields, name, true)
		if f == nil {
			var all []string
			for _, f := range fields {
				all = append(all, f.key)
			}
			return fmt.Errorf("there is no field %q here: use %s", name, strings.Join(all, ", "))
		}
		n := f.width
		if sized {
			var err error
			if n, err = strconv.Atoi(strings.TrimPrefix(width, "-")); err != nil || n < 1 || n > 1000 {
				return fmt.Errorf("%q: %s is no width of a column", word, width)
			}
		}
		if a.Fields == "" || !sized { // names are longer than Slurm's numbers
			for _, r := range rows {
				n = max(n, len([]rune(words.Harmless(f.text(r)))))
			}
		}
		if len(chosen) > 0 {
			format.WriteString(map[bool]string{true: "|", false: " "}[a.Parsable])
		}
		one := *f
		one.key = string(rune('\uE000' + len(chosen))) //nolint:gosec // a letter of its own for each
		chosen = append(chosen, one)
		if a.Parsable {
			format.WriteString("%" + one.key)
		} else {
			fmt.Fprintf(&format, "%%.%d%s", n, one.key)
		}
	}
	if a.Parsable && a.Ends {
		format.WriteString("|")
	}
	return printFormat(w, chosen, format.String(), rows, a.Bare)
}
