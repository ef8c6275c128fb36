//go:build !noembed

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

// componentReport is one component as scripts see it.
type componentReport struct {
	local.ComponentStatus
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
}

// report is the output of status for scripts.
type report struct {
	local.ClusterFile
	DataDir    string            `json:"dataDir"`
	Kubeconfig string            `json:"kubeconfig"`
	Components []componentReport `json:"components"`
}

func newStatusCommand() *cobra.Command {
	var dir dataDir
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the components and queues of the cluster on this machine",
		Long: `Show the components of the cluster on this machine (process, uptime, restarts,
health and memory), its nodes and queues. It exits with 1 if the cluster does not run or a component is
not ready.`,
		Example: `  mlbatch status

  # for scripts
  mlbatch status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := dir.path()
			if err != nil {
				return err
			}
			r, err := gatherReport(path)
			if err != nil {
				return err
			}
			if err := r.print(cmd.OutOrStdout(), output, time.Now()); err != nil {
				return err
			}
			if output == "" && r.Phase == local.Running {
				printQueues(cmd.Context(), cmd.OutOrStdout(), r.Kubeconfig)
			}
			if !r.healthy() {
				return errSilent
			}
			return nil
		},
	}
	dir.addTo(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "", "`format`: json or yaml; a table if empty")
	return cmd
}

// printQueues adds what the API server knows, or that it does not answer.
func printQueues(ctx context.Context, w io.Writer, kubeconfig string) {
	ctx, cancel := context.WithTimeout(ctx, refreshEvery)
	defer cancel()
	cfg, err := cli.Connection{Kubeconfig: kubeconfig}.Config()
	var cl client.Client
	if err == nil {
		cl, err = newClient(cfg)
	}
	fmt.Fprintln(w)
	if err == nil {
		err = nodesAndQueues(ctx, w, cl)
	}
	if err != nil {
		fmt.Fprintln(w, whyNoQueues(err))
	}
}

// whyNoQueues is a line in place of what the API server knows.
func whyNoQueues(err error) string {
	if none := cli.NotInstalled(err); !errors.Is(none, err) {
		return firstLine(none.Error())
	}
	return "the API server does not answer: " + firstLine(err.Error())
}

func gatherReport(dir string) (report, error) {
	st, err := local.ReadState(dir)
	if err != nil {
		return report{}, err
	}
	return newReport(st, dir), nil
}

// newReport adds what only the system knows: the supervising process itself,
// and how much memory each process has.
func newReport(st local.ClusterFile, dir string) report {
	r := report{ClusterFile: st, DataDir: dir, Kubeconfig: local.Kubeconfig(dir)}
	self := local.ComponentStatus{Name: "mlbatch", PID: st.PID, Health: supervise.Ready, Started: st.Started}
	if st.PID == 0 {
		self.Health = supervise.Stopped
	}
	for _, c := range append([]local.ComponentStatus{self}, st.Components...) {
		r.Components = append(r.Components, componentReport{ComponentStatus: c, MemoryBytes: local.Memory(c.PID)})
	}
	return r
}

func (r report) healthy() bool {
	for _, c := range r.Components {
		if c.Health != supervise.Ready {
			return false
		}
	}
	return r.Phase == local.Running
}

func (r report) print(w io.Writer, format string, now time.Time) error {
	switch format {
	case "":
		return r.table(w, now)
	case "json", "yaml":
		return printObject(w, format, r)
	default:
		return usageError{fmt.Errorf("-o %q: must be json or yaml, or left out", format)}
	}
}

func (r report) table(w io.Writer, now time.Time) error {
	fmt.Fprintf(w, "%s, Kubernetes %s, data in %s\n\n", r.Phase, r.KubernetesVersion, r.DataDir)
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(t, "COMPONENT\tPID\tUPTIME\tRESTARTS\tHEALTH\tMEMORY")
	var total int64
	for _, c := range r.Components {
		pid, uptime, memory := "-", "-", "-"
		if c.PID != 0 {
			pid, memory = fmt.Sprint(c.PID), mebibytes(c.MemoryBytes)
			uptime = duration.HumanDuration(now.Sub(c.Started))
		}
		total += c.MemoryBytes
		health := string(c.Health)
		if c.Message != "" && c.Health != supervise.Ready {
			health += " (" + shorten(c.Message) + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", c.Name, pid, uptime, c.Restarts, health, memory)
	}
	fmt.Fprintf(t, "total\t\t\t\t\t%s\n", mebibytes(total))
	return t.Flush()
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// shorten keeps a row of the table on one line; -o json has all of it.
func shorten(s string) string {
	const most = 60
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
