package kubeflow_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// FuzzJobs: whatever decodes is compiled or refused, by everybody who is asked alike,
// and nobody panics or changes it.
func FuzzJobs(f *testing.F) {
	all := variants()
	for _, v := range all {
		for _, spec := range []string{v.roles(), "ROLES: {worker: {POD}, WORKER: null}", "elasticPolicy: {minReplicas: 2}, runPolicy: {suspend: true}, ROLES: {Worker: {replicas: 0, restartPolicy: ExitCode, POD}, PS: {}, Chief: {POD}}"} {
			spec = strings.NewReplacer(
				"POD",
				`"template": {"spec": {"containers": [{"name": "`+v.container+`"}]}}`,
				"ROLES",
				v.field,
			).Replace(
				spec,
			)
			f.Add(spec)
		}
	}
	f.Fuzz(func(t *testing.T, spec string) {
		for kind, v := range all {
			judge(t, kind, v, spec)
		}
	})
}

// TestJobs puts jobs together at random of what may be in one, in order and not.
func TestJobs(t *testing.T) {
	all := variants()
	draw := func(t *rapid.T, what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	rapid.Check(t, func(t *rapid.T) {
		kind := draw(t, "kind", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
		v := all[kind]
		// Half of all are put together of what is right by itself.
		odd := rapid.Bool().Draw(t, "odd")
		part := func(what string, right []string, wrong ...string) string {
			if odd {
				right = append(right, wrong...)
			}
			return draw(t, what, right...)
		}
		var roles []string
		for _, name := range slices.Concat([]string{"Master", "Worker"}, map[bool][]string{true: {"worker", "WORKER", "Helper"}}[odd], map[bool][]string{true: {"Chief", "PS", "Evaluator"}}[odd || kind == "TFJob"]) {
			if !rapid.Bool().Draw(t, name) {
				continue
			}
			body := part(
				"body",
				[]string{"{REPLICAS RESTART template: {spec: {containers: [{name: side}, {name: MAIN PORTS}]}}}"},
				"null",
				"{}",
			)
			few := []string{"", "replicas: 1,"}
			if name == "Worker" || name == "PS" {
				few = append(few, "replicas: 2,", "replicas: 1000,", "replicas: 0,")
			}
			roles = append(roles, name+": "+strings.NewReplacer(
				"REPLICAS",
				part("replicas", few, "replicas: 0,", "replicas: 3,", "replicas: -1,", "replicas: 2147483647,"),
				"RESTART",
				part("restart", []string{"", "restartPolicy: Never,", "restartPolicy: ExitCode,"}, "restartPolicy: Now,"),
				"MAIN",
				part("container", []string{v.container}, v.container, "other"),
				"PORTS",
				part(
					"ports",
					[]string{
						"",
						", ports: [{containerPort: 1, name: " + v.port + "}]",
						fmt.Sprintf(", ports: [{containerPort: %d, name: x, protocol: TCP}]", v.number),
					},
					", ports: [{containerPort: 0}, {containerPort: 0}]",
				),
			).Replace(body))
		}
		spec := part(
			"elastic",
			[]string{"", "elasticPolicy: {minReplicas: 1, maxReplicas: 3}, "},
			"elasticPolicy: {}, ",
			"elasticPolicy: {minReplicas: 3}, ",
			"elasticPolicy: {maxReplicas: 0, rdzvBackend: x, rdzvPort: -1}, ",
		) +
			part(
				"policy",
				[]string{
					"",
					"runPolicy: {suspend: true}, ",
					"runPolicy: {cleanPodPolicy: All, backoffLimit: 2}, ",
					"runPolicy: {schedulingPolicy: {priorityClass: c}}, ",
				},
				"runPolicy: {cleanPodPolicy: x, activeDeadlineSeconds: -1}, ",
			) +
			part(
				"further",
				[]string{"", "nprocPerNode: '2', ", "enableDynamicWorker: true, ", "successPolicy: AllWorkers, "},
			) +
			v.field + ": {" + strings.Join(
			roles,
			", ",
		) + "}"
		judge(t, kind, v, spec)
	})
}

// judged is what both kinds of tests have.
type judged interface {
	Helper()
	Fatalf(format string, args ...any)
}

// judge asks everybody about a job.
func judge(t judged, kind string, v variant, spec string) {
	t.Helper()
	j, _ := v.kind.New().(api.Job)
	text, err := yaml.YAMLToJSON([]byte("{metadata: {name: a, namespace: b}, spec: {" + spec + "}}"))
	if err != nil || json.Unmarshal(text, j) != nil {
		return
	}
	before := j.DeepCopyObject()
	errs := v.kind.Admission.Validate(j)
	plan, err := v.kind.Running.Operator.Compile(j)
	facts, readErr := v.kind.Read(j)
	if (len(errs) == 0) != (readErr == nil) || (readErr == nil) != (err == nil) {
		t.Fatalf("%s: the webhook says %v, the plan %v, the queue %v", kind, errs, err, readErr)
	}
	v.kind.Queueing.Templates(j)
	v.kind.Admission.Keep(j, j, nil)
	v.kind.Admission.ValidateChange(j, j)
	v.kind.Running.Operator.Project(j, plan, &jobs.Progress{})
	if u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(j); err == nil {
		sets, err := v.kind.Queueing.Wrapped.PodSets(u)
		if readErr == nil && (err != nil || len(sets) < len(facts.PodSets)) {
			t.Fatalf("%s: an AppWrapper finds %v (%v), a queue %v", kind, sets, err, facts.PodSets)
		}
	}
	if !equality.Semantic.DeepEqual(before, j) {
		t.Fatalf("%s: it was changed", kind)
	}
	if err == nil {
		agree(t, kind, plan, &facts)
	}
}

// agree compares what is made with what is counted.
func agree(t judged, kind string, p *jobs.Plan, f *jobs.Facts) {
	t.Helper()
	if len(p.Success) == 0 {
		t.Fatalf("%s: it never ends", kind)
	}
	if len(p.Roles) != len(f.PodSets) || len(p.Roles) != len(p.Templates) {
		t.Fatalf("%s: %d roles, %d pod sets", kind, len(p.Roles), len(f.PodSets))
	}
	rank := int32(0)
	for i := range p.Roles {
		r := &p.Roles[i]
		if r.Name != string(f.PodSets[i].Name) || r.Count != f.PodSets[i].Count || r.Rank != rank {
			t.Fatalf("%s: role %+v, pod set %s of %d", kind, r, f.PodSets[i].Name, f.PodSets[i].Count)
		}
		rank += r.Count
		if r.Count > 0 && p.TemplateOf(podplan.Member{Role: r.Name}) == nil {
			t.Fatalf("%s: role %s has no pods", kind, r.Name)
		}
	}
	for _, term := range p.Success {
		if r := p.Role(term.Roles[0]); r == nil || r.Count < 1 {
			t.Fatalf("%s: it ends with %s, of which there is none", kind, term.Roles[0])
		}
	}
}
