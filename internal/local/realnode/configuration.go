package realnode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/local/pki"
)

// Files of a node's configuration, in its directory Etc.
const (
	kubeletConfigFile    = "kubelet.yaml"
	kubeletKubeconfig    = "kubelet.kubeconfig"
	proxyConfigFile      = "kube-proxy.yaml"
	proxyKubeconfig      = "kube-proxy.kubeconfig"
	containerdConfigFile = "containerd.toml"
	resolvFile           = "resolv.conf"
	caFile               = "ca.crt"
	certFile, keyFile    = "kubelet.crt", "kubelet.key"
	cniDir               = "cni"
)

// Identity is how a node proves who it is.
type Identity struct {
	// CA is the file of the cluster's authority; Cert and Key are the kubelet's as a
	// server.
	CA, Cert, Key string
	// Kubelet and Proxy are kubeconfigs.
	Kubelet, Proxy []byte
}

// WriteConfiguration writes what the node's programs are configured with.
func (n Node) WriteConfiguration(s Subnet, id Identity, pods int64) error {
	if err := os.MkdirAll(filepath.Join(n.Etc(), cniDir), 0o700); err != nil {
		return err
	}
	files := map[string][]byte{
		kubeletKubeconfig: id.Kubelet, proxyKubeconfig: id.Proxy,
		containerdConfigFile: []byte(containerdConfig),
		resolvFile:           []byte("nameserver " + s.Router() + "\n"),
	}
	for to, from := range map[string]string{caFile: id.CA, certFile: id.Cert, keyFile: id.Key} {
		b, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("configure node %s: %w", n.Name, err)
		}
		files[to] = b
	}
	var err error
	if files[kubeletConfigFile], err = yaml.Marshal(n.kubeletConfig(s, pods)); err != nil {
		return fmt.Errorf("configure node %s: %w", n.Name, err)
	}
	if files[proxyConfigFile], err = yaml.Marshal(n.proxyConfig(s)); err != nil {
		return fmt.Errorf("configure node %s: %w", n.Name, err)
	}
	if files[cniDir+"/10-mlbatch.conflist"], err = json.MarshalIndent(n.podNetwork(s), "", "  "); err != nil {
		return fmt.Errorf("configure node %s: %w", n.Name, err)
	}
	for name, content := range files {
		if err := pki.WriteFile(filepath.Join(n.Etc(), name), content); err != nil {
			return err
		}
	}
	return nil
}

type object = map[string]any

// kubeletConfig is the KubeletConfiguration.
func (n Node) kubeletConfig(s Subnet, pods int64) object {
	etc := func(name string) string { return filepath.Join(insideEtc, name) }
	return object{
		"apiVersion":         "kubelet.config.k8s.io/v1beta1",
		"kind":               "KubeletConfiguration",
		"address":            s.Node(n.Index),
		"port":               KubeletPort,
		"tlsCertFile":        etc(certFile),
		"tlsPrivateKeyFile":  etc(keyFile),
		"rotateCertificates": false,
		"authentication": object{
			"anonymous": object{"enabled": false}, "webhook": object{"enabled": true},
			"x509": object{"clientCAFile": etc(caFile)},
		},
		"authorization":            object{"mode": "Webhook"},
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"imageServiceEndpoint":     "unix://" + imageSocket,
		"clusterDNS":               []string{DNSService},
		"clusterDomain":            Domain,
		"resolvConf":               etc(resolvFile),
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               n.Cgroup,
		// The machine may have the older cgroups, and swap.
		"failCgroupV1": false,
		"failSwapOn":   false,
		"maxPods":      pods,
		// As lively as the rest of the embedded cluster, where a node that is silent for
		// 20 seconds counts as dead.
		"nodeLeaseDurationSeconds":  20,
		"nodeStatusUpdateFrequency": "5s",
		"nodeStatusReportFrequency": "1m",
		"evictionHard": object{
			"memory.available":  "100Mi",
			"nodefs.available":  "100Mi",
			"nodefs.inodesFree": "1%",
			"imagefs.available": "100Mi",
		},
		"evictionPressureTransitionPeriod": "30s",
		// Images come from archives: removed ones do not come back.
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"serializeImagePulls":         false,
		// Lowering it takes a right that root need not have.
		"oomScoreAdj":            0,
		"makeIPTablesUtilChains": false,
		"volumePluginDir":        "/var/lib/mlbatch/volume-plugins",
		"enforceNodeAllocatable": []string{"pods"},
		"shutdownGracePeriod":    "0s",
	}
}

// proxyConfig is the KubeProxyConfiguration. Limits of connection tracking are the
// machine's and stay.
func (n Node) proxyConfig(s Subnet) object {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"hostnameOverride": n.Name, "bindAddress": s.Node(n.Index),
		"clientConnection": object{"kubeconfig": filepath.Join(insideEtc, proxyKubeconfig)},
		"clusterCIDR":      s.Pods(), "detectLocalMode": "ClusterCIDR",
		"mode": "nftables", "nftables": object{"minSyncPeriod": "100ms"},
		"oomScoreAdj":        0,
		"healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

// podNetwork is the CNI configuration: each pod has a cable to its node, which routes.
func (n Node) podNetwork(s Subnet) object {
	return object{
		"cniVersion": "1.0.0", "name": "mlbatch",
		"plugins": []object{
			{
				"type": "ptp", "ipMasq": false, "mtu": 1500,
				"ipam": object{
					"type": "host-local", "dataDir": "/var/lib/cni/networks",
					"ranges": [][]object{{{"subnet": s.PodsOf(n.Index)}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}

// ContainerdArgs is the command line of containerd on a node.
func ContainerdArgs() []string {
	return []string{"containerd", "--config", filepath.Join(insideEtc, containerdConfigFile)}
}

// containerdConfig: nothing but containers of the CRI.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "` + containerdSocket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  # Containers may not be spared by the out-of-memory killer more than containerd is:
  # that takes a right that root need not have.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + cniPlugins + `"
    conf_dir = "` + insideEtc + `/cni"
`
