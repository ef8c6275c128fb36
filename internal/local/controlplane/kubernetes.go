//go:build !noembed

package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

// Programs are the programs by name.
func Programs() map[string]func(ctx context.Context, args []string) error {
	return map[string]func(ctx context.Context, args []string) error{
		EtcdName:              runEtcd,
		APIServerName:         runAPIServer,
		ControllerManagerName: runControllerManager,
	}
}

// runAPIServer leaves signals to upstream's code, which lets requests finish.
func runAPIServer(ctx context.Context, args []string) error {
	return run(ctx, apiserver.NewAPIServerCommand, args)
}

// runControllerManager returns at once when it is to stop: whatever its
// controllers do, they do again.
func runControllerManager(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, controllers.NewControllerManagerCommand, args) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

func run(ctx context.Context, command func() *cobra.Command, args []string) error {
	if err := kubeversion.Claim(); err != nil {
		return err
	}
	cmd := command()
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	return nil
}
