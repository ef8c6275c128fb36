//go:build !noembed

package controlplane

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// oldVersion is served for old manifests and clients and not stored.
const oldVersion = "kueue.x-k8s.io/v1beta1"

// withoutOldCaches keeps no watch cache of objects in oldVersion. The API server
// has one for each version of a custom resource, always, and fills it with every
// change: of a write to a Workload that took a seventh of its time and a quarter
// of the controller's, whose webhook converts, mostly in vain. A client of that version
// reads from etcd.
type withoutOldCaches struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g withoutOldCaches) GetRESTOptions(
	resource schema.GroupResource,
	example runtime.Object,
) (generic.RESTOptions, error) {
	opts, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	cached := opts.Decorator
	opts.Decorator = func(
		config *storagebackend.ConfigForResource, prefix string, keyOf func(runtime.Object) (string, error),
		newObject, newList func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		if newObject().GetObjectKind().GroupVersionKind().GroupVersion().String() == oldVersion {
			return generic.NewRawStorage(config, newObject, newList, prefix)
		}
		return cached(config, prefix, keyOf, newObject, newList, attributes, triggers, indexers)
	}
	return opts, nil
}
