package local

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/local/controlplane"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

const (
	serviceCIDR  = "10.96.0.0/16"
	apiServiceIP = "10.96.0.1"
	// systemNamespace is where mlbatch keeps its own objects.
	systemNamespace = "mlbatch-system"
	// issuer names the cluster in service account tokens.
	issuer = "https://kubernetes.default.svc.cluster.local"
)

// Stages: what others need starts first and stops last.
const (
	stageEtcd = iota
	stageAPI
	stageRest
	// Of real nodes: the network ends after them, they after what runs on them.
	stageNetwork
	stageMachine
	stageOnNode
)

// hungAfter is how long a component may give no answer at all before it is started
// again: longer than a busy machine, or a collection of garbage, takes.
const hungAfter = time.Minute

// self is this binary, even after a new build replaced its file.
const self = "/proc/self/exe"

// program describes one component before it becomes a supervise.Spec.
type program struct {
	name  string
	args  []string
	stage int
	grace time.Duration
	probe probe
	// goGC and memory bound the garbage of the process: how much it may grow
	// between collections (percent) while it works (at rest see GiveBackMemory), and
	// at how many MiB collecting becomes urgent on a machine of 8 GiB; on a larger one
	// later, in proportion, so that a large cluster is not collected all the time.
	goGC   int
	memory int64
	// path is another program than this one; its command line is then args.
	path string
	// namespaces and inside are those of supervise.Spec.
	namespaces uintptr
	inside     string
}

func (c *Cluster) spec(p program) supervise.Spec {
	path, args := self, append([]string{"mlbatch"}, p.args...)
	if p.path != "" {
		path, args = p.path, p.args
	}
	return supervise.Spec{
		Name:       p.name,
		Path:       path,
		Args:       args,
		Namespaces: p.namespaces,
		Inside:     p.inside,
		// Servers start a goroutine for every request, some of them deep: with
		// stacks that are large enough from the start, none is copied to grow.
		Env: []string{
			childVariable + "=" + p.name,
			fmt.Sprintf("GOGC=%d", p.goGC),
			fmt.Sprintf("GOMEMLIMIT=%dMiB", p.memory*max(machineMemory()>>30, 8)/8),
			"GODEBUG=adaptivestackstart=1",
		},
		LogFile: c.files.log(p.name),
		Stage:   p.stage,
		Probe:   p.probe,
		Grace:   p.grace,
		Hung:    hungAfter,
	}
}

func (c *Cluster) etcd() program {
	args := []string{
		componentCommand, Etcd,
		"--data-dir=" + c.files.etcd(),
		"--listen=" + address(c.ports.Etcd),
		"--cert-file=" + c.id.etcdServer.Cert,
		"--key-file=" + c.id.etcdServer.Key,
		"--trusted-ca-file=" + c.id.etcdCA.CertFile(),
	}
	if c.cfg.UnsafeNoFsync {
		args = append(args, "--unsafe-no-fsync")
	}
	return program{
		name: Etcd, args: args, stage: stageEtcd, grace: 5 * time.Second, goGC: 300, memory: 512,
		probe: httpProbe("https://"+address(c.ports.Etcd)+"/health", c.etcdTLS),
	}
}

func (c *Cluster) apiServer() program {
	// Nodes are registered ready; without this every node would first get a taint that
	// another process must take off again.
	without, oldCaches := []string{"TaintNodesByCondition"}, false
	if c.isBare() {
		without = nil
	}
	if c.cfg.StockAPIServer || c.isBare() {
		without, oldCaches = append(without, controlplane.LightName), true
	}
	var more []string
	if c.cfg.AuditLog != "" {
		more = []string{"--audit-policy-file=" + c.files.auditPolicy(), "--audit-log-path=" + c.cfg.AuditLog}
	}
	if !c.isBare() {
		// How it proves to the webhooks that it is the one that asks.
		more = append(
			more,
			"--admission-control-config-file="+c.files.admission(),
			"--conversion-kubeconfig="+c.files.kubeconfigOf(webhooksUser),
		)
	}
	if c.cfg.RuntimeConfig != "" {
		more = append(more, "--runtime-config="+c.cfg.RuntimeConfig)
	}
	more = append(more, c.gates()...)
	kubelets, authorization, with := "ExternalIP", "RBAC", ""
	if c.real != nil {
		kubelets, authorization, with = "InternalIP", "Node,RBAC", "NodeRestriction"
	}
	return program{
		name: APIServer, stage: stageAPI, grace: 5 * time.Second, goGC: 300, memory: 2560,
		probe: httpProbe(apiURL(c.ports.API)+"/readyz", c.adminTLS),
		args: append([]string{
			componentCommand, APIServer,
			"--etcd-servers=https://" + address(c.ports.Etcd),
			"--etcd-cafile=" + c.id.etcdCA.CertFile(),
			"--etcd-certfile=" + c.id.etcdClient.Cert,
			"--etcd-keyfile=" + c.id.etcdClient.Key,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.ports.API),
			"--tls-cert-file=" + c.id.apiServer.Cert,
			"--tls-private-key-file=" + c.id.apiServer.Key,
			"--client-ca-file=" + c.id.ca.CertFile(),
			"--token-auth-file=" + c.files.tokens(),
			"--service-account-issuer=" + issuer,
			"--service-account-key-file=" + c.id.signingKey,
			"--service-account-signing-key-file=" + c.id.signingKey,
			"--authorization-mode=" + authorization,
			// How it tells the servers of aggregated APIs who is asking.
			"--requestheader-client-ca-file=" + c.id.frontProxyCA.CertFile(),
			"--requestheader-allowed-names=" + frontProxyUser,
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + c.id.frontProxy.Cert,
			"--proxy-client-key-file=" + c.id.frontProxy.Key,
			// Where nodes answer for logs and the like, simulated ones at a port of
			// this machine (simnode).
			"--kubelet-preferred-address-types=" + kubelets,
			"--kubelet-certificate-authority=" + c.id.ca.CertFile(),
			"--kubelet-client-certificate=" + c.id.kubeletClient.Cert,
			"--kubelet-client-key=" + c.id.kubeletClient.Key,
			"--anonymous-auth=false",
			"--allow-privileged=true",
			"--service-cluster-ip-range=" + serviceCIDR,
			// Nothing routes to the API server's service address, and an
			// endpoint must not be a loopback address.
			"--advertise-address=" + loopback,
			"--endpoint-reconciler-type=none",
			"--disable-admission-plugins=" + strings.Join(without, ","),
			"--enable-admission-plugins=" + with,
			// Webhooks in pods are reached by the pods' addresses: nothing on this
			// machine routes to those of services.
			fmt.Sprintf("--enable-aggregator-routing=%t", c.real != nil),
			fmt.Sprintf("--%s=%t", controlplane.OldCachesFlag, oldCaches),
			"--max-requests-inflight=2000",
			"--max-mutating-requests-inflight=1000",
			"--profiling=false",
			"--shutdown-send-retry-after=false",
		}, more...),
	}
}

func (c *Cluster) controllerManager() program {
	kubeconfig := c.files.kubeconfigOf(ControllerManager)
	return program{
		name: ControllerManager, stage: stageRest, grace: 2 * time.Second, goGC: 200, memory: 512,
		probe: httpProbe("https://"+address(c.ports.ControllerManager)+"/healthz", c.adminTLS),
		args: append([]string{
			componentCommand, ControllerManager,
			"--kubeconfig=" + kubeconfig,
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.ports.ControllerManager),
			"--tls-cert-file=" + c.id.controllerManager.Cert,
			"--tls-private-key-file=" + c.id.controllerManager.Key,
			"--authentication-skip-lookup=true",
			"--controllers=" + strings.Join(controllers(), ","),
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + c.id.signingKey,
			"--root-ca-file=" + c.id.ca.CertFile(),
			"--kube-api-qps=2000",
			"--kube-api-burst=4000",
			"--kube-api-content-type=application/vnd.kubernetes.protobuf",
			"--concurrent-job-syncs=20",
			"--concurrent-gc-syncs=20",
			"--concurrent-namespace-syncs=5",
			// A dead node shows sooner than the 50 s of a real cluster; simulated nodes
			// renew three times in that time.
			"--node-monitor-period=2s",
			"--node-monitor-grace-period=" + simnode.Grace(c.cfg.Fleet.Count).String(),
			"--profiling=false",
		}, c.gates()...),
	}
}

// gates are the flags of a component of Kubernetes for its feature gates.
func (c *Cluster) gates() []string {
	if c.cfg.FeatureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + c.cfg.FeatureGates}
}

// controllers are those of kube-controller-manager that batch work needs.
func controllers() []string {
	return []string{
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller",
		"namespace-controller",
		"garbage-collector-controller",
		"pod-garbage-collector-controller",
		"ttl-after-finished-controller",
		"job-controller",
		"cronjob-controller",
		"deployment-controller",
		"replicaset-controller",
		"replicationcontroller-controller",
		"statefulset-controller",
		"daemonset-controller",
		"endpoints-controller",
		"endpointslice-controller",
		"node-lifecycle-controller",
		"taint-eviction-controller",
		"resourcequota-controller",
		"disruption-controller",
		"clusterrole-aggregation-controller",
		"persistentvolume-binder-controller",
		"persistentvolumeclaim-protection-controller",
		"persistentvolume-protection-controller",
		"resourceclaim-controller",
		"validatingadmissionpolicy-status-controller",
		"podgroup-protection-controller", // runs where the feature gate GenericWorkload is on
	}
}

func (c *Cluster) nodes() (program, error) {
	fleet, err := json.Marshal(c.cfg.Fleet)
	if err != nil {
		return program{}, fmt.Errorf("describe the nodes: %w", err)
	}
	return program{
		name: Nodes, stage: stageRest, grace: 2 * time.Second, goGC: 100, memory: 256,
		probe: httpProbe("http://"+address(c.ports.Nodes)+"/healthz", nil),
		args: []string{
			componentCommand, Nodes,
			"--kubeconfig=" + c.files.kubeconfigOf(Nodes),
			"--health-address=" + address(c.ports.Nodes),
			fmt.Sprintf("--time-scale=%g", c.cfg.TimeScale),
			"--fleet=" + string(fleet),
			"--call-address=" + address(c.ports.Calls),
			"--kubelet-address=" + address(c.ports.Kubelets),
			"--kubelet-cert-file=" + c.id.kubelets.Cert,
			"--kubelet-key-file=" + c.id.kubelets.Key,
			"--kubelet-client-ca-file=" + c.id.ca.CertFile(),
		},
	}, nil
}

// controller runs with the cluster's own addresses, which win over those of
// its configuration file.
func (c *Cluster) controller() program {
	args := []string{
		Controller,
		"--kubeconfig=" + c.files.kubeconfigOf(Controller),
		"--namespace=" + systemNamespace,
		"--bind-address=" + loopback,
		fmt.Sprintf("--webhook-port=%d", c.ports.Webhook),
		"--webhook-cert-dir=" + c.files.webhookCerts(),
		"--webhook-client-ca-file=" + c.id.frontProxyCA.CertFile(),
		"--webhook-client-names=" + frontProxyUser,
		"--webhook-client-converts",
		fmt.Sprintf("--metrics-port=%d", c.ports.Metrics),
		fmt.Sprintf("--health-port=%d", c.ports.Health),
		fmt.Sprintf("--visibility-port=%d", c.ports.Visibility),
		// There is one, and it must not wait for its own lease after a kill.
		"--leader-elect=false",
		"--flight-recorder-dir=" + c.files.flights(),
	}
	if c.real == nil {
		args = append(args, "--pod-proxy=http://"+address(c.ports.Calls))
	}
	if c.cfg.StockScheduler {
		args = append(args, "--scheduler-name="+corev1.DefaultSchedulerName, "--scheduler-names=")
	}
	if c.files.hasConfiguration() {
		args = append(args, "--config="+c.files.configuration())
	}
	return program{
		name: Controller, stage: stageRest, grace: 3 * time.Second, goGC: 300, memory: 1024,
		probe: httpProbe("http://"+address(c.ports.Health)+"/readyz", nil),
		args:  args,
	}
}

// scheduler is mlbatch's, or that of Kubernetes.
func (c *Cluster) scheduler() program {
	if c.cfg.kubeScheduler() {
		return c.kubeScheduler()
	}
	return program{
		name: Scheduler, stage: stageRest, grace: 3 * time.Second, goGC: 200, memory: 1024,
		probe: httpProbe("http://"+address(c.ports.Scheduler)+"/healthz", nil),
		args: []string{
			Scheduler,
			"--kubeconfig=" + c.files.kubeconfigOf(Scheduler),
			"--scheduler-names=mlbatch-scheduler,scheduler-plugins-scheduler,sakkara-scheduler,sakkara,default-scheduler",
			fmt.Sprintf("--health-port=%d", c.ports.Scheduler),
			"--leader-elect=false", // there is one
		},
	}
}

// kubeScheduler is the scheduler of Kubernetes.
func (c *Cluster) kubeScheduler() program {
	return program{
		name: KubeScheduler, stage: stageRest, grace: 2 * time.Second, goGC: 200, memory: 512,
		probe: httpProbe("https://"+address(c.ports.Scheduler)+"/healthz", c.adminTLS),
		args: append([]string{
			componentCommand, KubeScheduler,
			"--kubeconfig=" + c.files.kubeconfigOf(KubeScheduler),
			"--bind-address=" + loopback,
			fmt.Sprintf("--secure-port=%d", c.ports.Scheduler),
			"--tls-cert-file=" + c.id.kubeScheduler.Cert,
			"--tls-private-key-file=" + c.id.kubeScheduler.Key,
			"--authentication-skip-lookup=true",
			"--leader-elect=false", // there is one
			"--profiling=false",
		}, c.gates()...),
	}
}

func (c *Cluster) webhookURL() string { return "https://" + address(c.ports.Webhook) }
