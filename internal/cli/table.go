package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mlbatch/mlbatch/internal/words"
)

// Column is one of a table.
type Column[T any] struct {
	// Title in capitals, by which it is sorted, too.
	Title string
	// Wide columns are shown only if asked for.
	Wide bool
	// Rank says which columns go first where there is no room: the highest. Those of rank 0
	// always stay.
	Rank int
	// Room is how many characters it leaves to the last column: where there are fewer, and the
	// last column would be cut, it goes. 0 is as many as the last column needs to be there at all.
	Room int
	Text func(T) string
	// State says that its cells are states, which have colours.
	State bool
	// Less orders rows by it; nil compares the texts.
	Less func(a, b T) int
}

// Layout is how a table is printed.
type Layout struct {
	// Width is how many characters fit into a line, 0 if any number does.
	Width int
	// Wide shows all columns, however wide the line.
	Wide bool
	// Colours prints states in their colours.
	Colours bool
	// Bare leaves out the titles.
	Bare bool
	// Widths remembers how wide columns were, by their titles, for a list that is printed in
	// several goes; nil of one that is printed once.
	Widths map[string]int
}

// gap is between columns.
const gap = 2

// PrintTable prints rows below the titles of columns. In a narrow line columns are left out, and
// the last one is cut.
func PrintTable[T any](w io.Writer, columns []Column[T], rows []T, l Layout) error {
	if !l.Wide {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return c.Wide })
	}
	cells := make([][]string, len(rows))
	for i := range rows {
		for _, c := range columns {
			cells[i] = append(cells[i], cmp.Or(words.Harmless(c.Text(rows[i])), "-"))
		}
	}
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = utf8.RuneCountInString(c.Title)
		for _, line := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
		}
		if l.Widths != nil {
			widths[i] = max(widths[i], l.Widths[c.Title])
			l.Widths[c.Title] = widths[i]
		}
	}
	shown := fitting(columns, widths, l)
	var b strings.Builder
	line := func(of func(i int) string, dyed func(i int, text string) string) {
		for n, i := range shown {
			text := of(i)
			if n == len(shown)-1 {
				b.WriteString(dyed(i, cut(text, lastWidth(widths, shown, l))) + "\n")
				break
			}
			b.WriteString(dyed(i, text) + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+gap))
		}
	}
	if !l.Bare {
		line(func(i int) string { return columns[i].Title }, func(_ int, text string) string { return text })
	}
	for _, row := range cells {
		line(func(i int) string { return row[i] }, func(i int, text string) string {
			if l.Colours && columns[i].State {
				return coloured(text)
			}
			return text
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fitting are the columns that there is room for. The last may be cut, and counts as its title, or
// as what the others leave to it.
func fitting[T any](columns []Column[T], widths []int, l Layout) []int {
	shown := make([]int, len(columns))
	for i := range shown {
		shown[i] = i
	}
	for l.Width > 0 && !l.Wide && len(shown) > 1 {
		last := shown[len(shown)-1]
		left := l.Width
		for _, i := range shown[:len(shown)-1] {
			left -= widths[i] + gap
		}
		short := func(least int) bool {
			return left < min(widths[last], max(least, utf8.RuneCountInString(columns[last].Title), shortest))
		}
		leaving := slices.DeleteFunc(
			slices.Clone(shown),
			func(i int) bool { return columns[i].Rank == 0 || !short(columns[i].Room) },
		)
		if len(leaving) == 0 {
			break
		}
		worst := slices.MaxFunc(
			leaving,
			func(a, b int) int { return cmp.Compare(columns[a].Rank, columns[b].Rank) },
		)
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == worst })
	}
	return shown
}

// shortest is to how many characters the last column may be cut.
const shortest = 16

// lastWidth is the room for the last column, 0 if there is any.
func lastWidth(widths, shown []int, l Layout) int {
	if l.Width == 0 || l.Wide {
		return 0
	}
	left := l.Width
	for _, i := range shown[:len(shown)-1] {
		left -= widths[i] + gap
	}
	return max(left, shortest)
}

// cut shortens a text to a number of characters; 0 leaves it.
func cut(text string, width int) string {
	if width == 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// SortBy orders rows by a column, whose title may be typed in any case; - in front turns the
// order.
func SortBy[T any](columns []Column[T], rows []T, by string) error {
	title, backwards := strings.CutPrefix(by, "-")
	i := slices.IndexFunc(columns, func(c Column[T]) bool { return strings.EqualFold(c.Title, title) })
	if i < 0 {
		var all []string
		for _, c := range columns {
			all = append(all, strings.ToLower(c.Title))
		}
		return fmt.Errorf("--sort-by %s: there is no such column: use one of %s", by, strings.Join(all, ", "))
	}
	less := columns[i].Less
	if less == nil {
		less = func(a, b T) int { return cmp.Compare(columns[i].Text(a), columns[i].Text(b)) }
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if backwards {
			a, b = b, a
		}
		return less(a, b)
	})
	return nil
}
