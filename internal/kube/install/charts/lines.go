package charts

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// edit replaces lines [from, to) of a text under a condition.
type edit struct {
	from, to int
	lines    []string
	when     string
}

// between is what makes one text another: the longest lines that both have, in their order, stay.
func between(a, b []string, when string) []edit {
	// Both are short, or equal at their ends.
	start := 0
	for start < min(len(a), len(b)) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < min(len(a), len(b))-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	x, y := a[start:len(a)-end], b[start:len(b)-end]
	common := make([][]int, len(x)+1)
	for i := range common {
		common[i] = make([]int, len(y)+1)
	}
	for i, v := range slices.Backward(x) {
		for j := len(y) - 1; j >= 0; j-- {
			if v == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []edit
	for i, j := 0, 0; i < len(x) || j < len(y); {
		if i < len(x) && j < len(y) && x[i] == y[j] {
			i, j = i+1, j+1
			continue
		}
		e := edit{from: start + i, when: when}
		for i < len(x) || j < len(y) {
			switch {
			case i < len(x) && j < len(y) && x[i] == y[j]:
			case i < len(x) && (j == len(y) || common[i+1][j] >= common[i][j+1]):
				i++
				continue
			default:
				e.lines = append(e.lines, y[j])
				j++
				continue
			}
			break
		}
		e.to = start + i
		out = append(out, e)
	}
	return out
}

// edited is a text with conditions around what differs. Conditions about the same lines are
// refused.
func edited(lines []string, edits []edit) ([]string, error) {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out []string
	at := 0
	for _, e := range edits {
		if e.from < at {
			return nil, errors.New("two conditions change the same lines")
		}
		out = append(out, lines[at:e.from]...)
		was := lines[e.from:e.to]
		switch {
		case len(e.lines) == 0:
			out = append(append(append(out, "{{- if "+unless(e.when)+" }}\n"), was...), "{{- end }}\n")
		case len(was) == 0:
			out = append(append(append(out, "{{- if "+e.when+" }}\n"), e.lines...), "{{- end }}\n")
		default:
			out = append(append(append(out, "{{- if "+e.when+" }}\n"), e.lines...), "{{- else }}\n")
			out = append(append(out, was...), "{{- end }}\n")
		}
		at = e.to
	}
	return append(out, lines[at:]...), nil
}

// unless is a condition turned round.
func unless(condition string) string {
	if positive, is := strings.CutPrefix(condition, "not "); is {
		return positive
	}
	return "not (" + condition + ")"
}
