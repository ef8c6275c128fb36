package local

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/internal/local/realnode"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
	"github.com/mlbatch/mlbatch/internal/local/tutorial"
)

// systemYAML is what the embedded cluster itself needs, the others what its nodes do.
var (
	//go:embed setup/system.yaml
	systemYAML string
	//go:embed setup/simulated.yaml
	simulatedYAML string
	//go:embed setup/real.yaml
	realYAML string
)

// retryEvery is the pause between attempts while webhooks or definitions are
// not served yet.
const retryEvery = 50 * time.Millisecond

// bootstrap creates what must be there before the other processes start.
func (c *Cluster) bootstrap(ctx context.Context) error {
	cl, err := client.New(c.admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	system, err := c.systemSetup()
	if err != nil {
		return err
	}
	objects, err := parse(system)
	if err != nil {
		return err
	}
	return createMissing(ctx, cl, objects, c.patience.moved)
}

// install prepares the API server for mlbatch.
func (c *Cluster) install(ctx context.Context) error {
	if c.cfg.Install == nil {
		return nil
	}
	if err := c.cfg.Install(ctx, c.Access()); err != nil {
		return fmt.Errorf("install mlbatch: %w", err)
	}
	c.milestone("definitions")
	return nil
}

// simulateNodes registers the simulated nodes, and has them live: what is registered must not wait
// long for its first heartbeat.
func (c *Cluster) simulateNodes(ctx context.Context) error {
	cl, err := client.New(c.admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	if err := c.registerNodes(ctx, cl); err != nil {
		return err
	}
	nodes, err := c.nodes()
	if err != nil {
		return err
	}
	return c.run(ctx, nodes)
}

// registerNodes makes the simulated nodes those of the fleet. It alone creates
// nodes, so one that an administrator deletes stays deleted until the next
// start, however often the simulator is restarted.
func (c *Cluster) registerNodes(ctx context.Context, cl client.Client) error {
	var have corev1.NodeList
	if err := cl.List(ctx, &have, client.HasLabels{simnode.LabelSimulated}); err != nil {
		return fmt.Errorf("list simulated nodes: %w", err)
	}
	if f, ok := simnode.FleetOf(have.Items); ok && c.cfg.keepNodes {
		c.mu.Lock()
		c.cfg.Fleet = f
		c.mu.Unlock()
	}
	change := simnode.Reconcile(c.cfg.Fleet, have.Items, c.clock.Now())
	var all errgroup.Group
	all.SetLimit(nodesAtOnce)
	each := func(nodes []*corev1.Node, what string, write func(*corev1.Node) error) {
		for _, n := range nodes {
			all.Go(func() error {
				if err := write(n); err != nil {
					return fmt.Errorf("%s node %s: %w", what, n.Name, err)
				}
				c.patience.moved()
				return nil
			})
		}
	}
	each(change.Delete, "delete", func(n *corev1.Node) error { return client.IgnoreNotFound(cl.Delete(ctx, n)) })
	each(change.Create, "register", func(n *corev1.Node) error { return cl.Create(ctx, n) })
	each(
		change.Update,
		"change the capacity of",
		func(n *corev1.Node) error { return cl.Status().Update(ctx, n) },
	)
	return all.Wait()
}

// nodesAtOnce is how many nodes are registered at a time.
const nodesAtOnce = 64

// tutorial creates the tutorial's objects, once per data directory.
func (c *Cluster) tutorial(ctx context.Context) error {
	if !c.cfg.Tutorial || c.marker.Tutorial {
		return nil
	}
	provisioner := simnode.Provisioner
	if c.real != nil {
		provisioner = names.VolumeProvisioner
	}
	text, err := tutorial.Manifests(c.cfg.Fleet, provisioner)
	if err != nil {
		return err
	}
	objects, err := parse(text + "\n---\n" + c.cfg.Samples)
	if err != nil {
		return err
	}
	cl, err := client.New(c.admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	if err := createMissing(ctx, cl, objects, c.patience.moved); err != nil {
		return err
	}
	if err := awaitQuotas(ctx, cl, objects); err != nil {
		return err
	}
	c.marker.Tutorial, c.marker.Empty = true, false
	if err := c.files.writeMarker(c.marker); err != nil {
		return err
	}
	c.milestone("tutorial set-up")
	return nil
}

// systemSetup is what the cluster needs for itself, and for its nodes.
func (c *Cluster) systemSetup() (string, error) {
	if c.real == nil {
		return systemYAML + "\n---\n" + simulatedYAML, nil
	}
	text, err := render("the nodes' set-up", realYAML, map[string]any{
		"Router": c.real.subnet.Router(), "APIPort": realnode.APIPort, "DNS": realnode.DNSService,
		"Provisioner": names.VolumeProvisioner, "KubeletClient": simnode.APIServerUser,
		"DNSUser": dnsUser, "VolumesUser": volumesUser,
	})
	if c.isBare() {
		return text, err
	}
	return systemYAML + "\n---\n" + text, err
}

// render fills in a manifest.
func render(what, text string, values map[string]any) (string, error) {
	t, err := template.New("setup").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", what, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, values); err != nil {
		return "", fmt.Errorf("fill in %s: %w", what, err)
	}
	return b.String(), nil
}

// createMissing creates the objects that do not exist yet and leaves the
// others as they are, save rights. It tries again while what serves them comes up.
func createMissing(
	ctx context.Context,
	cl client.Client,
	objects []*unstructured.Unstructured,
	moved func(),
) error {
	for _, o := range objects {
		var last error
		err := wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
			last = cl.Create(ctx, o.DeepCopy())
			if group := o.GroupVersionKind().Group; apierrors.IsAlreadyExists(last) &&
				(group == rbacv1.GroupName || group == discoveryv1.GroupName) {
				// Rights follow the program: it may be newer than what created them.
				// Addresses follow the network.
				last = cl.Update(ctx, o.DeepCopy())
			}
			if last == nil || apierrors.IsAlreadyExists(last) {
				return true, nil
			}
			if apierrors.IsInvalid(last) && cl.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()) == nil {
				// A Service whose address is taken: by itself, which is only looked at afterwards.
				return true, nil
			}
			if !comingUp(last) {
				return false, last
			}
			return false, nil
		})
		if err != nil {
			if last == nil {
				last = err
			}
			return fmt.Errorf("create %s %s: %w", o.GetKind(), o.GetName(), last)
		}
		moved()
	}
	return nil
}

// awaitQuotas returns once it is known how much of the ResourceQuotas among the
// objects is used: until then the API server refuses whatever they count.
func awaitQuotas(ctx context.Context, cl client.Client, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if o.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ResourceQuota") {
			continue
		}
		err := wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
			var q corev1.ResourceQuota
			if err := cl.Get(ctx, client.ObjectKeyFromObject(o), &q); err != nil {
				return false, err
			}
			return len(q.Status.Used) > 0, nil
		})
		if err != nil {
			return fmt.Errorf("wait for ResourceQuota %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// comingUp says whether an error may go away by itself shortly: the kind or
// its webhook is not served yet, or the API server is busy.
func comingUp(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || !errors.As(err, new(apierrors.APIStatus))
}

// parse reads the objects of a YAML file.
func parse(text string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var o unstructured.Unstructured
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read embedded manifests: %w", err)
		}
		if len(o.Object) > 0 {
			out = append(out, &o)
		}
	}
}
