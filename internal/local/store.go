package local

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mlbatch/mlbatch/internal/local/controlplane"
)

// Where an API server keeps objects in etcd.
const (
	storedNamespaces  = "/registry/namespaces/"
	storedDefinitions = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
	storedConfigMaps  = "/registry/configmaps/"
)

// store starts etcd and puts into it what the API server is to find at its first start.
func (c *Cluster) store(ctx context.Context) error {
	var initial map[string][]byte
	var both errgroup.Group
	both.Go(func() error { return c.run(ctx, c.etcd()) })
	if c.cfg.Initial != nil {
		both.Go(func() error {
			var err error
			initial, err = c.initial()
			return err
		})
	}
	if err := both.Wait(); err != nil {
		return err
	}
	if len(initial) == 0 {
		return nil
	}
	// Every API server makes namespaces as soon as it can: without any, none has used this store. One that
	// was stopped before that may have left some of the objects, and they stay.
	db := controlplane.Store{Address: address(c.ports.Etcd), TLS: c.etcdTLS}
	return db.Begin(ctx, storedNamespaces, initial)
}

// initial is what the API server is to find, by the keys under which it looks.
func (c *Cluster) initial() (map[string][]byte, error) {
	objects, err := c.cfg.Initial(c.Access())
	if err != nil {
		return nil, fmt.Errorf("prepare the definitions: %w", err)
	}
	out := map[string][]byte{}
	for _, o := range objects {
		key, err := storedAt(o)
		if err != nil {
			return nil, err
		}
		if out[key], err = json.Marshal(o.Object); err != nil {
			return nil, fmt.Errorf("prepare %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return out, nil
}

// storedAt is the key of an object.
func storedAt(o *unstructured.Unstructured) (string, error) {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		return storedDefinitions + o.GetName(), nil
	case "ConfigMap":
		return storedConfigMaps + o.GetNamespace() + "/" + o.GetName(), nil
	}
	return "", fmt.Errorf(
		"prepare %s %s: it is not known where an API server keeps one",
		o.GetKind(),
		o.GetName(),
	)
}
