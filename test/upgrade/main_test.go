package upgrade

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/test/rig"
)

// program is the binary under test.
var program *rig.Cluster

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if program, err = rig.Build(context.Background(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := program.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience is how long a test waits for something that must happen.
const patience = 2 * time.Minute

// eventually waits until check returns "".
func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	last := "never checked"
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %s", what, last)
	}
}

// up types "mlbatch up" on a data directory, and returns the cluster with a client of its
// administrator.
func up(t *testing.T, dir string) (*rig.Cluster, client.Client) {
	t.Helper()
	r := *program
	if err := r.Open(t.Context(), dir, "--empty"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.End(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(r.RESTConfig(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return &r, c
}

// podsOf are those of a namespace, by name.
func podsOf(t *testing.T, c client.Client, namespace string) map[string]corev1.Pod {
	t.Helper()
	var l corev1.PodList
	if err := c.List(t.Context(), &l, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	out := map[string]corev1.Pod{}
	for _, p := range l.Items {
		out[p.Name] = p
	}
	return out
}
