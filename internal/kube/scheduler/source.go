package scheduler

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/gang"
)

// registry is the set of gangs that the API describes.
type registry struct {
	mu    sync.RWMutex
	gangs map[gang.Key]gang.Gang
}

func newRegistry() *registry { return &registry{gangs: map[gang.Key]gang.Gang{}} }

// Gang returns what is known of a gang.
func (r *registry) Gang(k gang.Key) (gang.Gang, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g, ok := r.gangs[k]
	return g, ok
}

// put stores a gang and tells whether it differs from what was known.
func (r *registry) put(g gang.Gang) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.gangs[g.Key]
	if ok && reflect.DeepEqual(old, g) {
		return false
	}
	r.gangs[g.Key] = g
	return true
}

func (r *registry) drop(k gang.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gangs, k)
}

// podGroupResource is the resource name of PodGroups.
const podGroupResource = "podgroups"

// source watches one kind of gang object.
type source struct {
	resource string
	gv       schema.GroupVersion
	list     func() runtime.Object
	object   runtime.Object
	gang     func(obj any) (gang.Gang, bool)
	// slim drops what is not read here before the object is kept.
	slim func(obj any)
}

func workloadSource() source {
	return source{
		resource: "workloads",
		gv:       kueue.GroupVersion,
		list:     func() runtime.Object { return &kueue.WorkloadList{} },
		object:   &kueue.Workload{},
		gang: func(obj any) (gang.Gang, bool) {
			w, ok := obj.(*kueue.Workload)
			if !ok {
				return gang.Gang{}, false
			}
			return gang.FromWorkload(w), true
		},
		slim: func(obj any) {
			if w, ok := obj.(*kueue.Workload); ok {
				w.ManagedFields, w.Labels = nil, nil
				maps.DeleteFunc(w.Annotations, func(key, _ string) bool {
					return key != kueue.EndsOnceAnnotation && key != kueue.LaterPodSetsAnnotation &&
						key != kueue.FewerPodsAnnotation
				})
				sets := make([]kueue.PodSet, len(w.Spec.PodSets))
				for i := range sets { // their sizes and indices are all that is read
					sets[i].Name, sets[i].Count = w.Spec.PodSets[i].Name, w.Spec.PodSets[i].Count
					sets[i].TopologyRequest = w.Spec.PodSets[i].TopologyRequest
				}
				w.Spec = kueue.WorkloadSpec{PodSets: sets}
			}
		},
	}
}

func podGroupSource() source {
	return source{
		resource: podGroupResource,
		gv:       podgroup.GroupVersion,
		list:     func() runtime.Object { return &podgroup.PodGroupList{} },
		object:   &podgroup.PodGroup{},
		gang: func(obj any) (gang.Gang, bool) {
			p, ok := obj.(*podgroup.PodGroup)
			if !ok {
				return gang.Gang{}, false
			}
			return gang.FromPodGroup(p), true
		},
		slim: func(obj any) {
			if p, ok := obj.(*podgroup.PodGroup); ok {
				p.ManagedFields = nil
			}
		},
	}
}

// crdScheme knows the kinds that sources watch.
func crdScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kueue.AddToScheme, podgroup.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s, nil
}

// client makes a REST client for the source's API group.
func (s source) client(cfg *rest.Config, scheme *runtime.Scheme) (rest.Interface, error) {
	c := rest.CopyConfig(cfg)
	c.APIPath = "/apis"
	c.GroupVersion = &s.gv
	c.ContentType, c.AcceptContentTypes = "", ""
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", s.resource, err)
	}
	return client, nil
}

// informer makes the informer of the source.
func (s source) informer(client rest.Interface, scheme *runtime.Scheme) (cache.SharedIndexInformer, error) {
	params := runtime.NewParameterCodec(scheme)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list := s.list()
			err := client.Get().Resource(s.resource).VersionedParams(&o, params).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return client.Get().Resource(s.resource).VersionedParams(&o, params).Watch(ctx)
		},
	}
	inf := cache.NewSharedIndexInformer(lw, s.object, 0, cache.Indexers{})
	err := inf.SetTransform(func(obj any) (any, error) {
		s.slim(obj)
		return obj, nil
	})
	if err != nil {
		return nil, fmt.Errorf("set up informer for %s: %w", s.resource, err)
	}
	return inf, nil
}

// servedPoll is how often a missing kind is looked for. The informer's own
// retries slow down to half a minute, which is long for a cluster being set up.
const servedPoll = 500 * time.Millisecond

// awaitServed returns once the source's kind is served and may be read, or the
// context's error.
func (s source) awaitServed(ctx context.Context, client rest.Interface) error {
	return wait.PollUntilContextCancel(ctx, servedPoll, true, func(ctx context.Context) (bool, error) {
		return client.Get().Resource(s.resource).Param("limit", "1").Do(ctx).Error() == nil, nil
	})
}
