//go:build !noembed

package realnode

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"

	"github.com/mlbatch/mlbatch/internal/local/kubeversion"
)

// runKubelet is the kubelet as it is upstream, on a node that may say that it has more
// processors and memory than the machine, and with images that need no registry.
func runKubelet(_ context.Context, args []string) error {
	if err := kubeversion.Claim(); err != nil {
		return err
	}
	var n Node
	flags := options.NewKubeletFlags()
	f := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	f.Func("node", "the node, as JSON", func(s string) error { return json.Unmarshal([]byte(s), &n) })
	f.StringVar(&flags.NodeIP, "node-ip", "", "address of the node")
	f.Func(
		"node-labels",
		"labels of the node, as JSON",
		func(s string) error { return json.Unmarshal([]byte(s), &flags.NodeLabels) },
	)
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	flags.HostnameOverride, flags.RootDirectory = n.Name, kubeletDir
	flags.KubeConfig = filepath.Join(insideEtc, kubeletKubeconfig)
	flags.CertDirectory = kubeletDir + "/pki"
	ctx := genericapiserver.SetupSignalContext()
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, filepath.Join(insideEtc, kubeletConfigFile))
	if err != nil {
		return fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	config, err := loader.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	if err := logsapi.ValidateAndApplyAsField(&config.Logging, utilfeature.DefaultFeatureGate, nil); err != nil {
		return fmt.Errorf("logging: %w", err)
	}
	// 1. Images that are on the machine, before a pod asks for them.
	images, err := serveImages(ctx)
	if err != nil {
		return err
	}
	if err := images.importAll(ctx); err != nil {
		return err
	}
	go images.importNew(ctx)
	// 2. The kubelet.
	s := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	deps, err := kubelet.UnsecuredDependencies(ctx, s, utilfeature.DefaultFeatureGate)
	if err != nil {
		return fmt.Errorf("prepare the kubelet: %w", err)
	}
	roots := []string{cm.NodeAllocatableRoot(s.CgroupRoot, s.CgroupsPerQOS, s.CgroupDriver)}
	stats, err := cadvisor.New(
		klog.FromContext(ctx),
		cadvisor.NewImageFsInfoProvider(s.ContainerRuntimeEndpoint),
		s.RootDirectory,
		roots,
		cadvisor.UsingLegacyCadvisorStats(s.ContainerRuntimeEndpoint),
		s.LocalStorageCapacityIsolation,
		false,
	) // containers are found by cAdvisor: not every containerd has statistics of its own
	if err != nil {
		return fmt.Errorf("look at the machine: %w", err)
	}
	deps.CAdvisorInterface = larger{stats, n}
	return kubelet.Run(ctx, s, deps, utilfeature.DefaultFeatureGate)
}

// larger says that a machine has what its node is to have.
type larger struct {
	cadvisor.Interface
	node Node
}

// MachineInfo implements cadvisor.Interface.
func (l larger) MachineInfo(logger klog.Logger) (*cadvisorapi.MachineInfo, error) {
	is, err := l.Interface.MachineInfo(logger)
	if err != nil {
		return nil, err
	}
	says := *is
	if l.node.CPUs > 0 {
		says.NumCores = int(l.node.CPUs)
	}
	if l.node.Memory > 0 {
		says.MemoryCapacity = uint64(l.node.Memory)
	}
	return &says, nil
}
