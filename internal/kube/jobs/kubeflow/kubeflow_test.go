package kubeflow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jaxjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/paddlejob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pytorchjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/tfjob"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/xgboostjob"
)

// variant is a kind with the words that its manifests use.
type variant struct {
	kind                   jobs.Kind
	field, container, port string
	number                 int32
}

func variants() map[string]variant {
	return map[string]variant{
		"PyTorchJob": {pytorchjob.Kind(), "pytorchReplicaSpecs", "pytorch", "pytorchjob-port", 23456},
		"TFJob":      {tfjob.Kind(), "tfReplicaSpecs", "tensorflow", "tfjob-port", 2222},
		"XGBoostJob": {xgboostjob.Kind(), "xgbReplicaSpecs", "xgboost", "xgboostjob-port", 9999},
		"PaddleJob":  {paddlejob.Kind(), "paddleReplicaSpecs", "paddle", "master", 36543},
		"JAXJob":     {jaxjob.Kind(), "jaxReplicaSpecs", "jax", "jaxjob-port", 6666},
	}
}

// decode reads a job whose spec may name POD, a template that does, and ROLES.
func (v variant) decode(t testing.TB, spec string) api.Job {
	t.Helper()
	template := "{spec: {containers: [{name: " + v.container + ", image: i}]}}"
	spec = strings.NewReplacer("POD", "template: "+template, "ROLES", v.field, "MAIN", v.container).Replace(spec)
	j, ok := v.kind.New().(api.Job)
	if !ok {
		t.Fatal("not a training job")
	}
	if err := yaml.UnmarshalStrict(
		[]byte("{metadata: {name: a, namespace: b}, spec: {"+spec+"}}"),
		j,
	); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return j
}

// roles are a master, where the kind has one, and three workers.
func (v variant) roles() string {
	if v.field == "jaxReplicaSpecs" {
		return "ROLES: {Worker: {replicas: 3, POD}}"
	}
	return "ROLES: {Master: {POD}, Worker: {replicas: 3, POD}}"
}

func (v variant) compile(t testing.TB, j api.Job) *jobs.Plan {
	t.Helper()
	p, err := v.kind.Running.Operator.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNames are what configurations, roles and commands know the kinds by.
func TestNames(t *testing.T) {
	for kind, v := range variants() {
		lower := strings.ToLower(kind)
		if v.kind.GVK() != api.GroupVersion.WithKind(kind) || v.kind.Naming.Resource != lower+"s" ||
			v.kind.Naming.Framework != "kubeflow.org/"+lower {
			t.Errorf("%s: %v, %s, %s", kind, v.kind.GVK(), v.kind.Naming.Resource, v.kind.Naming.Framework)
		}
	}
}

// TestPods: every pod and its service have the names and labels by which people and
// scripts find them, and the restart policy of the role instead of the template's.
func TestPods(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			j := v.decode(
				t,
				strings.ReplaceAll(
					v.roles(),
					"POD",
					"restartPolicy: ExitCode, template: {spec: {restartPolicy: Always, containers: [{name: side, image: i, ports: [{containerPort: 80}]}, {name: MAIN, image: i, ports: [{containerPort: 7, name: seven}, {containerPort: 8, protocol: UDP}]}]}}",
				),
			)
			p := v.compile(t, j)
			r := p.Roles[len(p.Roles)-1]
			want := podplan.Role{
				Name:   "worker",
				Count:  3,
				Rank:   int32(len(p.Roles) - 1),
				Member: "a-worker-{index}",
				Labels: map[string]string{
					"training.kubeflow.org/operator-name": strings.ToLower(
						v.kind.GVK().Kind,
					) + "-controller",
					"training.kubeflow.org/job-name":      "a",
					"training.kubeflow.org/replica-type":  "worker",
					"training.kubeflow.org/replica-index": "{index}",
				},
				Ports: []podplan.Port{
					{Name: "seven", Port: 7},
					{Name: v.port, Port: v.number},
				},
				OnFailure: podplan.ReplaceRetriable,
				Env:       r.Env,
				Container: r.Container,
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := p.TemplateOf(
				podplan.Member{Role: "worker"},
			).Spec.RestartPolicy; got != corev1.RestartPolicyNever {
				t.Errorf("the exit code is looked at by the controller, so the kubelet must not restart: %s", got)
			}
			if (*j.Roles())["Worker"].Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
				t.Error("the user's object was changed")
			}
			decides := 0
			for i := range p.Roles {
				for index := range p.Roles[i].Count {
					labels := p.TemplateOf(podplan.Member{Role: p.Roles[i].Name, Index: index}).Labels
					if p.Roles[i].Labels["training.kubeflow.org/job-role"] == "master" ||
						labels["training.kubeflow.org/job-role"] == "master" {
						decides++
					}
				}
			}
			if decides != 1 {
				t.Errorf("%d pods are marked as the one that decides", decides)
			}
		})
	}
}

// TestSakkaraRank: pods that read the rank which Sakkara gives have it when they are made, and it is that of their job;
// others are not labelled.
func TestSakkaraRank(t *testing.T) {
	const reads = "template: {spec: {containers: [{name: MAIN, image: i, env: [{name: R, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['sakkara.member.rank']\"}}}]}]}}"
	for name, v := range variants() {
		for template, want := range map[string]string{reads: "{rank}", "template: {spec: {containers: [{name: MAIN, image: i}]}}": ""} {
			for _, r := range v.compile(t, v.decode(t, strings.ReplaceAll(v.roles(), "POD", template))).Roles {
				if got := r.Labels["sakkara.member.rank"]; got != want {
					t.Errorf("%s: pods of role %s have rank %q, want %q", name, r.Name, got, want)
				}
			}
		}
	}
}

// TestPolicies: what the run policy says is in the plan.
func TestPolicies(t *testing.T) {
	cases := map[string]struct {
		why, policy string
		want        podplan.Plan
	}{
		"Nothing": {
			"there is no limit; pods that run on would hold quota",
			"",
			podplan.Plan{CleanUp: podplan.RemoveRunning},
		},
		"None": {"the author wants to see them", "cleanPodPolicy: None", podplan.Plan{CleanUp: podplan.Keep}},
		"Empty": {
			"as if it were not there",
			`cleanPodPolicy: ""`,
			podplan.Plan{CleanUp: podplan.RemoveRunning},
		},
		"Running": {"", "cleanPodPolicy: Running", podplan.Plan{CleanUp: podplan.RemoveRunning}},
		"All":     {"", "cleanPodPolicy: All", podplan.Plan{CleanUp: podplan.RemoveAll}},
		"Limits": {
			"",
			"backoffLimit: 0, activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 0",
			podplan.Plan{
				CleanUp:  podplan.RemoveRunning,
				Retries:  new(int32(0)),
				Deadline: time.Minute,
				TTL:      new(time.Duration(0)),
			},
		},
		"Suspended": {
			"no pod may be there",
			"suspend: true",
			podplan.Plan{CleanUp: podplan.RemoveRunning, Suspended: true},
		},
		"ForEver": {
			"a time that is longer than there are",
			"activeDeadlineSeconds: 9223372036854775807",
			podplan.Plan{CleanUp: podplan.RemoveRunning, Deadline: 1<<63 - 1},
		},
	}
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			for name, tc := range cases {
				p := v.compile(t, v.decode(t, "runPolicy: {"+tc.policy+"}, "+v.roles())).Plan
				p.Roles, p.Success = nil, nil
				if diff := cmp.Diff(tc.want, p); diff != "" {
					t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, diff)
				}
			}
		})
	}
}

// TestOlderCleanPodPolicy: TFJobs may say it where they once did; runPolicy comes first.
func TestOlderCleanPodPolicy(t *testing.T) {
	v := variants()[api.TFJobKind]
	for policy, want := range map[string]podplan.CleanUp{
		"cleanPodPolicy: All": podplan.RemoveAll, "cleanPodPolicy: All, runPolicy: {cleanPodPolicy: None}": podplan.Keep, "runPolicy: {}": podplan.RemoveRunning,
	} {
		if p := v.compile(t, v.decode(t, policy+", "+v.roles())); p.CleanUp != want {
			t.Errorf("%s: %v", policy, p.CleanUp)
		}
	}
}

func TestRestartPolicies(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			for policy, want := range map[string]struct {
				after podplan.OnFailure
				pod   corev1.RestartPolicy
			}{
				"Never":     {podplan.FailJob, corev1.RestartPolicyNever},
				"OnFailure": {podplan.Replace, corev1.RestartPolicyOnFailure},
				"Always":    {podplan.Replace, corev1.RestartPolicyAlways},
				"ExitCode":  {podplan.ReplaceRetriable, corev1.RestartPolicyNever},
			} {
				p := v.compile(t, v.decode(t, strings.ReplaceAll(v.roles(), "POD", "restartPolicy: "+policy+", POD")))
				if p.Roles[0].OnFailure != want.after || p.Templates[0].Spec.RestartPolicy != want.pod {
					t.Errorf("%s: %v and %s, want %v", policy, p.Roles[0].OnFailure, p.Templates[0].Spec.RestartPolicy, want)
				}
			}
		})
	}
}

// TestDefaultRestartPolicies are those that manifests rely on.
func TestDefaultRestartPolicies(t *testing.T) {
	for kind, want := range map[string]corev1.RestartPolicy{
		"PyTorchJob": corev1.RestartPolicyOnFailure, "PaddleJob": corev1.RestartPolicyOnFailure,
		"TFJob": corev1.RestartPolicyNever, "XGBoostJob": corev1.RestartPolicyNever, "JAXJob": corev1.RestartPolicyNever,
	} {
		v := variants()[kind]
		if got := v.compile(t, v.decode(t, v.roles())).Templates[0].Spec.RestartPolicy; got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// TestRoleNames: roles are known in any case, as upstream reads them.
func TestRoleNames(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"worker", "WORKER", "wOrKeR"} {
				j := v.decode(t, strings.ReplaceAll(v.roles(), "Worker", name))
				f, err := v.kind.Read(j)
				if err != nil {
					t.Fatal(err)
				}
				if last := f.PodSets[len(f.PodSets)-1]; last.Name != "worker" || last.Count != 3 {
					t.Errorf("%s: %v", name, last)
				}
				var paths []string
				for _, x := range v.kind.Queueing.Templates(j) {
					paths = append(paths, x.Path)
				}
				if want := "spec." + v.field + "." + name + ".template"; paths[len(paths)-1] != want {
					t.Errorf("%v must name what the author wrote: %s", paths, want)
				}
			}
			same := v.decode(
				t,
				strings.Replace(
					v.roles(),
					"Worker: {replicas: 3, POD}",
					"worker: {replicas: 3, POD}, Worker: {replicas: 3, restartPolicy: "+string(
						v.compile(t, v.decode(t, v.roles())).Templates[0].Spec.RestartPolicy,
					)+", POD}",
					1,
				),
			)
			if errs := v.kind.Admission.Validate(same); len(errs) > 0 {
				t.Errorf("twice the same is once: %v", errs)
			}
		})
	}
}

// TestRefusals: what cannot run is refused with field and cure, by the webhook and, if
// that did not see it, by whoever reads the job.
func TestRefusals(t *testing.T) {
	long := strings.Repeat("a", 55)
	cases := map[string]struct{ why, spec, field, cure string }{
		"NoRoles": {"nothing would run", "ROLES: {}", "spec.ROLES", "add the role Worker"},
		"UnknownRole": {
			"no controller knows it",
			"ROLES: {Worker: {POD}, Helper: {POD}}",
			"spec.ROLES.Helper",
			"supported values:",
		},
		"NullRole": {"there are no pods", "ROLES: {Worker: null}", "spec.ROLES.Worker", "remove the role"},
		"RoleTwice": {
			"which of them",
			"ROLES: {worker: {replicas: 1, POD}, Worker: {replicas: 2, POD}}",
			"spec.ROLES.worker",
			"keep one",
		},
		"BothOdd": {
			"none as it is spelled",
			"ROLES: {worker: {replicas: 1, POD}, WORKER: {replicas: 2, POD}}",
			"spec.ROLES.worker",
			"keep one",
		},
		"Container": {
			"nobody knows which one works",
			"ROLES: {Worker: {template: {spec: {containers: [{name: c, image: i}]}}}}",
			"spec.ROLES.Worker.template.spec.containers",
			"is named MAIN",
		},
		"Negative": {
			"less than none",
			"ROLES: {Worker: {replicas: -1, POD}}",
			"spec.ROLES.Worker.replicas",
			"use at least",
		},
		"TooMany": {
			"no cluster has them",
			"ROLES: {Worker: {replicas: 2147483647, POD}}",
			"spec.ROLES",
			"1000000",
		},
		"Restart": {
			"there are four",
			"ROLES: {Worker: {restartPolicy: Sometimes, POD}}",
			"spec.ROLES.Worker.restartPolicy",
			`"ExitCode"`,
		},
		"Clean": {
			"there are three",
			"runPolicy: {cleanPodPolicy: Some}, ROLES: {Worker: {POD}}",
			"spec.runPolicy.cleanPodPolicy",
			`"Running"`,
		},
		"Deadline": {
			"it would end at once",
			"runPolicy: {activeDeadlineSeconds: 0}, ROLES: {Worker: {POD}}",
			"spec.runPolicy.activeDeadlineSeconds",
			"from 1",
		},
		"TTL": {
			"before it ended",
			"runPolicy: {ttlSecondsAfterFinished: -1}, ROLES: {Worker: {POD}}",
			"spec.runPolicy.ttlSecondsAfterFinished",
			"from 0",
		},
		"Backoff": {
			"less than none",
			"runPolicy: {backoffLimit: -1}, ROLES: {Worker: {POD}}",
			"spec.runPolicy.backoffLimit",
			"from 0",
		},
		"ManagedBy": {
			"nobody would",
			"runPolicy: {managedBy: me}, ROLES: {Worker: {POD}}",
			"spec.runPolicy.managedBy",
			"kubeflow.org/training-operator",
		},
		"PortTwice": {
			"one pod cannot",
			"ROLES: {Worker: {template: {spec: {containers: [{name: MAIN, ports: [{containerPort: 1, name: x}, {containerPort: 2, name: x}]}]}}}}",
			"spec.ROLES.Worker.template.spec.containers[MAIN].ports[1].name",
			"Duplicate",
		},
		"NumberTwice": {
			"one service cannot",
			"ROLES: {Worker: {template: {spec: {containers: [{name: MAIN, ports: [{containerPort: 1, name: x}, {containerPort: 1, name: y}]}]}}}}",
			"spec.ROLES.Worker.template.spec.containers[MAIN].ports[1].containerPort",
			"Duplicate",
		},
		"PortNumber": {
			"there is none",
			"ROLES: {Worker: {template: {spec: {containers: [{name: MAIN, ports: [{containerPort: 70000}]}]}}}}",
			"spec.ROLES.Worker.template.spec.containers[MAIN].ports[0].containerPort",
			"65535",
		},
		"LongName": {"no pod could be called that", "name " + long, "metadata.name", "use at most 54"},
		"LongGenerate": {
			"its name will be longer",
			"generate " + long[:50],
			"metadata.generateName",
			"use at most 54",
		},
		"DigitFirst": {
			"no service could be called that",
			"name 1a",
			"metadata.name",
			"start with an alphabetic character",
		},
		"Dots": {"no service could be called that", "name a.b", "metadata.name", "services"},
	}
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			for name, tc := range cases {
				spec, changed, renamed := tc.spec, "", false
				for _, how := range []string{"name ", "generate "} {
					if after, is := strings.CutPrefix(spec, how); is {
						spec, changed, renamed = v.roles(), how+after, true
					}
				}
				if v.field == "xgbReplicaSpecs" && !renamed { // has a master always
					spec = strings.Replace(spec, "ROLES: {", "ROLES: {Master: {POD}, ", 1)
					if name == "NoRoles" {
						spec = "ROLES: {}"
					}
				}
				j := v.decode(t, spec)
				if after, is := strings.CutPrefix(changed, "name "); is {
					j.SetName(after)
				}
				if after, is := strings.CutPrefix(changed, "generate "); is {
					j.SetName("")
					j.SetGenerateName(after)
				}
				words := strings.NewReplacer("ROLES", v.field, "MAIN", v.container)
				errs := v.kind.Admission.Validate(j)
				found := false
				for _, e := range errs {
					found = found ||
						e.Field == words.Replace(tc.field) && strings.Contains(e.Error(), words.Replace(tc.cure))
				}
				if !found {
					t.Errorf(
						"%s: %s: got %v, want %s: %s",
						name,
						tc.why,
						errs,
						words.Replace(tc.field),
						words.Replace(tc.cure),
					)
				}
				if _, err := v.kind.Running.Operator.Compile(j); err == nil {
					t.Errorf("%s: %s: it compiled", name, tc.why)
				}
				if _, err := v.kind.Read(j); err == nil {
					t.Errorf("%s: %s: it could be queued", name, tc.why)
				}
			}
			longest := v.decode(t, v.roles())
			longest.SetName(long[:54])
			if errs := v.kind.Admission.Validate(longest); len(errs) > 0 {
				t.Errorf("the longest name that fits: %v", errs)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			was := v.decode(t, v.roles())
			cases := map[string]struct {
				why, spec, field string
			}{
				"Same":  {"nothing", v.roles(), ""},
				"Scale": {"workers may become more", strings.Replace(v.roles(), "3", "5", 1), ""},
				"Wrong": {
					"a change is looked at like a new job",
					strings.Replace(v.roles(), "3", "-3", 1),
					"spec." + v.field + ".Worker.replicas",
				},
				"Manager": {
					"two controllers would each think that it is theirs",
					"runPolicy: {managedBy: kueue.x-k8s.io/multikueue}, " + v.roles(),
					"spec.runPolicy.managedBy",
				},
				"SaidSame": {
					"it names the same, but the field is another's from now on",
					"runPolicy: {managedBy: kubeflow.org/training-operator}, " + v.roles(),
					"spec.runPolicy.managedBy",
				},
			}
			for name, tc := range cases {
				errs := v.kind.Admission.ValidateChange(was, v.decode(t, tc.spec))
				if (tc.field == "") != (len(errs) == 0) || len(errs) > 0 && errs[0].Field != tc.field {
					t.Errorf("%s: %s: %v", name, tc.why, errs)
				}
			}
			broken := v.decode(t, "ROLES: {Helper: {POD}}")
			if errs := v.kind.Admission.ValidateChange(broken, broken); len(errs) > 0 {
				t.Errorf("what was wrong before may still be labelled: %v", errs)
			}
		})
	}
}

// TestQueueOfPolicyStaysWhileItRuns: a job that runs has its place, whatever queue its policy names.
func TestQueueOfPolicyStaysWhileItRuns(t *testing.T) {
	policy := func(suspend, queue string) string {
		return "runPolicy: {suspend: " + suspend + ", schedulingPolicy: {queue: " + queue + "}}, "
	}
	for name, v := range variants() {
		for change, tc := range map[string]struct {
			was, is string
			refused bool
		}{
			"another":                {policy("false", "a"), policy("false", "b"), true},
			"first":                  {"", policy("false", "b"), true},
			"none":                   {policy("false", "a"), "", true},
			"same":                   {policy("false", "a"), policy("false", "a"), false},
			"while it is suspended":  {policy("true", "a"), policy("true", "b"), false},
			"with its being stopped": {policy("false", "a"), policy("true", "b"), false},
			"with its being started": {policy("true", "a"), policy("false", "b"), true},
		} {
			errs := v.kind.Admission.ValidateChange(v.decode(t, tc.was+v.roles()), v.decode(t, tc.is+v.roles()))
			if refused := len(
				errs,
			) > 0; refused != tc.refused ||
				refused && errs[0].Field != "spec.runPolicy.schedulingPolicy.queue" {
				t.Errorf("%s, %s: %v", name, change, errs)
			}
		}
	}
}

// TestRunningJobStaysIntelligible: fields beside roles and policy are looked at, too. A tenant
// whose running job nobody can read any more would keep its GPUs in spite of an eviction.
func TestRunningJobStaysIntelligible(t *testing.T) {
	for name, tc := range map[string]struct{ kind, spec, field string }{
		"processes": {"PyTorchJob", `nprocPerNode: "0", `, "spec.nprocPerNode"},
		"bounds":    {"PyTorchJob", "elasticPolicy: {minReplicas: 5, maxReplicas: 4}, ", "spec.elasticPolicy.minReplicas"},
		"paddle":    {"PaddleJob", "elasticPolicy: {minReplicas: 5, maxReplicas: 4}, ", "spec.elasticPolicy.minReplicas"},
	} {
		v := variants()[tc.kind]
		was := v.decode(t, v.roles())
		if errs := v.kind.Admission.ValidateChange(
			was,
			v.decode(t, tc.spec+v.roles()),
		); len(errs) != 1 ||
			errs[0].Field != tc.field {
			t.Errorf("%s: %v, want %s", name, errs, tc.field)
		}
	}
}

func TestOurs(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			for manager, want := range map[string]bool{"": true, "kubeflow.org/training-operator": true, "kueue.x-k8s.io/multikueue": false} {
				if got := v.kind.Ours(
					v.decode(t, fmt.Sprintf("runPolicy: {managedBy: %q}, ", manager)+v.roles()),
				); got != want {
					t.Errorf("managedBy %q: ours is %v", manager, got)
				}
			}
		})
	}
}

// TestRead: pod sets are roles in lower case, in the kind's order; the class of a job's
// priority is in the first.
func TestRead(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			spec := strings.Replace(
				v.roles(),
				"replicas: 3, POD",
				"replicas: 3, template: {spec: {priorityClassName: low, containers: [{name: MAIN, image: i}]}}",
				1,
			)
			f, err := v.kind.Read(v.decode(t, spec))
			if err != nil {
				t.Fatal(err)
			}
			if f.Suspended || f.Active || f.Ready || f.Finished != nil || !f.EndsOnce ||
				f.PodSets[0].Template.Spec.PriorityClassName != "low" {
				t.Errorf("%+v", f)
			}
			f, _ = v.kind.Read(
				v.decode(t, "runPolicy: {suspend: true, schedulingPolicy: {priorityClass: high}}, "+spec),
			)
			if !f.Suspended || f.PodSets[0].Template.Spec.PriorityClassName != "high" {
				t.Errorf("the policy says more than a template: %+v", f.PodSets[0].Template.Spec.PriorityClassName)
			}
			if names := len(f.PodSets); names != strings.Count(spec, "containers")+strings.Count(spec, "POD") {
				t.Errorf("%d pod sets", names)
			}
			j := v.decode(t, "runPolicy: {schedulingPolicy: {priorityClass: system-node-critical}}, "+v.roles())
			if got := v.kind.Queueing.Templates(j)[0].Template.Spec.PriorityClassName; got != "system-node-critical" {
				t.Errorf("the class is not shown to those who judge it: %q", got)
			}
			if (*j.Roles())["Worker"].Template.Spec.PriorityClassName != "" {
				t.Error("the object was changed")
			}
		})
	}
}

// TestStanding: what a status says of pods that may be there.
func TestStanding(t *testing.T) {
	condition := func(kind api.JobConditionType) []api.JobCondition {
		return []api.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Message: "m"}}
	}
	begun := &metav1.Time{Time: time.Unix(9, 0)}
	cases := map[string]struct {
		why            string
		suspend        bool
		status         api.JobStatus
		active, ready  bool
		reclaimable    int32
		maker          core.MakerState
		ended, success bool
	}{
		"New":   {why: "no pod was made yet"},
		"Held":  {why: "and none will be", suspend: true, maker: core.MakerState{Stopped: true}},
		"Begun": {why: "pods may be there", status: api.JobStatus{StartTime: begun}, active: true},
		"Stopping": {
			why:     "they are not gone before that is noted",
			suspend: true,
			status:  api.JobStatus{StartTime: begun},
			active:  true,
		},
		"Stopped": {
			why:     "and here it is noted",
			suspend: true,
			status:  api.JobStatus{StartTime: begun, Conditions: condition(api.JobSuspended)},
			maker:   core.MakerState{Stopped: true},
		},
		"Foreign": {
			why: "another controller says no more than that",
			status: api.JobStatus{
				Conditions:      condition(api.JobRunning),
				ReplicaStatuses: map[api.ReplicaType]*api.ReplicaStatus{"Worker": {Active: 1}, "Odd": nil},
			},
			active: true,
			ready:  true,
		},
		"Some": {
			why: "pods that succeeded come back no more",
			status: api.JobStatus{
				StartTime:       begun,
				ReplicaStatuses: map[api.ReplicaType]*api.ReplicaStatus{"Worker": {Succeeded: 2}},
			},
			active:      true,
			reclaimable: 2,
		},
		"TooMany": {
			why: "it was larger once",
			status: api.JobStatus{
				StartTime:       begun,
				ReplicaStatuses: map[api.ReplicaType]*api.ReplicaStatus{"Worker": {Succeeded: 7}},
			},
			active:      true,
			reclaimable: 3,
		},
		"Again": {
			why:     "a suspended job begins anew",
			suspend: true,
			status:  api.JobStatus{ReplicaStatuses: map[api.ReplicaType]*api.ReplicaStatus{"Worker": {Succeeded: 2}}},
			maker:   core.MakerState{Stopped: true},
		},
		"Succeeded": {
			why:     "",
			status:  api.JobStatus{StartTime: begun, Conditions: condition(api.JobSucceeded)},
			ended:   true,
			success: true,
			maker:   core.MakerState{Ended: true},
		},
		"Failed": {
			why:    "",
			status: api.JobStatus{StartTime: begun, Conditions: condition(api.JobFailed)},
			ended:  true,
			maker:  core.MakerState{Ended: true},
		},
	}
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			for name, tc := range cases {
				j := v.decode(t, v.roles())
				j.Policy().Suspend = &tc.suspend
				*j.State() = tc.status
				f, err := v.kind.Read(j)
				if err != nil {
					t.Fatal(err)
				}
				n := int32(0)
				for _, r := range f.Reclaimable {
					n += r.Count
				}
				if f.Active != tc.active || f.Ready != tc.ready || n != tc.reclaimable ||
					(f.Finished != nil) != tc.ended ||
					tc.ended && (f.Finished.Success != tc.success || f.Finished.Message != "m") {
					t.Errorf(
						"%s: %s: active %v, ready %v, reclaimable %d, finished %v",
						name,
						tc.why,
						f.Active,
						f.Ready,
						n,
						f.Finished,
					)
				}
				if got := v.kind.Maker(j); got != tc.maker {
					t.Errorf("%s: %s: maker %+v, want %+v", name, tc.why, got, tc.maker)
				}
			}
		})
	}
}

// TestReadyOnceAllPodsAre: of all roles, which Running does not say, and only as long as they are.
func TestReadyOnceAllPodsAre(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			j := v.decode(t, v.roles())
			var o jobs.Object = j
			facts, err := v.kind.Read(o)
			if err != nil || facts.Ready || facts.Active {
				t.Fatalf("a new job says %+v, %v", facts, err)
			}
			p := v.compile(t, j)
			last := string(facts.PodSets[len(facts.PodSets)-1].Name)
			for _, lacks := range []int32{0, 1} {
				counts := map[string]podplan.Tally{}
				for _, s := range facts.PodSets {
					counts[string(s.Name)] = podplan.Tally{Active: s.Count, Ready: s.Count}
				}
				t.Run(fmt.Sprint("lacks ", lacks), func(t *testing.T) {
					is := counts[last]
					is.Ready -= lacks
					counts[last] = is
					o = v.kind.Running.Operator.Project(
						o,
						p,
						&jobs.Progress{
							RetryState: podplan.RetryState{Started: time.Unix(9, 0)},
							Counts:     counts,
							Now:        time.Unix(10, 0),
						},
					)
					if f, err := v.kind.Read(o); err != nil || !f.Active || f.Ready != (lacks == 0) {
						t.Errorf("active %v, ready %v, %v", f.Active, f.Ready, err)
					}
				})
			}
		})
	}
}

// TestStartAndStop: nothing but the one field changes, so that what users apply again
// meets what they wrote.
func TestStartAndStop(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			j := v.decode(
				t,
				"runPolicy: {suspend: true}, "+strings.ReplaceAll(
					v.roles(),
					"POD",
					"template: {metadata: {labels: {color: blue}}, spec: {containers: [{name: MAIN, image: i}]}}",
				),
			)
			before := j.DeepCopyObject()
			var infos []jobs.PodSetInfo
			for range *j.Roles() {
				infos = append(
					infos,
					jobs.PodSetInfo{
						Labels:       map[string]string{"a": "b"},
						NodeSelector: map[string]string{"c": "d"},
						Tolerations:  []corev1.Toleration{{Key: "k"}},
					},
				)
			}
			started, err := v.kind.Start(j, infos)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, j); diff != "" {
				t.Errorf("it is a new value that is started:\n%s", diff)
			}
			if v.kind.Queueing.Suspended(started) || !v.kind.Queueing.Suspended(j) {
				t.Error("started is not suspended")
			}
			again, err := v.kind.Start(started, nil)
			if err != nil || again != started {
				t.Errorf("a started job is started: %v", err)
			}
			stopped, err := v.kind.Stop(started, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, stopped); diff != "" {
				t.Errorf("-before +stopped:\n%s", diff)
			}
			if _, err := v.kind.Start(j, infos[1:]); err == nil {
				t.Error("an admission of other pod sets")
			}
			infos[0].Labels = map[string]string{"color": "red"}
			if _, err := v.kind.Start(
				j,
				infos,
			); err == nil ||
				!strings.Contains(err.Error(), `label color: the pod template says "blue"`) {
				t.Errorf("what cannot be injected is told before it has to be: %v", err)
			}
		})
	}
}

// TestKeep: a manifest that is applied again leaves the admission alone.
func TestKeep(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			was := v.decode(t, "runPolicy: {suspend: false}, "+v.roles())
			(*was.Roles())["Worker"].Template.Spec.SchedulerName = "ours"
			is := v.decode(
				t,
				"runPolicy: {suspend: true, backoffLimit: 3}, "+strings.ReplaceAll(v.roles(), "Worker", "worker"),
			)
			kept, ok := v.kind.Admission.Keep(was, is, nil).(api.Job)
			if !ok {
				t.Fatal("another kind")
			}
			if ptr.Deref(kept.Policy().Suspend, true) || *kept.Policy().BackoffLimit != 3 ||
				(*kept.Roles())["worker"].Template.Spec.SchedulerName != "ours" {
				t.Errorf("kept %+v", kept)
			}
		})
	}
}

// TestStrangers: objects of other kinds are refused and never a panic.
func TestStrangers(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if _, err := v.kind.Read(pod); err == nil {
				t.Error("read a pod")
			}
			if _, err := v.kind.Start(pod, nil); err == nil {
				t.Error("started a pod")
			}
			if _, err := v.kind.Stop(pod, nil); err == nil {
				t.Error("stopped a pod")
			}
			if _, err := v.kind.Running.Operator.Compile(pod); err == nil {
				t.Error("compiled a pod")
			}
			if v.kind.Ours(pod) || v.kind.Maker(pod) != (core.MakerState{}) ||
				v.kind.Running.Operator.Project(pod, nil, &jobs.Progress{}) != jobs.Object(pod) {
				t.Error("a pod is ours")
			}
		})
	}
}
