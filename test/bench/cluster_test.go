package bench_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/test/rig"
)

const (
	// team is the namespace of all jobs, and queue its LocalQueue.
	team, queue = "team", "queue"
	// patience bounds every wait, so that a fault ends a benchmark.
	patience = 5 * time.Minute
)

// bed is a cluster with one team whose queue has the quota of all nodes.
type bed struct {
	*rig.Cluster
	client client.WithWatch
	// namespace is that of the jobs that are measured.
	namespace string
}

// start starts a cluster without the tutorial's teams and with one of ours.
func start(b *testing.B, nodes int, args ...string) bed {
	b.Helper()
	args = append([]string{"--empty", "--gpus-per-node", "8", "--nodes", fmt.Sprint(nodes)}, args...)
	cluster, err := rig.Start(b.Context(), quiet(b), args...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			b.Error(err)
		}
	})
	c, err := client.NewWithWatch(cluster.RESTConfig(), client.Options{Scheme: scheme.New()})
	if err != nil {
		b.Fatal(err)
	}
	bd := bed{Cluster: cluster, client: c, namespace: team}
	bd.furnish(b, nodes)
	return bd
}

// quiet keeps what the cluster prints out of the figures, but for failures.
func quiet(b *testing.B) *os.File {
	b.Helper()
	f, err := os.CreateTemp(b.TempDir(), "up")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if b.Failed() {
			said, _ := os.ReadFile(f.Name())
			b.Logf("mlbatch up said:\n%s", said)
		}
		f.Close()
	})
	return f
}

// furnish makes the team, its queue and a flavor.
func (bd bed) furnish(b *testing.B, nodes int) {
	b.Helper()
	objects := []client.Object{
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "flavor"}},
		&kueue.ClusterQueue{
			ObjectMeta: metav1.ObjectMeta{Name: queue},
			Spec: kueue.ClusterQueueSpec{
				NamespaceSelector: &metav1.LabelSelector{},
				ResourceGroups:    []kueue.ResourceGroup{quota(int64(nodes))},
			},
		},
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: team, Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: queue},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: queue},
		},
	}
	for _, o := range objects {
		if err := bd.client.Create(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// quota is all that the nodes have.
func quota(nodes int64) kueue.ResourceGroup {
	perNode := []kueue.ResourceQuota{
		{Name: "cpu", NominalQuota: *resource.NewQuantity(224*nodes, resource.DecimalSI)},
		{Name: "memory", NominalQuota: *resource.NewQuantity(2000*nodes<<30, resource.BinarySI)},
		{Name: "nvidia.com/gpu", NominalQuota: *resource.NewQuantity(8*nodes, resource.DecimalSI)},
		{Name: "pods", NominalQuota: *resource.NewQuantity(250*nodes, resource.DecimalSI)},
	}
	return kueue.ResourceGroup{
		CoveredResources: []corev1.ResourceName{"cpu", "memory", "nvidia.com/gpu", "pods"},
		Flavors:          []kueue.FlavorQuotas{{Name: "flavor", Resources: perNode}},
	}
}

// empty waits until nothing of any job is left.
func (bd bed) empty(b *testing.B) {
	b.Helper()
	lists := []client.ObjectList{&corev1.PodList{}, &kueue.WorkloadList{}}
	err := wait.PollUntilContextTimeout(
		b.Context(),
		20*time.Millisecond,
		patience,
		true,
		func(ctx context.Context) (bool, error) {
			for _, l := range lists {
				m := &metav1.PartialObjectMetadataList{}
				gvk, err := bd.client.GroupVersionKindFor(l)
				if err != nil {
					return false, err
				}
				m.SetGroupVersionKind(gvk)
				if err := bd.client.List(
					ctx,
					m,
					client.InNamespace(bd.namespace),
					client.Limit(1),
				); err != nil ||
					len(m.Items) > 0 {
					return false, err
				}
			}
			return true, nil
		},
	)
	if err != nil {
		b.Fatalf("wait until all jobs are gone: %v", err)
	}
}

// remove deletes a job and waits until nothing of it is left.
func (bd bed) remove(b *testing.B, o client.Object) {
	b.Helper()
	if err := bd.client.Delete(
		b.Context(),
		o,
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	); err != nil {
		b.Fatal(err)
	}
	bd.empty(b)
}

// percentile is the nearest-rank percentile of durations, in seconds.
func percentile(all []time.Duration, p float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	rank := int(p / 100 * float64(len(sorted)))
	return sorted[min(rank, len(sorted)-1)].Seconds()
}

// once makes the benchmark one experiment whose time per operation says
// nothing that its figures do not say better.
func once(b *testing.B, experiment func()) {
	b.Helper()
	for b.Loop() {
		experiment()
	}
	b.ReportMetric(0, "ns/op")
}

// short is a component's name as a figure shows it.
func short(component string) string {
	return strings.TrimPrefix(component, "kube-")
}
