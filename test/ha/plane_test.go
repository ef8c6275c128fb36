package ha

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/manager"
	"github.com/mlbatch/mlbatch/internal/kube/scheduler"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/settings"
	"github.com/mlbatch/mlbatch/internal/local"
)

const (
	// controllerUser is who the controllers are.
	controllerUser = "mlbatch-controller"
	// schedulerUser is who schedulers are.
	schedulerUser = "mlbatch-scheduler"
	// leases is where they compete for the lead.
	leases = "mlbatch-system"
	// team is the namespace of all jobs, and queue its LocalQueue and ClusterQueue.
	team, queue = "team", "queue"
	// patience bounds every wait, so that a fault ends a test.
	patience = 2 * time.Minute
	// replicaVariable makes this program a controller, with the order in it.
	replicaVariable = "MLBATCH_TEST_REPLICA"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(replicaVariable); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if code, child := local.RunChild(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// order is how a controller is to run.
type order struct {
	Name                             string
	Kubeconfig                       string
	Webhook, Views, Health, Profiles int
	Drain                            time.Duration
	// Scheduler runs a scheduler instead, which has no webhooks.
	Scheduler bool
}

// serve is what "mlbatch controller" does.
func serve(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(1), textlogger.Output(os.Stderr)))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if o.Scheduler {
		cfg.QPS = -1 // as "mlbatch scheduler" has it
		return scheduler.Run(ctx, scheduler.Options{
			Client:         cfg,
			SchedulerNames: jobs.SchedulerNames(),
			HealthPort:     o.Health,
			Election:       scheduler.Election{Enabled: true, Namespace: leases},
		})
	}
	resolved, err := settings.Resolve(settings.Empty(), settings.Given{})
	if err != nil {
		return err
	}
	opts := resolved.Options(
		manager.Options{
			Config:     cfg,
			Kubeconfig: o.Kubeconfig,
			Schedulers: jobs.Schedulers{Given: jobs.SchedulerName, Ours: jobs.SchedulerNames()},
			DrainFor:   o.Drain,
		},
	)
	opts.WebhookHost, opts.WebhookPort = "127.0.0.1", o.Webhook
	opts.MetricsAddress, opts.Replica = "", o.Name
	opts.VisibilityAddress = fmt.Sprintf("127.0.0.1:%d", o.Views)
	opts.HealthAddress = fmt.Sprintf("127.0.0.1:%d", o.Health)
	opts.ProfilesAddress = fmt.Sprintf("127.0.0.1:%d", o.Profiles)
	opts.Certs.Hosts = append(opts.Certs.Hosts, "127.0.0.1")
	opts.Certs.Pause = time.Second
	return manager.Run(ctx, opts)
}

// plane is an API server with mlbatch installed, whose webhooks and views are behind a balancer each.
type plane struct {
	testing.TB
	dir      string
	config   *rest.Config
	admin    client.Client
	balancer *balancer
	views    *balancer
	begun    int
}

func newPlane(t testing.TB) *plane {
	t.Helper()
	lc, err := local.Start(
		t.Context(),
		local.Config{DataDir: t.TempDir(), Parts: local.APIOnly, UnsafeNoFsync: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lc.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	p := &plane{
		TB: t, dir: t.TempDir(), config: lc.RESTConfig(),
		balancer: newBalancer(t, func(o order) int { return o.Webhook }),
		views:    newBalancer(t, func(o order) int { return o.Views }),
	}
	p.config.QPS = -1
	if p.admin, err = client.New(p.config, client.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as at every start
		p.eventually("mlbatch is installed", func() error { // an API server that was just started may take long
			return install.Apply(
				t.Context(),
				p.admin,
				install.Options{
					WebhookURL:     "https://" + p.balancer.address(),
					Visibility:     &install.Visibility{Port: int32(p.views.port()), ExternalName: "localhost"},
					ControllerUser: controllerUser,
					SchedulerUser:  schedulerUser,
				},
			)
		})
	}
	api, err := discovery.NewDiscoveryClientForConfig(p.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := install.Wait(t.Context(), p.admin, api); err != nil {
		t.Fatal(err)
	}
	return p
}

// replica is a controller that runs.
type replica struct {
	*plane
	name  string
	order order
	line  *line
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// begin starts a controller, whose way to the API server is a line that can be cut.
func (p *plane) begin() *replica {
	p.Helper()
	p.begun++
	r := &replica{
		plane: p,
		name:  fmt.Sprintf("replica-%d", p.begun),
		line:  newLine(p, p.config),
		ended: make(chan struct{}),
	}
	r.order = order{
		Name: r.name,
		Kubeconfig: filepath.Join(
			p.dir,
			r.name+".yaml",
		),
		Webhook:  free(p),
		Views:    free(p),
		Health:   free(p),
		Profiles: free(p),
		Drain:    3 * time.Second,
	}
	r.write("http://"+r.line.address(), nil)
	r.start()
	return r
}

// write writes the kubeconfig of a replica.
func (r *replica) write(server string, tls *rest.Config) {
	r.Helper()
	as := ""
	if tls != nil {
		as = fmt.Sprintf(
			", client-certificate-data: %s, client-key-data: %s",
			encoded(tls.CertData, tls.CertFile),
			encoded(tls.KeyData, tls.KeyFile),
		)
		server += "\n    certificate-authority-data: " + encoded(tls.CAData, tls.CAFile)
	}
	user := controllerUser
	if r.order.Scheduler {
		user = schedulerUser
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters:
- name: x
  cluster:
    server: %s
users: [{name: x, user: {as: %s%s}}]
`, server, user, as)
	if err := os.WriteFile(r.order.Kubeconfig, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// start starts the process.
func (r *replica) start() {
	r.Helper()
	text, err := json.Marshal(r.order)
	if err != nil {
		r.Fatal(err)
	}
	r.log = filepath.Join(r.dir, r.name+".log")
	log, err := os.Create(r.log)
	if err != nil {
		r.Fatal(err)
	}
	defer log.Close()
	r.cmd = exec.Command(os.Args[0]) // it is this program, and stop ends it
	r.cmd.Env = append(os.Environ(), replicaVariable+"="+string(text))
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		r.Fatal(err)
	}
	go func() { _ = r.cmd.Wait(); close(r.ended) }() // how it ends is read from its log
	if !r.order.Scheduler {
		r.balancer.add(r.order)
		r.views.add(r.order)
	}
	r.Cleanup(func() {
		r.signal(syscall.SIGKILL)
		<-r.ended
		if r.Failed() {
			said, _ := os.ReadFile(r.log)
			r.Logf("%s said:\n%s", r.name, tail(said))
		}
	})
}

func tail(b []byte) []byte {
	const most = 6000
	return b[max(len(b)-most, 0):]
}

// ready waits until the replica says that it is.
func (r *replica) ready() *replica {
	r.Helper()
	r.eventually(r.name+" is ready", func() error { return ready(r.Context(), r.order.Health) })
	return r
}

func (r *replica) signal(s syscall.Signal) { _ = r.cmd.Process.Signal(s) } // one that has ended needs none

// said reports whether the replica has logged a text.
func (r *replica) said(text string) bool {
	b, err := os.ReadFile(r.log)
	return err == nil && bytes.Contains(b, []byte(text))
}

// eventually waits until something succeeds.
func (p *plane) eventually(what string, try func() error) {
	p.Helper()
	var last error
	err := wait.PollUntilContextTimeout(
		p.Context(),
		10*time.Millisecond,
		patience,
		true,
		func(context.Context) (bool, error) {
			last = try()
			return last == nil, nil
		},
	)
	if err != nil {
		p.Fatalf("not so after %s: %s: %v", patience, what, last)
	}
}

// furnish makes a team whose queue has a quota of GPUs, and a node with others.
func (p *plane) furnish(quota, onNode int64) {
	p.Helper()
	objects := []client.Object{
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "flavor"}},
		&kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: queue},
			Spec: kueue.ClusterQueueSpec{
				NamespaceSelector: &metav1.LabelSelector{},
				ResourceGroups: []kueue.ResourceGroup{{
					CoveredResources: []corev1.ResourceName{"nvidia.com/gpu"},
					Flavors: []kueue.FlavorQuotas{{Name: "flavor", Resources: []kueue.ResourceQuota{
						{Name: "nvidia.com/gpu", NominalQuota: *resource.NewQuantity(quota, resource.DecimalSI)},
					}}},
				}},
			},
		},
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: team, Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: queue},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: queue},
		},
	}
	for _, o := range objects {
		p.eventually("create "+o.GetName(), func() error { return p.admin.Create(p.Context(), o) })
	}
	p.node("node", onNode, "early")
}

// poolLabel is a label of nodes.
const poolLabel = "example.com/pool"

// node adds a node with GPUs to a pool.
func (p *plane) node(name string, gpus int64, pool string) {
	p.Helper()
	made := nodeObject(name)
	made.Labels[poolLabel] = pool
	if err := p.admin.Create(p.Context(), made); err != nil {
		p.Fatal(err)
	}
	n := nodeObject(name)
	if err := p.admin.Get(p.Context(), client.ObjectKeyFromObject(n), n); err != nil {
		p.Fatal(err)
	}
	n.Status = nodeStatus(gpus)
	if err := p.admin.Status().Update(p.Context(), n); err != nil {
		p.Fatal(err)
	}
}

func nodeObject(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
	}
}

func nodeStatus(gpus int64) corev1.NodeStatus {
	has := corev1.ResourceList{
		"cpu": resource.MustParse("224"), "memory": resource.MustParse("2000Gi"), "pods": resource.MustParse("250"),
		"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI),
	}
	return corev1.NodeStatus{
		Capacity:    has,
		Allocatable: has,
		Conditions: []corev1.NodeCondition{
			{
				Type:               corev1.NodeReady,
				Status:             corev1.ConditionTrue,
				Reason:             "KubeletReady",
				LastHeartbeatTime:  metav1.Now(),
				LastTransitionTime: metav1.Now(),
			},
		},
	}
}

// workload makes a Workload without a job, for a pool of nodes if it names one.
func (p *plane) workload(name string, gpus, priority int64, pool string) {
	p.Helper()
	// The history sets its finalizer at some moment: every writer but the one a test is about
	// has had its say.
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Finalizers: []string{history.Finalizer}},
	}
	level := int32(priority)
	w.Spec = kueue.WorkloadSpec{QueueName: queue, Priority: &level, PodSets: []kueue.PodSet{
		{
			Name:  "main",
			Count: 1,
			Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{
					{
						Name:  "c",
						Image: "x",
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)},
							Limits:   corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)},
						},
					},
				}},
			},
		},
	}}
	if pool != "" {
		w.Spec.PodSets[0].Template.Spec.NodeSelector = map[string]string{poolLabel: pool}
	}
	p.eventually("create "+name, func() error { return p.admin.Create(p.Context(), w.DeepCopy()) })
}

// refused reports whether a workload was told why it waits.
func (p *plane) refused(name string) error {
	w := &kueue.Workload{}
	if err := p.admin.Get(p.Context(), client.ObjectKey{Namespace: team, Name: name}, w); err != nil {
		return err
	}
	if !apimeta.IsStatusConditionFalse(w.Status.Conditions, kueue.WorkloadQuotaReserved) {
		return fmt.Errorf("%s was told nothing: %v", name, w.Status.Conditions)
	}
	return nil
}

// holds reports whether a workload has quota.
func (p *plane) holds(name string) error {
	w := &kueue.Workload{}
	if err := p.admin.Get(p.Context(), client.ObjectKey{Namespace: team, Name: name}, w); err != nil {
		return err
	}
	if !apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadQuotaReserved) {
		return fmt.Errorf("%s waits: %v", name, w.Status.Conditions)
	}
	return nil
}

// ready asks the readiness probe of a controller.
func ready(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d/readyz", port),
		nil,
	)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", resp.Status)
	}
	return nil
}

// free is a port that nobody listens on.
func free(t testing.TB) int {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

func in(path string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(path, part) {
			return false
		}
	}
	return true
}

// account makes the account that pods of a namespace have: nothing but the API server runs here, so
// what makes it otherwise does not.
func (p *plane) account(namespace string) {
	p.Helper()
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if err := p.admin.Create(p.Context(), a); err != nil {
		p.Fatal(err)
	}
}
