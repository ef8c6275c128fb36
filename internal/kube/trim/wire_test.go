package trim

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Whatever a pod or a node says: what is read of it from the wire is what is kept of it when it is decoded
// whole, alone and in a list; and nothing goes over the decoder that would be dropped after it.
func TestWhatIsCutIsWhatIsDropped(t *testing.T) {
	t.Parallel()
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(1), scheme.Codecs)
	managed := 0
	for i := range 300 {
		p := &corev1.Pod{}
		fill.Fill(p)
		p.Labels = map[string]string{"a": "b", kueue.ManagedLabel: []string{"true", "false", ""}[i%3]}
		if i%5 == 0 {
			p.Labels = nil
		}
		if labelFields().queued(wire(t, p)) {
			managed++
		}
		p.Spec.DeprecatedServiceAccount = p.Spec.ServiceAccountName // as the API server has it
		compare(t, p, &corev1.PodList{Items: []corev1.Pod{*p, *aPod()}}, podShape(), (&resourceLists{}).trimPod)
		n := &corev1.Node{}
		fill.Fill(n)
		compare(t, n, &corev1.NodeList{Items: []corev1.Node{*n, {}}}, nodeShape(), trimNode)
	}
	if managed < 50 {
		t.Errorf("only %d pods were queued", managed)
	}
}

func compare(t *testing.T, o, list runtime.Object, s shape, trim func(any) (any, error)) {
	t.Helper()
	kept := func(o runtime.Object) runtime.Object {
		out, err := trim(o)
		if err != nil {
			t.Fatal(err)
		}
		is, _ := out.(runtime.Object)
		return is
	}
	data := sent(t, o)
	want := kept(read(t, scheme.Codecs.WithoutConversion(), data))
	got := read(t, cutTo(s), data)
	less, err := s.cut(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	if again := sent(t, kept(got.DeepCopyObject())); len(again) < len(less) {
		t.Fatalf(
			"%d bytes are read, of which %d are kept:\n%s",
			len(less),
			len(again),
			cmp.Diff(got, kept(got.DeepCopyObject())),
		)
	}
	if d := cmp.Diff(want, kept(got)); d != "" {
		t.Fatalf("(-decoded whole +cut):\n%s", d)
	}
	whole, cut := read(t, scheme.Codecs.WithoutConversion(), sent(t, list)), read(t, cutTo(s), sent(t, list))
	if d := cmp.Diff(items(t, whole, kept), items(t, cut, kept)); d != "" {
		t.Fatalf("in a list (-decoded whole +cut):\n%s", d)
	}
}

// items are what is kept of the objects of a list.
func items(t *testing.T, list runtime.Object, kept func(runtime.Object) runtime.Object) []runtime.Object {
	t.Helper()
	var out []runtime.Object
	switch list := list.(type) {
	case *corev1.PodList:
		for i := range list.Items {
			out = append(out, kept(&list.Items[i]))
		}
	case *corev1.NodeList:
		for i := range list.Items {
			out = append(out, kept(&list.Items[i]))
		}
	default:
		t.Fatalf("a list is %T", list)
	}
	return out
}

// A scheduler reads a pod that waits for a node whole, since it may decide by all of it, and one that has a node
// without what only that node needs.
func TestASchedulerReadsPodsWithoutANodeWhole(t *testing.T) {
	t.Parallel()
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(2), scheme.Codecs)
	share := SharePods()
	for i := range 200 {
		p := &corev1.Pod{}
		fill.Fill(p)
		p.Spec.NodeName = []string{"", "n"}[i%2]
		data := sent(t, p)
		want, _ := read(t, scheme.Codecs.WithoutConversion(), data).(*corev1.Pod)
		want.ManagedFields = nil
		got, err := share(read(t, cutTo(schedulerShape()), data))
		if err != nil {
			t.Fatal(err)
		}
		if p.Spec.NodeName != "" {
			withoutItsNodes(want)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	}
}

// withoutItsNodes clears what only the node of a pod needs.
func withoutItsNodes(p *corev1.Pod) {
	s := &p.Spec
	s.ImagePullSecrets, s.HostAliases, s.DNSConfig, s.ReadinessGates, s.SecurityContext = nil, nil, nil, nil, nil
	s.EphemeralContainers, s.Tolerations, s.DeprecatedServiceAccount = nil, nil, s.ServiceAccountName
	var volumes []corev1.Volume
	for _, v := range s.Volumes {
		if !ofNodeAlone(v) {
			volumes = append(volumes, v)
		}
	}
	s.Volumes = volumes
	for _, all := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range all {
			c := &all[i]
			all[i] = corev1.Container{
				Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy, ResizePolicy: c.ResizePolicy,
				Resources: c.Resources,
			}
		}
	}
	is := &p.Status
	is.HostIP, is.HostIPs, is.PodIP, is.PodIPs, is.EphemeralContainerStatuses = "", nil, "", nil, nil
	for _, all := range [][]corev1.ContainerStatus{is.InitContainerStatuses, is.ContainerStatuses} {
		for i := range all {
			c := &all[i]
			all[i] = corev1.ContainerStatus{
				Name: c.Name, AllocatedResources: c.AllocatedResources, Resources: c.Resources,
			}
		}
	}
}

// Disks and claims are asked about for other pods: limits of a node, zones, and who may share them.
func TestVolumesThatOthersAreAskedAboutAreKept(t *testing.T) {
	t.Parallel()
	p := aPod()
	claim := corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
	}}
	disk := corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{
		ISCSI: &corev1.ISCSIVolumeSource{IQN: "iqn"},
	}}
	own := corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{},
	}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		claim,
		{Name: "b", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
		disk, own,
	}
	got, err := SharePods()(p)
	if err != nil {
		t.Fatal(err)
	}
	bound, _ := got.(*corev1.Pod)
	if d := cmp.Diff([]corev1.Volume{claim, disk, own}, bound.Spec.Volumes); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What is no pod is decoded as it comes: what a watch that fails ends with, and what is broken.
func TestOthersAreNotCut(t *testing.T) {
	t.Parallel()
	trimmed := cutTo(podShape())
	said := &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Message: "too old"}
	got := read(t, trimmed, sent(t, said))
	if is, _ := got.(*metav1.Status); is == nil || is.Reason != said.Reason || is.Message != said.Message {
		t.Errorf("a failure is read as %v", got)
	}
	data := sent(t, aPod())
	read(t, trimmed, data)
	if p, _ := read(t, scheme.Codecs.WithoutConversion(), data).(*corev1.Pod); p == nil ||
		len(p.Spec.Volumes) == 0 {
		t.Error("other clients read pods without volumes as well")
	}
	for n := range data { // some beginnings are pods with less
		_, _, want := decoder(t, scheme.Codecs.WithoutConversion()).Decode(data[:n], nil, nil)
		if _, _, err := decoder(t, trimmed).Decode(data[:n], nil, nil); (err == nil) != (want == nil) {
			t.Errorf("the first %d bytes of a pod: %v, and %v if they are not cut", n, err, want)
		}
	}
}

// A pod is queued where its label says so, as it is when it is decoded.
func TestQueuedPodsAreSeenOnTheWire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		labels map[string]string
		want   bool
	}{
		{"no label", nil, false},
		{"taken in", map[string]string{kueue.ManagedLabel: "true", "a": "b", "z": "true"}, true},
		{"not taken in", map[string]string{kueue.ManagedLabel: "false"}, false},
		{"said of another label", map[string]string{kueue.ManagedLabel + "x": "true"}, false},
		{"said of nothing", map[string]string{kueue.ManagedLabel: ""}, false},
	} {
		p := aPod()
		p.Labels = c.labels
		if got := labelFields().queued(wire(t, p)); got != c.want || podmeta.Managed(p) != c.want {
			t.Errorf("%s: %t, and decoded %t, want %t", c.why, got, podmeta.Managed(p), c.want)
		}
	}
	if !labelFields().queued([]byte{0xff}) {
		t.Error("what cannot be read must be kept whole")
	}
}

// Whatever is sent, nothing panics; and of all that an API server can send, which writes objects in one
// way, the same is kept as if it were decoded whole.
func FuzzCut(f *testing.F) {
	taken, long := aPod(), aPod()
	taken.Labels[kueue.ManagedLabel] = "true"
	long.Labels["long"], long.Spec.NodeSelector["long"] = strings.Repeat("x", 300), strings.Repeat("x", 300)
	for _, o := range []runtime.Object{
		aPod(), taken, long, &corev1.PodList{Items: []corev1.Pod{*taken, *aPod()}}, theirNode(1), &corev1.NodeList{Items: []corev1.Node{*theirNode(1)}}, &metav1.Status{Message: "too old"},
	} {
		f.Add(sent(f, o))
	}
	whole := decoder(f, scheme.Codecs.WithoutConversion())
	pods, nodes := decoder(f, cutTo(podShape())), decoder(f, cutTo(nodeShape()))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, cut := range []runtime.Decoder{pods, nodes} {
			_, _, _ = cut.Decode(data, nil, nil) // it may say less of what it does not read
		}
		o, _, err := whole.Decode(data, nil, nil)
		if err != nil {
			return
		}
		cut := pods
		switch o.(type) {
		case *corev1.Node, *corev1.NodeList:
			cut = nodes
		case *corev1.Pod, *corev1.PodList, *metav1.Status:
		default:
			return // of no kind that is read here
		}
		data = sent(t, o)
		want, _, err := whole.Decode(data, nil, nil)
		if err != nil {
			return // texts that are none, which can be encoded and not be read
		}
		got, _, err := cut.Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		trimmed(t, want)
		trimmed(t, got)
		if !apiequality.Semantic.DeepEqual(want, got) {
			t.Errorf("(-decoded whole +cut):\n%s", cmp.Diff(want, got))
		}
	})
}

// trimmed trims what is trimmed of an object or a list.
func trimmed(t *testing.T, o runtime.Object) {
	t.Helper()
	var err error
	switch o := o.(type) {
	case *corev1.Pod:
		_, err = (&resourceLists{}).trimPod(o)
	case *corev1.PodList:
		for i := range o.Items {
			trimmed(t, &o.Items[i])
		}
	case *corev1.Node:
		_, err = trimNode(o)
	case *corev1.NodeList:
		for i := range o.Items {
			trimmed(t, &o.Items[i])
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sent is what the API server sends of an object.
func sent(t testing.TB, o runtime.Object) []byte {
	t.Helper()
	info, _ := runtime.SerializerInfoForMediaType(
		scheme.Codecs.SupportedMediaTypes(),
		runtime.ContentTypeProtobuf,
	)
	out, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wire is a pod in its wire form.
func wire(t *testing.T, p *corev1.Pod) []byte {
	t.Helper()
	out, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// decoder is what client-go decodes with.
func decoder(t testing.TB, by runtime.NegotiatedSerializer) runtime.Decoder {
	t.Helper()
	info, is := runtime.SerializerInfoForMediaType(by.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !is {
		t.Fatal("no protocol buffers")
	}
	return by.DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion)
}

func read(t *testing.T, by runtime.NegotiatedSerializer, data []byte) runtime.Object {
	t.Helper()
	o, _, err := decoder(t, by).Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
