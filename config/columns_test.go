package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/config"
)

// TestShown compares what people type and see of each kind with a listing:
// names, columns of `kubectl get`, fields that lists can be selected by. Kueue's
// users know these by heart.
func TestShown(t *testing.T) {
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, crd := range crds {
		names := append([]string{crd.Spec.Names.Plural}, crd.Spec.Names.ShortNames...)
		fmt.Fprintf(&b, "%s (%s) %s\n", crd.Spec.Names.Kind, crd.Spec.Scope, strings.Join(names, ","))
		for _, v := range crd.Spec.Versions {
			var columns, fields []string
			for _, c := range v.AdditionalPrinterColumns {
				name := c.Name
				if c.Priority > 0 {
					name += "(wide)"
				}
				columns = append(columns, name+"="+c.JSONPath)
			}
			for _, f := range v.SelectableFields {
				fields = append(fields, f.JSONPath)
			}
			if len(columns) > 0 {
				fmt.Fprintf(&b, "  %s columns: %s\n", v.Name, strings.Join(columns, " | "))
			}
			if len(fields) > 0 {
				fmt.Fprintf(&b, "  %s selectable: %s\n", v.Name, strings.Join(slices.Sorted(slices.Values(fields)), " "))
			}
		}
	}
	want, err := os.ReadFile(filepath.Join("testdata", "shown.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("testdata/shown.txt (-want +got):\n%s", diff)
	}
}
