package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// newTopologyCommand prints the domains of nodes.
func newTopologyCommand() *cobra.Command {
	var name string
	list := &readCommand{
		formats: []string{"json", "yaml"}, columns: true, bare: withoutTitles, watch: againAndAgain,
		read: func(ctx context.Context, q *query) (found, error) { return readTopology(ctx, q, name) },
	}
	cmd := list.command(&cobra.Command{
		Use:   "topology",
		Short: "Show racks, blocks and other domains of nodes: how many nodes each has, what is free, what is whole",
		Long: `Show how the nodes are nested, from the widest domains to the narrowest: how many nodes each
domain has, how many of them take any work, how many of their GPUs are free, and how many of
them are whole: no GPU of theirs is in use.

The levels are those of the Topology that is named or, if there is one alone, of that; else
they are read from the labels that clouds, drivers and schedulers put on nodes. A job asks to
be in one domain by an annotation of its pods, kueue.x-k8s.io/podset-required-topology, whose
value is the label of the level; podset-preferred-topology asks for it where it can be had.`,
		Example: `  # which rack has room for a job of four whole nodes?
  mlbatch topology

  # of one Topology among several
  mlbatch topology --topology gpus`,
		Args: cobra.NoArgs,
	})
	cmd.Flags().StringVar(&name, "topology", "", "`Topology` whose levels are shown")
	cmd.AddCommand(newTopologyDetectCommand(), newTopologyFromSakkaraCommand())
	return cmd
}

func readTopology(ctx context.Context, q *query, name string) (found, error) {
	levels, nodes, err := cli.TopologyOf(ctx, q.c, name)
	member := apierrors.IsForbidden(err) // is told sums; what is odd is told with the names of nodes
	if err != nil && !member {
		return nil, err
	}
	domains, seen, err := cli.Domains(ctx, q.c, name)
	switch {
	case err != nil:
		return nil, err
	case member && name != "" && len(domains) == 0:
		return nil, fmt.Errorf("there is no Topology %s, or no node has its labels", name)
	}
	list := &rows[view.Domain]{
		items:   domains,
		columns: cli.DomainColumns(),
		name:    func(d view.Domain) string { return d.Name },
		none: "No label of a node tells in which rack or block it is, and there is no Topology. " +
			"Label the nodes, as with mlbatch kubectl label node NAME cloud.provider.com/topology-rack=r1",
	}
	if !seen {
		list.notes = append(list.notes, untoldPods)
	}
	if !member {
		list.notes = append(list.notes, view.OddTopology(nodes, levels)...)
	}
	return list, nil
}

// newTopologyDetectCommand prints the Topology that labels of nodes tell.
func newTopologyDetectCommand() *cobra.Command {
	list := &readCommand{
		instead: "a manifest",
		read: func(ctx context.Context, q *query) (found, error) {
			_, nodes, err := cli.TopologyOf(ctx, q.c, "")
			if err != nil {
				return nil, err
			}
			levels := view.DetectLevels(nodes)
			if len(levels) == 0 {
				return nil, fmt.Errorf(
					"no label of the %d nodes tells in which rack or block they are; label them, as with "+
						"mlbatch kubectl label node NAME cloud.provider.com/topology-rack=r1",
					len(nodes),
				)
			}
			return detected{levels, view.OddTopology(nodes, levels)}, nil
		},
	}
	return list.command(&cobra.Command{
		Use:   "detect",
		Short: "Print the Topology that the labels of the nodes tell, and what of them is odd",
		Long: `Print the Topology, as a manifest, that the labels of the nodes tell: those of AWS, Google
Cloud, Oracle Cloud, CoreWeave, Topograph, NVIDIA's GPU operator and Kueue's documentation are
known. What is probably a mistake is told in comments.`,
		Example: `  # what would it be?
  mlbatch topology detect

  # make it
  mlbatch topology detect | mlbatch kubectl apply -f -`,
		Args: cobra.NoArgs,
	})
}

// detected is the levels that labels tell.
type detected struct {
	levels []string
	odd    []string
}

func (d detected) print(w io.Writer, _ *query) error {
	text, err := cli.TopologyManifest("detected", d.levels)
	if err != nil {
		return err
	}
	for _, odd := range d.odd {
		fmt.Fprintf(w, "# %s\n", odd)
	}
	_, err = io.WriteString(w, text)
	return err
}

// newTopologyFromSakkaraCommand prints what a tree of Sakkara's is here.
func newTopologyFromSakkaraCommand() *cobra.Command {
	var namespace string
	list := &readCommand{
		instead: "a manifest",
		flags: func(cmd *cobra.Command) {
			cmd.Flags().
				StringVarP(&namespace, "namespace", "n", "", "`namespace` of the ConfigMap, if there are several")
		},
		read: func(ctx context.Context, q *query) (found, error) {
			name := ""
			if len(q.args) > 0 {
				name = q.args[0]
			}
			tree, err := cli.SakkaraTree(ctx, q.c, namespace, name)
			if err != nil {
				return nil, err
			}
			_, nodes, err := cli.TopologyOf(ctx, q.c, "")
			if err != nil {
				return nil, err
			}
			text, err := cli.TreeManifests(tree, nodes)
			return manifestText(text), err
		},
	}
	return list.command(&cobra.Command{
		Use:   "from-sakkara [CONFIGMAP]",
		Short: "Print the Topology and the labels of nodes that stand for a tree of Sakkara's",
		Long: `Print, as manifests, the Topology and the labels of nodes that stand for the tree of a ConfigMap
with the label sakkara.topology. A level NAME is the label sakkara.topology.NAME, which Sakkara
itself reads where it has no tree; a name with a slash is a label as it is. Nodes that are only
in the tree, or not in it, are told in comments. Nodes that come later need the labels, too.`,
		Example: `  # what would it be?
  mlbatch topology from-sakkara

  # make it; then name the Topology in the ResourceFlavor, spec.topologyName
  mlbatch topology from-sakkara | mlbatch kubectl apply -f -`,
		Args: cobra.MaximumNArgs(1),
	})
}

// manifestText is manifests in YAML.
type manifestText string

func (m manifestText) print(w io.Writer, _ *query) error {
	_, err := io.WriteString(w, string(m))
	return err
}
