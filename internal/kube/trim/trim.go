// Package trim fills the cache with pods and nodes without what nobody here reads of them.
//
// The cache holds every pod and node of the cluster: what runs there that mlbatch did not admit uses
// capacity all the same. So it keeps of them what is read, and what they have in common once.
// Pods that are queued by themselves or in groups are kept whole, but for who wrote their fields:
// their Workloads are made from them. Nothing here writes a whole pod or node back.
//
// Two parts do so. What the API server sends is cut before it is decoded (wire.go, decode.go):
// of 100,000 pods most of the time until a controller decides went into making their environments and
// volumes, and collecting them again. What was decoded has then what is left dropped and shared
// (objects.go), whatever form it came in.
package trim

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewInformer makes an informer; it is what [sigs.k8s.io/controller-runtime/pkg/cache.Options] asks for.
type NewInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// Informers returns what makes informers. Those of whole pods and nodes watch all that there are, whatever
// selectors and namespaces are asked for, and read what [Transforms] keeps; all others are the usual
// ones. hc is what requests are made with. It fails if that is nil or cfg cannot be used.
func Informers(cfg *rest.Config, hc *http.Client) (NewInformer, error) {
	if hc == nil {
		return nil, errors.New("read pods and nodes: no HTTP client is given")
	}
	reader := func(resource string, s shape) (toolscache.ListerWatcher, error) {
		client, err := rest.RESTClientForConfigAndClient(reading(cfg, s), hc)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", resource, err)
		}
		return toolscache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything()), nil
	}
	pods, err := reader("pods", podShape())
	if err != nil {
		return nil, err
	}
	nodes, err := reader("nodes", nodeShape())
	if err != nil {
		return nil, err
	}
	return func(lw toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		switch o.(type) {
		case *corev1.Pod:
			lw = pods
		case *corev1.Node:
			lw = nodes
		}
		return toolscache.NewSharedIndexInformer(lw, o, resync, by)
	}, nil
}

// reading is how objects of the core API are read, those of one kind in their shape.
func reading(cfg *rest.Config, s shape) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.GroupVersion, c.APIPath = &corev1.SchemeGroupVersion, "/api"
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, ""
	c.NegotiatedSerializer = cutTo(s)
	if c.UserAgent == "" {
		c.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	return c
}

// ForScheduler returns a client that reads pods for a scheduler's informers: those without a node whole but for
// who wrote their fields, others without what only their nodes need. What it reads must not be written back
// whole. It fails if cfg cannot be used.
func ForScheduler(cfg *rest.Config) (kubernetes.Interface, error) {
	all, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	core, err := rest.RESTClientFor(reading(cfg, schedulerShape()))
	if err != nil {
		return nil, fmt.Errorf("make a client for pods: %w", err)
	}
	return forScheduler{all, coreclient.New(core)}, nil
}

type forScheduler struct {
	kubernetes.Interface
	core coreclient.CoreV1Interface
}

// CoreV1 reads objects of the core API.
func (c forScheduler) CoreV1() coreclient.CoreV1Interface { return c.core }
