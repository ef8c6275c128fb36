package livetest

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/certs"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/rights"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
	"github.com/mlbatch/mlbatch/internal/local"
)

func TestMain(m *testing.M) {
	if code, child := local.RunChild(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// cluster is an API server with mlbatch installed and its webhooks served.
type cluster struct {
	t *testing.T
	// admin may do anything, alice what users of team blue may, the controller
	// what its role allows.
	admin, alice, controller client.Client
	// config is how the admin reaches the API server.
	config *rest.Config
}

const controllerUser = "mlbatch-controller"

func begin(t *testing.T) *cluster {
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
	x := &cluster{
		t:          t,
		config:     lc.RESTConfig(),
		admin:      connect(t, lc.RESTConfig(), ""),
		alice:      connect(t, lc.RESTConfig(), "alice"),
		controller: client.WithFieldOwner(connect(t, lc.RESTConfig(), controllerUser), webhook.FieldOwner),
	}
	data, _, err := certs.Next(nil, []string{"127.0.0.1"}, time.Now(), nil, certs.DefaultLifetimes())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(data[certs.ServingCert], data[certs.ServingKey])
	if err != nil {
		t.Fatal(err)
	}
	served := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }
	opts := install.Options{
		WebhookURL:     x.serve(served),
		CABundle:       data[certs.Bundle],
		ControllerUser: controllerUser,
	}
	for range 2 { // as at every start
		if err := install.Apply(t.Context(), x.admin, opts); err != nil {
			t.Fatal(err)
		}
	}
	api, err := discovery.NewDiscoveryClientForConfig(x.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := install.Wait(t.Context(), x.admin, api); err != nil {
		t.Fatal(err)
	}
	return x
}

// connect logs in as a user; as the administrator if it is empty.
func connect(t *testing.T, cfg *rest.Config, user string) client.Client {
	t.Helper()
	cfg.QPS, cfg.Impersonate.UserName = -1, user
	c, err := client.New(cfg, client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve runs the webhooks and returns their address.
func (x *cluster) serve(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) string {
	x.t.Helper()
	handlers, err := webhook.Handlers(webhook.Cluster{
		Scheme: scheme.New(), Cached: x.admin, Live: x.admin, Access: x.admin, Mapper: x.admin.RESTMapper(),
	}, webhook.Options{Schedulers: jobs.Schedulers{Given: jobs.SchedulerName, Ours: jobs.SchedulerNames()}, DefaultQueue: "default-queue"})
	if err != nil {
		x.t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, h := range handlers {
		mux.Handle(path, h)
	}
	server := httptest.NewUnstartedServer(mux)
	// GetCertificate is not asked where a server has a certificate, as this one has, and is called by
	// its address.
	server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12}, nil
		},
	}
	server.Config.SetKeepAlivesEnabled(false) // every call is a handshake
	server.StartTLS()
	x.t.Cleanup(server.Close)
	return server.URL
}

func (x *cluster) parse(text string) *unstructured.Unstructured {
	x.t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		x.t.Fatal(err)
	}
	return o
}

// create makes an object that must be accepted.
func (x *cluster) create(as client.Client, text string) *unstructured.Unstructured {
	x.t.Helper()
	o := x.parse(text)
	if err := as.Create(x.t.Context(), o); err != nil {
		x.t.Fatalf("create %s: %v", o.GetKind(), err)
	}
	return o
}

// refused checks that an attempt failed and what the user was told.
func (x *cluster) refused(why string, err error, parts ...string) {
	x.t.Helper()
	if err == nil {
		x.t.Errorf("was allowed, but %s", why)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			x.t.Errorf("%s: message lacks %q: %v", why, part, err)
		}
	}
}

const (
	queueOfTeam = `
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: blue-cluster-queue}
spec:
  cohort: default-cohort
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerOrNewerEqualPriority, reclaimWithinCohort: Any}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors: [{name: default-flavor, resources: [{name: cpu, nominalQuota: 224}, {name: nvidia.com/gpu, nominalQuota: 8}]}]`
	wrappedJob = `
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {generateName: aw-, namespace: blue}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {generateName: j-}
      spec: {template: {spec: {priorityClassName: default-priority, restartPolicy: Never, containers: [{name: c, image: x}]}}}`
	bareJob = `
apiVersion: batch/v1
kind: Job
metadata: {generateName: j-, namespace: blue}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}`
	workload = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: w
  namespace: blue
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]
spec:
  queueName: default-queue
  podSets: [{name: main, count: 2, template: {spec: {containers: [{name: c, image: x}]}}}]`
	admission = `
conditions: [{type: QuotaReserved, status: "True", reason: QuotaReserved, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]
admission:
  clusterQueue: blue-cluster-queue
  podSetAssignments:
  - name: main
    count: 2
    topologyAssignment:
      levels: [kubernetes.io/hostname]
      slices: [{domainCount: 2, valuesPerLevel: [{individual: {roots: [node-0, node-1]}}], podCounts: {universal: 1}}]`
)

func TestInstalled(t *testing.T) {
	x := begin(t)
	x.create(
		x.admin,
		"{apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {mlbatch-team-namespace: 'true'}}}",
	)
	x.create(
		x.admin,
		"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: default-priority}, value: 5}",
	)
	x.create(x.admin, queueOfTeam)
	x.create(
		x.admin,
		"{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: default-queue, namespace: blue}, spec: {clusterQueue: blue-cluster-queue}}",
	)
	x.bind()
	t.Run("Versions", x.with((*cluster).versions))
	t.Run("Cohorts", x.with((*cluster).cohorts))
	t.Run("Jobs", x.with((*cluster).jobs))
	t.Run("Wrappers", x.with((*cluster).wrappers))
	t.Run("Workloads", x.with((*cluster).workloads))
	t.Run("Statuses", x.with((*cluster).statuses))
	t.Run("Defaults", x.with((*cluster).defaults))
	t.Run("Shown", x.with((*cluster).shown))
	t.Run("S21Guards", x.with((*cluster).guards))
	t.Run("S21Roles", x.with((*cluster).roles))
}

func (x *cluster) with(check func(*cluster)) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		c := *x
		c.t = t
		check(&c)
	}
}

// bind makes alice a user of team blue and waits until the API server knows.
func (x *cluster) bind() {
	x.t.Helper()
	b := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "users"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: install.EditRole},
	}
	if err := x.admin.Create(x.t.Context(), b); err != nil {
		x.t.Fatal(err)
	}
	x.bindController("blue")
	probe := x.parse("{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue}")
	err := wait.PollUntilContextTimeout(
		x.t.Context(),
		20*time.Millisecond,
		30*time.Second,
		true,
		func(ctx context.Context) (bool, error) {
			return x.alice.Get(ctx, client.ObjectKey{Namespace: "blue", Name: "default-queue"}, probe) == nil, nil
		},
	)
	if err != nil {
		x.t.Fatal(err)
	}
}

// bindController gives the controller its rights in a namespace, as it does itself.
func (x *cluster) bindController(namespace string) {
	x.t.Helper()
	err := wait.PollUntilContextTimeout(
		x.t.Context(),
		50*time.Millisecond,
		30*time.Second,
		true,
		func(ctx context.Context) (bool, error) {
			err := x.controller.Create(ctx, rights.Of(namespace, rights.Subject(controllerUser)))
			return err == nil, nil
		},
	)
	if err != nil {
		x.t.Fatal(err)
	}
}

// guards checks that the controller, were it taken over, has rights where jobs run
// and nowhere else.
func (x *cluster) guards() {
	ctx := x.t.Context()
	secrets := func(namespace string) error {
		return x.controller.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "password"}, &corev1.Secret{})
	}
	for _, namespace := range []string{"vault", "queued"} {
		x.create(x.admin, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
		x.create(x.admin, "{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: "+namespace+"}}")
	}
	self := rights.Subject(controllerUser)
	alice := rights.Subject("alice")
	admin := rights.Of("blue", self)
	admin.RoleRef.Name = "cluster-admin"
	renamed := rights.Of("blue", self)
	renamed.Name = "second"
	for why, b := range map[string]*rbacv1.RoleBinding{
		"the cluster's own namespace":       rights.Of("kube-system", self),
		"mlbatch's own namespace":           rights.Of(install.DefaultNamespace, self),
		"somebody else":                     rights.Of("queued", alice),
		"somebody else, too":                rights.Of("queued", self, alice),
		"nobody, who becomes somebody":      rights.Of("queued"),
		"a role that it does not have":      admin,
		"a binding under a name of its own": renamed,
	} {
		if err := x.controller.Create(ctx, b); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			x.t.Errorf("the controller binds %s: %v", why, err)
		}
	}
	for _, namespace := range []string{"vault", "kube-system", "queued"} {
		if err := secrets(namespace); !apierrors.IsForbidden(err) {
			x.t.Errorf("the controller reads a Secret in namespace %s: %v", namespace, err)
		}
	}
	// Where nobody put a queue nothing runs, and it has no business.
	if err := x.controller.Create(
		ctx,
		rights.Of("vault", self),
	); err == nil ||
		!strings.Contains(err.Error(), "mlbatch-controller-where") {
		x.t.Errorf("the controller binds its role where no jobs run: %v", err)
	}
	x.create(
		x.admin,
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: queued}, spec: {clusterQueue: blue-cluster-queue}}",
	)
	x.bindController("queued")
	err := wait.PollUntilContextTimeout(
		ctx,
		20*time.Millisecond,
		30*time.Second,
		true,
		func(context.Context) (bool, error) {
			return secrets("queued") == nil, nil
		},
	)
	if err != nil {
		x.t.Errorf("where jobs run it makes their Secrets: %v", secrets("queued"))
	}
	b := rights.Of("queued")
	if err := x.admin.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
		x.t.Fatal(err)
	}
	before := b.DeepCopy()
	b.Subjects = append(b.Subjects, alice)
	if err := x.controller.Patch(
		ctx,
		b.DeepCopy(),
		client.MergeFrom(before),
	); !apierrors.IsForbidden(err) &&
		!apierrors.IsInvalid(err) {
		x.t.Errorf("the controller lets another user in: %v", err)
	}
	b.Subjects, b.Finalizers = b.Subjects[:1], nil
	if err := x.controller.Patch(ctx, b, client.MergeFrom(before)); err != nil {
		x.t.Errorf("the controller lets a binding go: %v", err)
	}
}

// roles checks which Roles the controller can make for jobs and bind, were it taken over.
func (x *cluster) roles() {
	const fine = "{apiGroups: [''], resources: [pods], verbs: [get, list, watch]}, {apiGroups: [ray.io], resources: [rayclusters], resourceNames: [tune], verbs: [get, patch]}"
	role := func(namespace, name, rules string) error {
		return x.controller.Create(
			x.t.Context(),
			x.parse(
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: "+name+", namespace: "+namespace+"}, rules: ["+rules+"]}",
			),
		)
	}
	binding := func(name, role, subject string) error {
		return x.controller.Create(
			x.t.Context(),
			x.parse(
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: "+name+", namespace: blue}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: "+role+"}, subjects: [{"+subject+"}]}",
			),
		)
	}
	x.create(
		x.admin,
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: other, namespace: blue}}",
	)
	if err := errors.Join(
		role("blue", "tune", fine),
		binding("tune", "Role, name: tune", "kind: ServiceAccount, name: a, namespace: blue"),
	); err != nil {
		x.t.Errorf("the head of a cluster cannot do its work: %v", err)
	}
	for why, err := range map[string]error{
		"Secrets":                 role("blue", "a", "{apiGroups: [''], resources: [secrets], verbs: [get]}"),
		"changing pods":           role("blue", "a", "{apiGroups: [''], resources: [pods], verbs: [delete]}"),
		"all clusters":            role("blue", "a", "{apiGroups: [ray.io], resources: [rayclusters], verbs: [patch]}"),
		"another cluster":         role("blue", "a", "{apiGroups: [ray.io], resources: [rayclusters], resourceNames: [b], verbs: [patch]}"),
		"deleting a cluster":      role("blue", "tuned", strings.Replace(fine, "[get, patch]", "[delete]", 1)),
		"a Role of the cluster's": role("kube-system", "tune", fine),
		"a user":                  binding("other", "Role, name: other", "kind: User, name: alice, apiGroup: rbac.authorization.k8s.io"),
		"another namespace":       binding("other", "Role, name: other", "kind: ServiceAccount, name: a, namespace: red"),
		"another Role":            binding("other", "Role, name: tune", "kind: ServiceAccount, name: a, namespace: blue"),
		"a ClusterRole":           binding("other", "ClusterRole, name: "+install.TeamRole, "kind: ServiceAccount, name: a, namespace: blue"),
	} {
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			x.t.Errorf("the controller gives rights: %s: %v", why, err)
		}
	}
}

// versions reads what was written in one version in the other.
func (x *cluster) versions() {
	for version, path := range map[string]string{"v1beta1": "cohort", "v1beta2": "cohortName"} {
		o := x.parse("{apiVersion: kueue.x-k8s.io/" + version + ", kind: ClusterQueue}")
		if err := x.admin.Get(x.t.Context(), client.ObjectKey{Name: "blue-cluster-queue"}, o); err != nil {
			x.t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedString(o.Object, "spec", path); got != "default-cohort" {
			x.t.Errorf("%s: spec.%s is %q", version, path, got)
		}
		if got, _, _ := unstructured.NestedString(o.Object, "spec", "queueingStrategy"); got != "BestEffortFIFO" {
			x.t.Errorf("%s: no defaults, strategy is %q", version, got)
		}
	}
	bad := strings.Replace(
		strings.Replace(queueOfTeam, "blue-cluster-queue", "bad", 1),
		"nominalQuota: 8",
		"nominalQuota: 8, lendingLimit: 9",
		1,
	)
	x.refused("a queue cannot lend what it has not", x.admin.Create(x.t.Context(), x.parse(bad)),
		"spec.resourceGroups[0].flavors[0].resources[1].lendingLimit", "at most 8")
	x.refused(
		"limits need a cohort",
		x.admin.Create(
			x.t.Context(),
			x.parse(strings.Replace(bad, "cohort: default-cohort", "stopPolicy: None", 1)),
		),
		"set spec.cohort or remove lendingLimit",
	)
}

func (x *cluster) cohorts() {
	x.create(
		x.admin,
		"{apiVersion: kueue.x-k8s.io/v1beta1, kind: Cohort, metadata: {name: a}, spec: {parentName: b}}",
	)
	x.refused(
		"cohorts cannot be below each other",
		x.admin.Create(
			x.t.Context(),
			x.parse("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: b}, spec: {parentName: a}}"),
		),
		"spec.parentName",
		"b -> a -> b",
	)
}

func (x *cluster) jobs() {
	job := x.create(x.alice, bareJob)
	if held, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend"); !held {
		x.t.Error("a Job of a team without a queue must be held")
	}
	child := x.parse(bareJob)
	child.SetOwnerReferences(
		[]metav1.OwnerReference{
			{
				APIVersion: "workload.codeflare.dev/v1beta2",
				Kind:       "AppWrapper",
				Name:       "w",
				UID:        "u",
				Controller: new(true),
			},
		},
	)
	if err := x.controller.Create(x.t.Context(), child); err != nil {
		x.t.Fatalf("the controller creates components: %v", err)
	}
	if held, _, _ := unstructured.NestedBool(child.Object, "spec", "suspend"); held {
		x.t.Error("a component starts with its AppWrapper")
	}
}

func (x *cluster) wrappers() {
	ctx := x.t.Context()
	w := x.create(x.alice, wrappedJob)
	if suspended, _, _ := unstructured.NestedBool(w.Object, "spec", "suspend"); !suspended {
		x.t.Error("an AppWrapper waits until it is admitted")
	}
	if l := w.GetLabels(); l["kueue.x-k8s.io/queue-name"] != "default-queue" ||
		l["workload.codeflare.dev/user"] != "alice" {
		x.t.Errorf("queue and author are filled in, got %v", l)
	}
	x.refused(
		"there is no such class",
		x.alice.Create(ctx, x.parse(strings.Replace(wrappedJob, "default-priority", "urgent", 1))),
		"spec.components[0].template.spec.template.spec.priorityClassName",
		"use one of default-priority",
	)
	x.create(
		x.alice,
		strings.Replace(
			wrappedJob,
			"namespace: blue}",
			"namespace: blue, labels: {kueue.x-k8s.io/queue-name: fast}}",
			1,
		),
	)
	x.refused(
		"rights cannot be wrapped",
		x.alice.Create(
			ctx,
			x.parse(
				wrappedJob+"\n  - template: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b}}",
			),
		),
		"spec.components[1].template",
		`"alice" may not create RoleBinding`,
	)

	started := w.DeepCopy()
	if err := unstructured.SetNestedField(started.Object, false, "spec", "suspend"); err != nil {
		x.t.Fatal(err)
	}
	tried := started.DeepCopy()
	if err := x.alice.Update(ctx, tried); err != nil {
		x.t.Errorf("a manifest may say that it starts at once: %v", err)
	}
	if held, _, _ := unstructured.NestedBool(tried.Object, "spec", "suspend"); !held {
		x.t.Error("users do not admit")
	}
	before := tried.DeepCopy()
	if err := unstructured.SetNestedField(tried.Object, false, "spec", "suspend"); err != nil {
		x.t.Fatal(err)
	}
	if err := x.controller.Patch(ctx, tried, client.MergeFrom(before)); err != nil {
		x.t.Errorf("the controller starts AppWrappers: %v", err)
	}
}

func (x *cluster) workloads() {
	ctx := x.t.Context()
	w := x.create(x.controller, workload)
	var status map[string]any
	if err := yaml.Unmarshal([]byte(admission), &status); err != nil {
		x.t.Fatal(err)
	}
	w.Object["status"] = status
	x.refused("users do not admit", x.alice.Status().Update(ctx, w.DeepCopy()), "forbidden")
	if err := x.controller.Status().Update(ctx, w); err != nil {
		x.t.Fatalf("the controller admits: %v", err)
	}
	if fields := w.GetManagedFields(); len(fields) != 0 {
		x.t.Errorf("writes cost more with a record of who wrote what, got %v", fields)
	}
	applied := x.parse(strings.Replace(workload, "name: w", "name: applied", 1))
	if err := x.admin.Apply(
		ctx,
		client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner("kubectl"),
	); err != nil {
		x.t.Fatal(err)
	}
	if fields := applied.GetManagedFields(); len(fields) == 0 {
		x.t.Error("a client that applies an object needs the record, but there is none")
	}
	moved := w.DeepCopy()
	if err := unstructured.SetNestedField(moved.Object, "other", "spec", "queueName"); err != nil {
		x.t.Fatal(err)
	}
	x.refused(
		"quota is of the old queue",
		x.admin.Update(ctx, moved),
		"spec.queueName",
		"while quota is reserved",
	)

	old := x.parse("{apiVersion: kueue.x-k8s.io/v1beta1, kind: Workload}")
	if err := x.admin.Get(ctx, client.ObjectKeyFromObject(w), old); err != nil {
		x.t.Fatal(err)
	}
	sets, _, _ := unstructured.NestedSlice(old.Object, "status", "admission", "podSetAssignments")
	first, _ := sets[0].(map[string]any)
	if domains, _, _ := unstructured.NestedSlice(first, "topologyAssignment", "domains"); len(domains) != 2 {
		x.t.Errorf("v1beta1 lists the nodes one by one, got %v", domains)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(w.GroupVersionKind())
	err := x.admin.List(ctx, list, client.MatchingFields{"status.admission.clusterQueue": "blue-cluster-queue"})
	if err != nil || len(list.Items) != 1 {
		x.t.Errorf("workloads are selected by the queue whose quota they hold, got %d, %v", len(list.Items), err)
	}
}
