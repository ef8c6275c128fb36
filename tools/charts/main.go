// Command charts writes the Helm chart (charts/mlbatch) and the kustomize base with its
// overlays (deploy/kustomize) from what `mlbatch install` applies: it renders that with marks
// where values go, and puts expressions in the place of the marks. What differs between two
// renderings, such as with and without cert-manager, becomes a condition.
//
//	go run ./tools/charts -C .
//
// test/chart renders both with the libraries of Helm and kustomize, and compares.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	dir := flag.String("C", ".", "`directory` of the repository")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	for _, write := range []struct {
		to    string
		files func() (map[string]string, error)
	}{
		{filepath.Join(dir, "charts", "mlbatch"), chart},
		{filepath.Join(dir, "deploy", "kustomize"), kustomization},
	} {
		files, err := write.files()
		if err != nil {
			return err
		}
		if err := os.RemoveAll(write.to); err != nil {
			return fmt.Errorf("remove what was written before: %w", err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			to := filepath.Join(write.to, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // all may read it
				return fmt.Errorf("write %s: %w", to, err)
			}
			if err := os.WriteFile(to, []byte(files[name]), 0o644); err != nil { //nolint:gosec // all may read it
				return fmt.Errorf("write %s: %w", to, err)
			}
		}
	}
	return nil
}
