package jobset_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

const aPod = `{"spec": {"containers": [{"name": "c"}]}}`

// FuzzJobSets: whatever decodes is compiled or refused, by everybody who is asked alike, and
// nobody panics or changes it.
func FuzzJobSets(f *testing.F) {
	for _, spec := range []string{
		"replicatedJobs: [{name: a, template: {spec: {template: POD}}}]", "replicatedJobs: [null]", "", "replicatedJobs: [{template: {spec: {parallelism: -1}}}], volumeClaimPolicies: [{templates: [null]}]",
		"replicatedJobs: [{name: a, replicas: 3, template: {spec: {template: POD}}}], failurePolicy: {rules: [{onJobFailureMessagePatterns: ['(']}]}, coordinator: {}, network: {}, successPolicy: {}, startupPolicy: {}",
	} {
		f.Add(strings.ReplaceAll(spec, "POD", aPod))
	}
	f.Fuzz(func(t *testing.T, spec string) { judge(t, spec) })
}

// TestJobSets puts JobSets together at random of what may be in one, in order and not.
func TestJobSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.Bool().Draw(t, "odd") // half of all are put together of what is right by itself
		part := func(what string, right []string, wrong ...string) string {
			if odd {
				right = append(right, wrong...)
			}
			return rapid.SampledFrom(right).Draw(t, what)
		}
		var roles []string
		for i := range rapid.IntRange(0, 4).Draw(t, "roles") {
			after := ""
			if i > 0 {
				after = part(
					"after",
					[]string{
						"",
						"",
						"dependsOn: [{name: r0, status: Ready}], ",
						"dependsOn: [{name: r0, status: Complete}], ",
					},
					"dependsOn: [{name: x, status: Ready}], ",
				)
			}
			roles = append(
				roles,
				fmt.Sprintf(
					"{name: %s, %s%s%s template: {metadata: {%s}, spec: {%s%s template: {spec: {%s containers: [{name: c, volumeMounts: [{name: data, mountPath: /d}]}]}}}}}",
					part("name", []string{fmt.Sprint("r", i)}, "r0", "A", strings.Repeat("x", 70)),
					after,
					part("replicas", []string{"", "replicas: 2,", "replicas: 0,"}, "replicas: -1,", "replicas: 2147483647,"),
					part("group", []string{"", "groupName: g,"}, "groupName: A_b,"),
					part(
						"exclusive",
						[]string{"", "annotations: {" + api.ExclusiveKey + ": rack}"},
						"annotations: {"+api.ExclusiveKey+": 'a b'}",
					),
					part(
						"pods",
						[]string{
							"",
							"parallelism: 2, completions: 2,",
							"completions: 3,",
							"parallelism: 2, completionMode: NonIndexed,",
						},
						"parallelism: 2,",
						"completions: -1,",
						"completions: 2147483647, parallelism: 2147483647,",
						"completionMode: x,",
					),
					part("limits", []string{"", "backoffLimit: 0,"}),
					part("restart", []string{"", "restartPolicy: Never,"}, "restartPolicy: Always,"),
				),
			)
		}
		judge(
			t,
			part(
				"success",
				[]string{
					"",
					"successPolicy: {operator: Any}, ",
					"successPolicy: {operator: All, targetReplicatedJobs: [r0]}, ",
				},
				"successPolicy: {}, ",
				"successPolicy: {operator: All, targetReplicatedJobs: [x]}, ",
			)+
				part(
					"failure",
					[]string{
						"",
						"failurePolicy: {maxRestarts: 2}, ",
						"failurePolicy: {rules: [{action: RestartJob, targetReplicatedJobs: [r0]}]}, ",
					},
					"failurePolicy: {maxRestarts: -1, rules: [{}]}, ",
					"failurePolicy: {rules: [{action: FailJobSet, onJobFailureMessagePatterns: ['(']}]}, ",
				)+
				part(
					"startup",
					[]string{"", "startupPolicy: {startupPolicyOrder: InOrder}, "},
					"startupPolicy: {}, ",
				)+
				part(
					"network",
					[]string{"", "network: {enableDNSHostnames: false}, ", "network: {subdomain: s}, "},
					"network: {subdomain: A.b}, ",
				)+
				part(
					"coordinator",
					[]string{"", "coordinator: {replicatedJob: r0}, "},
					"coordinator: {replicatedJob: r0, jobIndex: 9, podIndex: -1}, ",
				)+
				part(
					"claims",
					[]string{"", "volumeClaimPolicies: [{templates: [{metadata: {name: data}}]}], "},
					"volumeClaimPolicies: [{templates: [{metadata: {name: x}}, {}]}], ",
				)+
				part(
					"further",
					[]string{"", "suspend: true, ", "ttlSecondsAfterFinished: 3, "},
					"ttlSecondsAfterFinished: -3, ",
				)+
				"replicatedJobs: ["+strings.Join(
				roles,
				", ",
			)+"]",
		)
	})
}

// judged is what both kinds of tests have.
type judged interface {
	Helper()
	Fatalf(format string, args ...any)
}

// judge asks everybody about a JobSet.
func judge(t judged, spec string) {
	t.Helper()
	js := &api.JobSet{}
	text, err := yaml.YAMLToJSON([]byte("{metadata: {name: a, namespace: b}, spec: {" + spec + "}}"))
	if err != nil || json.Unmarshal(text, js) != nil {
		return
	}
	k, before := jobset.Kind(), js.DeepCopy()
	errs := k.Admission.Validate(js)
	plan, err := k.Running.Operator.Compile(js)
	facts, readErr := k.Read(js)
	if (len(errs) == 0) != (readErr == nil) || (readErr == nil) != (err == nil) {
		t.Fatalf("the webhook says %v, the plan %v, the queue %v", errs, err, readErr)
	}
	k.Queueing.Templates(js)
	k.Admission.Keep(js, js, nil)
	if wrong := k.Admission.ValidateChange(js, js); len(wrong) > 0 {
		t.Fatalf("nothing changed, and it is refused: %v", wrong)
	}
	k.Admission.Warnings(js, lifecycle.Policy{})
	k.Running.Operator.Project(js, plan, &jobs.Progress{})
	if u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(js); err == nil {
		sets, err := k.Queueing.Wrapped.PodSets(u)
		if readErr == nil && (err != nil || len(sets) != len(facts.PodSets)) {
			t.Fatalf("an AppWrapper finds %v (%v), a queue %v", sets, err, facts.PodSets)
		}
		for i := range sets {
			if readErr == nil && *sets[i].Replicas != facts.PodSets[i].Count {
				t.Fatalf("an AppWrapper counts %d, a queue %d", *sets[i].Replicas, facts.PodSets[i].Count)
			}
		}
	}
	if err == nil {
		agree(t, js, plan, &facts)
	}
	if !equality.Semantic.DeepEqual(before, js) {
		t.Fatalf("it was changed")
	}
}

// agree compares what is made with what is counted.
func agree(t judged, js *api.JobSet, p *jobs.Plan, f *jobs.Facts) {
	t.Helper()
	if len(p.Roles) != len(f.PodSets) || len(p.Roles) != len(p.Make) || len(p.Roles) != len(p.Where) ||
		len(p.Success) == 0 {
		t.Fatalf("%d roles, %d pod sets, %d ends", len(p.Roles), len(f.PodSets), len(p.Success))
	}
	if _, err := jobset.Kind().Running.Operator.Artifacts(js, p, nil); err != nil {
		t.Fatalf("beside its Jobs: %v", err)
	}
	earlier := map[string]bool{}
	for i := range p.Roles {
		r := &p.Roles[i]
		if r.Name != string(f.PodSets[i].Name) {
			t.Fatalf("role %s, pod set %s", r.Name, f.PodSets[i].Name)
		}
		for _, d := range r.After {
			if !earlier[d.Role] {
				t.Fatalf("role %s waits for %s, which is not before it", r.Name, d.Role)
			}
		}
		earlier[r.Name] = true
		if r.Count == 0 {
			continue
		}
		o, err := p.Make[i](
			podplan.Member{Role: r.Name, Index: r.Count - 1},
			&podplan.RetryState{},
			jobs.Admitted{r.Name: {Asked: f.PodSets[i].Count}},
		)
		if err != nil {
			t.Fatalf("a Job of role %s: %v", r.Name, err)
		}
		if o.GetName() != r.Expand(r.Member, r.Count-1) || len(o.GetName()) > 63 {
			t.Fatalf("it is called %s", o.GetName())
		}
	}
}
