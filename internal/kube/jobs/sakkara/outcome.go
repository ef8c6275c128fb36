package sakkara

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// States of a group that its ConfigMap is told.
const (
	Bound     = "Bound"
	Preempted = "Preempted"
)

// Placed is a pod of a group on its node.
type Placed struct {
	Pod, Node string
	Rank      int
	// Domains are those that the node is in, the widest first.
	Domains []string
}

// longestPlacement bounds the texts about single pods, in bytes: a ConfigMap has a megabyte.
const longestPlacement = 400_000

// Outcome is what Sakkara writes into the ConfigMap of a group all of whose pods have nodes: begun is since when the
// group waited for them, and done when the last pod got its own.
func Outcome(pods []Placed, begun, done time.Time) (map[string]string, error) {
	if done.Before(begun) { // the one is told in whole seconds
		done = begun
	}
	placement, err := tree(pods)
	if err != nil {
		return nil, err
	}
	out := map[string]string{
		"status":              Bound,
		"placement":           placement,
		"rank":                ranks(pods),
		"schedBeginTime":      begun.UTC().Format(time.RFC3339Nano),
		"schedEndTime":        done.UTC().Format(time.RFC3339Nano),
		"schedTotalTimeMilli": strconv.FormatInt(done.Sub(begun).Milliseconds(), 10),
	}
	if len(out["placement"]) > longestPlacement || len(out["rank"]) > longestPlacement {
		delete(out, "placement")
		delete(out, "rank")
	}
	return out, nil
}

// Lost is what is written once a group was stopped to make room for others.
func Lost() map[string]string { return map[string]string{"status": Preempted} }

// Written are the keys of the ConfigMap of a group that are written here.
func Written() []string {
	return []string{"status", "placement", "rank", "schedBeginTime", "schedEndTime", "schedTotalTimeMilli"}
}

// tree is domains, nodes and pods as objects of each other, from root on.
func tree(pods []Placed) (string, error) {
	root := map[string]any{}
	for _, p := range pods {
		at := root
		for _, name := range append(slices.Clone(p.Domains), p.Node) {
			in, has := at[name].(map[string]any)
			if !has {
				in = map[string]any{}
				at[name] = in
			}
			at = in
		}
		at[p.Pod] = struct{}{}
	}
	text, err := json.Marshal(map[string]any{"root": root})
	if err != nil {
		return "", fmt.Errorf("write placement: %w", err)
	}
	return string(text), nil
}

// ranks lists pods by rank.
func ranks(pods []Placed) string {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b Placed) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Pod, b.Pod))
	})
	parts := make([]string, len(sorted))
	for i, p := range sorted {
		parts[i] = fmt.Sprintf("(%s,%d)", p.Pod, p.Rank)
	}
	return "[" + strings.Join(parts, " ") + "]"
}
