package webhook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/webhook"
)

const podOf = `{restartPolicy: Never, containers: [{name: c, image: i, args: [%s], resources: {requests: {cpu: 1}}}]}`

func jobOf(labels, args string) string {
	return "{apiVersion: batch/v1, kind: Job, metadata: {namespace: lab, name: j, labels: {" + labels + "}}, spec: {template: {spec: " + fmt.Sprintf(
		podOf,
		args,
	) + "}}}"
}

func wrapperOf(components ...string) string {
	return "{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {namespace: blue, name: w}, spec: {components: [" + strings.Join(
		components,
		", ",
	) + "]}}"
}

func configMaps(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("{template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}}", i)
	}
	return out
}

func TestJobsAreBounded(t *testing.T) {
	const queued = "kueue.x-k8s.io/queue-name: default-queue"
	pod := "{template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: " + fmt.Sprintf(podOf, "x") + "}}"
	large := strings.Repeat("x", 5000)
	largePod := "{template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: " + fmt.Sprintf(
		podOf,
		large,
	) + "}}"
	// A kind that mlbatch does not know, eight of whose pod sets name one template.
	declared := strings.Repeat("{path: template.spec.template}, ", 8)
	twins := "{podSets: [" + declared + "], template: {apiVersion: kubeflow.org/v2, kind: MPIJob, metadata: {name: m}, spec: {template: {spec: " + fmt.Sprintf(
		podOf,
		large[:3000],
	) + "}}}}"
	limits := jobs.Limits{Jobs: 2, Size: 5000, Components: 3}
	full := func(string) int { return 2 }
	for name, tc := range map[string]struct {
		why    string
		limits jobs.Limits
		have   func(string) int
		ask    ask
		size   int64    // of the jobs that there are
		refuse []string // parts of the message; none if allowed
	}{
		"one of few": {
			why: "one is left", limits: limits, have: func(string) int { return 1 },
			ask: ask{path: validateWrapper, new: wrapperOf(pod)},
		},
		"one too many": {
			why: "the namespace has as many as it may", limits: limits, have: full,
			ask:    ask{path: validateWrapper, new: wrapperOf(pod)},
			refuse: []string{"metadata.namespace", "namespace blue has 2 jobs", "2 are the most", "tenants.maxJobs", "delete jobs that have ended"},
		},
		"jobs that are large together": {
			why: "few large ones fill a cluster as many do", limits: jobs.Limits{Jobs: 5, TotalSize: 9000}, have: full,
			ask: ask{path: validateWrapper, new: wrapperOf(pod)}, size: 9001,
			refuse: []string{"metadata.namespace", "the jobs of namespace blue have 9001 bytes", "9000 are the most", "tenants.maxTotalSize"},
		},
		"jobs that are large together, with room": {
			why: "one more fits", limits: jobs.Limits{Jobs: 5, TotalSize: 9000}, have: full, ask: ask{path: validateWrapper, new: wrapperOf(pod)}, size: 8999,
		},
		"another namespace": {
			why: "each has its own", limits: limits, have: func(ns string) int { return map[string]int{"lab": 2}[ns] },
			ask: ask{path: validateWrapper, new: wrapperOf(pod)},
		},
		"a change where it is full": {
			why: "it is there already", limits: limits, have: full,
			ask: ask{path: validateJob, old: jobOf(queued, "x"), new: jobOf(queued+", a: b", "x")},
		},
		"a Job too many": {
			why: "Jobs count like AppWrappers", limits: limits, have: full,
			ask: ask{path: validateJob, new: jobOf(queued, "x")}, refuse: []string{"namespace lab has 2 jobs"},
		},
		"a Job that is queued later": {
			why: "it did not count before", limits: limits, have: full,
			ask:    ask{path: validateJob, old: jobOf("", "x"), new: jobOf(queued, "x")},
			refuse: []string{"namespace lab has 2 jobs"},
		},
		"without limits": {
			why: "0 is none", have: full, ask: ask{path: validateWrapper, new: wrapperOf(append(configMaps(200), largePod)...)},
		},
		"a large AppWrapper": {
			why: "everybody's caches would hold it", limits: limits, ask: ask{path: validateWrapper, new: wrapperOf(largePod)},
			refuse: []string{"spec.components", "the AppWrapper has 5", "5000 are the most", "tenants.maxJobSize", "ConfigMaps"},
		},
		"a large Job": {
			why: "as AppWrappers", limits: limits, ask: ask{path: validateJob, new: jobOf(queued, large)},
			refuse: []string{"spec.template", "the Job has 5", "tenants.maxJobSize"},
		},
		"a job that grows": {
			why: "annotations may be written at any time", limits: limits,
			ask: ask{
				path: validateWrapper, old: wrapperOf(pod),
				new: strings.Replace(wrapperOf(pod), "name: w}", "name: w, annotations: {a: "+large+"}}", 1),
			},
			refuse: []string{"metadata: Forbidden", "tenants.maxJobSize"},
		},
		"a large job that shrinks": {
			why: "the limit may be younger than the job", limits: limits,
			ask: ask{
				path: validateWrapper, old: strings.Replace(wrapperOf(largePod), "name: w}", "name: w, annotations: {a: b}}", 1),
				new: wrapperOf(largePod),
			},
		},
		"many components": {
			why: "each becomes an object", limits: limits, ask: ask{path: validateWrapper, new: wrapperOf(append(configMaps(3), pod)...)},
			refuse: []string{"spec.components", "4 components", "3 are the most", "tenants.maxComponents"},
		},
		"a large Workload": {
			why: "it has the template once for each pod set", limits: limits,
			ask:    ask{path: validateWrapper, new: wrapperOf(twins)},
			refuse: []string{"the 8 pod sets have", "tenants.maxJobSize"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, world(), []string{"create pods", "create configmaps", "create mpijobs"}, world()...)
			c.Jobs, c.Size = tc.have, func(string) int64 { return tc.size }
			r := send(t, handle(t, c, webhook.Options{Limits: tc.limits}), tc.ask)
			if r.Allowed != (len(tc.refuse) == 0) {
				t.Errorf("%s: allowed is %v: %s", tc.why, r.Allowed, r.Message)
			}
			for _, part := range tc.refuse {
				if !strings.Contains(r.Message, part) {
					t.Errorf("%s: message lacks %q: %s", tc.why, part, r.Message)
				}
			}
		})
	}
}
