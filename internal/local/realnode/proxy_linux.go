//go:build !noembed

package realnode

import (
	"context"
	"fmt"
	"path/filepath"

	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

// runProxy is kube-proxy as it is upstream.
func runProxy(ctx context.Context, args []string) error {
	if err := kubeversion.Claim(); err != nil {
		return err
	}
	cmd := proxy.NewProxyCommand()
	cmd.SilenceUsage = true
	cmd.SetArgs(append([]string{"--config=" + filepath.Join(insideEtc, proxyConfigFile)}, args...))
	if err := cmd.ExecuteContext(ctx); err != nil {
		return fmt.Errorf("kube-proxy: %w", err)
	}
	return nil
}
