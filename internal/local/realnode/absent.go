//go:build noembed || !linux

package realnode

import "context"

// Programs is empty in this build.
func Programs() map[string]func(ctx context.Context, args []string) error { return nil }

// WriteBaseImage writes none in this build, which has no nodes.
func WriteBaseImage(string, []string) error { return ErrUnable }
