package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// screen is what a terminal shows: lines of cells, and a cursor. It never scrolls, so
// that nothing is lost above.
type screen struct {
	columns  int
	cells    [][]cell
	row, col int
	style    style
	rest     []byte // of a character or sequence that has not come whole
}

type cell struct {
	char  rune
	style style
}

// style is how text looks. Colour is 0 for the usual one, else 1 + the number of an
// ANSI colour.
type style struct {
	bold, faint bool
	colour      uint8
}

func newScreen(columns int) *screen { return &screen{columns: columns} }

// Write puts text and obeys control characters.
func (s *screen) Write(b []byte) (int, error) {
	text := append(s.rest, b...)
	for len(text) > 0 {
		n := s.next(text)
		if n == 0 {
			break
		}
		text = text[n:]
	}
	s.rest = append([]byte(nil), text...)
	return len(b), nil
}

// next obeys what text begins with and says how long that is, 0 if it is not whole.
func (s *screen) next(text []byte) int {
	switch c := text[0]; {
	case c == 0x1b:
		return s.escape(text)
	case c == '\r':
		s.col = 0
	case c == '\n':
		s.row++
	case c == '\b':
		s.col = max(0, s.col-1)
	case c == '\t':
		s.col = min(s.columns-1, s.col/8*8+8)
	case c < ' ' || c == 0x7f: // bells and the like
	default:
		if !utf8.FullRune(text) {
			return 0
		}
		char, n := utf8.DecodeRune(text)
		s.put(char)
		return n
	}
	return 1
}

func (s *screen) put(char rune) {
	if s.col == s.columns {
		s.row, s.col = s.row+1, 0
	}
	for len(s.cells) <= s.row {
		s.cells = append(s.cells, nil)
	}
	for len(s.cells[s.row]) <= s.col {
		s.cells[s.row] = append(s.cells[s.row], cell{char: ' '})
	}
	s.cells[s.row][s.col] = cell{char, s.style}
	s.col++
}

// escape obeys a control sequence (ESC [ numbers letter) and leaves out others.
func (s *screen) escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != '[' {
		return 2
	}
	end := 2
	for end < len(text) && (text[end] < '@' || text[end] > '~') {
		end++
	}
	if end == len(text) {
		return 0
	}
	var args []int
	for field := range strings.SplitSeq(string(text[2:end]), ";") {
		n, _ := strconv.Atoi(field) // none is 0
		args = append(args, n)
	}
	s.control(text[end], args)
	return end + 1
}

func (s *screen) control(letter byte, args []int) {
	steps := max(1, args[0])
	switch letter {
	case 'A':
		s.row = max(0, s.row-steps)
	case 'B':
		s.row += steps
	case 'C':
		s.col = min(s.columns-1, s.col+steps)
	case 'D':
		s.col = max(0, s.col-steps)
	case 'G':
		s.col = min(s.columns, steps) - 1
	case 'J': // from the cursor on
		s.cut()
		if len(s.cells) > s.row+1 {
			s.cells = s.cells[:s.row+1]
		}
	case 'K': // the rest of the line
		s.cut()
	case 'm':
		for _, n := range args {
			s.style = s.style.with(n)
		}
	}
}

// cut removes what stands from the cursor to the end of its line.
func (s *screen) cut() {
	if s.row < len(s.cells) && s.col < len(s.cells[s.row]) {
		s.cells[s.row] = s.cells[s.row][:s.col]
	}
}

func (y style) with(n int) style {
	switch {
	case n == 0:
		return style{}
	case n == 1:
		y.bold = true
	case n == 2:
		y.faint = true
	case n == 22:
		y.bold, y.faint = false, false
	case n >= 30 && n <= 37:
		y.colour = uint8(n - 29)
	case n == 39:
		y.colour = 0
	case n >= 90 && n <= 97:
		y.colour = uint8(n - 81)
	}
	return y
}

// lines are what is on the screen, without the empty ones at its end.
func (s *screen) lines() [][]cell {
	end := len(s.cells)
	for end > 0 && strings.TrimSpace(plain(s.cells[end-1])) == "" {
		end--
	}
	return s.cells[:end]
}

func (s *screen) text() string {
	var b strings.Builder
	for _, line := range s.lines() {
		b.WriteString(strings.TrimRight(plain(line), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

func plain(line []cell) string {
	var b strings.Builder
	for _, c := range line {
		b.WriteRune(c.char)
	}
	return b.String()
}
