package simnode

import "context"

// Main runs the simulator.
func Main(ctx context.Context, args []string) error {
	<-ctx.Done()
	return nil
}
