package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// dark gives pictures that say so the colours of the page around them. Attributes yield to it.
const dark = `<style>text{fill:#1c1e21}.page{fill:#ffffff}
@media (prefers-color-scheme:dark){text{fill:#e4e6ea!important}.page{fill:#16181c}line,.box{stroke:#3c4048}.offered{stroke:#e4e6ea}}</style>` + "\n"

// Policies draws several results of the same jobs beside each other: for each team the wait
// that half and nine tenths of its jobs did not exceed, and what it used of its quota; then
// for each result who used what over time. The text alternative says what the bars say.
func Policies(out io.Writer, title string, results []*sim.Result) error {
	teams := busy(results)
	p := &picture{}
	height := titleHeight + float64(3+len(results))*(chartHeight+chartGap)
	fmt.Fprintf(
		p,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui, sans-serif" font-size="12" role="img" aria-labelledby="title summary">`+"\n",
		pictureWidth,
		height,
	)
	fmt.Fprintf(
		p,
		"<title id=\"title\">%s</title>\n<desc id=\"summary\">%s</desc>\n",
		html.EscapeString(title),
		html.EscapeString(inWords(results, teams)),
	)
	p.WriteString(dark)
	fmt.Fprintf(p, `<rect class="page" width="%g" height="%g" fill="#ffffff"/>`+"\n", pictureWidth, height)
	p.text(marginLeft, 26, `font-size="16" font-weight="600"`, title)
	p.top = titleHeight + 24
	for _, x := range []struct {
		title string
		of    func(*sim.Account) float64
	}{
		{"wait that half of the jobs did not exceed (P50)", func(a *sim.Account) float64 { return a.Wait.P50 }},
		{"wait that nine tenths of the jobs did not exceed (P90)", func(a *sim.Account) float64 { return a.Wait.P90 }},
	} {
		p.grouped(x.title, results, teams, x.of, waitScale(results, teams), Span)
		p.top += chartHeight + chartGap
	}
	p.grouped(
		"utilisation of own quota; above 100% is borrowed",
		results,
		teams,
		func(a *sim.Account) float64 { return a.Utilisation },
		shareScale(results, teams),
		Percent,
	)
	for _, r := range results {
		p.top += chartHeight + chartGap
		p.usage(only(r, teams))
		p.text(p.right(), p.top-8, `text-anchor="end" font-weight="600"`, short(r.World, 60))
	}
	p.WriteString("</svg>\n")
	_, err := io.WriteString(out, p.String())
	return err
}

// busy are the teams that used anything or had jobs, in the order of the results.
func busy(results []*sim.Result) (out []string) {
	seen := map[string]bool{}
	for _, r := range results {
		for i := range r.Teams {
			if a := &r.Teams[i]; !seen[a.Team] && (a.Jobs > 0 || a.Used > 0) {
				seen[a.Team] = true
				out = append(out, a.Team)
			}
		}
	}
	return out
}

// of is a team's account, nil if the result has none.
func of(r *sim.Result, team string) *sim.Account {
	for i := range r.Teams {
		if r.Teams[i].Team == team {
			return &r.Teams[i]
		}
	}
	return nil
}

// only is a result with the usage of some teams, in their order.
func only(r *sim.Result, teams []string) *sim.Result {
	out := *r
	out.Timeline.Teams = nil
	for _, team := range teams {
		series := sim.TeamSeries{Team: short(team, 18), Used: make([]float64, len(r.Timeline.Used))}
		for _, t := range r.Timeline.Teams {
			if t.Team == team {
				series.Used = t.Used
			}
		}
		out.Timeline.Teams = append(out.Timeline.Teams, series)
	}
	return &out
}

// scale is where values are on an axis: 0 at the bottom, 1 at the top.
type scale struct {
	marks []float64
	at    func(float64) float64
}

// waitScale is logarithmic: some wait seconds and others days.
func waitScale(results []*sim.Result, teams []string) scale {
	most := 60.0
	for _, r := range results {
		for _, team := range teams {
			if a := of(r, team); a != nil {
				most = max(most, a.Wait.P90)
			}
		}
	}
	s := scale{at: func(v float64) float64 { return math.Log(max(v, 1)) / math.Log(most) }}
	for _, mark := range []float64{1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600, 28 * 24 * 3600} {
		if mark <= most {
			s.marks = append(s.marks, mark)
		}
	}
	return s
}

func shareScale(results []*sim.Result, teams []string) scale {
	most := 1.0
	for _, r := range results {
		for _, team := range teams {
			if a := of(r, team); a != nil {
				most = max(most, a.Utilisation)
			}
		}
	}
	s := scale{at: func(v float64) float64 { return v / most }}
	for i := range 5 {
		s.marks = append(s.marks, most*float64(i)/4)
	}
	return s
}

// grouped draws a bar for each result in a group for each team.
func (p *picture) grouped(
	title string,
	results []*sim.Result,
	teams []string,
	value func(*sim.Account) float64,
	s scale,
	show func(float64) string,
) {
	p.text(marginLeft, p.top-8, `font-weight="600"`, title)
	p.box()
	for _, m := range s.marks {
		p.mark(chartHeight*(1-s.at(m)), show(m))
	}
	width := p.inner() / float64(max(1, len(teams)))
	bar := min(30, width*0.8/float64(len(results)))
	for i, team := range teams {
		x := marginLeft + width*(float64(i)+0.5) - bar*float64(len(results))/2
		for k, r := range results {
			a := of(r, team)
			if a == nil {
				continue
			}
			high := max(1, chartHeight*s.at(value(a)))
			fmt.Fprintf(
				p,
				`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, %s: %s</title></rect>`+"\n",
				x+bar*float64(
					k,
				),
				p.top+chartHeight-high,
				max(1, bar-2),
				high,
				hue(k),
				html.EscapeString(team),
				html.EscapeString(r.World),
				show(value(a)),
			)
		}
		if every := int(math.Ceil(60 / width)); i%every == 0 {
			p.text(
				x+bar*float64(len(results))/2,
				p.top+chartHeight+16,
				`text-anchor="middle"`,
				short(team, int(max(6, width*float64(every)/7))),
			)
		}
	}
	for k, r := range results {
		p.legend(k, short(r.World, 16), hue(k))
	}
}

// short cuts a name that would run over the edge.
func short(name string, most int) string {
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}

// inWords is what the bars say, for those who do not see them.
func inWords(results []*sim.Result, teams []string) string {
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(
			&b,
			"%s: wait P50 %s, P90 %s, utilisation %s in all.",
			r.World,
			Span(r.Total.Wait.P50),
			Span(r.Total.Wait.P90),
			Percent(r.Total.Utilisation),
		)
		for _, team := range teams {
			if a := of(r, team); a != nil {
				fmt.Fprintf(
					&b,
					" %s: wait P50 %s, P90 %s, utilisation %s, share %s.",
					team,
					Span(a.Wait.P50),
					Span(a.Wait.P90),
					Percent(a.Utilisation),
					Percent(a.Share),
				)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
