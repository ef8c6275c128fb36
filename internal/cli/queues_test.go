package cli_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// queues is a cluster with cohorts in cohorts. Who is no admin may read LocalQueues only.
func queues(t *testing.T, admin bool) client.Client { //nolint:revive // who asks
	t.Helper()
	return cluster(t, "testdata/queue/cluster.yaml").WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*kueue.ClusterQueueList); is && !admin {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "clusterqueues"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*kueue.ClusterQueue); is && !admin {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "clusterqueues"}, key.Name, nil)
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
}

// rows are the lines of queues.
func rows(t *testing.T, c client.Client, namespace, resource string) []cli.QueueRow {
	t.Helper()
	all, err := cli.Queues(t.Context(), c, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return cli.QueueRows(all, resource)
}

// TestQueues: the tree of queues with what each has, sums of cohorts, other resources, and what
// those get who may read none of it.
func TestQueues(t *testing.T) {
	for name, tc := range map[string]struct {
		admin               bool
		namespace, resource string
		width               int
	}{
		"tree":      {admin: true},
		"narrow":    {admin: true, width: 60},
		"memory":    {admin: true, resource: "memory"},
		"user":      {},
		"namespace": {admin: true, namespace: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := rows(t, queues(t, tc.admin), tc.namespace, tc.resource)
			var out bytes.Buffer
			if err := cli.PrintTable(&out, cli.QueueColumns(rows), rows, cli.Layout{Width: tc.width}); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, filepath.Join("testdata", "queue", name+".txt"), out.String())
		})
	}
}

// TestQueuesWithoutGPUs: a queue that has no GPUs is told of by what it has, above all by how far it
// is over it, and so is a cohort of such queues; whoever names a resource gets that alone.
func TestQueuesWithoutGPUs(t *testing.T) {
	queue := func(name, cohort, resource, nominal, used string) *kueue.ClusterQueue {
		q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
		q.Spec.CohortName = kueue.CohortReference(cohort)
		q.Spec.ResourceGroups = []kueue.ResourceGroup{
			{
				CoveredResources: []corev1.ResourceName{corev1.ResourceName(resource)},
				Flavors: []kueue.FlavorQuotas{
					{
						Name: "f",
						Resources: []kueue.ResourceQuota{
							{Name: corev1.ResourceName(resource), NominalQuota: quantity(nominal)},
						},
					},
				},
			},
		}
		reserved := []kueue.FlavorUsage{
			{
				Name:      "f",
				Resources: []kueue.ResourceUsage{{Name: corev1.ResourceName(resource), Total: quantity(used)}},
			},
		}
		q.Status.FlavorsReservation, q.Status.FlavorsUsage = reserved, reserved
		return q
	}
	c := cluster(t, "testdata/queue/fair.yaml").WithObjects(
		queue(
			"gpus",
			"mixed",
			"nvidia.com/gpu",
			"8",
			"2",
		),
		queue("cores", "mixed", "cpu", "8", "12"),
		queue("store", "disks", "ephemeral-storage", "1Ti", "1953125000Ki"),
		queue("lonely", "", "cpu", "64500m", "0"),
	).Build()
	told := func(resource string) (out []string) {
		rows := rows(t, c, "", resource)
		columns := cli.QueueColumns(rows)
		for _, r := range rows {
			if slices.Contains([]string{"mixed", "gpus", "cores", "disks", "store", "lonely"}, r.Name) {
				text := r.Name
				for _, title := range []string{"RESOURCE", "USED", "NOMINAL", "BORROWED"} {
					text += " " + cmp.Or(
						columns[slices.IndexFunc(columns, func(c cli.Column[cli.QueueRow]) bool { return c.Title == title })].Text(
							r,
						),
						"-",
					)
				}
				out = append(out, text)
			}
		}
		return out
	}
	want := []string{
		"disks ephemeral-storage 1.8Ti 1Ti -",
		"store ephemeral-storage 1.8Ti 1Ti 838.6Gi",
		"mixed nvidia.com/gpu 2 8 -",
		"cores cpu 12 8 4",
		"gpus nvidia.com/gpu 2 8 0",
		"lonely cpu 0 64.5 -",
	}
	if diff := gocmp.Diff(want, told("")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = []string{
		"disks cpu - - -",
		"store cpu - - -",
		"mixed cpu 12 8 -",
		"cores cpu 12 8 4",
		"gpus cpu - - -",
		"lonely cpu 0 64.5 -",
	}
	if diff := gocmp.Diff(want, told("cpu")); diff != "" {
		t.Errorf("cpu -want +got:\n%s", diff)
	}
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// TestQueueLists are those of the verbs of kueuectl, in terminals of three widths.
func TestQueueLists(t *testing.T) {
	c := queues(t, true)
	tree := rows(t, c, "", "")
	locals := rows(t, queues(t, false), "", "")
	for name, rows := range map[string][]cli.QueueRow{"tree": tree, "clusterqueues": cli.Flat(tree), "localqueues": locals} {
		for _, width := range []int{60, 80, 140} {
			var out bytes.Buffer
			if err := cli.PrintTable(&out, cli.QueueColumns(rows), rows, cli.Layout{Width: width}); err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, filepath.Join("testdata", "queue", fmt.Sprintf("%s-%d.txt", name, width)), out.String())
		}
	}
}

// TestMembersSeeTheirQuota: whoever may read LocalQueues only sees what quota is behind them, and
// what of it all jobs of the ClusterQueue have; where nobody tells, the list is as without.
func TestMembersSeeTheirQuota(t *testing.T) {
	behind := func(_ context.Context, l *kueue.LocalQueue) *kueue.ClusterQueue {
		if l.Namespace != "blue" {
			return nil
		}
		q := &kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: "blue"},
			Spec:       kueue.ClusterQueueSpec{CohortName: "all"},
		}
		group := func(flavor kueue.ResourceFlavorReference, quotas, used map[corev1.ResourceName]string) {
			f, u := kueue.FlavorQuotas{Name: flavor}, kueue.FlavorUsage{Name: flavor}
			for _, of := range slices.Sorted(maps.Keys(quotas)) {
				f.Resources = append(f.Resources, kueue.ResourceQuota{Name: of, NominalQuota: quantity(quotas[of])})
				u.Resources = append(u.Resources, kueue.ResourceUsage{Name: of, Total: quantity(used[of])})
			}
			q.Spec.ResourceGroups = append(
				q.Spec.ResourceGroups,
				kueue.ResourceGroup{Flavors: []kueue.FlavorQuotas{f}},
			)
			q.Status.FlavorsReservation = append(q.Status.FlavorsReservation, u)
		}
		group(
			"h100",
			map[corev1.ResourceName]string{"cpu": "64", "nvidia.com/gpu": "8"},
			map[corev1.ResourceName]string{"cpu": "1", "nvidia.com/gpu": "18"},
		)
		group(
			"a100",
			map[corev1.ResourceName]string{"nvidia.com/gpu": "16"},
			map[corev1.ResourceName]string{"nvidia.com/gpu": "2"},
		)
		return q
	}
	told, err := gather.LocalQueues(t.Context(), queues(t, false), "", behind)
	if err != nil {
		t.Fatal(err)
	}
	rows := cli.QueueRows(told, "")
	at := slices.IndexFunc(rows, func(r cli.QueueRow) bool { return r.Namespace == "blue" })
	blue := rows[at]
	if blue.Resource != "nvidia.com/gpu" || blue.Nominal != "24" || blue.QueueUsed != "20" ||
		blue.Borrowed != "10" ||
		blue.Unused != "14" ||
		blue.Used == blue.QueueUsed {
		t.Errorf("%+v", blue)
	}
	for i := range rows {
		if rows[i].Namespace != "blue" && rows[i].Nominal != "" {
			t.Errorf("%+v", rows[i])
		}
	}
	for _, width := range []int{60, 80, 140} {
		var out bytes.Buffer
		if err := cli.PrintTable(&out, cli.QueueColumns(rows), rows, cli.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		fits(t, out.String(), width)
		testkit.Golden(t, filepath.Join("testdata", "queue", fmt.Sprintf("member-%d.txt", width)), out.String())
	}
	want := "Quota of blue: 24 nvidia.com/gpu, 20 used by all jobs of the queue, 10 borrowed, 14 unused."
	if lines := cli.QuotaLines(rows); len(lines) != 1 || lines[0] != want {
		t.Errorf("below what is used stands %q, want %q", lines, want)
	}
}

// TestLentAndShare: who has lent what blue and guests use beyond their own, exactly or as a bound,
// and shares where a status tells them. Programs get both whatever the width.
func TestLentAndShare(t *testing.T) {
	rows := rows(t, cluster(t, "testdata/queue/fair.yaml").Build(), "", "")
	for _, width := range []int{60, 80, 140} {
		var out bytes.Buffer
		if err := cli.PrintTable(&out, cli.QueueColumns(rows), rows, cli.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		fits(t, out.String(), width)
		testkit.Golden(t, filepath.Join("testdata", "queue", fmt.Sprintf("fair-%d.txt", width)), out.String())
	}
	for name, want := range map[string]string{
		"blue": `"lent":"0","weightedShare":250,`, "red": `"lent":"6","weightedShare":0,`, "slack": `"lent":"3","lentAtMost":true,"running"`,
		"research": `"lent":"0","weightedShare":63,`, "guests": `"lent":"0","weightedShare":9223372036854775807,`,
	} {
		at := slices.IndexFunc(rows, func(r cli.QueueRow) bool { return r.Name == name })
		if at < 0 {
			t.Fatalf("no line of %s", name)
		}
		if got, err := json.Marshal(rows[at]); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %s (%v), want %s", name, got, err, want)
		}
	}
}

// TestWaitingInQueue: what waits is in the order that the controller says, under the names of jobs,
// with the reasons that the user may read.
func TestWaitingInQueue(t *testing.T) {
	pending := []visibility.PendingWorkload{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "job-z"}, LocalQueueName: "q", Priority: 9},
		{ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: "job-a", CreationTimestamp: metav1.Time{Time: now().Add(-time.Minute)},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "a", Controller: new(true)}},
		}, LocalQueueName: "default-queue"},
	}
	rows, err := cli.WaitingRows(t.Context(), queues(t, true), "", pending)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := cli.PrintTable(&out, cli.WaitingColumns(now()), rows, cli.Layout{Bare: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || strings.Fields(lines[0])[2] != "job-z" ||
		!strings.HasSuffix(lines[1], " WaitingForQuota: 8 more needed.") ||
		!strings.Contains(lines[1], " 60s ") ||
		strings.Fields(lines[1])[2] != "a" {
		t.Errorf("%s", out.String())
	}
}

// TestReasonOfTheLine: in a narrow line the reason is seen rather than the LocalQueue, which for
// most is the same, and the priority, which the order tells.
func TestReasonOfTheLine(t *testing.T) {
	rows := []cli.WaitingRow{
		{
			Position:  1,
			Namespace: "blue",
			Name:      "train-4",
			Queue:     "default-queue",
			Priority:  5,
			Created:   now().Add(-time.Minute),
			Reason:    "WaitingForQuota",
			Message:   "Couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor default-flavor, 8 more needed",
		},
	}
	for width, want := range map[int]string{60: "WaitingForQuota: insuf", 80: "WaitingForQuota: insufficient", 140: "insufficient unused quota for nvidia.com/gpu in flavor"} {
		var out bytes.Buffer
		if err := cli.PrintTable(&out, cli.WaitingColumns(now()), rows, cli.Layout{Width: width}); err != nil {
			t.Fatal(err)
		}
		if fits(t, out.String(), width); !strings.Contains(out.String(), want) {
			t.Errorf("%d characters: no %q in\n%s", width, want, out.String())
		}
	}
}
