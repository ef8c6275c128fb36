package raycluster_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

func nothing() lifecycle.Policy { return lifecycle.Policy{} }

// FuzzClusters: whatever decodes is compiled or refused, by everybody who is asked alike,
// and nobody panics or changes it.
func FuzzClusters(f *testing.F) {
	for _, spec := range []string{one, some, "enableInTreeAutoscaling: true, autoscalerOptions: {version: v2}, " + some, "headGroupSpec: {headService: {}, resources: {x: y}}", "gcsFaultToleranceOptions: {}, authOptions: {mode: token}, " + some} {
		f.Add(strings.ReplaceAll(spec, "POD", pod))
	}
	f.Fuzz(func(t *testing.T, spec string) { judge(t, spec) })
}

// TestClusters puts clusters together at random of what may be in one, in order and not.
func TestClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.Bool().Draw(t, "odd")
		part := func(what string, right []string, wrong ...string) string {
			if odd {
				right = append(right, wrong...)
			}
			return rapid.SampledFrom(right).Draw(t, what)
		}
		pods := func(what string) string {
			return part(
				what,
				[]string{"POD", "template: {spec: {containers: [{name: c}, {name: side}], initContainers: [{name: i}]}}"},
				"template: {}",
				"template: {spec: {containers: []}}",
			)
		}
		groups := ""
		for _, name := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, name) {
				groups += "{groupName: " + part("name", []string{name}, "Head", "head", "a", "''") + ", " +
					part(
						"replicas",
						[]string{"", "replicas: 0, ", "replicas: 3, "},
						"replicas: -1, ",
						"replicas: 2147483647, ",
					) +
					part(
						"bounds",
						[]string{"maxReplicas: 9, ", "minReplicas: 1, maxReplicas: 2, "},
						"minReplicas: 3, maxReplicas: 1, ",
						"minReplicas: -5, ",
					) +
					part("hosts", []string{"", "numOfHosts: 2, "}, "numOfHosts: -2, ", "numOfHosts: 2147483647, ") +
					part(
						"further",
						[]string{"", "suspend: true, ", "scaleStrategy: {workersToDelete: [x-a-worker-1, y]}, "},
					) + pods("pods of "+name) + "}, "
			}
		}
		judge(t, strings.ReplaceAll(
			part(
				"scaling",
				[]string{
					"",
					"enableInTreeAutoscaling: true, ",
					"enableInTreeAutoscaling: true, autoscalerOptions: {version: v2, resources: {}}, ",
				},
			)+
				part(
					"further",
					[]string{
						"",
						"suspend: true, ",
						"authOptions: {mode: token}, ",
						"gcsFaultToleranceOptions: {redisAddress: a}, ",
					},
					"gcsFaultToleranceOptions: {}, ",
					"managedBy: x, ",
					"tlsOptions: {}, ",
				)+
				"headGroupSpec: {"+part(
				"head",
				[]string{
					"",
					"serviceType: NodePort, ",
					"rayStartParams: {port: '1', num-cpus: '0'}, ",
					"headService: {metadata: {name: x}}, ",
				},
				"serviceType: Other, ",
				"rayStartParams: {dashboard-port: x}, ",
			)+pods(
				"head",
			)+"}, workerGroupSpecs: ["+groups+"]",
			"POD",
			pod,
		))
	})
}

type judged interface {
	Helper()
	Fatalf(format string, args ...any)
}

// judge asks everybody about a cluster.
func judge(t judged, spec string) {
	t.Helper()
	c := &api.RayCluster{}
	text, err := yaml.YAMLToJSON([]byte("{metadata: {name: a, namespace: b}, spec: {" + spec + "}}"))
	if err != nil || json.Unmarshal(text, c) != nil {
		return
	}
	k := raycluster.Kind()
	before := c.DeepCopy()
	errs := k.Admission.Validate(c)
	plan, err := k.Running.Operator.Compile(c)
	facts, readErr := k.Read(c)
	if (len(errs) == 0) != (readErr == nil) || (readErr == nil) != (err == nil) {
		t.Fatalf("the webhook says %v, the plan %v, the queue %v", errs, err, readErr)
	}
	templates := k.Queueing.Templates(c)
	k.Admission.Keep(c, c, nil)
	k.Admission.ValidateChange(c, c)
	k.Admission.Warnings(c, nothing())
	k.Running.Operator.Project(c, plan, &jobs.Progress{})
	u, uErr := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if uErr == nil {
		sets, err := k.Queueing.Wrapped.PodSets(u)
		if readErr == nil && (err != nil || len(sets) != len(facts.PodSets)) {
			t.Fatalf("an AppWrapper finds %v (%v), a queue %v", sets, err, facts.PodSets)
		}
	}
	if err == nil {
		if _, err := k.Running.Operator.Artifacts(c, plan, &jobs.Progress{}); err != nil {
			t.Fatalf("%v", err)
		}
		if len(plan.Roles) != len(facts.PodSets) || len(plan.Roles) != len(plan.Templates) ||
			len(plan.Roles) != len(templates) {
			t.Fatalf("%d roles, %d pod sets, %d templates", len(plan.Roles), len(facts.PodSets), len(templates))
		}
		for i := range plan.Roles {
			if r := &plan.Roles[i]; r.Name != string(facts.PodSets[i].Name) || r.Count > facts.PodSets[i].Count {
				t.Fatalf(
					"role %s of %d, pod set %s of %d",
					r.Name,
					r.Count,
					facts.PodSets[i].Name,
					facts.PodSets[i].Count,
				)
			}
		}
	}
	if !equality.Semantic.DeepEqual(before, c) {
		t.Fatalf("it was changed")
	}
}
