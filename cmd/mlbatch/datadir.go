//go:build !noembed

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/mlbatch/mlbatch/internal/local"
)

// dataDir is the --data-dir flag.
type dataDir string

func (d *dataDir) addTo(f *pflag.FlagSet) {
	f.StringVar((*string)(d), "data-dir", "",
		"`directory` of the cluster (default $MLBATCH_DATA_DIR or ~/.local/share/mlbatch)")
}

// path is the absolute directory.
func (d *dataDir) path() (string, error) {
	dir := string(*d)
	if dir == "" {
		var err error
		if dir, err = local.DefaultDataDir(); err != nil {
			return "", err
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w", err)
	}
	return abs, nil
}
