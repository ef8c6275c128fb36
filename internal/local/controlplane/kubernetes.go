//go:build !noembed

package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

// Programs are the programs by name.
func Programs() map[string]func(ctx context.Context, args []string) error {
	return map[string]func(ctx context.Context, args []string) error{
		EtcdName:              runEtcd,
		APIServerName:         runAPIServer,
		ControllerManagerName: stoppedAtOnce(controllers.NewControllerManagerCommand),
		SchedulerName:         stoppedAtOnce(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	}
}

// runAPIServer leaves signals to upstream's code, which lets requests finish.
func runAPIServer(ctx context.Context, args []string) error {
	return run(ctx, apiServerCommand, args)
}

// extras are the flags that upstream's server does not have.
type extras struct {
	// conversionClient, if set, is the kubeconfig with which conversion webhooks are
	// called.
	conversionClient string
	// oldCaches keeps watch caches of old versions, as upstream does.
	oldCaches bool
}

func (e *extras) addTo(f *pflag.FlagSet) {
	f.StringVar(
		&e.conversionClient,
		"conversion-kubeconfig",
		"",
		"kubeconfig with what to show to conversion webhooks, which upstream's server has for admission webhooks only",
	)
	f.BoolVar(&e.oldCaches, OldCachesFlag, false, "keep watch caches of old versions, too")
}

// apiServerCommand is upstream's command with one more admission plugin, and more
// flags.
func apiServerCommand() *cobra.Command {
	opts := options.NewServerRunOptions()
	plugins := opts.Admission.GenericAdmission
	plugins.Plugins.Register(LightName, newLight)
	plugins.RecommendedPluginOrder = append(plugins.RecommendedPluginOrder, LightName)

	var ours extras
	kubernetes := opts.GenericServerRunOptions.ComponentGlobalsRegistry
	cmd := &cobra.Command{
		Use:          APIServerName,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			if err := kubernetes.Set(); err != nil {
				return fmt.Errorf("feature gates: %w", err)
			}
			if err := logsapi.ValidateAndApply(
				opts.Logs,
				kubernetes.FeatureGateFor(basecompatibility.DefaultKubeComponent),
			); err != nil {
				return fmt.Errorf("logging: %w", err)
			}
			rest.SetDefaultWarningHandler(rest.NoWarnings{}) // of what it asks itself
			ctx := genericapiserver.SetupSignalContext()
			completed, err := opts.Complete(ctx)
			if err != nil {
				return fmt.Errorf("complete options: %w", err)
			}
			if errs := completed.Validate(); len(errs) != 0 {
				return utilerrors.NewAggregate(errs)
			}
			return serveAPI(ctx, completed, ours)
		},
	}
	flags := opts.Flags()
	for _, set := range flags.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	ours.addTo(cmd.Flags())
	return cmd
}

// serveAPI is upstream's apiserver.Run with what makes writes cheaper here: no
// watch caches of old versions, unless they are asked for.
func serveAPI(ctx context.Context, opts options.CompletedOptions, ours extras) error {
	config, err := apiserver.NewConfig(opts)
	if err != nil {
		return fmt.Errorf("configure the API server: %w", err)
	}
	extensions := &config.ApiExtensions.ExtraConfig
	if !ours.oldCaches {
		extensions.CRDRESTOptionsGetter = withoutOldCaches{extensions.CRDRESTOptionsGetter}
	}
	if ours.conversionClient != "" {
		who, err := webhook.NewDefaultAuthenticationInfoResolver(ours.conversionClient)
		if err != nil {
			return fmt.Errorf("read the kubeconfig for conversion webhooks: %w", err)
		}
		wrap := extensions.AuthResolverWrapper
		extensions.AuthResolverWrapper = func(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver { return wrap(who) }
	}

	aggregator := &config.Aggregator.ExtraConfig
	aggregator.ServiceResolver = externalNames{
		ServiceResolver: aggregator.ServiceResolver,
		byName: aggregatorapiserver.NewClusterIPServiceResolver(
			config.KubeAPIs.ControlPlane.VersionedInformers.Core().V1().Services().Lister(),
		),
	}

	completed, err := config.Complete()
	if err != nil {
		return fmt.Errorf("configure the API server: %w", err)
	}
	server, err := apiserver.CreateServerChain(completed)
	if err != nil {
		return fmt.Errorf("assemble the API server: %w", err)
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return fmt.Errorf("prepare the API server: %w", err)
	}
	return prepared.Run(ctx)
}

// externalNames finds services that are names of others, as that in front of mlbatch's API of
// pending workloads is, also where services are otherwise found by their pods
// (--enable-aggregator-routing), which upstream's server refuses.
type externalNames struct {
	aggregatorapiserver.ServiceResolver
	byName aggregatorapiserver.ServiceResolver
}

// ResolveEndpoint finds a service.
func (r externalNames) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	at, err := r.ServiceResolver.ResolveEndpoint(namespace, name, port)
	if err == nil {
		return at, nil
	}
	// Only this one knows external names; of what has an address of its own, no machine here
	// knows the way to it.
	if named, e := r.byName.ResolveEndpoint(
		namespace,
		name,
		port,
	); e == nil &&
		net.ParseIP(named.Hostname()) == nil {
		return named, nil
	}
	return nil, err
}

// stoppedAtOnce is a program that returns at once when it is to stop: whatever it
// does, it does again.
func stoppedAtOnce(command func() *cobra.Command) func(ctx context.Context, args []string) error {
	return func(ctx context.Context, args []string) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, command, args) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
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
