package manager

import (
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/deeptest"
	healthcontroller "github.com/mlbatch/mlbatch/internal/kube/controllers/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// NodeHealth says what is made of signs that nodes are bad.
type NodeHealth struct {
	// Act has nodes labelled; otherwise findings decide where jobs start, and no node is touched.
	Act    bool
	Policy nodehealth.Policy
	// DeepTest has nodes tested; nil has not.
	DeepTest *DeepTest
}

// tests is the namespace of deep tests; "" if there are none.
func (n NodeHealth) tests() string {
	if n.DeepTest == nil {
		return ""
	}
	return n.DeepTest.Namespace
}

// DeepTest says which nodes are tested when, and by what.
type DeepTest struct {
	Namespace string
	Flavors   []string
	Policy    nodehealth.TestPolicy
	Template  deeptest.Template
}

// Capacity says what nodes there should be, and what becomes of quotas when too many are lost.
type Capacity struct {
	// Cut has quotas cut in proportion where more is promised than healthy.
	Cut bool
	// Pools are what is known of the nodes of flavors, by name.
	Pools map[string]nodehealth.Pool
}

// spares are how many nodes of flavors are kept for recovery, where some are.
func (c Capacity) spares() map[string]nodehealth.Spares {
	out := map[string]nodehealth.Spares{}
	for name, p := range c.Pools {
		if p.Spares != (nodehealth.Spares{}) {
			out[name] = p.Spares
		}
	}
	return out
}

// healthMemory watches the one ConfigMap with what is remembered of nodes, so that others need not be readable.
func healthMemory(mgr manager.Manager, namespace string) (cache.Cache, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		DefaultNamespaces: map[string]cache.Config{
			namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", convert.HealthMemory)},
		},
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("watch ConfigMap %s/%s: %w", namespace, convert.HealthMemory, err)
	}
	if err := mgr.Add(ownCacheOf{c}); err != nil {
		return nil, fmt.Errorf("watch ConfigMap %s/%s: %w", namespace, convert.HealthMemory, err)
	}
	return c, nil
}

// ownCacheOf makes the manager start a cache with its own caches, before the controllers that wait for it.
type ownCacheOf struct{ cache.Cache }

// GetCache is what the manager tells caches by.
func (s ownCacheOf) GetCache() cache.Cache { return s.Cache }

// templateFor is what tests run in a cluster: OpenShift gives namespaces users of their own, and refuses pods that name
// another. It is known by its SecurityContextConstraints.
func templateFor(mapper apimeta.RESTMapper, t deeptest.Template) (deeptest.Template, error) {
	_, err := mapper.RESTMapping(schema.GroupKind{Group: "security.openshift.io", Kind: "SecurityContextConstraints"})
	if err != nil && !apimeta.IsNoMatchError(err) {
		return t, fmt.Errorf("ask whether the cluster is OpenShift: %w", err)
	}
	t.AnyUser = err == nil
	return t, nil
}

// nodeHealth adds what judges nodes.
func nodeHealth(mgr manager.Manager, opts Options, counters *metrics.Metrics) error {
	if t := opts.NodeHealth.DeepTest; t != nil {
		template, err := templateFor(mgr.GetRESTMapper(), t.Template)
		if err != nil {
			return err
		}
		if err := deeptest.SetupWithManager(mgr, deeptest.Options{
			Client:    mgr.GetClient(),
			Clock:     clock.RealClock{},
			Recorder:  mgr.GetEventRecorder("mlbatch-deep-test"),
			Memory:    opts.health,
			Home:      opts.Namespace,
			Namespace: t.Namespace,
			Policy:    t.Policy,
			Flavors:   t.Flavors,
			Spares:    opts.Capacity.spares(),
			Template:  template,
			Overdue:   counters.DeepTests,
		}); err != nil {
			return err
		}
	}
	return healthcontroller.SetupWithManager(mgr, healthcontroller.Options{
		Client:        mgr.GetClient(),
		Clock:         clock.RealClock{},
		Recorder:      mgr.GetEventRecorder("mlbatch-node-health"),
		Memory:        opts.health,
		Namespace:     opts.Namespace,
		TestNamespace: opts.NodeHealth.tests(),
		Policy:        opts.NodeHealth.Policy,
		Act:           opts.NodeHealth.Act,
		Count:         counters.NodeHealth,
	})
}
