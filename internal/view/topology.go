package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Domain is a rack, a block or another part of a topology, and how its nodes stand. Its JSON is stable.
// +kubebuilder:object:generate=true
type Domain struct {
	// Topology is the object that names the levels; "" for those that the labels of nodes tell.
	Topology string `json:"topology,omitempty"`
	// Level is the node label whose value Name is; Path are the values of the wider levels before it,
	// widest first.
	Level string   `json:"level"`
	Name  string   `json:"name"`
	Path  []string `json:"path,omitempty"`
	// Nodes is how many nodes it has, Ready how many of them take any work.
	Nodes int `json:"nodes"`
	Ready int `json:"ready"`
	// GPUs is how many those that are ready offer, Free how many of these no pod has, Whole on how many
	// of them no GPU is in use; nil if the user may not read pods.
	GPUs  int64  `json:"gpus"`
	Free  *int64 `json:"free,omitempty"`
	Whole *int   `json:"wholeNodes,omitempty"`
}

// levelFamilies are the labels by which clouds, drivers and schedulers tell where nodes are, each family from
// the widest level to the narrowest.
func levelFamilies() [][]string {
	return [][]string{
		{"cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"},
		{
			"topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2",
			"topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/ultraserver-id",
		},
		{
			"cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock",
			"cloud.google.com/gce-topology-host",
		},
		{"oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"},
		{
			"backend.coreweave.cloud/fabric", "backend.coreweave.cloud/superpod",
			"backend.coreweave.cloud/leafgroup", "ds.coreweave.com/nvlink.domain",
		},
		{
			"fabric.topograph.run/tier-4", "fabric.topograph.run/tier-3", "fabric.topograph.run/tier-2",
			"fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0",
			"accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain",
		},
		{"sakkara.topology.rack"},
		{core.CliqueLabel},
	}
}

// DetectLevels are the levels, widest first, that the labels of nodes tell: those of the family that most
// nodes have; none if no node has any. Cliques of GPUs, which NVLink connects, are parts of a network fabric or, where
// that tells of parts of a clique, such as its hosts, around these: they stand where the labels of nodes say.
func DetectLevels(nodes []corev1.Node) []string {
	var best []string
	most := 0
	for _, family := range levelFamilies() {
		var levels []string
		found := 0
		for _, label := range family {
			has := 0
			for i := range nodes {
				if nodes[i].Labels[label] != "" {
					has++
				}
			}
			if has > 0 {
				levels = append(levels, label)
			}
			found = max(found, has)
		}
		if found > most {
			best, most = levels, found
		}
	}
	if len(best) > 0 && !slices.Contains(best, core.CliqueLabel) {
		return withCliques(best, nodes)
	}
	return best
}

// withCliques are levels with that of cliques among them, if nodes have any: below each of which no clique leaves a domain.
// Only a level whose domains each lie in one clique, which has several of them, is narrower.
func withCliques(levels []string, nodes []corev1.Node) []string {
	if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Labels[core.CliqueLabel] != "" }) {
		return levels
	}
	at := len(levels)
	for ; at > 0; at-- {
		cliques, domains := map[string]map[string]bool{}, map[string]map[string]bool{}
		for i := range nodes {
			clique, has := nodes[i].Labels[core.CliqueLabel]
			path, is := domainPath(&nodes[i], levels[:at])
			if has && is {
				note(cliques, clique, path)
				note(domains, path, clique)
			}
		}
		if !one(domains) || one(cliques) {
			break
		}
	}
	return slices.Insert(slices.Clone(levels), at, core.CliqueLabel)
}

// domainPath names the domain of a node by its values of levels; false if it lacks one.
func domainPath(n *corev1.Node, levels []string) (path string, is bool) {
	values := make([]string, 0, len(levels))
	for _, level := range levels {
		value, has := n.Labels[level]
		if !has {
			return "", false
		}
		values = append(values, value)
	}
	return strings.Join(values, "\n"), true
}

// note adds one of the things that go with another.
func note(in map[string]map[string]bool, of, value string) {
	if in[of] == nil {
		in[of] = map[string]bool{}
	}
	in[of][value] = true
}

// one reports whether each goes with one thing.
func one(in map[string]map[string]bool) bool {
	for _, values := range in {
		if len(values) > 1 {
			return false
		}
	}
	return true
}

// OddTopology says what of the labels of nodes is probably a mistake: nodes without a level that others have, and
// names that are in several wider domains.
func OddTopology(nodes []corev1.Node, levels []string) []string {
	var out []string
	for i, level := range levels {
		var without []string
		parents := map[string]map[string]bool{}
		for k := range nodes {
			labels := nodes[k].Labels
			value, has := labels[level]
			if !has {
				without = append(without, nodes[k].Name)
				continue
			}
			if i > 0 {
				if parents[value] == nil {
					parents[value] = map[string]bool{}
				}
				parents[value][labels[levels[i-1]]] = true
			}
		}
		if len(without) > 0 && len(without) < len(nodes) {
			slices.SortFunc(without, core.CompareNames)
			out = append(out, fmt.Sprintf(
				"%d of %d nodes have no label %s, so no pod that requires it can be there: %s",
				len(without), len(nodes), level, firstOf(without),
			))
		}
		var several []string
		for value, in := range parents {
			if len(in) > 1 {
				several = append(several, value)
			}
		}
		if len(several) > 0 {
			slices.SortFunc(several, core.CompareNames)
			out = append(out, fmt.Sprintf(
				"nodes with the same %s have different %s, and count as different domains: %s",
				level, levels[i-1], firstOf(several),
			))
		}
	}
	return out
}

// NoteDomains notes where nodes are by the levels of a topology, widest first, as far as their labels tell.
func NoteDomains(all []Node, nodes []corev1.Node, levels []string) {
	labels := map[string]map[string]string{}
	for i := range nodes {
		labels[nodes[i].Name] = nodes[i].Labels
	}
	for i := range all {
		for _, level := range levels {
			value, has := labels[all[i].Name][level]
			if !has {
				break
			}
			all[i].Domain = append(all[i].Domain, value)
		}
	}
}

// InDomains notes where nodes are by the levels of a topology, and sorts them by that, those without at the end.
func InDomains(all []Node, nodes []corev1.Node, levels []string) {
	NoteDomains(all, nodes, levels)
	slices.SortFunc(all, func(a, b Node) int {
		for i := range min(len(a.Domain), len(b.Domain)) {
			if c := core.CompareNames(a.Domain[i], b.Domain[i]); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(len(b.Domain), len(a.Domain)), core.CompareNames(a.Name, b.Name))
	})
}

// firstOf names a few of many.
func firstOf(names []string) string {
	const few = 5
	if len(names) > few {
		return strings.Join(names[:few], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

// Domains are the domains that levels make of nodes, each before those that are in it, by name. stand is how the
// nodes stand, by name.
func Domains(nodes []corev1.Node, levels []string, stand map[string]Node) []Domain {
	type key struct{ path string }
	var out []Domain
	at := map[key]int{}
	for i := range nodes {
		var path []string
		for _, level := range levels {
			value, has := nodes[i].Labels[level]
			if !has {
				break
			}
			k := key{strings.Join(append(slices.Clone(path), value), "\n")}
			d, known := at[k]
			if !known {
				d = len(out)
				at[k] = d
				out = append(out, Domain{Level: level, Name: value, Path: slices.Clone(path)})
			}
			out[d].count(stand[nodes[i].Name])
			path = append(path, value)
		}
	}
	slices.SortFunc(out, func(a, b Domain) int {
		x, y := append(slices.Clone(a.Path), a.Name), append(slices.Clone(b.Path), b.Name)
		for i := range min(len(x), len(y)) {
			if c := core.CompareNames(x[i], y[i]); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(x), len(y))
	})
	return out
}

// count adds a node.
func (d *Domain) count(n Node) {
	d.Nodes++
	if n.State != core.NodeReady {
		return
	}
	d.Ready++
	d.GPUs += n.GPUs
	if n.Free == nil {
		return
	}
	if d.Free == nil {
		d.Free, d.Whole = new(int64), new(int)
	}
	*d.Free += *n.Free
	if *n.Free == n.GPUs && n.GPUs > 0 {
		*d.Whole++
	}
}
