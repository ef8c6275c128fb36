package cli_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/testkit"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// populace is a cluster with jobs of many kinds in all states.
func populace(t *testing.T, forbidden string) client.Client {
	t.Helper()
	return cluster(t, "testdata/ps/cluster.yaml").WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods && forbidden == "pods" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

// TestRowsTellOfTrouble: a job that has quota and does not do well says so in its line.
func TestRowsTellOfTrouble(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		node map[string]string
		pods []corev1.Pod
		// where is the last column.
		where    string
		restarts int32
	}{
		"well":     {"nothing to tell", nil, []corev1.Pod{ran("a", nil)}, "node-0", 0},
		"restarts": {"what runs now and did not before", nil, []corev1.Pod{ran("a", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 3 })}, "node-0", 3},
		"does not stay": {"its container waits to be started again", nil, []corev1.Pod{ran("a", func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].RestartCount = 5
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		})}, "node-0: CrashLoopBackOff", 5},
		"tried again":     {"pods of it have failed", nil, []corev1.Pod{ran("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), ran("b", nil)}, "node-0: 1 pod failed", 0},
		"should leave":    {"its node drives it off, and it stays", map[string]string{"autopilot.ibm.com/gpuhealth": "EVICT"}, []corev1.Pod{ran("a", nil)}, "node-0: has to leave node-0", 0},
		"suspicious node": {"a node that is to be avoided drives nobody off", map[string]string{"autopilot.ibm.com/gpuhealth": "WARN"}, []corev1.Pod{ran("a", nil)}, "node-0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &kueue.Workload{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "blue",
					Name:      "w",
					Labels:    map[string]string{kueue.JobUIDLabel: "u1"},
				},
			}
			w.Spec.PodSets = []kueue.PodSet{
				{Name: "main", Count: 1, Template: corev1.PodTemplateSpec{Spec: c.pods[0].Spec}},
			}
			w.Status.Admission = &kueue.Admission{
				ClusterQueue:      "q",
				PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(1))}},
			}
			apimeta.SetStatusCondition(
				&w.Status.Conditions,
				metav1.Condition{Type: kueue.WorkloadAdmitted, Status: metav1.ConditionTrue, Reason: "Admitted"},
			)
			objects := []client.Object{
				w, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "j", UID: "u1"}},
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0", Labels: c.node}},
			}
			for i := range c.pods {
				objects = append(objects, &c.pods[i])
			}
			s, err := gather.Jobs(
				t.Context(),
				fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build(),
				"",
				client.ListOptions{},
			)
			if err != nil || len(s.Items) != 1 {
				t.Fatalf("%v, %d rows", err, len(s.Items))
			}
			columns := cli.RowColumns(now(), false)
			if got := columns[len(columns)-1].Text(s.Items[0]); got != c.where || s.Items[0].Restarts != c.restarts {
				t.Errorf("%s: %q, %d restarts; want %q, %d", c.why, got, s.Items[0].Restarts, c.where, c.restarts)
			}
		})
	}
}

// ran is a pod of Workload w that runs on node-0 with GPUs.
func ran(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        name,
			Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
		},
		Spec: corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{
			{
				Name: "c",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
				},
			},
		}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}},
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

// TestPs: the list of jobs in terminals of several widths, and whole.
func TestPs(t *testing.T) {
	for _, width := range []int{60, 80, 120, 140, 0} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			s, err := gather.Jobs(t.Context(), populace(t, ""), "", client.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			layout := cli.Layout{Width: width, Wide: width == 0}
			if err := cli.PrintTable(&out, cli.RowColumns(now(), true), s.Items, layout); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); width > 0 && n > width {
					t.Errorf("a line has %d characters: %s", n, line)
				}
			}
			testkit.Golden(t, filepath.Join("testdata", "ps", strconv.Itoa(width)+".txt"), out.String())
		})
	}
}

// TestReasonsAreTrueLater: how much more is needed changes, and conditions keep what it was.
func TestReasonsAreTrueLater(t *testing.T) {
	for amount, message := range map[string]string{"GPUs": "insufficient unused quota for nvidia.com/gpu in flavor f, 8 more needed", "memory": "insufficient unused quota for memory in flavor f, 1.5Gi more needed"} {
		var out bytes.Buffer
		if err := cli.PrintTable(
			&out,
			cli.RowColumns(now(), true),
			[]view.Job{{State: view.Waiting, Reason: "WaitingForQuota", Message: message}},
			cli.Layout{Bare: true},
		); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), " in flavor f\n") {
			t.Errorf("%s: %s", amount, out.String())
		}
	}
}

// TestReasonsInTables: what begins every refusal of Kueue's is left out, as why leaves it out, where
// it would take the room of the reason.
func TestReasonsInTables(t *testing.T) {
	const kueues = "Couldn't assign flavors to pod set "
	for name, tc := range map[string]struct{ why, message, want string }{
		"one pod set": {"most jobs have one, and nobody asked for its name", kueues + "main: insufficient unused quota", "WaitingForQuota: insufficient unused quota"},
		"several":     {"which of them says something", kueues + "worker: insufficient unused quota", "WaitingForQuota: for pod set worker: insufficient unused quota"},
		"other":       {"what begins otherwise is whole", "The queue is stopped", "WaitingForQuota: The queue is stopped"},
		"none":        {"the code is all there is", "", "WaitingForQuota"},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs, line bytes.Buffer
			if err := cli.PrintTable(
				&jobs,
				cli.RowColumns(now(), true),
				[]view.Job{{State: view.Waiting, Reason: "WaitingForQuota", Message: tc.message}},
				cli.Layout{Bare: true},
			); err != nil {
				t.Fatal(err)
			}
			if err := cli.PrintTable(
				&line,
				cli.WaitingColumns(now()),
				[]cli.WaitingRow{{Reason: "WaitingForQuota", Message: tc.message}},
				cli.Layout{Bare: true},
			); err != nil {
				t.Fatal(err)
			}
			for of, out := range map[string]string{"ps": jobs.String(), "queue NAME": line.String()} {
				if !strings.HasSuffix(out, "  "+tc.want+"\n") {
					t.Errorf("%s: %s, want %q: %s", of, out, tc.want, tc.why)
				}
			}
		})
	}
}

// TestSurvey: which jobs are listed, and what is said of those that one may not read.
func TestSurvey(t *testing.T) {
	names := func(s *view.JobList) string {
		var out []string
		for _, r := range s.Items {
			out = append(out, string(r.Kind)+" "+r.Name)
		}
		return strings.Join(out, ", ")
	}
	team, err := labels.Parse("team=nlp")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		why, namespace, forbidden string
		options                   client.ListOptions
		jobs, unread              string
	}{
		"a namespace": {why: "nothing of others", namespace: "lab", jobs: "Job loose"},
		"by label":    {why: "pods have labels of their own, and are found by their jobs'", namespace: "blue", options: client.ListOptions{LabelSelector: team}, jobs: "PyTorchJob train"},
		"without pods": {
			why: "a user may be allowed to read jobs and no pods: they are listed, and it is said", namespace: "lab", forbidden: "pods", jobs: "Job loose", unread: "pods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := gather.Jobs(t.Context(), populace(t, tc.forbidden), tc.namespace, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := names(s); got != tc.jobs || strings.Join(s.Unread, " ") != tc.unread {
				t.Errorf("%s: %s; unread %v", tc.why, got, s.Unread)
			}
		})
	}
}

// TestSortBy: any column orders the list, and numbers count as numbers.
func TestSortBy(t *testing.T) {
	rows := []view.Job{{Name: "b", GPUs: 16}, {Name: "a", GPUs: 8}, {Name: "c", GPUs: 2}}
	for by, want := range map[string]string{"name": "abc", "-name": "cba", "GPUS": "cab", "-gpus": "bac"} {
		if err := cli.SortBy(cli.RowColumns(now(), false), rows, by); err != nil {
			t.Fatal(err)
		}
		if got := rows[0].Name + rows[1].Name + rows[2].Name; got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
	if err := cli.SortBy(
		cli.RowColumns(now(), false),
		rows,
		"gpu",
	); err == nil ||
		!strings.Contains(err.Error(), "gpus") {
		t.Errorf("a column that there is not: %v", err)
	}
}

// TestPlaceInLine: jobs that wait are told their place and when they start, of their
// ClusterQueue where the user may ask about it and of their LocalQueue where not; no queue is
// asked about twice.
func TestPlaceInLine(t *testing.T) {
	starts := &visibility.Start{Known: 3}
	s := &view.JobList{Items: []view.Job{
		{Namespace: "blue", Name: "a", Workload: "job-a", State: view.Waiting, Queue: "q", Target: "shared"},
		{Namespace: "blue", Name: "b", Workload: "job-b", State: view.Waiting, Queue: "q", Target: "shared"},
		{Namespace: "blue", Name: "runs", Workload: "job-runs", State: view.Running, Queue: "q", Target: "shared"},
		{
			Namespace: "blue",
			Name:      "unknown",
			Workload:  "job-unknown",
			State:     view.Waiting,
			Queue:     "q",
			Target:    "shared",
		},
	}}
	var asked []string
	gather.Place(
		t.Context(),
		s,
		gather.MostLines,
		func(_ context.Context, namespace, queue string) ([]visibility.PendingWorkload, error) {
			asked = append(asked, namespace+"/"+queue)
			if namespace == "" {
				return nil, errors.New("not for you")
			}
			in := func(name string, position int32, start *visibility.Start) visibility.PendingWorkload {
				return visibility.PendingWorkload{
					ObjectMeta:             metav1.ObjectMeta{Namespace: "blue", Name: name},
					PositionInClusterQueue: position,
					Start:                  start,
				}
			}
			return []visibility.PendingWorkload{
				in("job-b", 0, starts),
				in("job-a", 4, nil),
				in("job-runs", 5, starts),
			}, nil
		},
	)
	if got := strings.Join(asked, " "); got != "/shared blue/q" {
		t.Errorf("asked about %s", got)
	}
	a, b, runs, unknown := s.Items[0], s.Items[1], s.Items[2], s.Items[3]
	if a.Position == nil || *a.Position != 5 || a.Start != nil || b.Position == nil || *b.Position != 1 ||
		b.Start != starts {
		t.Errorf("a: %v %v, b: %v %v", a.Position, a.Start, b.Position, b.Start)
	}
	if runs.Position != nil || runs.Start != nil || unknown.Position != nil {
		t.Errorf(
			"one that runs has a place (%v), or one that is not in the line (%v)",
			runs.Position,
			unknown.Position,
		)
	}
}
