package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

func treeMap(namespace, name, tree string) client.Object {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      name,
			Labels:    map[string]string{"sakkara.topology": ""},
		},
		Data: map[string]string{"name": "tree", "tree": tree},
	}
}

// A tree is a Topology and labels of the nodes that there are; applying it makes no node.
func TestTreeManifests(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).
		WithObjects(treeMap("sakkara-scheduler", "t", `{"r1": {"n10": {}, "n2": {}}, "r2": {"gone": {}}}`)).Build()
	tree, err := cli.SakkaraTree(t.Context(), c, "", "")
	if err != nil {
		t.Fatal(err)
	}
	var nodes []corev1.Node
	for _, name := range []string{"n10", "n2", "new-10", "new-9"} {
		nodes = append(nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	got, err := cli.TreeManifests(tree, nodes)
	if err != nil {
		t.Fatal(err)
	}
	const want = `# not in the tree, so that no pod that must be in one of its domains can be there: new-9, new-10
# in the tree, and not among the nodes: gone
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata:
  name: tree
spec:
  levels:
  - nodeLabel: sakkara.topology.rack
---
apiVersion: v1
kind: Node
metadata:
  labels:
    sakkara.topology.rack: r1
  name: n2
---
apiVersion: v1
kind: Node
metadata:
  labels:
    sakkara.topology.rack: r1
  name: n10
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Which ConfigMap is read has to be clear, and what is wrong in it is said.
func TestSakkaraTreeFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		why             string
		objects         []client.Object
		namespace, name string
		want            string
	}{
		"none":      {"nobody wrote one", nil, "", "", "there is no ConfigMap of a topology with label sakkara.topology"},
		"another":   {"it has another name", []client.Object{treeMap("a", "t", `{}`)}, "", "u", "there is no ConfigMap u with label"},
		"elsewhere": {"it is in another namespace", []client.Object{treeMap("a", "t", `{}`)}, "b", "", "there is no ConfigMap of a topology"},
		"several":   {"Sakkara takes whichever comes last", []client.Object{treeMap("a", "t", `{}`), treeMap("b", "t", `{}`)}, "", "", "name one of a/t, b/t"},
		"no tree":   {"it cannot be read", []client.Object{treeMap("a", "t", `x`)}, "", "", "ConfigMap a/t: tree: "},
	} {
		c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(tc.objects...).Build()
		if _, err := cli.SakkaraTree(
			t.Context(),
			c,
			tc.namespace,
			tc.name,
		); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %s: %v", name, tc.why, err)
		}
	}
}
