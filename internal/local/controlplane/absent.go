//go:build noembed

package controlplane

import "context"

// Programs is empty in this build.
func Programs() map[string]func(ctx context.Context, args []string) error { return nil }
