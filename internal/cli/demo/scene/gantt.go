package scene

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// column is how much time a column of a picture stands for.
	column = 4 * time.Minute
	// ticks is how many columns there are from one time of day to the next.
	ticks = 15
)

// gantt draws who has which GPU when, in columns of time, with marks above. A GPU is that of
// a row for the sake of the picture alone: a job gets the rows that are free when it starts.
func gantt(all []*span, rows int, marks map[time.Duration]rune) string {
	end := time.Duration(0)
	for _, sp := range all {
		end = max(end, sp.to)
	}
	width := int((end + column - 1) / column)
	picture := make([][]rune, rows)
	for i := range picture {
		picture[i] = []rune(strings.Repeat(".", width))
	}
	free := make([]time.Duration, rows) // from when on a row is
	for _, sp := range slices.SortedStableFunc(slices.Values(all), func(a, b *span) int { return int(a.from - b.from) }) {
		left := sp.gpus
		for r := range rows {
			if left == 0 || free[r] > sp.from {
				continue
			}
			free[r] = sp.to
			left--
			for c := int(sp.from / column); c < width && time.Duration(c)*column < sp.to; c++ {
				picture[r][c] = letter(sp.job)
			}
		}
	}
	top := []rune(strings.Repeat(" ", width+1))
	for at, mark := range marks {
		top[int(at/column)] = mark
	}
	var b strings.Builder
	fmt.Fprintln(&b, "        "+strings.TrimRight(string(top), " "))
	for i, row := range picture {
		fmt.Fprintf(&b, "GPU %2d  %s\n", i, string(row))
	}
	var axis strings.Builder
	for c := 0; c < width; c += ticks {
		fmt.Fprintf(&axis, "%-*s", ticks, clockTime(time.Duration(c)*column))
	}
	fmt.Fprintln(&b, "        "+strings.TrimRight(axis.String(), " "))
	return b.String()
}

func letter(job string) rune {
	switch {
	case strings.HasPrefix(job, "rock/"):
		return 'B'
	case strings.HasPrefix(job, "sand/"):
		return 's'
	}
	return '-'
}
