package cli

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// DrainAnnotation on a node says that mlbatch took it out of service: who, when and why, and what
// of that is to be undone. Cordons without it are of others.
const DrainAnnotation = "mlbatch.dev/drained"

// Drain is what the annotation says.
type Drain struct {
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
	// Cordoned says that the node was not cordoned before, Labelled that its health label was
	// set, which was Health before, "" for none.
	Cordoned bool   `json:"cordoned,omitempty"`
	Labelled bool   `json:"labelled,omitempty"`
	Health   string `json:"health,omitempty"`
}

// DrainOf is what mlbatch did to a node, nil if nothing.
func DrainOf(n *corev1.Node) *Drain {
	text, there := n.Annotations[DrainAnnotation]
	if !there {
		return nil
	}
	var d Drain
	if json.Unmarshal([]byte(text), &d) != nil {
		return nil
	}
	return &d
}

// Words say who took a node out of service, how long ago and why.
func (d *Drain) Words(now time.Time) string {
	text := fmt.Sprintf("drained by %s %s ago", d.By, duration.HumanDuration(max(now.Sub(d.At), 0)))
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}
