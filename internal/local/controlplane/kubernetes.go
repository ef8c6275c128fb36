package controlplane

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

// APIServer runs kube-apiserver.
func APIServer(ctx context.Context, args []string) error {
	return run(ctx, apiserver.NewAPIServerCommand, args)
}

// ControllerManager runs kube-controller-manager.
func ControllerManager(ctx context.Context, args []string) error {
	return run(ctx, controllers.NewControllerManagerCommand, args)
}

func run(ctx context.Context, command func() *cobra.Command, args []string) error {
	if err := kubeversion.Claim(); err != nil {
		return err
	}
	cmd := command()
	cmd.SetArgs(args)
	cmd.SilenceUsage = true
	if err := cmd.ExecuteContext(ctx); err != nil {
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	return nil
}
