package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Sizes in a picture. Runs of text are stretched to their columns (textLength), so
// that tables stand straight in whatever font there is.
const (
	cellWidth, lineHeight = 8.0, 18.0
	margin, fontSize      = 16.0, 13.0
)

// colours are those of ANSI, seven letters each, in a choice that can be read on dark.
const colours = "#6e7681#ff7b72#7ee787#e3b341#79c0ff#d2a8ff#76e3ea#e6edf3" +
	"#8b949e#ffa198#a5f3b0#f2cc60#a5d6ff#e2c5ff#b3f0f5#ffffff"

// draw makes a picture of lines: text on dark, nothing else.
func draw(lines [][]cell, columns int, replace [2]string) []byte {
	width, height := float64(columns)*cellWidth+2*margin, float64(len(lines))*lineHeight+2*margin
	var b bytes.Buffer
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="%g">`+"\n",
		width,
		height,
		fontSize,
	)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" rx="8" fill="#0d1117"/>`+"\n", width, height)
	for i, line := range lines {
		y := margin + float64(i)*lineHeight + fontSize
		for _, r := range runs(replaced(line, replace)) {
			text := strings.TrimRight(r.text, " ")
			if text == "" {
				continue
			}
			fmt.Fprintf(
				&b,
				`<text x="%g" y="%g" textLength="%g" lengthAdjust="spacingAndGlyphs" xml:space="preserve"%s>`,
				margin+float64(r.col)*cellWidth,
				y,
				float64(utf8.RuneCountInString(text))*cellWidth,
				r.style.attributes(),
			)
			_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
			b.WriteString("</text>\n")
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// replaced is a line with one text instead of another.
func replaced(line []cell, replace [2]string) []cell {
	from := utf8.RuneCountInString(replace[0])
	if from == 0 {
		return line
	}
	var out []cell
	for i := 0; i < len(line); i++ {
		if i+from > len(line) || plain(line[i:i+from]) != replace[0] {
			out = append(out, line[i])
			continue
		}
		for _, char := range replace[1] {
			out = append(out, cell{char, line[i].style})
		}
		i += from - 1
	}
	return out
}

// run is text of one style.
type run struct {
	col   int
	text  string
	style style
}

// runs splits a line where its style changes, and at gaps, so that columns of tables
// keep their places.
func runs(line []cell) []run {
	var out []run
	for col := 0; col < len(line); {
		if line[col].char == ' ' {
			col++
			continue
		}
		end := col + 1
		for end < len(line) && line[end].style == line[col].style && !gap(line[end:]) {
			end++
		}
		out = append(out, run{col, plain(line[col:end]), line[col].style})
		col = end
	}
	return out
}

// gap reports whether cells begin with two blanks.
func gap(cells []cell) bool {
	return len(cells) > 1 && cells[0].char == ' ' && cells[1].char == ' '
}

func (y style) attributes() string {
	fill := "#c9d1d9"
	if y.colour > 0 {
		fill = colours[7*(y.colour-1):][:7]
	}
	if y.faint {
		fill = "#8b949e"
	}
	a := ` fill="` + fill + `"`
	if y.bold {
		a += ` font-weight="600"`
	}
	return a
}
