package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	"github.com/mlbatch/mlbatch/config"
	"github.com/mlbatch/mlbatch/internal/kube/install"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/test/rig"
)

// cannot begins what mlbatch says where a machine lacks something for real pods.
const cannot = "real pods cannot run here"

// system is where mlbatch is installed.
const system = install.DefaultNamespace

var (
	// shared is the cluster of all tests, with two teams; nil where it cannot run.
	shared *rig.Cluster
	// unable says why it cannot.
	unable error
	// said is what the first "mlbatch install" printed.
	said string
)

func TestMain(m *testing.M) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	var log bytes.Buffer
	err := begin(ctx, &log)
	cancel()
	if _, why, lacks := strings.Cut(log.String(), cannot); err != nil && lacks {
		unable = errors.New(cannot + why)
		os.Exit(m.Run()) // each says so
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "install into a cluster: %v\n%s", err, log.String())
		os.Exit(1)
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stop the cluster: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// begin does what an admin does: a cluster, mlbatch in it, two teams.
func begin(ctx context.Context, log *bytes.Buffer) error {
	var err error
	if shared, err = rig.StartBare(ctx, log); err != nil {
		return err
	}
	if err := storeOld(ctx); err != nil {
		return errors.Join(err, shared.Stop())
	}
	began := time.Now()
	said, err = shared.Install(ctx)
	for _, args := range [][]string{
		{"team", "create", "blue", "--create-flavor", "--gpus", "8", "--users", "alice"},
		{"team", "create", "red", "--gpus", "8", "--users", "bob"},
		{"run", "-n", "blue", "--as", "alice", "--gpus", "1", "--image", "busybox:1.36", "--name", "first", "--", "echo", "the first job"},
	} {
		if err == nil {
			_, err = shared.Run(ctx, args...)
		}
	}
	if err != nil {
		return errors.Join(err, shared.Stop())
	}
	fmt.Fprintf(
		os.Stderr,
		"from mlbatch install to the end of the first job: %s\n",
		time.Since(began).Round(100*time.Millisecond),
	)
	return nil
}

// storeOld leaves what a Kueue of 0.9 to 0.13 does: a definition in v1beta1 and an object that is stored
// in it. What mlbatch reads of it has to be converted before any of its pods is ready.
func storeOld(ctx context.Context) error {
	c, err := client.New(shared.RESTConfig(), client.Options{Scheme: scheme.New()})
	if err != nil {
		return err
	}
	all, err := config.CRDs()
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Spec.Names.Kind != "WorkloadPriorityClass" {
			continue
		}
		d.Spec.Versions = slices.DeleteFunc(
			d.Spec.Versions,
			func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return v.Name != v1beta1.GroupVersion.Version
			},
		)
		d.Spec.Versions[0].Storage = true
		if err := c.Create(ctx, d); err != nil {
			return err
		}
	}
	return rig.Await(ctx, patience, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(
			c.Create(ctx, &v1beta1.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: stored}, Value: 7}),
		)
	})
}

// stored is the priority class that was stored in v1beta1.
const stored = "stored-before"

// admin is the cluster and its admin, or skips.
func admin(t *testing.T) client.Client {
	t.Helper()
	if unable != nil {
		t.Skip(unable)
	}
	c, err := client.New(shared.RESTConfig(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// patience is for a machine that does much else.
const patience = 3 * time.Minute

// eventually waits until a condition holds, and fails with why it did not.
func eventually(t *testing.T, holds func(context.Context) error) {
	t.Helper()
	rig.Eventually(t, patience, holds)
}

// typed types a command of mlbatch.
func typed(t *testing.T, args ...string) string {
	t.Helper()
	out, err := shared.Run(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// detached starts a job of a team's member, which is cancelled with the test.
func detached(t *testing.T, team, as, name string, flags []string, command ...string) {
	t.Helper()
	args := append(
		[]string{"run", "-n", team, "--as", as, "--detach", "--image", "busybox:1.36", "--name", name},
		flags...)
	typed(t, append(append(args, "--"), command...)...)
	t.Cleanup(func() {
		if _, err := shared.Run(context.Background(), "cancel", "-n", team, "--yes", "--wait", name); err != nil {
			t.Log(err)
		}
	})
}

// shows waits until a command prints a text.
func shows(t *testing.T, want string, args ...string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		got, err := shared.Run(ctx, args...)
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			return errors.Join(fmt.Errorf("mlbatch %s does not say %q:\n%s", strings.Join(args, " "), want, got), err)
		}
		return nil
	})
}

// podsOf are the pods of a program of mlbatch that are not on their way out.
func podsOf(ctx context.Context, c client.Client, component string) ([]corev1.Pod, error) {
	var all corev1.PodList
	err := c.List(
		ctx,
		&all,
		client.InNamespace(system),
		client.MatchingLabelsSelector{
			Selector: labels.SelectorFromSet(labels.Set{install.ComponentLabel: component}),
		},
	)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range all.Items {
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// whole says what of a program is not rolled out and available.
func whole(ctx context.Context, c client.Client, component string) error {
	var d appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: system, Name: "mlbatch-" + component}, &d); err != nil {
		return err
	}
	if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 2 ||
		s.AvailableReplicas != 2 ||
		s.Replicas != 2 {
		return fmt.Errorf("%s is %+v", component, s)
	}
	return nil
}

// leader is the pod of a program that decides, and by which of its processes.
func leader(ctx context.Context, c client.Client, component string) (*corev1.Pod, string, error) {
	var leases coordinationv1.LeaseList
	if err := c.List(ctx, &leases, client.InNamespace(system)); err != nil {
		return nil, "", err
	}
	pods, err := podsOf(ctx, c, component)
	if err != nil {
		return nil, "", err
	}
	for _, l := range leases.Items {
		for i := range pods {
			if holder := ptr.Deref(l.Spec.HolderIdentity, ""); strings.HasPrefix(holder, pods[i].Name+"_") {
				return &pods[i], holder, nil
			}
		}
	}
	return nil, "", fmt.Errorf("%s is led by none of its %d pods", component, len(pods))
}

// leads waits until a program is led, and returns by which of its pods and processes.
func leads(t *testing.T, c client.Client, component string) (pod *corev1.Pod, process string) {
	t.Helper()
	eventually(t, func(ctx context.Context) (err error) {
		pod, process, err = leader(ctx, c, component)
		return err
	})
	return pod, process
}

// queued is a Job of team blue as kubectl would make it, with a GPU for so many pods.
func queued(name string, pods int32) *batchv1.Job {
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      name,
			Labels:    map[string]string{"kueue.x-k8s.io/queue-name": "default-queue"},
		},
		Spec: batchv1.JobSpec{
			Parallelism: &pods,
			Completions: &pods,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{
					{
						Name:      "main",
						Image:     "busybox:1.36",
						Command:   []string{"sleep", "3600"},
						Resources: corev1.ResourceRequirements{Requests: one, Limits: one},
					},
				},
			}},
		},
	}
}

// remove deletes a Job with its pods, and waits until its quota is free.
func remove(t *testing.T, c client.Client, j *batchv1.Job) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := c.Delete(
		ctx,
		j,
		client.PropagationPolicy(metav1.DeletePropagationForeground),
	); client.IgnoreNotFound(
		err,
	) != nil {
		t.Error(err)
	}
	err := rig.Await(ctx, patience, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(j), j)
		if err == nil {
			return fmt.Errorf("it is still there: %+v", j.Status)
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Errorf("job %s stays: %v", j.Name, err)
	}
}
