package manager

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Pods and nodes are read without selectors: a cache that is to have some would hold more than it says.
func TestCacheRefusesSelectors(t *testing.T) {
	for want, all := range map[string][]cache.Options{
		"without selectors": {
			{DefaultNamespaces: map[string]cache.Config{"blue": {}}}, {DefaultLabelSelector: labels.Everything()}, {DefaultFieldSelector: fields.Everything()},
		},
		"no HTTP client": {{}},
	} {
		for _, o := range all {
			if _, err := newCache(&rest.Config{}, o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", o, err, want)
			}
		}
	}
}
