package rayservice_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/rayservice"
)

const (
	pod     = "template: {spec: {containers: [{name: ray, image: i, resources: {limits: {cpu: 2, memory: 4Gi}}}]}}"
	config  = "rayClusterConfig: {headGroupSpec: {POD}, workerGroupSpecs: [{groupName: small, replicas: 2, POD}]}"
	apps    = `serveConfigV2: "applications: [{name: a, import_path: x}, {name: b, import_path: y}]", `
	some    = apps + config
	twofold = "upgradeStrategy: {type: NewCluster}, "
)

func decode(t testing.TB, spec string) *api.RayService {
	t.Helper()
	s := &api.RayService{}
	text := "{metadata: {name: a, namespace: b, uid: u}, spec: {" + strings.ReplaceAll(spec, "POD", pod) + "}}"
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

func at(seconds int64) time.Time { return time.Unix(1_000_000+seconds, 0).UTC() }

// world is a service with its clusters, which have a ready head, and what their dashboards say.
type world struct {
	t       testing.TB
	k       jobs.Kind
	s       *api.RayService
	now     int64
	kids    map[string]*api.RayCluster
	serves  map[string]string // the status of all applications of a cluster
	answers jobs.Answers
	put     map[string]int
}

func newWorld(t testing.TB, spec string) *world {
	t.Helper()
	return &world{
		t:       t,
		k:       rayservice.Kind(),
		s:       decode(t, spec),
		kids:    map[string]*api.RayCluster{},
		serves:  map[string]string{},
		answers: jobs.Answers{},
		put:     map[string]int{},
	}
}

func (w *world) progress() *jobs.Progress {
	out := &jobs.Progress{RetryState: podplan.RetryState{Started: at(1)}, Now: at(w.now), Answers: w.answers}
	for _, name := range w.members() {
		if c := w.kids[name]; c != nil {
			out.Children = append(out.Children, c)
		}
	}
	return out
}

// members are the clusters that there should be.
func (w *world) members() []string {
	w.t.Helper()
	p, err := w.k.Running.Operator.Compile(w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for i := range p.Roles {
		out = append(out, p.Roles[i].Member)
	}
	return out
}

// rest lets clusters come and go, dashboards answer, and the status be written, until nothing
// changes.
func (w *world) rest() {
	w.t.Helper()
	for range 20 {
		before := w.s.DeepCopy()
		wanted := map[string]bool{}
		for _, name := range w.members() {
			wanted[name] = true
			if w.kids[name] == nil {
				c := &api.RayCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
				c.Status.Conditions = []metav1.Condition{{Type: api.HeadPodReady, Status: metav1.ConditionTrue}}
				c.Status.ReadyWorkerReplicas = 2
				w.kids[name] = c
			}
		}
		for name := range w.kids {
			if !wanted[name] {
				delete(w.kids, name)
			}
		}
		plan, _ := w.k.Running.Operator.Compile(w.s)
		for _, c := range w.k.Running.Operator.Calls(w.s, plan, w.progress()) {
			cluster := strings.TrimSuffix(c.Pod, "-head")
			a := jobs.Answer{Status: jobs.Fine}
			if c.Method == jobs.Put {
				w.put[cluster]++
			} else {
				list := map[string]any{}
				for _, x := range []string{"a", "b"} {
					list[x] = map[string]any{
						"status":      w.serves[cluster],
						"message":     "m",
						"deployments": map[string]any{"d": map[string]string{"status": "HEALTHY"}},
					}
				}
				a.Body, _ = json.Marshal(map[string]any{"applications": list}) //nolint:errchkjson // texts can be written
			}
			w.answers[c.Key()] = a
		}
		out, _ := w.k.Running.Operator.Project(w.s, plan, w.progress()).(*api.RayService)
		w.s = out
		if equality.Semantic.DeepEqual(before, w.s) {
			return
		}
	}
	w.t.Fatal("it never comes to rest")
}

// is tells how the service stands: which cluster serves, which is to, which did.
func (w *world) is() string {
	s := &w.s.Status
	before := ""
	if s.RetiredService != nil {
		before = s.RetiredService.RayClusterName
	}
	return fmt.Sprintf(
		"%s|%s|%s",
		s.ActiveServiceStatus.RayClusterName,
		s.PendingServiceStatus.RayClusterName,
		before,
	)
}

func (w *world) expect(why, want string) {
	w.t.Helper()
	if got := w.is(); got != want {
		w.t.Fatalf("%s: %s, want %s\n%+v", why, got, want, w.s.Status.Conditions)
	}
}

func (w *world) holds(kind string) bool {
	return apimeta.IsStatusConditionTrue(w.s.Status.Conditions, kind)
}

func (w *world) selects() string {
	all, err := w.k.Running.Operator.Artifacts(w.s, nil, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	out := ""
	for _, a := range all {
		if s, is := a.Object.(*corev1.Service); is {
			out += s.Name + ":" + s.Spec.Selector[api.ClusterLabel] + " "
		}
	}
	return strings.TrimSpace(out)
}

// upgradeImage changes what the workers run.
func (w *world) upgradeImage() string {
	w.s.Spec.RayClusterSpec.WorkerGroupSpecs[0].Template.Spec.Containers[0].Image += "2"
	names := w.members()
	return names[len(names)-1]
}

// TestTakesOver: with NewCluster another cluster takes over once all runs there, and the one
// before goes after a while.
func TestTakesOver(t *testing.T) {
	w := newWorld(t, twofold+"rayClusterDeletionDelaySeconds: 10, "+some)
	first := w.members()[0]
	w.serves[first] = "DEPLOYING"
	w.rest()
	w.expect("it comes up", "|"+first+"|")
	if w.selects() != "" || w.holds(api.ServiceReady) || w.put[first] == 0 {
		t.Errorf("%s, %+v", w.selects(), w.s.Status)
	}
	w.serves[first] = "RUNNING"
	w.rest()
	w.expect("it serves", first+"||")
	if !w.holds(api.ServiceReady) || w.s.Status.NumServeEndpoints != 3 ||
		w.s.Status.ServiceStatus != "Running" ||
		w.s.Status.ActiveServiceStatus.Applications["a"].Deployments["d"].Status != "HEALTHY" {
		t.Errorf("%+v", w.s.Status)
	}
	if got, want := w.selects(), "a-head-svc:"+first+" a-serve-svc:"+first; got != want {
		t.Errorf("services are %s", got)
	}
	second := w.upgradeImage()
	w.rest()
	w.expect("another is to take over", first+"|"+second+"|")
	if !w.holds(api.ServiceReady) || !w.holds(api.ServiceUpgradeInProgress) ||
		!strings.Contains(w.selects(), first) {
		t.Errorf("%s, %+v", w.selects(), w.s.Status)
	}
	w.serves[second] = "RUNNING"
	w.rest()
	w.expect("it took over", second+"||"+first)
	if got := w.selects(); !w.holds(api.ServiceReady) || w.holds(api.ServiceUpgradeInProgress) ||
		strings.Contains(got, first) {
		t.Errorf("%s, %+v", got, w.s.Status)
	}
	third := w.upgradeImage()
	if third != first && strings.Contains(strings.Join(w.members(), " "), third) && len(w.members()) > 2 {
		t.Errorf("there are three clusters: %v", w.members())
	}
	if _, again := w.k.Running.Operator.Observe(w.s, nil, nil, w.progress()); again != 10*time.Second {
		t.Errorf("it is looked at again after %s", again)
	}
	w.now += 10
	w.rest()
	if w.s.Status.RetiredService != nil || w.kids[first] != nil {
		t.Errorf("the first stays: %s", w.is())
	}
	if len(w.members()) != 2 || w.s.Status.ActiveServiceStatus.RayClusterName != second {
		t.Errorf("%s", w.is())
	}
}

// TestReplaced: without a strategy the cluster is replaced, one after the other; with None it
// stays.
func TestReplaced(t *testing.T) {
	for strategy, stays := range map[string]bool{"": false, "upgradeStrategy: {type: None}, ": true} {
		w := newWorld(t, strategy+some)
		first := w.members()[0]
		w.serves[first] = "RUNNING"
		w.rest()
		w.expect("it serves", first+"||")
		second := w.upgradeImage()
		p, _ := w.k.Running.Operator.Compile(w.s)
		if len(p.Roles) != 1 || !p.Roles[0].Alone {
			t.Errorf("there are two at once: %+v", p.Roles)
		}
		w.rest()
		if stays {
			w.expect("it stays", first+"||")
			continue
		}
		w.expect("it is replaced", "|"+second+"|")
		if w.holds(api.ServiceReady) || w.selects() != "" {
			t.Errorf("%+v", w.s.Status)
		}
	}
}

// TestScales: how many workers there are makes no other cluster, nor does what is served.
func TestScales(t *testing.T) {
	w := newWorld(t, twofold+some)
	first := w.members()[0]
	w.serves[first] = "RUNNING"
	w.rest()
	w.s.Spec.RayClusterSpec.WorkerGroupSpecs[0].Replicas = new(int32(5))
	if got := w.members(); len(got) != 1 || got[0] != first {
		t.Errorf("%v", got)
	}
	before := w.put[first]
	w.s.Spec.ServeConfigV2 = strings.Replace(w.s.Spec.ServeConfigV2, "import_path: x", "import_path: z", 1)
	w.rest()
	w.expect("it is told in place", first+"||")
	if w.put[first] == before {
		t.Error("it is not told")
	}
}

// TestHeadLost: without its head nothing is known of what is served; then it is told again.
func TestHeadLost(t *testing.T) {
	w := newWorld(t, some)
	first := w.members()[0]
	w.serves[first] = "RUNNING"
	w.rest()
	w.kids[first].Status.Conditions[0].Status, w.kids[first].Status.ReadyWorkerReplicas = metav1.ConditionFalse, 0
	w.rest()
	if w.holds(api.ServiceReady) || w.s.Status.NumServeEndpoints != 0 ||
		w.s.Status.ActiveServiceStatus.RayClusterName != first {
		t.Errorf("%+v", w.s.Status)
	}
	w.kids[first].Status.Conditions[0].Status = metav1.ConditionTrue
	w.serves[first] = "DEPLOYING"
	w.rest()
	if w.holds(api.ServiceReady) {
		t.Error("it serves nothing yet")
	}
	w.serves[first] = "RUNNING"
	w.rest()
	if !w.holds(api.ServiceReady) {
		t.Errorf("%+v", w.s.Status)
	}
}

// TestSuspended: all goes, and it begins anew.
func TestSuspended(t *testing.T) {
	w := newWorld(t, some)
	w.serves[w.members()[0]] = "RUNNING"
	w.rest()
	w.s.Spec.Suspend = true
	goes, _ := w.k.Running.Operator.Project(w.s, nil, w.progress()).(*api.RayService)
	if !apimeta.IsStatusConditionTrue(goes.Status.Conditions, api.ServiceSuspending) {
		t.Errorf("%+v", goes.Status)
	}
	w.s, _ = w.k.Running.Operator.Project(goes, nil, &jobs.Progress{Suspended: true, Now: at(5)}).(*api.RayService)
	w.expect("nothing is left", "||")
	if !w.holds(api.ServiceSuspended) || w.holds(api.ServiceReady) || w.holds(api.ServiceSuspending) {
		t.Errorf("%+v", w.s.Status)
	}
	w.s.Spec.Suspend = false
	w.rest()
	if w.holds(api.ServiceSuspended) || !w.holds(api.ServiceReady) {
		t.Errorf("%+v", w.s.Status)
	}
}

// TestCounted: two clusters at once are counted twice.
func TestCounted(t *testing.T) {
	k := rayservice.Kind()
	for spec, want := range map[string]string{some: "head 1, small 2, ", twofold + some: "head 2, small 4, "} {
		f, err := k.Read(decode(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range f.PodSets {
			got += fmt.Sprint(p.Name, " ", p.Count, ", ")
		}
		if got != want {
			t.Errorf("%s: %s", spec, got)
		}
	}
}

// TestCluster: pods that answer requests are found by a label, and workers are ready once they
// do.
func TestCluster(t *testing.T) {
	k := rayservice.Kind()
	s := decode(t, "excludeHeadPodFromServeSvc: true, "+some)
	p, err := k.Running.Operator.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	o, err := p.Child(
		s,
		k.GVK(),
		podplan.Member{Role: "next"},
		&podplan.RetryState{},
		jobs.Admitted{"small": {NodeSelector: map[string]string{"pool": "x"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := o.(*api.RayCluster)
	head, small := c.Spec.HeadGroupSpec.Template, c.Spec.WorkerGroupSpecs[0].Template
	if head.Labels[api.ServeLabel] != "false" || small.Labels[api.ServeLabel] != "true" ||
		small.Spec.NodeSelector["pool"] != "x" ||
		c.Labels["ray.io/originated-from-crd"] != "RayService" {
		t.Errorf("%+v", c)
	}
	if r := small.Spec.Containers[0].ReadinessProbe; r == nil ||
		!strings.Contains(strings.Join(r.Exec.Command, " "), "8000/-/healthz") {
		t.Errorf("%+v", r)
	}
}

// TestRefused: an error names the field and the cure.
func TestRefused(t *testing.T) {
	k := rayservice.Kind()
	for name, tc := range map[string]struct{ spec, field, cure string }{
		"Nothing":     {config, "spec.serveConfigV2", "applications"},
		"NoYAML":      {"serveConfigV2: '[', " + config, "spec.serveConfigV2", "YAML"},
		"NoApps":      {"serveConfigV2: 'x: 1', " + config, "spec.serveConfigV2", "import_path"},
		"Twice":       {`serveConfigV2: "applications: [{name: a}, {name: a}]", ` + config, "spec.serveConfigV2", "names of their own"},
		"Incremental": {"upgradeStrategy: {type: NewClusterWithIncrementalUpgrade}, " + some, "spec.upgradeStrategy.type", "NewCluster"},
		"Options":     {"upgradeStrategy: {clusterUpgradeOptions: {maxSurgePercent: 5}}, " + some, "spec.upgradeStrategy.clusterUpgradeOptions", "remove it"},
		"Delay":       {"rayClusterDeletionDelaySeconds: -1, " + some, "spec.rayClusterDeletionDelaySeconds", "from 0"},
		"External":    {"serveService: {spec: {type: ExternalName}}, " + some, "spec.serveService.spec.type", "ClusterIP"},
		"IPs":         {"serveService: {spec: {externalIPs: [1.2.3.4]}}, " + some, "spec.serveService.spec.externalIPs", "remove them"},
		"Elsewhere":   {"serveService: {metadata: {namespace: x}}, " + some, "spec.serveService.metadata.namespace", "remove it"},
		"Called":      {"serveService: {metadata: {name: 1x}}, " + some, "spec.serveService.metadata.name", "alphabetic"},
		"Kubernetes":  {apps + "rayClusterConfig: {authOptions: {enableK8sTokenAuth: true}, headGroupSpec: {POD}}", "spec.rayClusterConfig.authOptions.enableK8sTokenAuth", "token of its own"},
		"HeadService": {apps + "rayClusterConfig: {headGroupSpec: {headService: {metadata: {name: s}}, POD}}", "spec.rayClusterConfig.headGroupSpec.headService.metadata.name", "remove it"},
		"InCluster":   {apps + "rayClusterConfig: {headGroupSpec: {template: {}}}", "spec.rayClusterConfig.headGroupSpec.template.spec.containers", "runs Ray"},
		"Manager":     {"managedBy: me, " + some, "spec.managedBy", "ray.io/kuberay-operator"},
	} {
		s := decode(t, tc.spec)
		errs := k.Admission.Validate(s)
		if len(errs) != 1 || errs[0].Field != tc.field || !strings.Contains(errs[0].Error(), tc.cure) {
			t.Errorf("%s: %v", name, errs)
		}
		if _, err := k.Running.Operator.Compile(s); err == nil {
			t.Errorf("%s: it has a plan", name)
		}
		if _, err := k.Read(s); err == nil {
			t.Errorf("%s: it can be queued", name)
		}
		if len(k.Admission.ValidateChange(decode(t, some), s)) == 0 ||
			name != "Manager" && len(k.Admission.ValidateChange(s, s)) > 0 {
			t.Errorf("%s: it may become so, or may not stay so", name)
		}
	}
	long := decode(t, some)
	long.Name = strings.Repeat("n", 48)
	if errs := k.Admission.Validate(long); len(errs) != 1 || errs[0].Field != "metadata.name" {
		t.Errorf("%v", errs)
	}
	told := strings.Join(
		k.Admission.Warnings(decode(t, "serviceUnhealthySecondThreshold: 1, "+some), lifecycle.Policy{}),
		"\n",
	)
	if !strings.Contains(told, "upgradeStrategy") || !strings.Contains(told, "serviceUnhealthySecondThreshold") {
		t.Errorf("%q", told)
	}
}

// TestServices puts services together at random: whatever decodes is compiled or refused, by
// everybody who is asked alike, and nobody panics or changes it.
func TestServices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
		spec := draw(
			"apps",
			apps,
			apps,
			"serveConfigV2: x, ",
			"",
		) + draw(
			"config",
			config+", ",
			config+", ",
			"rayClusterConfig: {headGroupSpec: {template: {}}}, ",
			"",
		) +
			draw(
				"upgrade",
				"",
				twofold,
				"upgradeStrategy: {type: None}, ",
				"upgradeStrategy: {type: X}, ",
			) +
			draw(
				"service",
				"",
				"serveService: {spec: {type: LoadBalancer}}, ",
				"serveService: {spec: {type: ExternalName}}, ",
			) + draw(
			"further",
			"",
			"suspend: true, ",
			"excludeHeadPodFromServeSvc: true, ",
		)
		judge(t, spec, draw("serves", "", "a-old"))
	})
}

// FuzzRayServices: the same of whatever can be decoded.
func FuzzRayServices(f *testing.F) {
	for _, spec := range []string{some, twofold + some, "serveService: {spec: {type: LoadBalancer}}, " + some, "serveConfigV2: x, " + config} {
		f.Add(spec, "")
		f.Add(spec, "a-old")
	}
	f.Fuzz(func(t *testing.T, spec, serves string) { judge(t, spec, serves) })
}

// judge asks everybody about a service, which a cluster serves.
func judge(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, spec, serves string,
) {
	t.Helper()
	k := rayservice.Kind()
	s := &api.RayService{}
	text, err := yaml.YAMLToJSON(
		[]byte("{metadata: {name: a, namespace: b}, spec: {" + strings.ReplaceAll(spec, "POD", pod) + "}}"),
	)
	if err != nil || json.Unmarshal(text, s) != nil {
		return
	}
	s.Status.ActiveServiceStatus.RayClusterName = serves
	before := s.DeepCopy()
	errs := k.Admission.Validate(s)
	plan, err := k.Running.Operator.Compile(s)
	_, readErr := k.Read(s)
	if (len(errs) == 0) != (readErr == nil) || (readErr == nil) != (err == nil) {
		t.Fatalf("the webhook says %v, the plan %v, the queue %v", errs, err, readErr)
	}
	k.Queueing.Templates(s)
	k.Admission.Keep(s, s, nil)
	k.Admission.ValidateChange(s, s)
	k.Admission.Warnings(s, lifecycle.Policy{})
	for _, progress := range []*jobs.Progress{{}, {RetryState: podplan.RetryState{Started: at(1)}, Now: at(2)}} {
		k.Running.Operator.Project(s, plan, progress)
		k.Running.Operator.Calls(s, plan, progress)
		k.Running.Operator.Observe(s, plan, nil, progress)
		if _, err := k.Running.Operator.Artifacts(s, plan, progress); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if !equality.Semantic.DeepEqual(before, s) {
		t.Fatalf("it was changed: %s", cmp.Diff(before, s))
	}
}

func BenchmarkCompile(b *testing.B) {
	s := decode(b, strings.Replace(some, "replicas: 2", "replicas: 1000", 1))
	k := rayservice.Kind()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Running.Operator.Compile(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProject(b *testing.B) {
	s := decode(b, strings.Replace(some, "replicas: 2", "replicas: 1000", 1))
	k := rayservice.Kind()
	p, err := k.Running.Operator.Compile(s)
	if err != nil {
		b.Fatal(err)
	}
	progress := &jobs.Progress{RetryState: podplan.RetryState{Started: at(1)}, Now: at(2)}
	b.ReportAllocs()
	for b.Loop() {
		k.Running.Operator.Project(s, p, progress)
	}
}
