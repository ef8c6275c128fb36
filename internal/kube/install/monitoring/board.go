package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Board is a dashboard of Grafana. Its fields are what boards of ours differ in; JSON has what all have.
type Board struct {
	// Name is that of its file, and with "mlbatch-" before it its uid, which is in links to it.
	Name, Title, About string
	// Variables are chosen at its head.
	Variables []Variable
	Rows      []Row
}

// Variable is what a viewer chooses: one of the values that a label has, several of them, or a text.
type Variable struct {
	Name, Title string
	// Values is a query of Grafana's for them, such as label_values(METRIC, LABEL); without one it is a text.
	Values string
	// Text is the text at first.
	Text string
}

// Row is a line of panels of one height, below a heading.
type Row struct {
	Title  string
	Height int // of 30 pixels each
	Panels []Panel
}

// Kind is how a panel shows its series.
type Kind string

// Kinds of panels, by Grafana's names.
const (
	Lines  Kind = "timeseries"
	Number Kind = "stat"
	Table  Kind = "table"
	Bars   Kind = "bargauge"
)

// Panel is one picture.
type Panel struct {
	Title, About string
	Kind         Kind
	// Unit is one of Grafana's: short, s, percentunit, percent, bytes, decmbytes, watt.
	Unit  string
	Width int // of 24
	// Stacked lays lines on each other: they are parts of a whole.
	Stacked bool
	// Alarm is from where on a number is red; 0 is never.
	Alarm  float64
	Series []Series
}

// Series is what Prometheus is asked, and the name of each answer, in which {{label}} is one of its labels.
type Series struct{ Query, Name string }

// source is the Prometheus that a viewer chooses.
func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

type object = map[string]any

// JSON is the board as Grafana imports it.
func (b *Board) JSON() []byte {
	variables := []any{
		object{
			"name":       "datasource",
			"label":      "Data source",
			"type":       "datasource",
			"query":      "prometheus",
			"current":    object{},
			"hide":       0,
			"includeAll": false,
			"multi":      false,
			"options":    []any{},
			"refresh":    1,
			"regex":      "",
		},
	}
	for _, v := range b.Variables {
		variables = append(variables, v.object())
	}
	var panels []any
	y := 0
	for _, r := range b.Rows {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": r.Title, "collapsed": false, "panels": []any{},
			"gridPos": object{"x": 0, "y": y, "w": 24, "h": 1},
		})
		y++
		x := 0
		for i := range r.Panels {
			p := r.Panels[i].object()
			p["id"], p["gridPos"] = len(panels)+1, object{"x": x, "y": y, "w": r.Panels[i].Width, "h": r.Height}
			panels = append(panels, p)
			x += r.Panels[i].Width
		}
		y += r.Height
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(object{
		"uid":                  "mlbatch-" + b.Name,
		"title":                b.Title,
		"description":          b.About,
		"tags":                 []any{"mlbatch"},
		"schemaVersion":        39,
		"version":              1,
		"editable":             true,
		"graphTooltip":         1,
		"refresh":              "30s",
		"timezone":             "browser",
		"time":                 object{"from": "now-6h", "to": "now"},
		"timepicker":           object{},
		"fiscalYearStartMonth": 0,
		"annotations":          object{"list": []any{}},
		"templating":           object{"list": variables},
		"panels":               panels,
		"links": []any{object{
			"title": "mlbatch", "type": "dashboards", "tags": []any{"mlbatch"}, "asDropdown": true, "keepTime": true,
			"includeVars": false, "targetBlank": false, "icon": "external link", "tooltip": "", "url": "",
		}},
	}); err != nil {
		panic(err) // it is made of texts and numbers
	}
	return out.Bytes()
}

func (v *Variable) object() object {
	if v.Values == "" {
		value := object{"text": v.Text, "value": v.Text, "selected": true}
		return object{
			"name": v.Name, "label": v.Title, "type": "textbox", "query": v.Text, "hide": 0, "current": value,
			"options": []any{value},
		}
	}
	return object{
		"name": v.Name, "label": v.Title, "type": "query", "datasource": source(), "definition": v.Values,
		"query": object{"query": v.Values, "refId": v.Name}, "refresh": 2, "sort": 1, "regex": "", "hide": 0,
		"includeAll": true, "allValue": ".*", "multi": true, "options": []any{},
		"current": object{"text": []any{"All"}, "value": []any{"$__all"}, "selected": true},
	}
}

func (p *Panel) object() object {
	var targets []any
	for i, s := range p.Series {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "expr": s.Query, "legendFormat": s.Name, "datasource": source(),
			"instant": p.Kind != Lines, "range": p.Kind == Lines,
			"format": map[bool]string{true: "table", false: "time_series"}[p.Kind == Table],
		})
	}
	steps := []any{object{"color": "green", "value": nil}}
	if p.Alarm != 0 {
		steps = append(steps, object{"color": "red", "value": p.Alarm})
	}
	custom, options := object{}, object{}
	switch p.Kind {
	case Lines:
		custom = object{
			"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": false,
			"stacking": object{"mode": "none", "group": "A"},
		}
		if p.Stacked {
			custom["stacking"], custom["fillOpacity"] = object{"mode": "normal", "group": "A"}, 40
		}
		options = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []any{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case Number, Bars:
		options = object{
			"reduceOptions": object{"calcs": []any{"lastNotNull"}, "fields": "", "values": false},
			"orientation":   "auto",
		}
		if p.Kind == Bars {
			options["displayMode"], options["orientation"] = "basic", "horizontal"
		}
	case Table:
		options = object{"showHeader": true, "cellHeight": "sm"}
	}
	all := object{
		"title":       p.Title,
		"description": p.About,
		"type":        string(p.Kind),
		"datasource":  source(),
		"targets":     targets,
		"options":     options,
		"fieldConfig": object{
			"defaults": object{
				"unit": p.Unit, "custom": custom, "thresholds": object{"mode": "absolute", "steps": steps},
				"color": object{"mode": map[bool]string{true: "palette-classic", false: "thresholds"}[p.Kind == Lines]},
			},
			"overrides": []any{},
		},
	}
	if p.Kind == Table {
		all["transformations"] = []any{object{
			"id": "organize", "options": object{"excludeByName": object{"Time": true}},
		}}
	}
	return all
}

// Queries are those of all panels, with the variables replaced by what matches everything, as Prometheus takes them.
func (b *Board) Queries() []string {
	var out []string
	for _, r := range b.Rows {
		for i := range r.Panels {
			for _, s := range r.Panels[i].Series {
				out = append(out, b.anyValue(s.Query))
			}
		}
	}
	return out
}

var interval = regexp.MustCompile(`\$__(rate_)?interval`)

func (b *Board) anyValue(query string) string {
	query = strings.ReplaceAll(interval.ReplaceAllString(query, "5m"), "$__range", "1h")
	for _, v := range b.Variables {
		query = strings.ReplaceAll(query, fmt.Sprintf("$%s", v.Name), ".*")
	}
	return query
}
