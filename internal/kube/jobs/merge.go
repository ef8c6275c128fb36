package jobs

import (
	"fmt"
	"maps"
)

// Merge adds the entries of add to *dst, which it replaces by a copy. A key
// that has another value already is an error: an admission never overrides
// what the user wrote. what names the map in the error.
func Merge(what string, dst *map[string]string, add map[string]string) error {
	out := make(map[string]string, len(*dst)+len(add))
	maps.Copy(out, *dst)
	for k, v := range add {
		if old, ok := out[k]; ok && old != v {
			return fmt.Errorf("%s %s: the pod template says %q, the admission %q; remove it from the template", what, k, old, v)
		}
		out[k] = v
	}
	if len(out) == 0 {
		return nil
	}
	*dst = out
	return nil
}
