package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// Installed programs get the flags that there are, and no others.
func TestInstalledProgramsTakeTheirFlags(t *testing.T) {
	ends := []string{"check-config", "config", "help", "kubeconfig", "output"}
	for component, cmd := range map[string]*cobra.Command{install.ControllerComponent: newControllerCommand(), install.SchedulerComponent: newSchedulerCommand(), install.AgentComponent: newAgentCommand()} {
		var want install.Flags
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch {
			case slices.Contains(ends, f.Name):
			case f.Value.Type() == "bool":
				want.Switches = append(want.Switches, f.Name)
			default:
				want.Valued = append(want.Valued, f.Name)
			}
		})
		if got := install.FlagsOf(
			component,
		); !slices.Equal(got.Valued, want.Valued) ||
			!slices.Equal(got.Switches, want.Switches) {
			t.Errorf(
				"extraArgs of the %s may have\n%v and %v, it has\n%v and %v",
				component,
				got.Valued,
				got.Switches,
				want.Valued,
				want.Switches,
			)
		}
	}
}

// Metrics that no user asked for are not shown to everybody.
func TestMetricsArePrivateByDefault(t *testing.T) {
	if f := newControllerCommand().Flags().Lookup("metrics-secure"); f == nil || f.DefValue != "true" {
		t.Errorf("metrics-secure is %v by default", f)
	}
}
