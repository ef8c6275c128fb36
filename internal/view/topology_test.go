package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// labelled are nodes with labels, KEY=VALUE of each.
func labelled(lines ...string) []corev1.Node {
	var out []corev1.Node
	for i, line := range lines {
		n := corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{}},
		}
		for pair := range strings.FieldsSeq(line) {
			key, value, _ := strings.Cut(pair, "=")
			n.Labels[key] = value
		}
		out = append(out, n)
	}
	return out
}

func TestCliquesStandWhereLabelsSay(t *testing.T) {
	const (
		block, rack = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
		layer       = "topology.k8s.aws/network-node-layer-3"
		sub, host   = "cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-host"
		clique      = core.CliqueLabel
	)
	for _, tc := range []struct {
		why   string
		nodes []corev1.Node
		want  []string
		odd   string // what of them is told
	}{
		{
			"the cliques of a rack: below it",
			labelled(
				rack+"=r1 "+clique+"=a.1", rack+"=r1 "+clique+"=a.2",
				rack+"=r2 "+clique+"=b.1", rack+"=r2 "+clique+"=b.2",
			),
			[]string{rack, clique},
			"",
		},
		{
			"one clique is all of a rack, as 18 nodes of an NVL72 are: below it, so that pods can ask for either",
			labelled(rack+"=r1 "+clique+"=a.1", rack+"=r1 "+clique+"=a.1", rack+"=r2 "+clique+"=b.1"),
			[]string{rack, clique},
			"",
		},
		{
			"a leaf of the fabric with two racks of cliques",
			labelled(layer+"=l1 "+clique+"=a.1", layer+"=l1 "+clique+"=b.1", layer+"=l2 "+clique+"=c.1"),
			[]string{layer, clique},
			"",
		},
		{
			"hosts of a clique are within it",
			labelled(
				sub+"=s1 "+host+"=h1 "+clique+"=a.1", sub+"=s1 "+host+"=h2 "+clique+"=a.1",
				sub+"=s2 "+host+"=h3 "+clique+"=b.1", sub+"=s2 "+host+"=h4 "+clique+"=b.1",
			),
			[]string{sub, clique, host},
			"",
		},
		{
			"a clique over two racks, which have no other: around them, in their block",
			labelled(
				block+"=b "+rack+"=r1 "+clique+"=a.1", block+"=b "+rack+"=r2 "+clique+"=a.1",
				block+"=b "+rack+"=r3 "+clique+"=b.1",
			),
			[]string{block, clique, rack},
			"",
		},
		{
			"racks are called the same in two blocks",
			labelled(
				block+"=b1 "+rack+"=r1 "+clique+"=a.1", block+"=b1 "+rack+"=r2 "+clique+"=b.1",
				block+"=b2 "+rack+"=r1 "+clique+"=c.1", block+"=b2 "+rack+"=r2 "+clique+"=d.1",
			),
			[]string{block, rack, clique},
			"nodes with the same " + rack + " have different " + block + ", and count as different domains: r1, r2",
		},
		{
			"neither is within the other",
			labelled(
				rack+"=r1 "+clique+"=a.1", rack+"=r1 "+clique+"=b.1", rack+"=r2 "+clique+"=a.1",
			),
			[]string{rack, clique},
			"nodes with the same " + clique + " have different " + rack + ", and count as different domains: a.1",
		},
		{
			"nodes without GPUs are in no clique, and stay in their racks",
			labelled(rack+"=r1 "+clique+"=a.1", rack+"=r1", rack+"=r2 "+clique+"=b.1"),
			[]string{rack, clique},
			"1 of 3 nodes have no label " + clique + ", so no pod that requires it can be there: node-1",
		},
		{"cliques alone", labelled(clique+"=a.1", clique+"=b.1"), []string{clique}, ""},
		{"no cliques", labelled(rack+"=r1", rack+"=r2"), []string{rack}, ""},
		{"nothing", labelled("", ""), nil, ""},
	} {
		t.Run(tc.why, func(t *testing.T) {
			levels := view.DetectLevels(tc.nodes)
			if !slices.Equal(levels, tc.want) {
				t.Errorf("levels are %q, want %q", levels, tc.want)
			}
			if odd := strings.Join(view.OddTopology(tc.nodes, levels), "\n"); odd != tc.odd {
				t.Errorf("odd is %q, want %q", odd, tc.odd)
			}
		})
	}
}
