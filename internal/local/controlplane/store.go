//go:build !noembed

package controlplane

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// Begin stores values by key unless there are keys that begin with used. Values of keys that are there
// stay as they are.
func (s Store) Begin(ctx context.Context, used string, values map[string][]byte) error {
	cl, err := clientv3.New(
		clientv3.Config{
			Context:   ctx,
			Endpoints: []string{"https://" + s.Address},
			TLS:       s.TLS,
			Logger:    zap.NewNop(),
		},
	)
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	defer func() { _ = cl.Close() }()
	found, err := cl.Get(ctx, used, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("look into etcd: %w", err)
	}
	if found.Count > 0 {
		return nil
	}
	var all errgroup.Group
	for key, value := range values {
		all.Go(func() error {
			_, err := cl.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(key, string(value))).
				Commit()
			if err != nil {
				return fmt.Errorf("store %s: %w", key, err)
			}
			return nil
		})
	}
	return all.Wait()
}
