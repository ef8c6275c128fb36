//go:build !noembed

package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/cmd"

	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--data-dir directory] ...",
		Short: "kubectl, built in",
		Long: `kubectl, built in. It talks to the cluster on this machine unless KUBECONFIG is
set or --kubeconfig is given. --data-dir, if it comes first, chooses among several
clusters. Everything else is as in kubectl; "mlbatch kubectl help" lists it.`,
		Example: `  mlbatch kubectl get nodes

  # as one of the tutorial's users
  mlbatch kubectl create -f job.yaml -n blue --as alice`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
				return c.Help()
			}
			dir, rest, err := leadingDataDir(args)
			if err != nil {
				return usageError{err}
			}
			return kubectl(c, dir, rest)
		},
	}
}

// leadingDataDir takes --data-dir off the front of kubectl's arguments.
func leadingDataDir(args []string) (dir dataDir, rest []string, err error) {
	if len(args) == 0 {
		return "", nil, nil
	}
	if v, ok := strings.CutPrefix(args[0], "--data-dir="); ok {
		return dataDir(v), args[1:], nil
	}
	if args[0] != "--data-dir" {
		return "", args, nil
	}
	if len(args) < 2 {
		return "", nil, fmt.Errorf("--data-dir needs a directory")
	}
	return dataDir(args[1]), args[2:], nil
}

func kubectl(c *cobra.Command, dir dataDir, args []string) error {
	if err := kubeversion.Claim(); err != nil {
		return err
	}
	if err := chooseKubeconfig(dir); err != nil {
		return err
	}
	if !verbose(args) {
		// Without a cluster its libraries log the same failure five times before kubectl says it.
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
	}
	// kubectl knows nothing of our context: what it serves ends by the signal itself,
	// unless it wants to hear of it.
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	k := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: cmd.NewDefaultPluginHandler([]string{"kubectl"}),
		Arguments:     append([]string{"kubectl"}, args...),
		ConfigFlags:   genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag(),
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: c.OutOrStdout(), ErrOut: c.ErrOrStderr()},
	})
	k.SetArgs(args)
	return k.ExecuteContext(c.Context())
}

// verbose reports whether kubectl is asked to log what its libraries do.
func verbose(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "-v" || a == "--v" || strings.HasPrefix(a, "-v=") || strings.HasPrefix(a, "--v=") {
			return true
		}
		if rest, short := strings.CutPrefix(a, "-v"); short {
			if _, err := strconv.Atoi(rest); err == nil {
				return true
			}
		}
	}
	return false
}

// chooseKubeconfig points kubectl at our cluster, unless the user chose
// another or there is none.
func chooseKubeconfig(dir dataDir) error {
	if dir == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		return nil
	}
	path, err := dir.path()
	if err != nil {
		return err
	}
	file := local.Kubeconfig(path)
	if _, err := os.Stat(file); err != nil {
		if dir != "" {
			return fmt.Errorf("%w: %s", local.ErrNoCluster, path)
		}
		return nil
	}
	return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, file)
}
