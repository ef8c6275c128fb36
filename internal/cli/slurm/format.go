package slurm

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/words"
)

// field is something that there is to say of each line.
type field[T any] struct {
	// key by which it is asked for: a letter of squeue and sinfo, or a name of sacct.
	key, title string
	// width is that of sacct's columns.
	width int
	text  func(T) string
}

// find is a field by its key, in any case if fold says so; nil for none.
func find[T any]( //nolint:revive // names have no case, letters do
	fields []field[T],
	key string,
	fold bool,
) *field[T] {
	for i := range fields {
		if fields[i].key == key || fold && strings.EqualFold(fields[i].key, key) {
			return &fields[i]
		}
	}
	return nil
}

// piece is a text of a format, or a field in a width.
type piece[T any] struct {
	text  string
	field *field[T]
	width int
	right bool
}

// parse reads a format such as "%.18i %.9P %R".
func parse[T any](fields []field[T], format string) ([]piece[T], error) {
	var out []piece[T]
	for format != "" {
		text, rest, found := strings.Cut(format, "%")
		if text != "" {
			out = append(out, piece[T]{text: text})
		}
		if !found {
			break
		}
		var p piece[T]
		rest, p.right = strings.CutPrefix(rest, ".")
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		if digits > 0 {
			n, err := strconv.Atoi(rest[:digits])
			if err != nil || n > 1000 {
				return nil, fmt.Errorf("%s is no width of a column", rest[:digits])
			}
			p.width, rest = n, rest[digits:]
		}
		if rest == "" {
			return nil, fmt.Errorf("a field is missing at the end, after %%")
		}
		letter, size := utf8.DecodeRuneInString(rest)
		if p.field = find(fields, string(letter), false); p.field == nil {
			return nil, fmt.Errorf("%%%c is not known: use %s", letter, keys(fields))
		}
		out = append(out, p)
		format = rest[size:]
	}
	return out, nil
}

func keys[T any](fields []field[T]) string {
	var out []string
	for _, f := range fields {
		out = append(out, "%"+f.key+" ("+f.title+")")
	}
	return strings.Join(out, ", ")
}

// printFormat prints lines in a format, below its titles unless bare says otherwise.
func printFormat[T any]( //nolint:revive // a flag of the command
	w io.Writer,
	fields []field[T],
	format string,
	rows []T,
	bare bool,
) error {
	pieces, err := parse(fields, format)
	if err != nil {
		return err
	}
	var b strings.Builder
	line := func(of func(*field[T]) string) {
		var one strings.Builder
		for _, p := range pieces {
			if p.field == nil {
				one.WriteString(p.text)
				continue
			}
			text := words.Harmless(of(p.field))
			if p.width == 0 {
				one.WriteString(text)
				continue
			}
			if utf8.RuneCountInString(text) > p.width {
				text = string([]rune(text)[:p.width])
			}
			pad := strings.Repeat(" ", p.width-utf8.RuneCountInString(text))
			if p.right {
				text = pad + text
			} else {
				text += pad
			}
			one.WriteString(text)
		}
		b.WriteString(strings.TrimRight(one.String(), " ") + "\n")
	}
	if !bare {
		line(func(f *field[T]) string { return f.title })
	}
	for _, r := range rows {
		line(func(f *field[T]) string { return f.text(r) })
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// columns are fields as those of a table; those of the ranks go first where there is no room.
func columns[T any](fields []field[T], keys string, ranks map[string]int) (out []cli.Column[T]) {
	for key := range strings.FieldsSeq(keys) {
		if f := find(fields, key, false); f != nil {
			out = append(
				out,
				cli.Column[T]{
					Title: f.title,
					Rank:  ranks[key],
					Text:  f.text,
					State: f.title == "ST" || f.title == "STATE",
				},
			)
		}
	}
	return out
}

// clock is a time that passed, as squeue has it: 3:07, 1:02:03, 2-01:02:03.
func clock(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	const minute, hour, day = 60, 3600, 86400
	switch {
	case s >= day:
		return fmt.Sprintf("%d-%02d:%02d:%02d", s/day, s%day/hour, s%hour/minute, s%minute)
	case s >= hour:
		return fmt.Sprintf("%d:%02d:%02d", s/hour, s%hour/minute, s%minute)
	}
	return fmt.Sprintf("%d:%02d", s/minute, s%minute)
}

// fullClock is a time that passed, as sacct has it: 00:03:07.
func fullClock(d time.Duration) string {
	s := int64(max(d, 0) / time.Second)
	const minute, hour, day = 60, 3600, 86400
	text := fmt.Sprintf("%02d:%02d:%02d", s%day/hour, s%hour/minute, s%minute)
	if s >= day {
		text = fmt.Sprintf("%d-%s", s/day, text)
	}
	return text
}

// stamp is a moment, as Slurm has it, where people are.
func stamp(t *time.Time) string {
	if t == nil {
		return "N/A"
	}
	return t.Local().Format("2006-01-02T15:04:05")
}
