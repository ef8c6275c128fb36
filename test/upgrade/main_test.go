package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/test/rig"
)

// program is the binary under test.
var program *rig.Cluster

func TestMain(m *testing.M) {
	if code, child := local.RunChild(context.Background(), nil); child {
		os.Exit(code)
	}
	log.SetLogger(logr.Discard()) // clients tell it of deprecated versions
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

// eventually waits until check returns "", as rig.Await does.
func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	err := rig.Await(t.Context(), patience, func(context.Context) error {
		if not := check(); not != "" {
			return errors.New(not)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// up types "mlbatch up" on a data directory, and returns the cluster with a client of its
// administrator.
func up(t *testing.T, dir string, args ...string) (*rig.Cluster, client.Client) {
	t.Helper()
	r := *program
	if err := r.Open(t.Context(), dir, append([]string{"--empty"}, args...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.End(); err != nil {
			t.Error(err)
		}
	})
	return &r, connect(t, r.RESTConfig())
}

// connect makes a client of the administrator.
func connect(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	c, err := client.New(cfg, client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return c
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

// plain is a cluster of Kubernetes with simulated nodes and nothing else.
type plain struct {
	t      *testing.T
	dir    string
	config *rest.Config
	c      client.Client
	stop   func()
}

// begin starts one.
func begin(t *testing.T) *plain {
	t.Helper()
	p := &plain{t: t, dir: t.TempDir()}
	lc, err := local.Start(
		t.Context(),
		local.Config{DataDir: p.dir, Parts: local.Kubernetes, UnsafeNoFsync: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	p.stop = sync.OnceFunc(func() {
		if err := lc.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	p.config = lc.RESTConfig()
	p.c = connect(t, p.config)
	return p
}

// up stops it, and types "mlbatch up" on its data.
func (p *plain) up(args ...string) *rig.Cluster {
	p.t.Helper()
	p.stop()
	r, c := up(p.t, p.dir, args...)
	p.config, p.c = r.RESTConfig(), c
	return r
}

// put creates objects.
func (p *plain) put(objects ...client.Object) {
	p.t.Helper()
	for _, o := range objects {
		if err := p.c.Create(p.t.Context(), o); err != nil {
			p.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// pods are those of a namespace, by name.
func (p *plain) pods(namespace string) map[string]corev1.Pod {
	p.t.Helper()
	return podsOf(p.t, p.c, namespace)
}

// place binds the pods of a namespace that have no node, as a scheduler would, and waits until so
// many run.
func (p *plain) place(namespace, node string, n int) {
	p.t.Helper()
	eventually(p.t, "pods run", func() string {
		running := 0
		for _, pod := range p.pods(namespace) {
			if pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0 {
				b := &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name},
					Target:     corev1.ObjectReference{Kind: "Node", Name: node},
				}
				if err := p.c.SubResource("binding").Create(p.t.Context(), &pod, b); err != nil {
					return err.Error()
				}
			}
			if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != n {
			return fmt.Sprintf("%d of %d", running, n)
		}
		return ""
	})
}

var errKilled = errors.New("killed")
