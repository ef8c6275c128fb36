package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/words"
)

// newClearCommand says of nodes that they are well.
func newClearCommand() *cobra.Command {
	var d nodeCommand
	var reason string
	d.do = func(ctx context.Context) error {
		who, err := cli.WhoAmI(ctx, d.c)
		if err != nil {
			return err //nolint:wrapcheck // it says what it asked
		}
		for _, n := range d.nodes {
			left, err := n.Clear(ctx, d.c, who, reason, time.Now())
			if err != nil {
				return err //nolint:wrapcheck // it names the node
			}
			if left != "" {
				left = "; what is not of mlbatch's findings stays: " + words.Harmless(left)
			}
			fmt.Fprintf(d.out, "node/%s cleared%s\n", n.Name, left)
		}
		return nil
	}
	cmd := d.command(&cobra.Command{
		Use:   "clear NODE...",
		Short: "Say that nodes are well: what was found on them until now does not count any more",
		Long: `Say of nodes that they are well. What conditions, checks and other sources found on them until now
does not count any more, a fatal finding neither; what is found later does. A health label that
mlbatch set is taken off. What others set, and what "mlbatch drain" did, stays.

It takes the right to patch nodes.`,
		Example: `  # repaired, and tested by hand
  mlbatch nodes clear node-1 --reason "GPU 3 replaced"`,
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for those who look at the node later")
	return cmd
}
