package whatif

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/report"
)

// title is that of pictures.
func (c *Comparison) title() string {
	return fmt.Sprintf(
		"%d jobs from %s to %s",
		c.Jobs,
		c.From.Format("2006-01-02 15:04"),
		c.To.Format("2006-01-02 15:04"),
	)
}

// all is what happened, and then what would have.
func (c *Comparison) all() []*sim.Result { return append([]*sim.Result{c.Recorded}, c.Policies...) }

// SVG draws a comparison: waits, utilisation, and who used what over time.
func (c *Comparison) SVG(out io.Writer) error { return report.Policies(out, c.title(), c.all()) }

// HTML is a page with the tables and the pictures. It needs nothing else, and every text in it
// that users chose is escaped.
func (c *Comparison) HTML(out io.Writer) error {
	var b, svg strings.Builder
	if err := c.SVG(&svg); err != nil {
		return err
	}
	fmt.Fprintf(&b, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%[1]s</title>
<style>
:root{color-scheme:light dark}
body{font-family:system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;background:#fff;color:#1c1e21;line-height:1.4}
table{border-collapse:collapse;margin:1.5em 0;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.4em 0}
th,td{padding:.25em .9em;border-bottom:1px solid #d5d8dc;text-align:right}
th:first-child{text-align:left}
div{overflow-x:auto}
@media (prefers-color-scheme:dark){body{background:#16181c;color:#e4e6ea}th,td{border-color:#3c4048}}
</style>
</head>
<body>
<h1>%[1]s</h1>
`, html.EscapeString(c.title()))
	for _, line := range c.intro() {
		fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(line))
	}
	b.WriteString(svg.String())
	c.tables(&b)
	if notes := c.remarks(); len(notes) > 0 {
		b.WriteString("<h2>What was assumed</h2>\n<ul>\n")
		for _, n := range notes {
			fmt.Fprintf(&b, "<li>%s</li>\n", html.EscapeString(n))
		}
		b.WriteString("</ul>\n")
	}
	b.WriteString("</body>\n</html>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// tables writes a table for each team.
func (c *Comparison) tables(b *strings.Builder) {
	last := ""
	for i := range c.Differences {
		d := &c.Differences[i]
		if d.dull() {
			continue
		}
		if d.Team != last {
			if last != "" {
				b.WriteString("</tbody></table></div>\n")
			}
			last = d.Team
			fmt.Fprintf(
				b,
				"<div><table><caption>%s</caption><thead><tr><th scope=\"col\">measure</th><th scope=\"col\">recorded</th>",
				html.EscapeString(d.Team),
			)
			for k, r := range c.Policies {
				fmt.Fprintf(b, `<th scope="col">%s: %s</th>`, report.Letter(k), html.EscapeString(r.World))
				if k > 0 {
					fmt.Fprintf(b, `<th scope="col">%s - A</th>`, report.Letter(k))
				}
			}
			b.WriteString("</tr></thead><tbody>\n")
		}
		fmt.Fprintf(
			b,
			`<tr><th scope="row">%s</th><td>%s</td>`,
			html.EscapeString(d.Measure),
			html.EscapeString(d.show(d.Recorded)),
		)
		for k := range c.Policies {
			fmt.Fprintf(b, "<td>%s</td>", html.EscapeString(d.show(d.Values[k])))
			if k > 0 {
				fmt.Fprintf(b, "<td>%s</td>", html.EscapeString(d.change(k)))
			}
		}
		b.WriteString("</tr>\n")
	}
	if last != "" {
		b.WriteString("</tbody></table></div>\n")
	}
}
