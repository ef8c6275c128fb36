package monitoring

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

// rules is the file of rules, as Prometheus reads it.
//
//go:embed alerts.yaml
var rules []byte

// Rules is the file of rules that alert, as Prometheus reads it.
func Rules() []byte { return rules }

// Group is one of the file's.
type Group struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// Rule is an alert: Expr has an answer while it is so, and for how long it has to be.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Alerts are the rules. A link, which may be empty, is where people find docs/runbook.md: each names it then.
func Alerts(link string) []Group {
	var file struct{ Groups []Group }
	if err := yaml.UnmarshalStrict(rules, &file); err != nil {
		panic(fmt.Sprintf("alerts.yaml: %v", err)) // it is part of the program
	}
	if link != "" {
		for _, g := range file.Groups {
			for i := range g.Rules {
				g.Rules[i].Annotations["runbook_url"] = link
			}
		}
	}
	return file.Groups
}
