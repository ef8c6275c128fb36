// Package tutorial is what the administrator of MLBatch's tutorial sets up, for a fleet of any
// size: two teams, their quotas and the slack queue.
package tutorial

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

//go:embed tutorial.yaml
var text string

// share is the quota of one queue.
type share struct {
	CPU, Memory string
	GPUs, Pods  int64
}

// Manifests are the objects for a fleet. The provisioner is that of its volumes.
func Manifests(f simnode.Fleet, provisioner string) (string, error) {
	t, err := template.New("tutorial").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("read the tutorial's set-up: %w", err)
	}
	team, slack := shares(f)
	var b strings.Builder
	if err := t.Execute(
		&b,
		map[string]any{"Team": team, "Slack": slack, "Provisioner": provisioner},
	); err != nil {
		return "", fmt.Errorf("fill in the tutorial's set-up: %w", err)
	}
	return b.String(), nil
}

// shares divides a fleet among two teams and the slack queue as the tutorial
// does: a third each, GPUs that do not divide to the slack queue. As there,
// memory quota is as many G as the nodes have Gi, which leaves the system a
// part, and 100 of a node's 250 pods are for jobs.
func shares(f simnode.Fleet) (team, slack share) {
	const parts = 3
	n := int64(f.Count)
	gpus := n * f.GPUs
	team = share{
		CPU:    strconv.FormatInt(n*f.CPU.MilliValue()/parts, 10) + "m",
		Memory: strconv.FormatInt(n*f.Memory.Value()>>30/parts, 10) + "G",
		GPUs:   gpus / parts,
		Pods:   n * f.Pods * 100 / 250 / parts,
	}
	if milli := n * f.CPU.MilliValue() / parts; milli%1000 == 0 {
		team.CPU = strconv.FormatInt(milli/1000, 10)
	}
	slack = team
	slack.GPUs = gpus - 2*team.GPUs
	return team, slack
}
