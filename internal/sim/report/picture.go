package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Sizes of the picture, in its own units: one chart above the other.
const (
	pictureWidth = 960.0
	chartHeight  = 180.0
	marginLeft   = 64.0
	marginRight  = 150.0
	chartGap     = 56.0
	titleHeight  = 44.0
)

// hue is a team's colour, in turn from a palette that people with colour blindness can tell apart.
func hue(team int) string {
	all := []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#882255"}
	return all[team%len(all)]
}

// picture is an SVG in the making.
type picture struct {
	strings.Builder
	top float64 // of the chart being drawn
}

// SVG draws what a result is like over time: usage of teams on top of each other below
// what was offered, jobs that waited, and how long they waited.
func SVG(out io.Writer, r *sim.Result) error {
	p := &picture{}
	height := titleHeight + 3*(chartHeight+chartGap)
	fmt.Fprintf(
		p,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, sans-serif" font-size="12">`+"\n",
		pictureWidth,
		height,
	)
	fmt.Fprintf(p, `<rect width="%g" height="%g" fill="#ffffff"/>`+"\n", pictureWidth, height)
	p.text(
		marginLeft,
		26,
		`font-size="16" font-weight="600"`,
		fmt.Sprintf("%s: %s of virtual time, %d jobs", r.World, Span(r.Seconds), r.Total.Jobs),
	)
	p.top = titleHeight + 24
	p.usage(r)
	p.top += chartHeight + chartGap
	p.waiting(r)
	p.top += chartHeight + chartGap
	p.waits(r)
	p.WriteString("</svg>\n")
	_, err := io.WriteString(out, p.String())
	return err
}

// HTML is a page with the tables of Text and the charts of SVG. It needs nothing else.
func HTML(out io.Writer, r *sim.Result) error {
	var text, svg strings.Builder
	if err := Text(&text, r); err != nil {
		return err
	}
	if err := SVG(&svg, r); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>%s</title>
<style>body{font-family:system-ui,sans-serif;margin:2em;max-width:1100px}pre{overflow-x:auto;font-size:12px}</style>
<h1>%s</h1>
%s
<pre>%s</pre>
</html>
`, html.EscapeString(r.World), html.EscapeString(r.World), svg.String(), html.EscapeString(text.String()))
	return err
}

// usage stacks what teams held, under the line of what was offered.
func (p *picture) usage(r *sim.Result) {
	tl, unit := &r.Timeline, Unit(r.Unit)
	top := nice(max(highest(tl.Offered), highest(tl.Used)))
	p.frame(unit+"s in use", top, r.Seconds)
	below := make([]float64, len(tl.Used))
	for i, t := range tl.Teams {
		above := make([]float64, len(below))
		for k := range below {
			above[k] = below[k] + t.Used[k]
		}
		p.band(below, above, top, hue(i))
		p.legend(i, t.Team, hue(i))
		below = above
	}
	if highest(tl.Offered) > 0 {
		p.line(tl.Offered, top, "#333333", `class="offered" stroke-dasharray="4 3"`)
		p.legend(len(tl.Teams), "offered", "#333333")
	}
}

// waiting draws how many jobs of each team waited.
func (p *picture) waiting(r *sim.Result) {
	top := 0.0
	for _, t := range r.Timeline.Teams {
		top = max(top, highest(t.Waiting))
	}
	top = nice(top)
	p.frame("jobs that wait", top, r.Seconds)
	for i, t := range r.Timeline.Teams {
		p.line(t.Waiting, top, hue(i), `stroke-width="1.8"`)
		p.legend(i, t.Team, hue(i))
	}
}

// waits draws for each team how long jobs waited: half of them, nine tenths, all but
// one in a hundred. The scale is logarithmic: some wait seconds and others days.
func (p *picture) waits(r *sim.Result) {
	p.text(marginLeft, p.top-8, `font-weight="600"`, "wait until a job starts")
	const least = 1.0 // second
	most := least * 10
	for i := range r.Teams {
		most = max(most, r.Teams[i].Wait.P99)
	}
	at := func(seconds float64) float64 {
		return chartHeight * (1 - math.Log(max(seconds, least)/least)/math.Log(most/least))
	}
	p.box()
	for _, mark := range []float64{1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600} {
		if mark <= most {
			p.mark(at(mark), Span(mark))
		}
	}
	width := p.inner() / float64(max(1, len(r.Teams)))
	for i := range r.Teams {
		a := &r.Teams[i]
		x := marginLeft + width*float64(i)
		bar := min(36, width/5)
		for k, v := range []float64{a.Wait.P50, a.Wait.P90, a.Wait.P99} {
			y := at(v)
			fmt.Fprintf(
				p,
				`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="%.2f"><title>%s %s: %s</title></rect>`+"\n",
				x+width/2+(float64(k)-1.5)*bar,
				p.top+y,
				bar-3,
				max(1, chartHeight-y),
				hue(i),
				1-0.3*float64(k),
				html.EscapeString(a.Team),
				[]string{"p50", "p90", "p99"}[k],
				Span(v),
			)
		}
		p.text(x+width/2, p.top+chartHeight+16, `text-anchor="middle"`, a.Team)
	}
	p.text(p.right()+14, p.top+12, "", "p50, p90, p99")
	p.text(p.right()+14, p.top+28, "", "of each team")
}

func (p *picture) inner() float64 { return pictureWidth - marginLeft - marginRight }
func (p *picture) right() float64 { return pictureWidth - marginRight }

func (p *picture) text(x, y float64, attributes, s string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
}

func (p *picture) box() {
	fmt.Fprintf(
		p,
		`<rect class="box" x="%g" y="%g" width="%g" height="%g" fill="none" stroke="#cccccc"/>`+"\n",
		marginLeft,
		p.top,
		p.inner(),
		chartHeight,
	)
}

// mark labels a height of the chart.
func (p *picture) mark(y float64, label string) {
	fmt.Fprintf(
		p,
		`<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#e5e5e5"/>`+"\n",
		marginLeft,
		p.right(),
		p.top+y,
		p.top+y,
	)
	p.text(marginLeft-6, p.top+y+4, `text-anchor="end" fill="#555555"`, label)
}

// frame draws title, axes and labels of a chart over time.
func (p *picture) frame(title string, top, seconds float64) {
	p.text(marginLeft, p.top-8, `font-weight="600"`, title)
	p.box()
	for i := range 5 {
		v := top * float64(i) / 4
		p.mark(chartHeight*(1-float64(i)/4), fmt.Sprintf("%g", v))
	}
	for i := range 7 {
		x := marginLeft + p.inner()*float64(i)/6
		p.text(x, p.top+chartHeight+16, `text-anchor="middle" fill="#555555"`, Span(seconds*float64(i)/6))
	}
}

func (p *picture) legend(i int, name, colour string) {
	y := p.top + 12 + 18*float64(i)
	fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="10" height="10" fill="%s"/>`+"\n", p.right()+14, y-9, colour)
	p.text(p.right()+30, y, "", name)
}

// points are the corners of a line over time.
func (p *picture) points(v []float64, top float64) []string {
	out := make([]string, 0, len(v))
	for i, y := range v {
		x := marginLeft + p.inner()*(float64(i)+0.5)/float64(len(v))
		out = append(out, fmt.Sprintf("%.1f,%.1f", x, p.top+chartHeight*(1-y/top)))
	}
	return out
}

func (p *picture) line(v []float64, top float64, colour, attributes string) {
	fmt.Fprintf(
		p,
		`<polyline points="%s" fill="none" stroke="%s" %s/>`+"\n",
		strings.Join(p.points(v, top), " "),
		colour,
		attributes,
	)
}

func (p *picture) band(below, above []float64, top float64, colour string) {
	corners := p.points(above, top)
	low := p.points(below, top)
	for _, corner := range slices.Backward(low) {
		corners = append(corners, corner)
	}
	fmt.Fprintf(
		p,
		`<polygon points="%s" fill="%s" fill-opacity="0.8"/>`+"\n",
		strings.Join(corners, " "),
		colour,
	)
}

// nice is a round number at or above x, of which a quarter is round as well.
func nice(x float64) float64 {
	if x <= 0 {
		return 4
	}
	step := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10} {
		if v := m * step; v >= x {
			return v
		}
	}
	return 10 * step
}
