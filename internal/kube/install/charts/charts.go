// Package charts makes the Helm chart and the kustomize base with its overlays from what mlbatch install
// applies: it renders that with marks where values go, and puts expressions in the place of the marks. What
// differs between two renderings, such as with and without cert-manager, becomes a condition.
//
// Neither is kept anywhere: the definitions of kinds would be there three times. test/chart renders both with
// the libraries of Helm and kustomize, and compares.
package charts

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/mlbatch/mlbatch/internal/kube/install/monitoring"
)

// What Write writes, below its directory.
const (
	Chart     = "charts/mlbatch"
	Kustomize = "kustomize"
	// Monitoring has rules and boards as files, for a Prometheus and a Grafana that no operator looks after.
	Monitoring = "monitoring"
)

// Write writes the chart and the kustomizations of a version of mlbatch, which is the tag of the image that
// they install by default, into a directory. It refuses to write where something is already.
func Write(dir, version string) error {
	files, err := made(version)
	if err != nil {
		return err
	}
	for _, part := range []string{Chart, Kustomize, Monitoring} {
		at := filepath.Join(dir, part)
		if _, err := os.Lstat(at); err == nil {
			return fmt.Errorf("%s: %w: remove it, or name another directory", at, fs.ErrExist)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // all may read it
			return fmt.Errorf("write %s: %w", to, err)
		}
		if err := os.WriteFile(to, []byte(files[name]), 0o644); err != nil { //nolint:gosec // all may read it
			return fmt.Errorf("write %s: %w", to, err)
		}
	}
	return nil
}

// made are the files, by their paths.
func made(version string) (map[string]string, error) {
	out := map[string]string{}
	for part, render := range map[string]func(string) (map[string]string, error){Chart: chart, Kustomize: kustomization} {
		files, err := render(version)
		if err != nil {
			return nil, err
		}
		for name, text := range files {
			out[part+"/"+name] = text
		}
	}
	out[Monitoring+"/alerts.yaml"] = string(monitoring.Rules())
	for _, b := range monitoring.Boards() {
		out[Monitoring+"/mlbatch-"+b.Name+".json"] = string(b.JSON())
	}
	return out, nil
}
