package local

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/mlbatch/mlbatch/internal/local/controlplane"
	"github.com/mlbatch/mlbatch/internal/local/realnode"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

// Names of the components, as in status and logs.
const (
	Etcd              = controlplane.EtcdName
	APIServer         = controlplane.APIServerName
	ControllerManager = controlplane.ControllerManagerName
	KubeScheduler     = controlplane.SchedulerName
	Nodes             = "nodes"
	Controller        = "controller"
	Scheduler         = "scheduler"
)

const (
	// componentCommand is the subcommand under which a binary plays a
	// component that has none of its own.
	componentCommand = "component"
	// childVariable tells a binary that it was started as a child.
	childVariable = "MLBATCH_CHILD"
)

// Program runs one component until its context ends.
type Program func(ctx context.Context, args []string) error

// Components are the programs behind "component NAME".
func Components() map[string]Program {
	all := map[string]Program{Nodes: simnode.Main}
	for name, p := range controlplane.Programs() {
		all[name] = p
	}
	for name, p := range realnode.Programs() {
		all[name] = p
	}
	return all
}

// RunChild plays a component if this process was started to be one, and says
// whether it was. Test binaries that call Start must call it first:
//
//	func TestMain(m *testing.M) {
//		if code, child := local.RunChild(context.Background(), nil); child {
//			os.Exit(code)
//		}
//		os.Exit(m.Run())
//	}
//
// The programs are what a full cluster runs besides Components, by name:
// Controller and Scheduler, with the arguments of the mlbatch subcommands.
func RunChild(ctx context.Context, programs map[string]Program) (code int, child bool) {
	if os.Getenv(childVariable) == "" {
		return 0, false
	}
	all := Components()
	maps.Copy(all, programs)
	args := os.Args[1:]
	if len(args) > 0 && args[0] == componentCommand {
		args = args[1:]
	}
	if len(args) == 0 || all[args[0]] == nil {
		fmt.Fprintf(os.Stderr, "cannot run %v: this binary has only %v\n", args, slices.Sorted(maps.Keys(all)))
		return 2, true
	}
	if err := all[args[0]](ctx, args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1, true
	}
	return 0, true
}
