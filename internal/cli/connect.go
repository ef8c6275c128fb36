package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// Connection says which cluster to ask, and as which user.
type Connection struct {
	// Kubeconfig is a file; "" looks for one.
	Kubeconfig string
	// DataDir is the folder of a cluster made by `mlbatch up`, whose kubeconfig
	// is used if no other was named.
	DataDir string
	// As is the user to impersonate, "" for none.
	As string
}

// Config finds the kubeconfig, in this order: the one that was named,
// $KUBECONFIG, the one in the data directory, the user's own.
func (c Connection) Config() (*rest.Config, error) {
	cfg, err := c.loading().ClientConfig()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New(
			"no cluster found: start one with `mlbatch up`, or name a kubeconfig with --kubeconfig",
		)
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1 // the API server limits by itself
	return cfg, nil
}

// Namespace is that of the kubeconfig's context, "" if it has none.
func (c Connection) Namespace() string {
	raw, err := c.loading().RawConfig()
	if err != nil || raw.Contexts[raw.CurrentContext] == nil {
		return ""
	}
	return raw.Contexts[raw.CurrentContext].Namespace
}

// loading reads the kubeconfig that Config finds.
func (c Connection) loading() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	switch own := filepath.Join(c.DataDir, "kubeconfig"); {
	case c.Kubeconfig != "":
		rules.ExplicitPath = c.Kubeconfig
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
	case c.DataDir != "" && readableFile(own):
		rules.ExplicitPath = own
	}
	overrides := &clientcmd.ConfigOverrides{AuthInfo: clientcmdapi.AuthInfo{Impersonate: c.As}}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// Unreachable says in place of a refused connection what to do about it; other errors
// stay as they are.
func (c Connection) Unreachable(err error, server string) error {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	if own, e := (Connection{Kubeconfig: filepath.Join(c.DataDir, "kubeconfig")}).Config(); e == nil &&
		c.Kubeconfig == "" &&
		own.Host == server {
		return fmt.Errorf(
			"the API server of the cluster in %[1]s does not answer: where mlbatch status --data-dir %[1]s says that the cluster runs it is started again by itself, and otherwise mlbatch up --data-dir %[1]s starts it",
			c.DataDir,
		)
	}
	return fmt.Errorf(
		"nothing answers at %s: is the cluster running? One on this machine starts with mlbatch up",
		server,
	)
}

// NotInstalled says of a kind of mlbatch that the cluster does not have what to do about it;
// other errors stay as they are.
func NotInstalled(err error) error {
	var none *meta.NoKindMatchError
	if !errors.As(err, &none) || !scheme.New().IsGroupRegistered(none.GroupKind.Group) {
		return err
	}
	return fmt.Errorf(
		"the cluster has no %s (%s): mlbatch is not installed there, or an older one is: mlbatch install",
		none.GroupKind.Kind,
		none.GroupKind.Group,
	)
}

func readableFile(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// WhoAmI is the user that the API server takes the asker for.
func WhoAmI(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("ask the API server who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
