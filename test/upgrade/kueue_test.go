package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/cli/migrate"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

func gpus(n int64) corev1.ResourceList {
	return corev1.ResourceList{gpu: *resource.NewQuantity(n, resource.DecimalSI)}
}

// asAlpha makes a definition one of v1alpha1, which is what Kueue until 0.11 has of Cohorts, and until 0.13
// of Topologies. The parent of a Cohort has another name there.
func asAlpha(d *apiextensionsv1.CustomResourceDefinition) {
	v := &d.Spec.Versions[0]
	v.Name, v.AdditionalPrinterColumns = "v1alpha1", nil
	spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
	if parent, is := spec.Properties["parentName"]; is {
		delete(spec.Properties, "parentName")
		spec.Properties["parent"] = parent
		spec.XValidations = nil
	}
	v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
}

// define brings definitions of a group as Kueue or others have them. Those of Kueue are converted
// by a Service behind which nobody is.
func (p *plain) define(old bool, groups ...string) {
	p.t.Helper()
	all, err := config.CRDs()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, d := range all {
		if !slices.Contains(groups, d.Spec.Group) {
			continue
		}
		switch {
		case d.Spec.Group != kueue.GroupVersion.Group:
		case old:
			d.Spec.Versions = slices.DeleteFunc(
				d.Spec.Versions,
				func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name != "v1beta1" },
			)
			for i := range d.Spec.Versions {
				d.Spec.Versions[i].Storage = true
			}
			d.Spec.Conversion = nil
			if kind := d.Spec.Names.Kind; kind == "Topology" || kind == "Cohort" {
				asAlpha(d)
			}
		default:
			path := "/convert"
			d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"},
					ClientConfig: &apiextensionsv1.WebhookClientConfig{
						Service: &apiextensionsv1.ServiceReference{
							Namespace: "kueue-system",
							Name:      "kueue-webhook-service",
							Path:      &path,
						},
					},
				},
			}
		}
		p.put(d)
	}
	for _, d := range all {
		if !slices.Contains(groups, d.Spec.Group) {
			continue
		}
		eventually(p.t, d.Name+" is served", func() string {
			var have apiextensionsv1.CustomResourceDefinition
			if err := p.c.Get(p.t.Context(), client.ObjectKeyFromObject(d), &have); err != nil {
				return err.Error()
			}
			for _, c := range have.Status.Conditions {
				if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
					return ""
				}
			}
			return "not yet"
		})
	}
	p.c = connect(p.t, p.config) // it knows the new kinds
}

// operator makes a Deployment, its leader's lease and webhooks that nobody answers.
func (p *plain) operator(
	namespace, name, image, service string,
	hooks ...admissionregistrationv1.RuleWithOperations,
) {
	p.t.Helper()
	selector := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas = new(int32(1))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector}
	d.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: image}}},
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + ".lease"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(
				name + "-7c9_1234",
			),
			LeaseDurationSeconds: new(int32(1)),
			RenewTime:            &metav1.MicroTime{Time: time.Now()},
		},
	}
	p.put(d, lease)
	if len(hooks) == 0 {
		return
	}
	call := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: service},
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-mutating"},
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-validating"},
	}
	for i, rule := range hooks {
		fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: fmt.Sprintf(
				"m%d.%s.kb.io",
				i,
				name,
			),
			ClientConfig:            call,
			Rules:                   []admissionregistrationv1.RuleWithOperations{rule},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
		})
		validating.Webhooks = append(validating.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: fmt.Sprintf(
				"v%d.%s.kb.io",
				i,
				name,
			),
			ClientConfig:            call,
			Rules:                   []admissionregistrationv1.RuleWithOperations{rule},
			FailurePolicy:           &fail,
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	p.put(mutating, validating)
}

func about(group, resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{
			admissionregistrationv1.Create,
			admissionregistrationv1.Update,
		},
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{group},
			APIVersions: []string{"*"},
			Resources:   []string{resource},
		},
	}
}

// clusterQueue is one with GPUs, and others that nobody runs out of.
func clusterQueue(name string, n int64) *kueue.ClusterQueue {
	quota := func(r corev1.ResourceName, q string) kueue.ResourceQuota {
		return kueue.ResourceQuota{Name: r, NominalQuota: resource.MustParse(q)}
	}
	q := &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{kueue.ResourceInUseFinalizer}},
	}
	q.Spec.NamespaceSelector = &metav1.LabelSelector{}
	q.Spec.Preemption = &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority}
	q.Spec.ResourceGroups = []kueue.ResourceGroup{
		{CoveredResources: []corev1.ResourceName{gpu}, Flavors: []kueue.FlavorQuotas{{
			Name: "default-flavor", Resources: []kueue.ResourceQuota{quota(gpu, fmt.Sprint(n))},
		}}},
	}
	return q
}

// podSpec is a container that sleeps, with GPUs.
func podSpec(n int64, scheduler string) corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		SchedulerName:                 scheduler,
		TerminationGracePeriodSeconds: new(int64(0)),
		Containers: []corev1.Container{
			{
				Name:      "main",
				Image:     "busybox",
				Command:   []string{"sleep", "100000"},
				Resources: corev1.ResourceRequirements{Requests: gpus(n), Limits: gpus(n)},
			},
		},
	}
}

// job is a batch/v1 Job as Kueue runs it.
func job(name string, pods int32, each int64, suspended bool) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "lab",
			Name:      name,
			Labels:    map[string]string{kueue.QueueNameLabel: "queue"},
		},
	}
	j.Spec.Parallelism, j.Spec.Completions, j.Spec.Suspend = &pods, &pods, &suspended
	j.Spec.Template.Spec = podSpec(each, "")
	return j
}

// owned is that an object controls another.
func owned(apiVersion, kind string, o client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{
		{
			APIVersion:         apiVersion,
			Kind:               kind,
			Name:               o.GetName(),
			UID:                o.GetUID(),
			Controller:         new(true),
			BlockOwnerDeletion: new(true),
		},
	}
}

// workload is what Kueue makes of a job.
func workload(
	name string,
	owners []metav1.OwnerReference,
	namespace string,
	sets ...kueue.PodSet,
) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace:       namespace,
		Name:            name,
		OwnerReferences: owners,
		Finalizers:      []string{kueue.ResourceInUseFinalizer},
		Labels:          map[string]string{kueue.JobUIDLabel: string(owners[0].UID)},
	}}
	w.Spec.PodSets, w.Spec.QueueName, w.Spec.Priority, w.Spec.Active = sets, "queue", new(int32(0)), new(true)
	return w
}

func podSet(name string, n int32, spec corev1.PodSpec) kueue.PodSet {
	return kueue.PodSet{
		Name:     kueue.PodSetReference(name),
		Count:    n,
		Template: corev1.PodTemplateSpec{Spec: spec},
	}
}

// given is the status of a Workload that Kueue admitted, without places.
func given(w *kueue.Workload, queue string) {
	w.Status.Admission = &kueue.Admission{ClusterQueue: kueue.ClusterQueueReference(queue)}
	for _, ps := range w.Spec.PodSets {
		each := ps.Template.Spec.Containers[0].Resources.Requests[gpu]
		w.Status.Admission.PodSetAssignments = append(w.Status.Admission.PodSetAssignments, kueue.PodSetAssignment{
			Name:          ps.Name,
			Count:         new(ps.Count),
			Flavors:       map[corev1.ResourceName]kueue.ResourceFlavorReference{gpu: "default-flavor"},
			ResourceUsage: gpus(each.Value() * int64(ps.Count)),
		})
	}
	condition(
		w,
		kueue.WorkloadQuotaReserved,
		metav1.ConditionTrue,
		kueue.WorkloadQuotaReserved,
		"Quota reserved in ClusterQueue "+queue,
	)
	condition(
		w,
		kueue.WorkloadAdmitted,
		metav1.ConditionTrue,
		kueue.WorkloadAdmitted,
		"The workload is admitted",
	)
}

func condition(w *kueue.Workload, kind string, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(
		&w.Status.Conditions,
		metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message},
	)
}

// say writes a status.
func (p *plain) say(o client.Object) {
	p.t.Helper()
	if err := p.c.Status().Update(p.t.Context(), o); err != nil {
		p.t.Fatalf("status of %s: %v", o.GetName(), err)
	}
}

// kueueCluster makes what Kueue leaves: 8 GPUs, of which 6 are given.
func kueueCluster(t *testing.T) *plain {
	t.Helper()
	p := begin(t)
	p.define(false, kueue.GroupVersion.Group)
	ns := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	p.put(
		ns("kueue-system"),
		ns("lab"),
		&kueue.ResourceFlavor{
			ObjectMeta: metav1.ObjectMeta{Name: "default-flavor", Finalizers: []string{kueue.ResourceInUseFinalizer}},
		},
		clusterQueue("lab", 8),
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "queue"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "lab"},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kueue-system", Name: "kueue-manager-config"},
			Data: map[string]string{
				"controller_manager_config.yaml": "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfeatureGates: {DisableWaitForPodsReady: true}\n",
			},
		},
	)
	running, marked := job("running", 2, 2, false), job("marked", 1, 2, false)
	marked.Spec.Template.Labels = map[string]string{
		kueue.PodSetLabel:           "main",
		kueue.ClusterQueueNameLabel: "lab",
	}
	marked.Spec.Template.Annotations = map[string]string{kueue.WorkloadAnnotation: "job-marked"}
	jobs := map[string]*batchv1.Job{
		"running": running,
		"marked":  marked,
		"big":     job("big", 1, 4, true),
		"small":   job("small", 1, 2, true),
		"evicted": job("evicted", 1, 8, true),
		"held":    job("held", 1, 1, true),
	}
	for _, name := range []string{"running", "marked", "evicted", "big", "small", "held"} {
		j := jobs[name]
		p.put(j)
		w := workload(
			"job-"+name,
			owned("batch/v1", "Job", j),
			"lab",
			podSet("main", *j.Spec.Parallelism, j.Spec.Template.Spec),
		)
		w.Spec.Active = new(name != "held")
		p.put(w)
		switch name {
		case "running", "marked":
			given(w, "lab")
			condition(
				w,
				kueue.WorkloadPodsReady,
				metav1.ConditionTrue,
				kueue.ReasonStarted,
				"All pods reached readiness",
			)
		case "evicted":
			condition(
				w,
				kueue.WorkloadQuotaReserved,
				metav1.ConditionFalse,
				"Pending",
				"Preempted to accommodate a workload",
			)
			condition(
				w,
				kueue.WorkloadEvicted,
				metav1.ConditionTrue,
				kueue.ReasonPreempted,
				"Preempted to accommodate a workload",
			)
			condition(
				w,
				kueue.WorkloadRequeued,
				metav1.ConditionTrue,
				kueue.ReasonPreempted,
				"Preempted to accommodate a workload",
			)
		case "held":
			condition(
				w,
				kueue.WorkloadEvicted,
				metav1.ConditionTrue,
				kueue.ReasonDeactivated,
				"The workload is deactivated",
			)
		default:
			condition(
				w,
				kueue.WorkloadQuotaReserved,
				metav1.ConditionFalse,
				"Pending",
				"couldn't assign flavors to pod set main: insufficient unused quota",
			)
		}
		p.say(w)
	}
	done := job("done", 1, 8, true)
	p.put(done)
	w := workload("job-done", owned("batch/v1", "Job", done), "lab", podSet("main", 1, done.Spec.Template.Spec))
	p.put(w)
	condition(
		w,
		kueue.WorkloadFinished,
		metav1.ConditionTrue,
		kueue.ReasonSucceeded,
		"Job finished successfully",
	)
	p.say(w)
	if err := p.c.Delete(
		t.Context(),
		done,
		client.PropagationPolicy(metav1.DeletePropagationOrphan),
	); err != nil {
		t.Fatal(err)
	}
	var q kueue.ClusterQueue
	if err := p.c.Get(t.Context(), types.NamespacedName{Name: "lab"}, &q); err != nil {
		t.Fatal(err)
	}
	q.Status.FlavorsReservation = []kueue.FlavorUsage{
		{Name: "default-flavor", Resources: []kueue.ResourceUsage{{Name: gpu, Total: resource.MustParse("6")}}},
	}
	p.say(&q)
	p.place("lab", "node-0", 3)
	p.operator(
		"kueue-system",
		"kueue-controller-manager",
		"registry.k8s.io/kueue/kueue:v0.20.0",
		"kueue-webhook-service",
		about("batch", "jobs"),
		about("kueue.x-k8s.io", "clusterqueues"),
		about("kueue.x-k8s.io", "workloads"),
	)
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"group":                 "visibility.kueue.x-k8s.io",
			"version":               "v1beta2",
			"groupPriorityMinimum":  int64(100),
			"versionPriority":       int64(100),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": "kueue-system", "name": "kueue-visibility-server"},
		},
	}}
	u.SetGroupVersionKind(
		schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	)
	u.SetName("v1beta2.visibility.kueue.x-k8s.io")
	p.put(u)
	return p
}

// imports types "mlbatch import" and reads what it says.
func (p *plain) imports(args ...string) (out struct {
	migrate.Report
	migrate.ImportResult
}, err error,
) {
	p.t.Helper()
	r := *program
	r.Dir = p.dir
	text, err := r.Run(p.t.Context(), append(append([]string{"import"}, args...), "-o", "json")...)
	if err != nil {
		return out, err
	}
	if e := json.Unmarshal([]byte(text), &out); e != nil {
		p.t.Fatalf("%v\n%s", e, text)
	}
	return out, nil
}

// versions are those of all objects, but for what beats all the time.
func (p *plain) versions() map[string]string {
	p.t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	lists, err := d.ServerPreferredResources()
	if len(lists) == 0 {
		p.t.Fatal(err) // a group may have nobody who answers
	}
	out := map[string]string{}
	for _, l := range lists {
		for _, r := range l.APIResources {
			if !slices.Contains(r.Verbs, "list") ||
				slices.Contains([]string{"Event", "Lease", "Node", "ComponentStatus"}, r.Kind) {
				continue
			}
			all := &unstructured.UnstructuredList{}
			all.SetAPIVersion(l.GroupVersion)
			all.SetKind(r.Kind + "List")
			if err := p.c.List(p.t.Context(), all); err != nil {
				continue // such as those of aggregated APIs
			}
			for _, o := range all.Items {
				out[r.Kind+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return out
}

// unchanged reports whether something changes nothing. Other controllers may, so that it is
// tried again.
func (p *plain) unchanged(what string, do func()) {
	p.t.Helper()
	changed := ""
	for range 5 {
		before := p.versions()
		do()
		after := p.versions()
		if maps.Equal(before, after) {
			return
		}
		changed = ""
		for k, v := range after {
			if before[k] != v {
				changed += k + " "
			}
		}
	}
	p.t.Fatalf("%s changed %s", what, changed)
}

// uids are those of pods that run.
func (p *plain) uids(namespace string) map[string]types.UID {
	out := map[string]types.UID{}
	for name, pod := range p.pods(namespace) {
		out[name] = pod.UID
	}
	return out
}

// killed runs an import in this process again and again, each time until it has written once, and
// returns when one comes to its end.
func (p *plain) killed(system migrate.System) migrate.ImportResult {
	p.t.Helper()
	for range 200 {
		cfg := rest.CopyConfig(p.config)
		cfg.QPS = -1
		c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme.New()})
		if err != nil {
			p.t.Fatal(err)
		}
		wrote := 0
		once := func(do func() error) error {
			if wrote > 0 {
				return errKilled
			}
			err := do()
			if err == nil {
				wrote++
			}
			return err
		}
		m := &migrate.Import{
			System:    system,
			Namespace: "mlbatch-system",
			Now:       time.Now,
			Timeout:   time.Minute,
			Tell:      func(migrate.StepState) {},
			Client: interceptor.NewClient(c, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if slices.Contains(opts, client.CreateOption(client.DryRunAll)) {
						return c.Create(ctx, o, opts...)
					}
					return once(func() error { return c.Create(ctx, o, opts...) })
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					return once(func() error { return c.Delete(ctx, o, opts...) })
				},
				Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					return once(func() error { return c.Update(ctx, o, opts...) })
				},
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
					return once(func() error { return c.Patch(ctx, o, patch, opts...) })
				},
			}),
		}
		out, err := m.Run(p.t.Context())
		if err == nil {
			return out
		}
		if !errors.Is(err, errKilled) {
			p.t.Fatal(err)
		}
	}
	p.t.Fatal("it does not come to an end")
	return migrate.ImportResult{}
}

// A cluster of Kueue's is taken over by an import that is killed after every single write: jobs
// that run go on with their pods and their quota, and what waits starts by mlbatch's decision.
func TestImportKueue(t *testing.T) {
	p := kueueCluster(t)
	before := p.uids("lab")
	refused := func(j *batchv1.Job) error { return p.c.Create(t.Context(), j) }
	if err := refused(
		job("lost", 1, 1, false),
	); err == nil ||
		!strings.Contains(err.Error(), "failed calling webhook") {
		t.Fatalf("webhooks that nobody answers let in: %v", err)
	}
	// 1. A dry run tells, and changes nothing.
	p.unchanged("a dry run", func() {
		r, err := p.imports("kueue", "--dry-run")
		if err != nil {
			t.Fatal(err)
		}
		if r.Counts != (migrate.Counts{Running: 2, Waiting: 3, Held: 1, Finished: 1, Pods: 3, Unmarked: 2}) {
			t.Errorf("counts: %+v", r.Counts)
		}
		if len(r.Starts) != 1 || r.Starts[0].Workload != "lab/job-small" || len(r.Evicts) != 0 {
			t.Errorf("starts %v, evicts %v", r.Starts, r.Evicts)
		}
		if len(r.Quota) != 1 || r.Quota[0].Before != "6" || r.Quota[0].After != "6" {
			t.Errorf("quota: %v", r.Quota)
		}
	})
	// 2. It is done, killed after each write.
	if out := p.killed(migrate.Kueue); !strings.Contains(out.Next, "mlbatch install") {
		t.Errorf("next: %q", out.Next)
	}
	p.unchanged("a second import", func() {
		if out, err := p.imports("kueue", "--yes"); err != nil || len(out.Did) != 0 || out.Next == "" {
			t.Errorf("a second import did %v, next %q, %v", out.Did, out.Next, err)
		}
	})
	var d appsv1.Deployment
	if err := p.c.Get(
		t.Context(),
		types.NamespacedName{Namespace: "kueue-system", Name: "kueue-controller-manager"},
		&d,
	); err != nil ||
		*d.Spec.Replicas != 0 {
		t.Errorf("Kueue has %d replicas, %v", *d.Spec.Replicas, err)
	}
	if err := refused(
		job("unqueued", 1, 1, false),
	); err == nil ||
		!strings.Contains(err.Error(), "would start without having been queued") {
		t.Errorf("a job that nobody queues: %v", err)
	}
	late := job("late", 1, 1, true)
	p.put(late) // held by itself: mlbatch finds it
	if diff := p.uids("lab"); !maps.Equal(before, diff) {
		t.Errorf("pods were %v and are %v", before, diff)
	}
	// 3. mlbatch comes, and decides.
	p.up()
	out, err := p.imports("kueue", "--yes")
	if err != nil || out.Next != "" || len(out.Did) == 0 {
		t.Fatalf("after the installation: did %v, next %q, %v", out.Did, out.Next, err)
	}
	p.unchanged("an import that is done", func() {
		if out, err := p.imports("kueue", "--yes"); err != nil || len(out.Did) != 0 || out.Next != "" {
			t.Errorf("did %v, next %q, %v", out.Did, out.Next, err)
		}
	})
	p.started("small") // and nobody else: 8 GPUs are given
	p.goesOn(before, "running", "marked")
	p.stored("v1beta2")
	// 4. What ends gives its quota to the next.
	ends := func(name string) {
		if err := p.c.Delete(
			t.Context(),
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: name}},
			client.PropagationPolicy(metav1.DeletePropagationBackground),
		); err != nil {
			t.Fatal(err)
		}
	}
	ends("running")
	p.started("big")
	p.goesOn(before, "marked")
	ends("small")
	p.started("late")
	if err := p.c.Create(t.Context(), job("new", 1, 1, false)); err != nil {
		t.Errorf("a job for mlbatch: %v", err)
	}
}

// started waits until jobs are admitted and run.
func (p *plain) started(names ...string) {
	p.t.Helper()
	for _, name := range names {
		eventually(p.t, name+" starts", func() string {
			var j batchv1.Job
			if err := p.c.Get(p.t.Context(), types.NamespacedName{Namespace: "lab", Name: name}, &j); err != nil {
				return err.Error()
			}
			if *j.Spec.Suspend || j.Status.Active == 0 {
				return fmt.Sprintf("suspended %v, active %d", *j.Spec.Suspend, j.Status.Active)
			}
			return ""
		})
	}
}

// goesOn checks that jobs run with the pods, the Workloads and the quota that they had.
func (p *plain) goesOn(before map[string]types.UID, names ...string) {
	p.t.Helper()
	var all kueue.WorkloadList
	if err := p.c.List(p.t.Context(), &all, client.InNamespace("lab")); err != nil {
		p.t.Fatal(err)
	}
	now := p.pods("lab")
	for _, name := range names {
		of := 0
		for _, w := range all.Items {
			if owner := metav1.GetControllerOf(&w); owner == nil || owner.Name != name {
				continue
			}
			of++
			if w.Name != "job-"+name || !apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadAdmitted) ||
				apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted) != nil {
				p.t.Errorf("Workload %s of %s: %+v", w.Name, name, w.Status.Conditions)
			}
		}
		if of != 1 {
			p.t.Errorf("%s has %d Workloads", name, of)
		}
		for pod, uid := range before {
			if !strings.HasPrefix(pod, name+"-") {
				continue
			}
			is := now[pod]
			if is.UID != uid || is.Status.Phase != corev1.PodRunning ||
				is.Annotations[kueue.WorkloadAnnotation] != "job-"+name ||
				is.Labels[kueue.PodSetLabel] != "main" {
				p.t.Errorf(
					"pod %s is %s, %s, annotations %v, labels %v",
					pod,
					is.UID,
					is.Status.Phase,
					is.Annotations,
					is.Labels,
				)
			}
		}
	}
}

// stored checks in which version objects are stored.
func (p *plain) stored(version string) {
	p.t.Helper()
	var all apiextensionsv1.CustomResourceDefinitionList
	if err := p.c.List(p.t.Context(), &all); err != nil {
		p.t.Fatal(err)
	}
	for _, d := range all.Items {
		if d.Spec.Group == kueue.GroupVersion.Group && !slices.Equal(d.Status.StoredVersions, []string{version}) {
			p.t.Errorf("%s: stored in %v", d.Name, d.Status.StoredVersions)
		}
	}
}

// An import is taken back as long as mlbatch is not there: Kueue runs, and is asked again.
func TestRollback(t *testing.T) {
	p := kueueCluster(t)
	hooks := func() (n int, specs string) {
		var m admissionregistrationv1.MutatingWebhookConfigurationList
		var v admissionregistrationv1.ValidatingWebhookConfigurationList
		if err := errors.Join(p.c.List(t.Context(), &m), p.c.List(t.Context(), &v)); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]any{m.Items[0].Webhooks, v.Items[0].Webhooks})
		if err != nil {
			t.Fatal(err)
		}
		return len(m.Items) + len(v.Items), string(text)
	}
	_, before := hooks()
	if _, err := p.imports(
		"kueue",
		"--rollback",
		"--yes",
	); err == nil ||
		!strings.Contains(err.Error(), "nothing was imported") {
		t.Errorf("a rollback of nothing: %v", err)
	}
	if _, err := p.imports("kueue", "--yes"); err != nil {
		t.Fatal(err)
	}
	p.unchanged("a dry run of the way back", func() {
		if _, err := p.imports("kueue", "--rollback", "--dry-run"); err != nil {
			t.Fatal(err)
		}
	})
	back := make(chan error, 1)
	go func() {
		_, err := p.imports("kueue", "--rollback", "--yes", "--timeout", "2m")
		back <- err
	}()
	p.place("kueue-system", "node-1", 1)
	if err := <-back; err != nil {
		t.Fatal(err)
	}
	if n, after := hooks(); n != 2 || after != before {
		t.Errorf("%d webhook configurations: %s, were %s", n, after, before)
	}
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := p.c.List(
		t.Context(),
		&policies,
	); err != nil ||
		slices.ContainsFunc(
			policies.Items,
			func(x admissionregistrationv1.ValidatingAdmissionPolicy) bool { return x.Name == migrate.HoldName },
		) {
		t.Errorf("the policy is left: %v", err)
	}
	if _, err := p.imports("kueue", "--rollback", "--yes"); err == nil {
		t.Error("it was taken back twice")
	}
}
