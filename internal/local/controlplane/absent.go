//go:build noembed

package controlplane

import (
	"context"
	"errors"
)

// Programs is empty in this build.
func Programs() map[string]func(ctx context.Context, args []string) error { return nil }

// Begin has no store in this build.
func (Store) Begin(context.Context, string, map[string][]byte) error {
	return errors.New("this program has no etcd")
}
