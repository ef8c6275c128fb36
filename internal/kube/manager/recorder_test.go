package manager

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
)

// The controller decides whether it can record that or not.
func TestRecorderStopsNobody(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flights")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := recorder(logr.Discard(), Options{FlightDir: file, FlightLimit: 1 << 20}); r != nil {
		t.Error("a file is recorded in as if it were a directory")
	}
	if r := recorder(logr.Discard(), Options{FlightDir: t.TempDir(), FlightLimit: 1 << 20}); r == nil {
		t.Error("nothing is recorded in a directory")
	}
}
