package trim

import (
	"fmt"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// BenchmarkCachedPods and BenchmarkCachedNodes measure what 100,000 pods and 10,000 nodes of others
// take in the cache, as they come from the API server: before, without what their writers
// are (managedFields), and as they are kept.
func BenchmarkCachedPods(b *testing.B) {
	decode := func(data []byte) (any, error) {
		p := &corev1.Pod{}
		return p, p.Unmarshal(data)
	}
	held(
		b,
		100_000,
		func(i int) ([]byte, error) { return theirPod(i).Marshal() },
		decode,
		(&resourceLists{}).trimPod,
	)
	b.Run("scheduler", func(b *testing.B) {
		kept := schedulerShape().one.in[unknownRaw]
		sent := func(i int) ([]byte, error) {
			data, err := theirPod(i).Marshal()
			if err != nil {
				return nil, err
			}
			return kept.appendKept(nil, data)
		}
		for b.Loop() {
			b.ReportMetric(alive(b, 100_000, sent, decode, SharePods()), "MB")
		}
		b.ReportMetric(0, "ns/op")
	})
}

func BenchmarkCachedNodes(b *testing.B) {
	held(
		b,
		10_000,
		func(i int) ([]byte, error) { return theirNode(i).Marshal() },
		func(data []byte) (any, error) {
			n := &corev1.Node{}
			return n, n.Unmarshal(data)
		},
		trimNode,
	)
}

func held(
	b *testing.B,
	n int,
	encode func(int) ([]byte, error),
	decode func([]byte) (any, error),
	trim func(any) (any, error),
) {
	b.Helper()
	for _, way := range []struct {
		name      string
		transform func(any) (any, error)
	}{{"before", cache.TransformStripManagedFields()}, {"kept", trim}} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(alive(b, n, encode, decode, way.transform), "MB")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// alive is what n objects take, in megabytes.
func alive(
	b *testing.B,
	n int,
	encode func(int) ([]byte, error),
	decode func([]byte) (any, error),
	transform func(any) (any, error),
) float64 {
	b.Helper()
	before := heap()
	all := make([]any, 0, n)
	for i := range n {
		data, err := encode(i)
		if err != nil {
			b.Fatal(err)
		}
		o, err := decode(data)
		if err != nil {
			b.Fatal(err)
		}
		if o, err = transform(o); err != nil {
			b.Fatal(err)
		}
		all = append(all, o)
	}
	now := heap()
	goruntime.KeepAlive(all)
	return (now - before) / 1e6
}

// heap is what is alive.
func heap() float64 {
	var m goruntime.MemStats
	goruntime.GC()
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// theirPod is a pod as training jobs have them, with what they are configured by.
func theirPod(i int) *corev1.Pod {
	p := aPod()
	job := "job-" + strconv.Itoa(i/16)
	p.Namespace, p.Name = "others", fmt.Sprintf("%s-worker-%d", job, i%16)
	p.Labels = map[string]string{
		"app.kubernetes.io/name":              "training",
		"app.kubernetes.io/instance":          job,
		"training.kubeflow.org/replica-index": strconv.Itoa(i % 16),
		"training.kubeflow.org/replica-type":  "worker",
		"training.kubeflow.org/job-name":      job,
	}
	p.Annotations = map[string]string{"example.com/config": strings.Repeat("x", 200) + strconv.Itoa(i)}
	p.Spec.NodeName = "node-" + strconv.Itoa(i/20)
	c := &p.Spec.Containers[0]
	for j := range 30 {
		c.Env = append(
			c.Env,
			corev1.EnvVar{
				Name:  fmt.Sprintf("TRAINING_SETTING_%d", j),
				Value: fmt.Sprintf("a value of some length for pod %d and setting %d", i, j),
			},
		)
	}
	c.Image = "registry.example.com/team/training:v" + strconv.Itoa(i%7)
	p.Status.ContainerStatuses[0].ImageID = fmt.Sprintf("registry.example.com/team/training@sha256:%064d", i%7)
	p.Status.ContainerStatuses[0].ContainerID = fmt.Sprintf("containerd://%064d", i)
	return p
}

// theirNode is a node with the images that it has.
func theirNode(i int) *corev1.Node {
	has := corev1.ResourceList{
		"cpu": resource.MustParse(
			"224",
		),
		"memory":         resource.MustParse("2000Gi"),
		"pods":           resource.MustParse("250"),
		"nvidia.com/gpu": resource.MustParse("8"),
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + strconv.Itoa(i), Labels: map[string]string{
			corev1.LabelHostname: "node-" + strconv.Itoa(
				i,
			),
			corev1.LabelTopologyZone: "zone-" + strconv.Itoa(i%10),
			"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
		}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has},
	}
	for j := range 30 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 30, Names: []string{
			fmt.Sprintf(
				"registry.example.com/team-%d/training@sha256:%064d",
				j,
				i*100+j,
			),
			fmt.Sprintf("registry.example.com/team-%d/training:v%d", j, i%7),
		}})
	}
	return n
}

// BenchmarkDecode measures what one pod and one node cost from what the API server sends to what is kept: as
// client-go decodes them, and as they are read here.
func BenchmarkDecode(b *testing.B) {
	pod := theirPod(1)
	pod.ManagedFields = theirFields()
	node := theirNode(1)
	node.ManagedFields = theirFields()
	for _, one := range []struct {
		name  string
		o     runtime.Object
		shape shape
		trim  func(any) (any, error)
	}{{"pod", pod, podShape(), (&resourceLists{}).trimPod}, {"node", node, nodeShape(), trimNode}} {
		data := sent(b, one.o)
		for _, way := range []struct {
			name string
			by   runtime.NegotiatedSerializer
		}{{"whole", scheme.Codecs.WithoutConversion()}, {"trimmed", cutTo(one.shape)}} {
			b.Run(one.name+"/"+way.name, func(b *testing.B) {
				decode := decoder(b, way.by)
				b.ReportAllocs()
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					o, _, err := decode.Decode(data, nil, nil)
					if err != nil {
						b.Fatal(err)
					}
					if _, err = one.trim(o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// theirFields are the managed fields of a pod that was made, bound and started.
func theirFields() []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, by := range []string{"training-operator", "kubelet"} {
		fields := `{"f:metadata":{"f:labels":{".":{},"f:training.kubeflow.org/job-name":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{`
		for j := range 30 {
			fields += fmt.Sprintf(`"k:{\"name\":\"TRAINING_SETTING_%d\"}":{".":{},"f:name":{},"f:value":{}},`, j)
		}
		out = append(out, metav1.ManagedFieldsEntry{
			Manager:    by,
			Operation:  metav1.ManagedFieldsOperationUpdate,
			APIVersion: "v1",
			FieldsType: "FieldsV1",
			FieldsV1:   metav1.NewFieldsV1(fields + "}}}}}"),
		})
	}
	return out
}
