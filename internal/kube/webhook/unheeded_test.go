package webhook_test

import (
	"strings"
	"testing"
)

// Manifests that were made for Kueue run, and their authors are told what they do not get.
func TestUnheeded(t *testing.T) {
	const elastic = `kueue.x-k8s.io/elastic-job: "true"`
	placed := func(annotation string) string {
		return strings.Replace(
			job(queueLabel, "", ""),
			"template: {",
			"template: {metadata: {annotations: {kueue.x-k8s.io/"+annotation+"}}, ",
			1,
		)
	}
	for name, tc := range map[string]struct {
		why  string
		ask  ask
		want string // "" is no warning
	}{
		"elastic":         {"it is admitted for one size", ask{path: validateJob, new: job(queueLabel, elastic, "")}, "elastic-job] has no effect"},
		"not elastic":     {"it says so", ask{path: validateJob, new: job(queueLabel, strings.Replace(elastic, "true", "false", 1), "")}, ""},
		"told already":    {"once is enough", ask{path: validateJob, old: job(queueLabel, elastic, ""), new: job(queueLabel, elastic, "")}, ""},
		"elastic wrapper": {"the rules are those of all jobs", ask{path: validateWrapper, user: "admin", new: strings.Replace(wrapper("blue", queueLabel, "true", podComponent), "labels:", "annotations: {"+elastic+"}, labels:", 1)}, "elastic-job] has no effect"},
		"retries":         {"a Job says it itself", ask{path: validateJob, new: job(queueLabel, `mlbatch.dev/retry-policy: "exit 3: Fail"`, "")}, "retry-policy] has no effect"},
		"heeded retries":  {"an AppWrapper does not", ask{path: validateWrapper, user: "admin", new: strings.Replace(wrapper("blue", queueLabel, "true", podComponent), "labels:", `annotations: {mlbatch.dev/retry-policy: "exit 3: Fail"}, labels:`, 1)}, ""},
		"rack":            {"it is heeded", ask{path: validateJob, new: placed("podset-required-topology: rack")}, ""},
		"slices":          {"they are heeded", ask{path: validateJob, new: placed("podset-slice-required-topology: rack")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), tc.ask)
			all := strings.Join(r.Warnings, "\n")
			if !r.Allowed || (tc.want == "") != (all == "") || !strings.Contains(all, tc.want) {
				t.Errorf("%s: allowed is %v (%s), warnings %q; want %q", tc.why, r.Allowed, r.Message, all, tc.want)
			}
		})
	}
}

// TestUnheededKAI: jobs and pods that were made for KAI Scheduler or Run:ai run, and their authors are told what is not
// heeded, by its key and with what says it here.
func TestUnheededKAI(t *testing.T) {
	labels := func(more string) string {
		return strings.Replace(job(queueLabel, "", ""), "labels: {", "labels: {"+more+", ", 1)
	}
	pods := func(meta string) string {
		return strings.Replace(job(queueLabel, "", ""), "template: {", "template: {metadata: {"+meta+"}, ", 1)
	}
	const fraction = `annotations: {gpu-fraction: "0.5"}`
	const both = `annotations: {kueue.x-k8s.io/podset-required-topology: rack, kai.scheduler/topology-required-placement: block}`
	for name, tc := range map[string]struct {
		ask  ask
		want []string // nil is no warning
	}{
		"queue": {
			ask{path: validateJob, new: labels("kai.scheduler/queue: research")},
			[]string{"label kai.scheduler/queue has no effect: the queue is that of the label kueue.x-k8s.io/queue-name"},
		},
		"of Run:ai": {
			ask{path: validateJob, new: labels("runai/queue: research, runai/node-pool: a100")},
			[]string{"label runai/node-pool has no effect: nodes", "label runai/queue has no effect"},
		},
		"priority": {
			ask{path: validateJob, new: pods("labels: {priorityClassName: train}")},
			[]string{"label priorityClassName of pods has no effect: the priority is that of the label kueue.x-k8s.io/priority-class"},
		},
		"preemptibility": {
			ask{path: validateJob, new: labels("kai.scheduler/preemptibility: non-preemptible")},
			[]string{"label kai.scheduler/preemptibility has no effect: the policies of the ClusterQueue"},
		},
		"a part of a GPU": {
			ask{path: validateJob, new: pods(fraction)},
			[]string{"annotation gpu-fraction of pods has no effect: pods get whole GPUs"},
		},
		"told already": {ask{path: validateJob, old: pods(fraction), new: pods(fraction)}, nil},
		"a Topology": {
			ask{path: validateJob, new: job(queueLabel, "kai.scheduler/topology: gpus", "")},
			[]string{"annotation kai.scheduler/topology has no effect: which Topology counts is that of the flavor"},
		},
		"a rack":          {ask{path: validateJob, new: job(queueLabel, "kai.scheduler/topology-required-placement: rack", "")}, nil},
		"segments":        {ask{path: validateJob, new: pods(`annotations: {kai.scheduler/segment-size: "1", kai.scheduler/segment-topology-required-placement: rack}`)}, nil},
		"a size alone":    {ask{path: validateJob, new: pods(`annotations: {kai.scheduler/segment-size: "2"}`)}, []string{"annotation kai.scheduler/segment-size of pods has no effect: it needs kai.scheduler/segment-topology-required-placement"}},
		"segments of all": {ask{path: validateJob, new: job(queueLabel, `kai.scheduler/segment-size: "2", kai.scheduler/segment-topology-required-placement: rack`, "")}, []string{"annotation kai.scheduler/segment-size has no effect: segments are of the pods of one template", "annotation kai.scheduler/segment-topology-required-placement has no effect"}},
		"Kueue's beside it": {
			ask{path: validateJob, new: pods(both)},
			[]string{"annotation kai.scheduler/topology-required-placement of pods has no effect: the annotation kueue.x-k8s.io/podset-required-topology beside it counts"},
		},
		"two wishes": {
			ask{path: validateJob, new: pods(`annotations: {kai.scheduler/topology-preferred-placement: block, kai.scheduler/segment-topology-preferred-placement: rack}`)},
			[]string{"annotation kai.scheduler/segment-topology-preferred-placement of pods has no effect: the annotation kai.scheduler/topology-preferred-placement beside it counts"},
		},
		"a group of a PodGroup": {
			ask{path: validateJob, new: pods("labels: {kai.scheduler/subgroup-name: workers}")},
			[]string{"label kai.scheduler/subgroup-name of pods has no effect: the pods of a queued job are in no PodGroup"},
		},
		"unknown": {
			ask{path: validateJob, new: job(queueLabel, "kai.scheduler/spaceship: fast", "")},
			[]string{"annotation kai.scheduler/spaceship has no effect: mlbatch does not know it"},
		},
		"in an AppWrapper": {
			ask{path: validateWrapper, user: "admin", new: wrapper("blue", queueLabel, "true", strings.Replace(podComponent, "metadata: {", "metadata: {annotations: {gpu-memory: '4096'}, ", 1))},
			[]string{"annotation gpu-memory of pods has no effect: pods get whole GPUs"},
		},
		"not queued":   {ask{path: validateJob, new: strings.Replace(pods(fraction), queueLabel, "", 1)}, nil},
		"none of this": {ask{path: validateJob, new: pods(`labels: {app: x}, annotations: {note: x}`)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), tc.ask)
			if !r.Allowed || len(r.Warnings) != len(tc.want) {
				t.Fatalf("allowed is %v (%s), warnings %q; want %q", r.Allowed, r.Message, r.Warnings, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(r.Warnings[i], want) {
					t.Errorf("warned %q, want %q", r.Warnings[i], want)
				}
			}
		})
	}
}

// TestRetryPoliciesThatCannotBeMeant: of jobs, LocalQueues and ClusterQueues they are refused with the entry and the cure.
func TestRetryPoliciesThatCannotBeMeant(t *testing.T) {
	const bad = `mlbatch.dev/retry-policy: "limit: 3; NodeFailure: Fail"`
	queue := func(kind, spec string) string {
		return "{apiVersion: kueue.x-k8s.io/v1beta2, kind: " + kind + ", metadata: {name: a, annotations: {" + bad + "}}, spec: {" + spec + "}}"
	}
	with := strings.Replace(
		wrapper("blue", queueLabel, "true", podComponent),
		"labels:",
		"annotations: {"+bad+"}, labels:",
		1,
	)
	for name, is := range map[string]ask{
		"new job":      {path: validateWrapper, user: "admin", new: with},
		"changed job":  {path: validateWrapper, user: "admin", old: wrapper("blue", queueLabel, "true", podComponent), new: with},
		"ClusterQueue": {path: "/validate-kueue-x-k8s-io-v1beta2-clusterqueue", new: queue("ClusterQueue", "")},
		"LocalQueue":   {path: "/validate-kueue-x-k8s-io-v1beta2-localqueue", new: queue("LocalQueue", "clusterQueue: cq")},
	} {
		t.Run(name, func(t *testing.T) {
			r := send(t, serve(t, nil, world()...), is)
			for _, want := range []string{
				"metadata.annotations[mlbatch.dev/retry-policy]", "NodeFailure: Fail", "is not the job's own failure", "remove it",
			} {
				if r.Allowed || !strings.Contains(r.Message, want) {
					t.Errorf("allowed is %v: %q, want %q", r.Allowed, r.Message, want)
				}
			}
		})
	}
}

// TestNearnessThatCannotBeMeant: what the annotations of pods say of racks is a number, a list, and divides.
func TestNearnessThatCannotBeMeant(t *testing.T) {
	for annotations, want := range map[string]string{
		`podset-slice-required-topology: rack, kueue.x-k8s.io/podset-slice-size: "two"`: "a number of pods",
		`podset-required-topology: "in one rack"`:                                       "is no label of nodes",
		`podset-preferred-topology: "example.com/` + strings.Repeat("a", 60) + `"`:      "at most",
		`podset-slice-size: "2"`:                                                                              "need annotation kueue.x-k8s.io/podset-slice-required-topology",
		`podset-slice-required-topology-constraints: "rack:2"`:                                                "in JSON",
		`podset-slice-required-topology-constraints: '[{"topology":"rack","size":0}]'`:                        "1 pod at least",
		`podset-slice-required-topology-constraints: '[{"topology":"a","size":4},{"topology":"b","size":3}]'`: "cannot be cut into 3",
		`podset-slice-required-topology-constraints: '[{"topology":"a","size":4},{"topology":"a","size":2}]'`: "appear once",
		`podset-slice-required-topology-constraints: '[{"topology":"a","size":4},{"topology":"b","size":2}]'`: "",
		`podset-slice-required-topology: rack, kueue.x-k8s.io/podset-slice-size: "2"`:                         "",
	} {
		text := strings.Replace(
			job(queueLabel, "", ""),
			"template: {",
			"template: {metadata: {annotations: {kueue.x-k8s.io/"+annotations+"}}, ",
			1,
		)
		r := send(t, serve(t, nil, world()...), ask{path: validateJob, new: text})
		if r.Allowed != (want == "") || !strings.Contains(r.Message, want) {
			t.Errorf("%s: allowed %t, %q; want %q", annotations, r.Allowed, r.Message, want)
		}
	}
}

// TestNearnessOfAJobThatCannotBeMeant: what a job says of all its pods is refused at the annotation that says it.
func TestNearnessOfAJobThatCannotBeMeant(t *testing.T) {
	bad := job(queueLabel, `kai.scheduler/topology-required-placement: "one rack"`, "")
	for name, tc := range map[string]struct {
		ask
		refused bool
	}{
		"new":               {ask{path: validateJob, new: bad}, true},
		"changed":           {ask{path: validateJob, old: job(queueLabel, "", ""), new: bad}, true},
		"let in before":     {ask{path: validateJob, old: bad, new: bad}, false},
		"changed to a rack": {ask{path: validateJob, old: bad, new: strings.Replace(bad, "one rack", "rack", 1)}, false},
	} {
		const want = "metadata.annotations[kai.scheduler/topology-required-placement]"
		r := send(t, serve(t, nil, world()...), tc.ask)
		if r.Allowed == tc.refused || tc.refused && !strings.Contains(r.Message, want) {
			t.Errorf("%s: allowed %t, %q; want it to name %s", name, r.Allowed, r.Message, want)
		}
	}
}

// TestPodsThatContradictTheirJob: pods that may be anywhere are in no rack with the others; what was let in before stays.
func TestPodsThatContradictTheirJob(t *testing.T) {
	anywhere := func(text string) string {
		return strings.Replace(
			text,
			"template: {",
			`template: {metadata: {annotations: {kueue.x-k8s.io/podset-unconstrained-topology: "true"}}, `,
			1,
		)
	}
	plain, near := job(
		queueLabel,
		"",
		"",
	), job(
		queueLabel,
		"kai.scheduler/topology-required-placement: rack",
		"",
	)
	for name, tc := range map[string]struct {
		ask
		refused bool
	}{
		"new":             {ask{path: validateJob, new: anywhere(near)}, true},
		"changed":         {ask{path: validateJob, old: anywhere(plain), new: anywhere(near)}, true},
		"let in before":   {ask{path: validateJob, old: anywhere(near), new: anywhere(near)}, false},
		"only of the job": {ask{path: validateJob, new: near}, false},
		"only of pods":    {ask{path: validateJob, new: anywhere(plain)}, false},
	} {
		r := send(t, serve(t, nil, world()...), tc.ask)
		if r.Allowed == tc.refused {
			t.Errorf("%s: allowed %t, %q", name, r.Allowed, r.Message)
		}
		for _, want := range []string{
			"spec.template.metadata.annotations[kueue.x-k8s.io/podset-unconstrained-topology]",
			"kai.scheduler/topology-required-placement of the job",
		} {
			if tc.refused && !strings.Contains(r.Message, want) {
				t.Errorf("%s: %q does not name %s", name, r.Message, want)
			}
		}
	}
}

// TestComputeDomainsThatCannotBe: a job that asks for a ComputeDomain in words that are not known is refused,
// and what queues by itself; one that asks for none that it could get is told so and accepted, since it may
// come.
func TestComputeDomainsThatCannotBe(t *testing.T) {
	const domain = "mlbatch.dev/compute-domain"
	yes, odd := domain+`: "true"`, domain+`: "8"`
	inPods := func(text, annotation string) string {
		return strings.Replace(text, "template: {", "template: {metadata: {annotations: {"+annotation+"}}, ", 1)
	}
	gpus := func(text string) string {
		return strings.Replace(text, "{name: c}", "{name: c, resources: {limits: {nvidia.com/gpu: 8}}}", 1)
	}
	plain := job(queueLabel, "", "")
	if gpus(plain) == plain {
		t.Fatal("the Job has no container c")
	}
	for name, tc := range map[string]struct {
		path, new, refused, warned string
	}{
		"in other words":          {validateJob, gpus(job(queueLabel, odd, "")), `metadata.annotations[mlbatch.dev/compute-domain]`, ""},
		"of pods, in other words": {validateJob, inPods(plain, odd), `spec.template.metadata.annotations[mlbatch.dev/compute-domain]`, ""},
		"without GPUs":            {validateJob, job(queueLabel, yes, ""), "", "no pods of the job request nvidia.com/gpu"},
		"without a driver":        {validateJob, gpus(job(queueLabel, yes, "")), "", "this cluster has no ComputeDomains"},
		"of pods":                 {validateJob, inPods(plain, yes), "", "this cluster has no ComputeDomains"},
		"not asked for":           {validateJob, gpus(plain), "", ""},
		"of a pod alone":          {validatePod, podText("blue", queueLabel, yes, "", "schedulingGates: [{name: kueue.x-k8s.io/admission}]"), "only jobs can have a ComputeDomain", ""},
	} {
		r := send(t, serve(t, nil, world()...), ask{path: tc.path, new: tc.new})
		warned := strings.Join(r.Warnings, "\n")
		if r.Allowed != (tc.refused == "") || !strings.Contains(r.Message, tc.refused) ||
			(warned == "") != (tc.warned == "") || !strings.Contains(warned, tc.warned) {
			t.Errorf("%s: allowed %v, %q, warned %q", name, r.Allowed, r.Message, warned)
		}
	}
}
