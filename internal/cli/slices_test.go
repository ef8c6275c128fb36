package cli_test

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// TestSlicesAreNoGPUs: 8 GPUs and 7 slices of others are not 15 GPUs: nodes, who uses them and jobs are
// told in both, each by itself.
func TestSlicesAreNoGPUs(t *testing.T) {
	const gpu, slice = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
	amounts := func(gpus, slices string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, n := range map[corev1.ResourceName]string{gpu: gpus, slice: slices} {
			if n != "" {
				out[name] = resource.MustParse(n)
			}
		}
		return out
	}
	pod := func(name, gpus, slices string) client.Object {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name, CreationTimestamp: metav1.NewTime(now())},
		}
		p.Spec = corev1.PodSpec{
			NodeName: "n",
			Containers: []corev1.Container{
				{
					Name:      "c",
					Resources: corev1.ResourceRequirements{Limits: amounts(gpus, slices), Requests: amounts(gpus, slices)},
				},
			},
		}
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, new(metav1.NewTime(now()))
		return p
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Allocatable: amounts(
			"8",
			"7",
		),
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	c := fake.NewClientBuilder().
		WithScheme(scheme.New()).
		WithObjects(node, pod("whole", "2", ""), pod("part", "", "3"), pod("both", "1", "1")).
		Build()
	rows, _, err := gather.Nodes(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	show := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	show(cli.PrintTable(&out, cli.NodeColumns(now()), rows, cli.Layout{}))
	show(cli.PrintTable(&out, cli.UseColumns("nodes", now()), cli.UseOfNodes(rows, now()), cli.Layout{}))
	jobs := []view.Job{
		{Namespace: "blue", Name: "part", State: "Waiting", Slices: map[string]int64{"mig-1g.5gb": 3}},
		{Namespace: "blue", Name: "both", State: "Waiting", GPUs: 1, Slices: map[string]int64{"mig-1g.5gb": 1}},
	}
	show(cli.PrintTable(&out, cli.RowColumns(now(), false), jobs, cli.Layout{}))
	waits := cli.Use(
		[]view.Job{{Name: "part", User: "alice", State: "Waiting", Slices: map[string]int64{"mig-1g.5gb": 3}}},
		"users",
		now(),
	)
	if len(waits) != 1 || waits[0].Waiting != 1 {
		t.Errorf("who waits for slices alone waits: %+v", waits)
	}
	said := strings.Join(strings.Fields(out.String()+cli.SumOfNodes(rows)), " ")
	for _, want := range []string{
		"8, 7 mig-1g.5gb 5, 3 mig-1g.5gb 3", "blue/both (1), blue/part (3), blue/whole (2)", "n 3, 4 mig-1g.5gb 38%", "0/0 3 mig-1g.5gb", "0/0 1, 1 mig-1g.5gb",
		"1 node, 8 GPUs: 3 used, 5 free, 7 mig-1g.5gb: 4 used, 3 free",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s\n%s", want, out.String(), cli.SumOfNodes(rows))
		}
	}
}
