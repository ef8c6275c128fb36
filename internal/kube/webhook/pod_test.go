package webhook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const (
	mutatePod   = "/mutate--v1-pod"
	placePod    = "/place--v1-pod"
	sharePod    = "/share--v1-pod"
	groupPod    = "/group--v1-pod"
	validatePod = "/validate--v1-pod"
	keepPod     = "/keep--v1-pod"

	jobController     = "system:serviceaccount:kube-system:job-controller"
	replicaController = "system:serviceaccount:kube-system:replicaset-controller"
	operatorAccount   = "system:serviceaccount:kubeflow:training-operator"
	tenantAccount     = "system:serviceaccount:blue:default"
	workloadNote      = "kueue.x-k8s.io/workload: w"
)

// podText is a pod in a namespace with some labels and annotations, and lines for its
// metadata and spec.
func podText(namespace, labels, annotations, metadata, spec string) string {
	return strings.NewReplacer(
		"NS",
		namespace,
		"LABELS",
		labels,
		"ANNOTATIONS",
		annotations,
		"METADATA",
		metadata,
		"SPEC",
		spec,
	).Replace(
		`
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: NS, labels: {LABELS}, annotations: {ANNOTATIONS}, METADATA}
spec:
  unknownField: stays
  containers: [{name: c, image: i}]
  SPEC
`,
	)
}

func ownedBy(kind string) string {
	return "ownerReferences: [{apiVersion: any/v1, kind: " + kind + ", name: o, uid: u, controller: true}]"
}

// New pods are held, whoever they say owns them.
func TestMutatePod(t *testing.T) {
	cases := map[string]struct {
		why, user, new string
		frameworks     []string
		held           bool
		queue          string
		warned         bool
	}{
		"queued": {
			why:   "it waits for its queue",
			new:   podText("blue", queueLabel, "", "", ""),
			held:  true,
			queue: "default-queue",
		},
		"no queue": {
			why:    "a team's namespace runs queued pods only",
			new:    podText("blue", "", "", "", ""),
			held:   true,
			warned: true,
		},
		"elsewhere": {
			why:   "it asks for a queue",
			new:   podText("lab", queueLabel, "", "", ""),
			held:  true,
			queue: "default-queue",
		},
		"elsewhere, none": {why: "it is none of ours", new: podText("lab", "", "", "", "")},
		"forged owner": {
			why:   "any user may write that",
			new:   podText("blue", queueLabel, "", ownedBy("AppWrapper"), ""),
			held:  true,
			queue: "default-queue",
		},
		"forged Workload": {
			why:   "and that",
			new:   podText("blue", queueLabel, workloadNote, ownedBy("Job"), ""),
			held:  true,
			queue: "default-queue",
		},
		"a tenant's robot": {
			why:   "it is a user as others",
			user:  tenantAccount,
			new:   podText("blue", queueLabel, workloadNote, ownedBy("Job"), ""),
			held:  true,
			queue: "default-queue",
		},
		"a robot of the lab": {
			why:   "it is no operator where it lives",
			user:  "system:serviceaccount:lab:default",
			new:   podText("lab", queueLabel, workloadNote, ownedBy("Job"), ""),
			held:  true,
			queue: "default-queue",
		},
		"an operator": {
			why:  "its pods are counted with the job that they are of",
			user: operatorAccount,
			new:  podText("blue", "", workloadNote, ownedBy("PyTorchJob"), ""),
		},
		"uncounted": {
			why:   "the job that it is of is not queued",
			user:  operatorAccount,
			new:   podText("blue", queueLabel, "", ownedBy("PyTorchJob"), ""),
			held:  true,
			queue: "default-queue",
		},
		"of a ReplicaSet": {
			why:   "each is a job",
			user:  replicaController,
			new:   podText("blue", queueLabel, "", ownedBy("ReplicaSet"), ""),
			held:  true,
			queue: "default-queue",
		},
		"pods are off": {
			why:        "the installation does not queue them",
			frameworks: []string{"batch/job"},
			new:        podText("lab", queueLabel, "", "", ""),
		},
		"off, of a team": {
			why:        "its users may make pods because they are held",
			frameworks: []string{"batch/job"},
			new:        podText("blue", queueLabel, "", "", ""),
			held:       true,
			queue:      "default-queue",
		},
		"pods are off, but": {
			why:        "those of Deployments are",
			frameworks: []string{"deployment"},
			new:        podText("lab", queueLabel, "kueue.x-k8s.io/pod-suspending-parent: deployment", "", ""),
			held:       true,
			queue:      "default-queue",
		},
		"of another parent": {
			why:        "only those of Deployments are",
			frameworks: []string{"deployment"},
			new:        podText("lab", queueLabel, "kueue.x-k8s.io/pod-suspending-parent: statefulset", "", ""),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, webhook.Options{Frameworks: tc.frameworks}, nil, nil, world()...),
				ask{path: mutatePod, user: tc.user, new: tc.new},
			)
			if !r.Allowed {
				t.Fatal(r.Message)
			}
			p := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil {
				t.Fatal(err)
			}
			is := podmeta.Gated(p) && podmeta.Kept(p) && podmeta.Managed(p) &&
				p.Annotations[v1beta2.RoleHashAnnotation] != "" &&
				p.Spec.SchedulerName == "mlbatch-scheduler"
			if is != tc.held || podmeta.Managed(p) != tc.held {
				t.Errorf("%s: held is %v, want %v: %+v", tc.why, is, tc.held, p)
			}
			if tc.held && (podmeta.Queue(p) != tc.queue || p.Annotations[v1beta2.WorkloadAnnotation] != "") {
				t.Errorf("%s: queue %q, annotations %v", tc.why, podmeta.Queue(p), p.Annotations)
			}
			if v, _, _ := unstructured.NestedString(r.Object, "spec", "unknownField"); v != "stays" {
				t.Error("a field that is not known is gone")
			}
			if (len(r.Warnings) > 0) != tc.warned {
				t.Errorf("warnings: %v", r.Warnings)
			}
		})
	}
}

// Where another scheduler binds the pods of jobs, they wait until they are told their node, those
// that are queued by themselves and those that are parts of a queued job.
func TestPodsOfAnotherSchedulerWaitForTheirNode(t *testing.T) {
	stock := jobs.Schedulers{Given: "default-scheduler", Ours: jobs.SchedulerNames()}
	counted := func(spec string) string {
		return podText("blue", "kueue.x-k8s.io/podset: main", workloadNote, ownedBy("Job"), spec)
	}
	for name, tc := range map[string]struct {
		why, path, new   string
		schedulers       jobs.Schedulers
		scheduler, gates string
	}{
		"queued":                      {why: "it waits for both", path: mutatePod, new: podText("blue", queueLabel, "", "", ""), schedulers: stock, scheduler: "default-scheduler", gates: "kueue.x-k8s.io/admission kueue.x-k8s.io/topology"},
		"queued, ours":                {why: "mlbatch's scheduler knows where it goes", path: mutatePod, new: podText("blue", queueLabel, "", "", "schedulerName: sakkara"), schedulers: stock, scheduler: "sakkara", gates: "kueue.x-k8s.io/admission"},
		"queued, ours is not there":   {why: "nobody would bind it", path: mutatePod, new: podText("blue", queueLabel, "", "", "schedulerName: sakkara"), schedulers: jobs.Schedulers{Given: "theirs"}, scheduler: "theirs", gates: "kueue.x-k8s.io/admission kueue.x-k8s.io/topology"},
		"queued, gated by its author": {why: "once is enough", path: mutatePod, new: podText("blue", queueLabel, "", "", "schedulingGates: [{name: kueue.x-k8s.io/topology}]"), schedulers: stock, scheduler: "default-scheduler", gates: "kueue.x-k8s.io/topology kueue.x-k8s.io/admission"},
		"part":                        {why: "its job has nodes, and it waits for one", path: placePod, new: counted("schedulerName: default-scheduler"), schedulers: stock, scheduler: "default-scheduler", gates: "kueue.x-k8s.io/topology"},
		"part, with a gate":           {why: "that of its author stays", path: placePod, new: counted("schedulingGates: [{name: example.com/mine}]"), schedulers: stock, gates: "example.com/mine kueue.x-k8s.io/topology"},
		"part, asked twice":           {why: "once is enough", path: placePod, new: counted("schedulingGates: [{name: kueue.x-k8s.io/topology}]"), schedulers: stock, gates: "kueue.x-k8s.io/topology"},
		"part, of ours":               {why: "by another name than most", path: placePod, new: counted("schedulerName: mine"), schedulers: jobs.Schedulers{Given: "mine", Ours: []string{"mine"}}, scheduler: "mine"},
		"part, of a group":            {why: "it is told its rank before it has a node", path: placePod, new: podText("blue", "kueue.x-k8s.io/podset: main, sakkara.group.name: g", workloadNote, ownedBy("Job"), "schedulerName: mine"), schedulers: jobs.Schedulers{Given: "mine", Ours: []string{"mine"}}, scheduler: "mine", gates: "kueue.x-k8s.io/topology"},
		"part, with a node":           {why: "it has one", path: placePod, new: counted("nodeName: n1"), schedulers: stock},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(
				t,
				serveWith(t, webhook.Options{Schedulers: tc.schedulers}, nil, nil, world()...),
				ask{path: tc.path, new: tc.new},
			)
			if !r.Allowed {
				t.Fatal(r.Message)
			}
			p := &corev1.Pod{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil {
				t.Fatal(err)
			}
			var gates []string
			for _, g := range p.Spec.SchedulingGates {
				gates = append(gates, g.Name)
			}
			if got := strings.Join(gates, " "); got != tc.gates || p.Spec.SchedulerName != tc.scheduler {
				t.Errorf(
					"%s: gates %q of scheduler %q, want %q of %q",
					tc.why,
					got,
					p.Spec.SchedulerName,
					tc.gates,
					tc.scheduler,
				)
			}
		})
	}
}

// Pods with a place in a ComputeDomain get the claim of their channel, and keep all else; no other pod costs a call.
func TestPodsOfAComputeDomainGetTheirClaim(t *testing.T) {
	const domain = workloadNote + ", mlbatch.dev/compute-domain-claim: job-train"
	part := func(notes string) string {
		return podText(
			"blue",
			"kueue.x-k8s.io/podset: main",
			notes,
			ownedBy("Job"),
			"resourceClaims: [{name: disk, resourceClaimName: d}]",
		)
	}
	r := send(t, serve(t, nil, world()...), ask{path: sharePod, new: part(domain)})
	p := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil || !r.Allowed {
		t.Fatal(r.Message, err)
	}
	want := corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{
			{Name: "disk", ResourceClaimName: new("d")},
			{Name: "compute-domain-channel", ResourceClaimTemplateName: new("job-train")},
		},
		Containers: []corev1.Container{{
			Name: "c", Image: "i",
			Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "compute-domain-channel"}}},
		}},
	}
	if diff := cmp.Diff(want, p.Spec); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if spec, _ := r.Object["spec"].(map[string]any); spec["unknownField"] != "stays" {
		t.Error("what is not known here does not stay")
	}
	asked := hookNamed(t, "mpoddomain.team.mlbatch.dev")
	for notes, want := range map[string]bool{domain: true, workloadNote: false} {
		if got := called(t, asked, written(t, "", jobController, "", part(notes), "")); got != want {
			t.Errorf("a pod with %s: called is %v", notes, got)
		}
	}
	domains := mutatingNamed(t, "mpoddomain.team.mlbatch.dev", jobs.SchedulerNames())
	if *domains.FailurePolicy != admissionregistrationv1.Fail {
		t.Error("a pod without its claim would run without the memory of the others")
	}
	forged := send(
		t,
		serve(t, nil, world()...),
		ask{path: mutatePod, new: podText("blue", queueLabel, domain, "", "")},
	)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(forged.Object, p); err != nil ||
		p.Annotations["mlbatch.dev/compute-domain-claim"] != "" {
		t.Errorf("its author says that a pod has a place in a ComputeDomain: %v, %v", p.Annotations, err)
	}
}

// Pods of a job that is told before it is stopped can read that in a file; others are as their author wrote them.
func TestPodsAreToldByAFile(t *testing.T) {
	const told = workloadNote + ", mlbatch.dev/stop-file: \"true\""
	spec := func(r reply) corev1.PodSpec {
		t.Helper()
		p := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil || !r.Allowed {
			t.Fatal(r.Message, err)
		}
		return p.Spec
	}
	part := func(notes, more string) string {
		return podText("blue", "kueue.x-k8s.io/podset: main", notes, ownedBy("Job"), more)
	}
	ours := func(s corev1.PodSpec) bool {
		v := slices.IndexFunc(s.Volumes, func(v corev1.Volume) bool { return v.DownwardAPI != nil })
		return v >= 0 && s.Volumes[v].DownwardAPI.Items[0].Path == "stop-at" &&
			s.Volumes[v].DownwardAPI.Items[0].FieldRef.FieldPath == "metadata.annotations['mlbatch.dev/stop-at']" &&
			slices.ContainsFunc(s.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == s.Volumes[v].Name && m.MountPath == webhook.StopDirectory && m.ReadOnly
			})
	}
	const tellPod = "/tell--v1-pod"
	got := spec(
		send(
			t,
			serve(t, nil, world()...),
			ask{path: tellPod, new: part(told, "volumes: [{name: data, emptyDir: {}}]")},
		),
	)
	if !ours(got) || got.Volumes[0].Name != "data" {
		t.Errorf("a pod of a job that is told is %+v", got)
	}
	again := spec(
		send(
			t,
			serve(t, nil, world()...),
			ask{path: tellPod, new: part(told, "volumes: [{name: mlbatch-stop, emptyDir: {}}]")},
		),
	)
	if len(again.Volumes) != 1 || len(again.Containers[0].VolumeMounts) != 0 {
		t.Errorf("a pod whose author has a volume of that name is %+v", again)
	}
	for at, want := range map[string]bool{
		"/etc/mlbatch": false, "/etc/mlbatch/": false, "/etc/mlbatch/config.yaml": false, "/etc": false, "/etc/x/..": false,
		"/etc/mlbatch2": true, "/data": true, "/etc/other": true,
	} {
		mount := "volumeMounts: [{name: data, mountPath: " + at + "}]"
		text := strings.Replace(
			part(told, "volumes: [{name: data, emptyDir: {}}]"),
			"image: i",
			"image: i, "+mount,
			1,
		)
		if got := spec(send(t, serve(t, nil, world()...), ask{path: tellPod, new: text})); ours(got) != want {
			t.Errorf("a container with a volume at %s is %+v", at, got.Containers[0].VolumeMounts)
		}
	}
	alone := podText("blue", queueLabel, "mlbatch.dev/stop-notice: 30s", "", "")
	if got := spec(send(t, serve(t, nil, world()...), ask{path: mutatePod, new: alone})); !ours(got) {
		t.Errorf("a pod that is queued by itself is %+v", got)
	}
	if got := spec(
		send(t, serve(t, nil, world()...), ask{path: mutatePod, new: podText("blue", queueLabel, "", "", "")}),
	); ours(
		got,
	) {
		t.Errorf("nobody asked, and the pod is %+v", got)
	}
	const notice = "mpodnotice.team.mlbatch.dev"
	if *mutatingNamed(t, notice, jobs.SchedulerNames()).FailurePolicy != admissionregistrationv1.Ignore {
		t.Error("while no controller answers, no pod of a job that asked to be told can be made")
	}
	asked := hookNamed(t, notice)
	for notes, want := range map[string]bool{told: true, workloadNote: false} {
		if got := called(t, asked, written(t, "", jobController, "", part(notes, ""), "")); got != want {
			t.Errorf("a pod with %s: called is %v", notes, got)
		}
	}
}

// schedulingGroupOf is the PodGroup of Kubernetes that a pod names once it was answered for.
func schedulingGroupOf(t *testing.T, r reply) string {
	t.Helper()
	p := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil || !r.Allowed {
		t.Fatal(r.Message, err)
	}
	if p.Spec.SchedulingGroup == nil {
		return ""
	}
	return *p.Spec.SchedulingGroup.PodGroupName
}

// Pods of a job for which a PodGroup of Kubernetes was written name it, unless they name another or cannot name any; no
// other pod costs a call.
func TestPodsOfJobsNameTheirPodGroup(t *testing.T) {
	const noted = workloadNote + ", mlbatch.dev/native-pod-group: w"
	part := func(notes, spec string) string {
		return podText("blue", "kueue.x-k8s.io/podset: main", notes, ownedBy("Job"), spec)
	}
	handlers := serve(t, nil, world()...)
	for spec, want := range map[string]string{
		"":                                      "w",
		"schedulingGroup: {podGroupName: mine}": "mine",
		"evictionResponders: [{name: example.com/r, priority: 100}]": "",
	} {
		r := send(t, handlers, ask{path: groupPod, new: part(noted, spec)})
		if got := schedulingGroupOf(t, r); got != want {
			t.Errorf("a pod with %q names %q, want %q", spec, got, want)
		}
	}
	for _, name := range []string{"mpodgroup.team.mlbatch.dev", "mpodgroup.queued.mlbatch.dev"} {
		asked := hookNamed(t, name)
		for notes, want := range map[string]bool{noted: true, workloadNote: false} {
			if got := called(t, asked, written(t, "", jobController, "", part(notes, ""), "")); got != want {
				t.Errorf("%s, a pod with %s: called is %v", name, notes, got)
			}
		}
	}
	forged := send(t, handlers, ask{path: mutatePod, new: podText("blue", queueLabel, noted, "", "")})
	if strings.Contains(fmt.Sprint(forged.Object["metadata"]), "native-pod-group") {
		t.Errorf("its author says which PodGroup was written for a pod: %v", forged.Object["metadata"])
	}
}

// Pods of a group name the PodGroup that is written for it, where mlbatch's scheduler binds them and PodGroups are
// written.
func TestPodsOfGroupsNameTheirPodGroup(t *testing.T) {
	ours := jobs.Schedulers{Given: jobs.SchedulerName, Ours: []string{jobs.SchedulerName}}
	for name, tc := range map[string]struct {
		opts   webhook.Options
		labels string
		spec   string
		want   string
	}{
		"a group":           {webhook.Options{WritePodGroups: true, Schedulers: ours}, "kueue.x-k8s.io/pod-group-name: g", "", "g"},
		"a PodGroup's":      {webhook.Options{WritePodGroups: true, Schedulers: ours}, "scheduling.x-k8s.io/pod-group: g", "", "g"},
		"it names one":      {webhook.Options{WritePodGroups: true, Schedulers: ours}, "kueue.x-k8s.io/pod-group-name: g", "schedulingGroup: {podGroupName: mine}", "mine"},
		"none is written":   {webhook.Options{Schedulers: ours}, "kueue.x-k8s.io/pod-group-name: g", "", ""},
		"another scheduler": {webhook.Options{WritePodGroups: true, Schedulers: jobs.Schedulers{Given: "other"}}, "kueue.x-k8s.io/pod-group-name: g", "", ""},
		"alone":             {webhook.Options{WritePodGroups: true, Schedulers: ours}, "a: b", "", ""},
	} {
		r := send(t, serveWith(t, tc.opts, nil, nil, world()...), ask{
			path: mutatePod, new: podText("blue", queueLabel+", "+tc.labels, "", "", tc.spec),
		})
		if got := schedulingGroupOf(t, r); got != tc.want {
			t.Errorf("%s: it names %q, want %q", name, got, tc.want)
		}
	}
}

// Pods that mlbatch's scheduler binds cost no call more.
func TestPodPlaceConditions(t *testing.T) {
	const place = "mpodplace.team.mlbatch.dev"
	hook := hookNamed(t, place)
	for name, tc := range map[string]struct {
		notes, spec string
		want        bool
	}{
		"another scheduler's": {workloadNote, "schedulerName: default-scheduler", true},
		"nobody's by name":    {workloadNote, "", true},
		"ours":                {workloadNote, "schedulerName: mlbatch-scheduler", false},
		"like one of ours":    {workloadNote, "schedulerName: sakkara-", true},
		"ours, an old name":   {workloadNote, "schedulerName: sakkara", false},
		"not of a job":        {"", "schedulerName: default-scheduler", false},
		"of a group":          {workloadNote, "schedulerName: sakkara", true},
		"with its rank":       {workloadNote, "schedulerName: sakkara", false},
		"a group, no job":     {"", "schedulerName: sakkara", false},
	} {
		more := map[string]string{
			"of a group": ", sakkara.group.name: g", "a group, no job": ", sakkara.group.name: g",
			"with its rank": ", sakkara.group.name: g, sakkara.member.rank: '0'",
		}
		is := podText("blue", "kueue.x-k8s.io/podset: main"+more[name], tc.notes, ownedBy("Job"), tc.spec)
		if got := called(t, hook, written(t, "", jobController, "", is, "")); got != tc.want {
			t.Errorf("%s: called is %v, want %v", name, got, tc.want)
		}
	}
	for _, names := range [][]string{nil, {"mine"}} { // they are somebody else's where mlbatch's scheduler has other names, or does not run
		hook.MatchConditions = mutatingNamed(t, place, names).MatchConditions
		is := podText("blue", "kueue.x-k8s.io/podset: main", workloadNote, ownedBy("Job"), "schedulerName: sakkara")
		if !called(t, hook, written(t, "", jobController, "", is, "")) {
			t.Errorf("of a scheduler named %v: pods of Sakkara are not looked at", names)
		}
	}
	part := labels.Set{"kueue.x-k8s.io/podset": "main"}
	if s := mutatingNamed(t, place, jobs.SchedulerNames()).ObjectSelector; !selects(t, s, part) ||
		selects(t, s, labels.Set{"app": "a"}) {
		t.Error("it is about pods that say which part of their job they are, and no others")
	}
}

// Pods that name a PodGroup in the way of another scheduler are a group, where there are
// such PodGroups, and are told where not.
func TestPodsJoinPodGroups(t *testing.T) {
	const plugins, volcano = "scheduling.x-k8s.io/pod-group: train", "scheduling.k8s.io/group-name: train"
	for name, tc := range map[string]struct {
		labels, notes, group, kind string
		warned                     bool
	}{
		"scheduler plugins": {labels: plugins, group: "train", kind: "scheduling.x-k8s.io"},
		"Volcano":           {notes: volcano, warned: true},
		"Sakkara":           {labels: "sakkara.group.name: train", group: "train", kind: "sakkara.group"},
		"no name":           {labels: "sakkara.group.name: Train", group: "train-e99c90db", kind: "sakkara.group"},
		"of our own, too":   {labels: plugins + ", kueue.x-k8s.io/pod-group-name: other", notes: "kueue.x-k8s.io/pod-group-total-count: '2'", group: "other"},
		"forged":            {labels: "kueue.x-k8s.io/pod-group-name: other", notes: "mlbatch.dev/pod-group-kind: scheduling.x-k8s.io", group: "other"},
		"none":              {},
	} {
		r := send(
			t,
			serve(t, nil, world()...),
			ask{path: mutatePod, new: podText("blue", queueLabel+", "+tc.labels, tc.notes, "", "")},
		)
		if !r.Allowed {
			t.Fatal(r.Message)
		}
		p := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil {
			t.Fatal(err)
		}
		if podmeta.Group(p) != tc.group || p.Annotations[podmeta.PodGroupKindAnnotation] != tc.kind ||
			(len(r.Warnings) > 0) != tc.warned {
			t.Errorf(
				"%s: group %q of %q, warnings %v",
				name,
				podmeta.Group(p),
				p.Annotations[podmeta.PodGroupKindAnnotation],
				r.Warnings,
			)
		}
	}
}

// A manifest is applied again, whatever its pod was given since.
func TestRestorePod(t *testing.T) {
	const mark = "kueue.x-k8s.io/managed: 'true'"
	was := podText("blue", mark, "", "", `schedulerName: mlbatch-scheduler
  tolerations: [{key: nvidia.com/gpu, operator: Exists}, {key: spot, operator: Exists}]`)
	for name, tc := range map[string]struct {
		was, is string
		want    string
		given   []string
	}{
		"the scheduler of Kubernetes": {was, podText("blue", mark, "", "", "schedulerName: default-scheduler"), "mlbatch-scheduler", []string{"nvidia.com/gpu", "spot"}},
		"its own tolerations only":    {was, podText("blue", mark, "", "", "tolerations: [{key: nvidia.com/gpu, operator: Exists}]"), "mlbatch-scheduler", []string{"nvidia.com/gpu", "spot"}},
		"one more":                    {was, podText("blue", mark, "", "", "tolerations: [{key: more, operator: Exists}]"), "mlbatch-scheduler", []string{"more", "nvidia.com/gpu", "spot"}},
		"not ours": {
			podText("blue", "", "", "", "schedulerName: a"),
			podText("blue", "", "", "", "schedulerName: b"), "b", nil,
		},
	} {
		r := send(t, serve(t, nil, world()...), ask{path: "/restore--v1-pod", old: tc.was, new: tc.is})
		if !r.Allowed {
			t.Fatal(r.Message)
		}
		p := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, p); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, o := range p.Spec.Tolerations {
			keys = append(keys, o.Key)
		}
		if slices.Sort(keys); p.Spec.SchedulerName != tc.want || !slices.Equal(keys, tc.given) {
			t.Errorf("%s: scheduler %s, tolerations %v", name, p.Spec.SchedulerName, keys)
		}
	}
}

// Holding a pod twice changes nothing.
func TestMutatePodTwice(t *testing.T) {
	handlers := serve(t, nil, world()...)
	once := send(t, handlers, ask{path: mutatePod, new: podText("blue", queueLabel, "", "", "")})
	text, err := (&unstructured.Unstructured{Object: once.Object}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	twice := send(t, handlers, ask{path: mutatePod, new: string(text)})
	for _, o := range []map[string]any{once.Object, twice.Object} {
		unstructured.RemoveNestedField(o, "metadata", "annotations", v1beta2.SubmittedAtAnnotation)
	}
	if d := cmp.Diff(once.Object, twice.Object); d != "" {
		t.Errorf("(-once +twice):\n%s", d)
	}
}

// What would get around the queue, or make no sense, is refused with the field.
func TestValidatePod(t *testing.T) {
	const gate = "schedulingGates: [{name: kueue.x-k8s.io/admission}]"
	held := func(labels, annotations, metadata, spec string) string {
		return podText("blue", labels, annotations, metadata, gate+"\n  "+spec)
	}
	reviews{
		"right": {
			why: "nothing is wrong",
			ask: ask{path: validatePod, new: held(queueLabel, "", "finalizers: [kueue.x-k8s.io/managed]", "")},
		},
		"a node": {
			why:    "the scheduler chooses",
			ask:    ask{path: mutatePod, new: podText("blue", queueLabel, "", "", "nodeName: node-1")},
			refuse: []string{"spec.nodeName", "nodeSelector"},
		},
		"finalizers": {
			why:    "they would keep it for ever",
			ask:    ask{path: validatePod, new: held(queueLabel, "", "finalizers: [a.b/c]", "")},
			refuse: []string{"metadata.finalizers"},
		},
		"system priority": {
			why:    "that is not for tenants",
			ask:    ask{path: validatePod, new: held(queueLabel, "", "", "priorityClassName: system-node-critical")},
			refuse: []string{"spec.priorityClassName"},
		},
		"no total": {
			why:    "nobody knows how many there are",
			ask:    ask{path: validatePod, new: held("kueue.x-k8s.io/pod-group-name: g", "", "", "")},
			refuse: []string{"pod-group-total-count"},
		},
		"of a StatefulSet": {why: "it knows how many there are", ask: ask{
			path: validatePod, user: "system:serviceaccount:kube-system:statefulset-controller",
			new: held("kueue.x-k8s.io/pod-group-name: g", "kueue.x-k8s.io/pod-suspending-parent: statefulset", "", ""),
		}},
		"no queues here": {
			why: "the controller has no rights there, and could not let it go",
			ask: ask{
				path: validatePod,
				new:  strings.Replace(held(queueLabel, "", "", ""), "namespace: blue", "namespace: desert", 1),
			},
			refuse: []string{"metadata.labels[kueue.x-k8s.io/queue-name]", "has no LocalQueue"},
		},
		"queues elsewhere": {
			why: "an admin made one",
			ask: ask{
				path: validatePod,
				new:  strings.Replace(held(queueLabel, "", "", ""), "namespace: blue", "namespace: lab", 1),
			},
		},
		"gate lost": {
			why:    "another webhook took it out",
			ask:    ask{path: validatePod, new: podText("blue", queueLabel, "", "", "")},
			refuse: []string{"spec.schedulingGates"},
		},
		"keeps others off": {
			why: "pods of other teams would find no node as long as it runs",
			ask: ask{
				path: validatePod,
				new: held(
					queueLabel,
					"",
					"",
					"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/os, namespaceSelector: {}}]}}",
				),
			},
			refuse: []string{
				"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector",
			},
		},
		"none of ours": {
			why: "others do as they like",
			ask: ask{path: validatePod, new: podText("lab", "", "", "finalizers: [a.b/c]", "nodeName: node-1")},
		},
		"takes the gate": {
			why: "the admission does",
			ask: ask{
				path: keepPod,
				old:  held("kueue.x-k8s.io/managed: 'true'", "", "", ""),
				new:  podText("blue", "kueue.x-k8s.io/managed: 'true'", "", "", ""),
			},
			refuse: []string{"spec.schedulingGates"},
		},
		"takes the label": {
			why: "it would be forgotten",
			ask: ask{
				path: keepPod,
				old:  held("kueue.x-k8s.io/managed: 'true'", "", "", ""),
				new:  held("", "", "", ""),
			},
			refuse: []string{"metadata.labels"},
		},
		"uncounted": {
			why: "the pod of a Job would run outside of its quota",
			ask: ask{
				path: keepPod,
				old:  podText("blue", "", workloadNote, ownedBy("Job"), ""),
				new:  podText("blue", "", "", ownedBy("Job"), ""),
			},
			refuse: []string{"metadata.annotations[kueue.x-k8s.io/workload]"},
		},
		"counted as other": {
			why: "so would it in another pod set",
			ask: ask{
				path: keepPod,
				old:  podText("blue", "kueue.x-k8s.io/podset: a", workloadNote, "", ""),
				new:  podText("blue", "kueue.x-k8s.io/podset: b", workloadNote, "", ""),
			},
			refuse: []string{"metadata.labels[kueue.x-k8s.io/podset]"},
		},
		"unowned": {
			why: "the pod would outlive the eviction of its job",
			ask: ask{
				path: keepPod,
				old:  podText("blue", "app: a", workloadNote, ownedBy("Job"), ""),
				new:  podText("blue", "app: a", workloadNote, "", ""),
			},
			refuse: []string{"metadata.ownerReferences"},
		},
		"unlabelled": {
			why: "so it would",
			ask: ask{
				path: keepPod,
				old:  podText("blue", "app: a", workloadNote, ownedBy("Job"), ""),
				new:  podText("blue", "", workloadNote, ownedBy("Job"), ""),
			},
			refuse: []string{"metadata.labels[app]"},
		},
		"labelled besides": {
			why: "nothing is lost",
			ask: ask{
				path: keepPod,
				old:  podText("blue", "app: a", workloadNote, ownedBy("Job"), ""),
				new:  podText("blue", "app: a, b: c", workloadNote, ownedBy("Job"), ""),
			},
		},
		"orphaned by GC": {
			why: "the job was deleted without its pods",
			ask: ask{
				path: keepPod,
				user: "system:serviceaccount:kube-system:generic-garbage-collector",
				old:  podText("blue", "app: a", workloadNote, ownedBy("Job"), ""),
				new:  podText("blue", "app: a", workloadNote, "", ""),
			},
		},
		"by an operator": {
			why: "it knows its pods",
			ask: ask{
				path: keepPod,
				user: operatorAccount,
				old:  podText("blue", "app: a", workloadNote, ownedBy("Job"), ""),
				new:  podText("blue", "app: b", workloadNote, ownedBy("Job"), ""),
			},
		},
		"by a robot": {
			why: "it is a user as others",
			ask: ask{
				path: keepPod,
				user: tenantAccount,
				old:  podText("blue", "app: a", workloadNote, ownedBy("Job"), ""),
				new:  podText("blue", "app: b", workloadNote, ownedBy("Job"), ""),
			},
			refuse: []string{"metadata.labels[app]"},
		},
		"uncounted, moved": {
			why: "it is nobody's",
			ask: ask{
				path: keepPod,
				old:  podText("blue", "app: a", "", ownedBy("Job"), ""),
				new:  podText("blue", "app: b", "", "", ""),
			},
		},
		"told no node": {
			why: "it would go anywhere",
			ask: ask{
				path: keepPod,
				old: podText(
					"blue",
					"app: a",
					workloadNote,
					ownedBy("Job"),
					"schedulingGates: [{name: kueue.x-k8s.io/topology}]",
				),
				new: podText("blue", "app: a", workloadNote, ownedBy("Job"), ""),
			},
			refuse: []string{"spec.schedulingGates", "kueue.x-k8s.io/topology"},
		},
		"told no node, held": {
			why: "so would one that is queued by itself", refuse: []string{"kueue.x-k8s.io/topology"}, ask: ask{
				path: keepPod,
				old: podText(
					"blue",
					"kueue.x-k8s.io/managed: 'true', "+queueLabel,
					"",
					"finalizers: [kueue.x-k8s.io/managed]",
					"schedulingGates: [{name: kueue.x-k8s.io/topology}]",
				),
				new: podText(
					"blue",
					"kueue.x-k8s.io/managed: 'true', "+queueLabel,
					"",
					"finalizers: [kueue.x-k8s.io/managed]",
					"",
				),
			},
		},
		"not held": {
			why: "only the label is like ours",
			ask: ask{
				path: keepPod,
				old:  podText("blue", "kueue.x-k8s.io/managed: 'true'", "", "", ""),
				new:  podText("blue", "", "", "", ""),
			},
		},
		"another queue": {
			why: "it waits still",
			ask: ask{
				path: keepPod,
				old:  held("kueue.x-k8s.io/managed: 'true', "+queueLabel, "", "", ""),
				new:  held("kueue.x-k8s.io/managed: 'true', kueue.x-k8s.io/queue-name: q", "", "", ""),
			},
		},
		"no queue's name": {
			why:    "there can be none like it",
			ask:    ask{path: validatePod, new: held("kueue.x-k8s.io/queue-name: A_B", "", "", "")},
			refuse: []string{"queue-name"},
		},
		"after a job": {
			why:    "only jobs wait for others",
			ask:    ask{path: validatePod, new: held(queueLabel, "mlbatch.dev/after: ok:a", "", "")},
			refuse: []string{"mlbatch.dev/after", "only jobs"},
		},
		"a gate to remove": {
			why:    "its names are checked as those of jobs",
			ask:    ask{path: validatePod, new: held(queueLabel, "kueue.x-k8s.io/admission-gated-by: x", "", "")},
			refuse: []string{"admission-gated-by"},
		},
	}.run(t, world(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "desert"}})...)
}

// Pods of jobs that are queued already cost no call, and start while no controller of
// ours runs.
func TestPodConditions(t *testing.T) {
	_, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1/", nil),
		jobs.SchedulerNames(),
	)
	hooks := map[string]*admissionregistrationv1.ValidatingWebhook{}
	for i := range validating.Webhooks {
		hooks[validating.Webhooks[i].Name] = &validating.Webhooks[i]
	}
	held := podText(
		"blue",
		"kueue.x-k8s.io/managed: 'true'",
		"",
		"finalizers: [kueue.x-k8s.io/managed]",
		"schedulingGates: [{name: kueue.x-k8s.io/admission}]",
	)
	for name, tc := range map[string]struct {
		why, user, by, is, was string
		want                   bool
	}{
		"a user's":              {why: "it is held", user: "alice", is: podText("blue", "", "", "", ""), want: true},
		"a user's, forged":      {why: "owners and annotations prove nothing", user: "alice", is: podText("blue", "", workloadNote, ownedBy("Job"), ""), want: true},
		"of an admitted Job":    {why: "it was counted", user: jobController, is: podText("blue", "", workloadNote, ownedBy("Job"), "")},
		"of another Job":        {why: "nothing counts it", user: jobController, is: podText("blue", "", "", ownedBy("Job"), ""), want: true},
		"of a wrapped set":      {why: "it was counted", user: replicaController, is: podText("blue", "", workloadNote, ownedBy("ReplicaSet"), "")},
		"of a Deployment":       {why: "each is a job", user: replicaController, is: podText("blue", "", "", ownedBy("ReplicaSet"), ""), want: true},
		"of an unknown maker":   {why: "nothing checks its template", user: "system:serviceaccount:kube-system:replication-controller", is: podText("blue", "", workloadNote, ownedBy("ReplicationController"), ""), want: true},
		"of a DaemonSet":        {why: "it belongs to its node", user: "system:serviceaccount:kube-system:daemon-set-controller", is: podText("blue", "", "", ownedBy("DaemonSet"), "")},
		"a user's, of a Daemon": {why: "any user may write that", user: "alice", is: podText("blue", "", "", ownedBy("DaemonSet"), ""), want: true},
		"a kubelet's":           {why: "it mirrors what runs on the node", user: "system:node:n", is: podText("blue", "", "", "", "")},
		"a component":           {why: "our controller made it", user: "controller", by: webhook.FieldOwner, is: podText("blue", "", workloadNote, ownedBy("AppWrapper"), "")},
		"pretends to be ours":   {why: "a name proves nothing", user: "alice", by: webhook.FieldOwner, is: podText("blue", "", workloadNote, ownedBy("AppWrapper"), ""), want: true},
		"an update":             {why: "nothing of ours changes", user: "alice", is: strings.Replace(held, "unknownField: stays", "unknownField: goes", 1), was: held},
		"the gate goes":         {why: "that is for the admission", user: "alice", is: strings.Replace(held, "schedulingGates", "others", 1), was: held, want: true},
		"the topology's goes":   {why: "that is for the job's plan", user: "alice", is: podText("blue", "", workloadNote, "", ""), was: podText("blue", "", workloadNote, "", "schedulingGates: [{name: kueue.x-k8s.io/topology}]"), want: true},
		"the finalizer goes":    {why: "that is for us", user: "alice", is: strings.Replace(held, "finalizers: [kueue.x-k8s.io/managed]", "", 1), was: held, want: true},
		"the Workload changes":  {why: "so is that", user: "alice", is: strings.Replace(held, "annotations: {", "annotations: {"+workloadNote, 1), was: held, want: true},
		"a Job's pod, freed":    {why: "its Workload counts it", user: "alice", is: podText("blue", "", "", "", ""), was: podText("blue", "", workloadNote, "", ""), want: true},
		"our own step":          {why: "it costs no call", user: "controller", by: webhook.FieldOwner, is: strings.Replace(held, "schedulingGates", "others", 1), was: held},
	} {
		t.Run(name, func(t *testing.T) {
			hook := "vpod.team.mlbatch.dev"
			if tc.was != "" {
				hook = "vpodkept.team.mlbatch.dev"
			}
			if got := called(t, hooks[hook], written(t, "", tc.user, tc.by, tc.is, tc.was)); got != tc.want {
				t.Errorf("%s: called is %v, want %v", tc.why, got, tc.want)
			}
		})
	}
}

// Which namespaces' pods depend on us: those of teams, and pods elsewhere that ask for
// it. Never those of the cluster itself, whatever their labels.
func TestPodScope(t *testing.T) {
	team := labels.Set{"kubernetes.io/metadata.name": "blue", "mlbatch-team-namespace": "true"}
	other := labels.Set{"kubernetes.io/metadata.name": "lab"}
	system := labels.Set{"kubernetes.io/metadata.name": "kube-system", "mlbatch-team-namespace": "true"}
	queued := labels.Set{"kueue.x-k8s.io/queue-name": "q"}
	held := labels.Set{"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/queue-name": "q"}
	mutating, validating := webhook.Configurations(
		kinds.All(),
		webhook.AtURL("https://127.0.0.1:1", nil),
		jobs.SchedulerNames(),
	)
	for name, tc := range map[string]struct {
		namespace, object  labels.Set
		creations, updates int
	}{
		"a team's":          {team, nil, 2, 1},
		"a team's, held":    {team, held, 2, 2},
		"others'":           {other, nil, 0, 0},
		"others', queued":   {other, queued, 2, 0},
		"others', held":     {other, held, 2, 2},
		"the cluster's own": {system, held, 0, 0},
	} {
		creations, updates := 0, 0
		count := func(rule admissionregistrationv1.RuleWithOperations, ns, object bool) {
			if rule.Resources[0] != "pods" || !ns || !object {
				return
			}
			switch {
			case slices.Contains(rule.Operations, admissionregistrationv1.Create):
				creations++
			case slices.Contains(rule.Operations, admissionregistrationv1.Update):
				updates++
			}
		}
		for _, h := range mutating.Webhooks {
			count(h.Rules[0], selects(t, h.NamespaceSelector, tc.namespace), selects(t, h.ObjectSelector, tc.object))
		}
		for _, h := range validating.Webhooks {
			count(h.Rules[0], selects(t, h.NamespaceSelector, tc.namespace), selects(t, h.ObjectSelector, tc.object))
			if h.Rules[0].Resources[0] == "pods" && ptr.Deref(h.FailurePolicy, "") != admissionregistrationv1.Fail {
				t.Errorf("%s lets pods pass the queue while nobody answers", h.Name)
			}
		}
		if creations != tc.creations || updates != tc.updates {
			t.Errorf(
				"%s: %d webhooks at its creation and %d at a change, want %d and %d",
				name,
				creations,
				updates,
				tc.creations,
				tc.updates,
			)
		}
	}
}

// What an admission writes into templates is not for users to write: pods would take
// the places of a running job.
func TestForgedTemplates(t *testing.T) {
	text := func(metadata string) string {
		return "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: blue, labels: {" + queueLabel + "}}, spec: {suspend: true, template: {metadata: {" + metadata + "}, spec: {containers: [{name: c}]}}}}"
	}
	forged, podSet := text("annotations: {"+workloadNote+"}"), text("labels: {kueue.x-k8s.io/podset: main}")
	relabeled := strings.Replace(forged, "name: j,", "name: j, annotations: {a: b},", 1)
	reviews{
		"a Job": {
			why: "its pods are counted once they are admitted",
			ask: ask{path: validateJob, new: text("")},
		},
		"of another": {
			why:    "its pods would be counted with that",
			ask:    ask{path: validateJob, new: forged},
			refuse: []string{"spec.template.metadata.annotations[kueue.x-k8s.io/workload]"},
		},
		"in a pod set": {
			why:    "the admission says which",
			ask:    ask{path: validateJob, new: podSet},
			refuse: []string{"spec.template.metadata.labels[kueue.x-k8s.io/podset]"},
		},
		"later": {
			why:    "while it waits",
			ask:    ask{path: validateJob, old: text(""), new: forged},
			refuse: []string{"spec.template.metadata.annotations[kueue.x-k8s.io/workload]"},
		},
		"not any more": {
			why:    "its pods would not be counted",
			ask:    ask{path: validateJob, old: forged, new: text("")},
			refuse: []string{"spec.template.metadata.annotations[kueue.x-k8s.io/workload]"},
		},
		"as it was": {
			why: "the admission wrote it",
			ask: ask{path: validateJob, old: forged, new: relabeled},
		},
		"of an operator": {
			why: "it makes the Jobs of what was admitted",
			ask: ask{path: validateJob, user: operatorAccount, new: forged},
		},
		"of a tenant robot": {
			why:    "it is a user as others",
			ask:    ask{path: validateJob, user: tenantAccount, new: forged},
			refuse: []string{"spec.template.metadata.annotations[kueue.x-k8s.io/workload]"},
		},
		"of an admin": {
			why: "who may admit anything",
			ask: ask{path: validateJob, user: "admin", new: forged},
		},
	}.run(t, world()...)
}
