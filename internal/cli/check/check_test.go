package check_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/check"
	"github.com/mlbatch/mlbatch/internal/finding"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// base is a cluster in order: two nodes with 8 GPUs, two teams with 4 and a slack queue with 8.
const base = `
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {pool: a}}, status: {capacity: {nvidia.com/gpu: 8}, allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8, pods: 100}, conditions: [{type: Ready, status: "True"}]}}
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {capacity: {nvidia.com/gpu: 8}, allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8, pods: 100}, conditions: [{type: Ready, status: "True"}]}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: blue}, spec: {cohortName: c, resourceGroups: [{coveredResources: [nvidia.com/gpu, cpu], flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 4}, {name: cpu, nominalQuota: 32}]}]}]}, status: {admittedWorkloads: 2, pendingWorkloads: 1, flavorsReservation: [{name: f, resources: [{name: nvidia.com/gpu, total: 6}]}]}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: red}, spec: {cohortName: c, resourceGroups: [{coveredResources: [nvidia.com/gpu, cpu], flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 4}, {name: cpu, nominalQuota: 32}]}]}]}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: slack-cluster-queue}, spec: {cohortName: c, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]}]}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: blue}, spec: {clusterQueue: blue}}`

// workload is one of a job, with fields and requests of its pods.
func workload(name, spec, requests, status string) string {
	return fmt.Sprintf(`
{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w-%s, namespace: blue, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: %s, uid: u, controller: true}]}, spec: {%s, podSets: [{name: main, count: 1, template: {spec: {containers: [{name: c, image: i, resources: {requests: {%s}}}]}}}]}, status: {%s}}`,
		name, name, spec, requests, status)
}

// judged is what is found in objects; change edits the texts of base.
func judged(t *testing.T, objects string, funcs interceptor.Funcs) *check.Report {
	t.Helper()
	decode := serializer.NewCodecFactory(scheme.New()).UniversalDeserializer()
	var all []runtime.Object
	for line := range strings.SplitSeq(strings.TrimSpace(objects), "\n") {
		data, err := yaml.YAMLToJSON([]byte(line))
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		o, _, err := decode.Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		all = append(all, o)
	}
	c := fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithRuntimeObjects(all...).
		WithInterceptorFuncs(funcs).
		Build()
	cluster, err := check.Take(t.Context(), c, "", "slack-cluster-queue")
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Judge(now, 5*time.Minute)
}

// damaged are clusters in which one rule finds something, by rule.
var damaged = map[string]struct{ why, objects, want string }{
	"node-out": {
		"a label says that its GPUs are bad",
		strings.Replace(base, "pool: a", "autopilot.ibm.com/gpuhealth: EVICT", 1),
		"warning  node n1: its GPUs (8) are out of service: label autopilot.ibm.com/gpuhealth=EVICT (node-out)",
	},
	"over-quota": {
		"teams cannot all have what is theirs",
		strings.Replace(base, "cpu, nominalQuota: 32", "cpu, nominalQuota: 640", 1),
		"warning  flavor f, cpu: teams have a quota of 672, and nodes in service offer 128 (of 128) (over-quota)",
	},
	"slack-total": {
		"nobody can use what no queue has",
		strings.Replace(base, "gpu, nominalQuota: 8", "gpu, nominalQuota: 7", 1),
		"warning  flavor f, nvidia.com/gpu: teams have 8 and slack-cluster-queue has 7, together 15: nodes have 16 (slack-total)",
	},
	"slack-adjusted": {
		"what is lent is less",
		strings.Replace(base, "gpu, nominalQuota: 8", "gpu, nominalQuota: 8, lendingLimit: 3", 1),
		"note     flavor f, nvidia.com/gpu: slack-cluster-queue lends 3 of its 8 (slack-adjusted)",
	},
	"gpus-outside": {
		"what holds GPUs beside all queues",
		base + pod("default", "mlbatch-scheduler"),
		"note     pod default/p: has 1 GPU on n1 that no quota counts (gpus-outside)",
	},
	"no-queue": {
		"it waits for ever",
		base + workload("j", "queueName: nowhere", "cpu: 1", ""),
		"warning  job blue/j: its queue nowhere is not there (no-queue)",
	},
	"not-ready": {
		"it holds quota and does nothing",
		base + workload(
			"j",
			"queueName: q",
			"cpu: 1",
			`conditions: [{type: Admitted, status: "True", lastTransitionTime: "2026-01-01T11:50:00Z"}]`,
		),
		"warning  job blue/j: was admitted 10m0s ago, and its pods do not all run (not-ready)",
	},
	"evicted": {
		"it ran and does no more",
		base + workload(
			"j",
			"queueName: q",
			"cpu: 1",
			`conditions: [{type: Evicted, status: "True", reason: Preempted, message: made room}]`,
		),
		"note     job blue/j: was evicted: made room (evicted)",
	},
	"too-large": {
		"no node will ever do",
		base + workload("j", "queueName: q", "cpu: 1, nvidia.com/gpu: 9", ""),
		"warning  job blue/j: a pod of main asks for 9 of nvidia.com/gpu, and no node has more than 8 (too-large)",
	},
	"out-of-proportion": {
		"GPUs beside it have no CPUs",
		base + workload("j", "queueName: q", "cpu: 17, nvidia.com/gpu: 2", ""),
		"note     job blue/j: a pod of main asks for 17 of cpu with 2 GPUs; the share of as many on a node is 16 (out-of-proportion)",
	},
	"lone-rdma": {
		"it has nobody to talk to",
		strings.ReplaceAll(
			base,
			"pods: 100",
			"pods: 100, nvidia.com/roce_gdr: 2",
		) + workload(
			"j",
			"queueName: q",
			"cpu: 1, nvidia.com/roce_gdr: 1",
			"",
		),
		"note     job blue/j: its only pod asks for 1 of nvidia.com/roce_gdr (lone-rdma)",
	},
	"priority": {
		"somebody jumps the queue",
		base + workload(
			"j",
			"queueName: q, priorityClassRef: {group: scheduling.k8s.io, kind: PriorityClass, name: high-priority}",
			"cpu: 1",
			"",
		),
		"note     job blue/j: has the priority class high-priority (priority)",
	},
	"no-scheduler": {
		"nobody will ever bind it",
		base + strings.Replace(
			strings.Replace(pod("blue", "sakkara"), "nodeName: n1, ", "", 1),
			"name: p,",
			"name: p, creationTimestamp: '2026-01-01T11:50:00Z',",
			1,
		),
		"warning  pod blue/p: has waited for scheduler sakkara for 10m0s, which has not looked at it (no-scheduler)",
	},
	"other-scheduler": {
		"it takes places that were promised",
		base + pod("blue", "default-scheduler"),
		"warning  pod blue/p: asks for GPUs, and default-scheduler places it (other-scheduler)",
	},
}

func pod(namespace, scheduler string) string {
	return fmt.Sprintf(
		"\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: %s}, spec: {nodeName: n1, schedulerName: %s, containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}",
		namespace,
		scheduler,
	)
}

// TestWhatRunsIsReady: no condition says of what serves that its pods are ready; that they run does.
func TestWhatRunsIsReady(t *testing.T) {
	admitted := workload(
		"db",
		"queueName: q",
		"cpu: 1",
		`admission: {clusterQueue: blue, podSetAssignments: [{name: main, count: 1}]}, conditions: [{type: Admitted, status: "True", lastTransitionTime: "2026-01-01T11:50:00Z"}, {type: PodsReady, status: "False"}]`,
	)
	serves := func(phase string) string {
		return base + admitted + "\n{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: blue, annotations: {kueue.x-k8s.io/workload: w-db}}, spec: {nodeName: n1, containers: [{name: c, image: i}]}, status: {phase: " + phase + "}}"
	}
	if found := judged(t, serves("Running"), interceptor.Funcs{}).Findings; len(found) > 0 {
		t.Errorf("it runs: %+v", found)
	}
	if found := judged(
		t,
		serves("Pending"),
		interceptor.Funcs{},
	).Findings; len(found) != 1 ||
		found[0].Rule != "not-ready" {
		t.Errorf("it does not run: %+v", found)
	}
}

// TestRules: every rule finds what it is for, and alone.
func TestRules(t *testing.T) {
	if found := judged(t, base, interceptor.Funcs{}).Findings; len(found) > 0 {
		t.Errorf("nothing is wrong: %+v", found)
	}
	for _, rule := range check.Rules() {
		c, is := damaged[rule.Name]
		if !is {
			t.Errorf("rule %s has no case", rule.Name)
			continue
		}
		t.Run(rule.Name, func(t *testing.T) {
			r := judged(t, c.objects, interceptor.Funcs{})
			var b bytes.Buffer
			if err := r.Text(&b, "", cli.Layout{}); err != nil {
				t.Fatal(err)
			}
			if len(r.Findings) != 1 || !strings.Contains(b.String(), c.want+"\n") {
				t.Errorf("%s\n%s\nwant %s", c.why, b.String(), c.want)
			}
		})
	}
}

// TestNothing is what rules must not find.
func TestNothing(t *testing.T) {
	for name, objects := range map[string]string{
		"young":         base + workload("j", "queueName: q", "cpu: 1", `conditions: [{type: Admitted, status: "True", lastTransitionTime: "2026-01-01T11:59:00Z"}]`),
		"ready":         base + workload("j", "queueName: q", "cpu: 1", `conditions: [{type: Admitted, status: "True", lastTransitionTime: "2026-01-01T11:00:00Z"}, {type: PodsReady, status: "True"}]`),
		"finished":      base + workload("j", "queueName: nowhere", "cpu: 999", `conditions: [{type: Finished, status: "True"}]`),
		"proportion":    base + workload("j", "queueName: q", "cpu: 16, nvidia.com/gpu: 2", ""),
		"no GPUs":       base + workload("j", "queueName: q", "cpu: 60", ""),
		"on demand":     strings.Replace(strings.Replace(base, "metadata: {name: f}", "metadata: {name: f, annotations: {mlbatch.dev/nodes-on-demand: 'true'}}", 1), "cpu, nominalQuota: 32", "cpu, nominalQuota: 640", 1) + workload("j", "queueName: q", "nvidia.com/gpu: 9", ""),
		"told its node": base + strings.Replace(pod("blue", "default-scheduler"), "name: p,", "name: p, annotations: {kueue.x-k8s.io/workload: w},", 1),
		"just made":     base + strings.Replace(strings.Replace(pod("blue", "sakkara"), "nodeName: n1, ", "", 1), "name: p,", "name: p, creationTimestamp: '2026-01-01T11:59:00Z',", 1),
		"another pool":  strings.Replace(base, "metadata: {name: f}", "metadata: {name: f, labels: {x: z}}", 1),
	} {
		if found := judged(t, objects, interceptor.Funcs{}).Findings; len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestFlavors: nodes count for the flavors whose labels they have.
func TestFlavors(t *testing.T) {
	r := judged(
		t,
		strings.Replace(base, "metadata: {name: f}", "metadata: {name: f}, spec: {nodeLabels: {pool: a}}", 1),
		interceptor.Funcs{},
	)
	if r.Capacity[0].Total != "8" ||
		!slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Rule == "slack-total" }) {
		t.Errorf("%+v", r)
	}
}

// TestRights: what one may not read is named, and finds nothing.
func TestRights(t *testing.T) {
	r := judged(
		t,
		damaged["over-quota"].objects+workload("j", "queueName: nowhere", "cpu: 999", ""),
		interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if kind := fmt.Sprintf(
					"%T",
					list,
				); strings.Contains(kind, "NodeList") ||
					strings.Contains(kind, "LocalQueueList") {
					return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
				}
				return c.List(ctx, list, opts...)
			},
		},
	)
	if diff := cmp.Diff([]string{"LocalQueues", "nodes"}, r.Unread); diff != "" || len(r.Findings) > 0 {
		t.Errorf("%s\n%+v", diff, r.Findings)
	}
}

// TestText: the tables, in a wide and in narrow lines.
func TestText(t *testing.T) {
	r := judged(t, damaged["node-out"].objects+pod("default", "x"), interceptor.Funcs{})
	for _, width := range []int{60, 80, 140} {
		var b bytes.Buffer
		if err := r.Text(&b, "", cli.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, fmt.Sprintf("testdata/check-%d.txt", width), b.String())
	}
	var b bytes.Buffer
	if err := r.Metrics(&b); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "testdata/metrics.txt", b.String())
}

// TestTable: the table of the documentation is made of the rules.
func TestTable(t *testing.T) {
	const page = "../../../docs/judge.md"
	var b strings.Builder
	b.WriteString("| rule | severity | what it finds |\n|---|---|---|\n")
	for _, r := range check.Rules() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Name, r.Severity, r.Asks)
	}
	testkit.Section(t, page, "check rules", b.String())
}
