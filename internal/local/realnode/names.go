package realnode

// Names of the programs.
const (
	MachineName = "machine"
	NetworkName = "network"
	DNSName     = "dns"
	VolumesName = "volumes"
	KubeletName = "kubelet"
	ProxyName   = "kube-proxy"
)

// Addresses of services, out of the range that the API server gives, and the domain of
// names in the cluster.
const (
	DNSService = "10.96.0.10"
	Domain     = "cluster.local"
)

// GPUResource is what pretend GPUs are counted as.
const GPUResource = "nvidia.com/gpu"

// PauseImage is that of the container which holds a pod's namespaces.
const PauseImage = "localhost/mlbatch-pause:1"
