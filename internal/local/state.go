package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mlbatch/mlbatch/internal/local/pki"
	"github.com/mlbatch/mlbatch/internal/local/realnode"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
	"github.com/mlbatch/mlbatch/internal/local/supervise"
)

// Phase is what a cluster as a whole does.
type Phase string

// The phases of a cluster.
const (
	Starting Phase = "starting"
	Running  Phase = "running"
	Stopping Phase = "stopping"
	Stopped  Phase = "stopped"
)

// ComponentStatus is what is known of one component.
type ComponentStatus = supervise.Status

// ClusterFile is the file in the data directory that tells other processes about
// the cluster, and the next start about the last.
type ClusterFile struct {
	Phase Phase `json:"phase"`
	// PID is the process that supervises the components.
	PID               int           `json:"pid"`
	Started           time.Time     `json:"started"`
	KubernetesVersion string        `json:"kubernetesVersion"`
	Ports             Ports         `json:"ports"`
	Fleet             simnode.Fleet `json:"fleet"`
	TimeScale         float64       `json:"timeScale"`
	// Monitoring says that Prometheus runs, see Config.
	Monitoring bool `json:"monitoring,omitempty"`
	// FeatureGates and RuntimeConfig are those of Kubernetes, see Config.
	FeatureGates  string `json:"featureGates,omitempty"`
	RuntimeConfig string `json:"runtimeConfig,omitempty"`
	// Runtime is what runs the pods, Subnet where they are if they are real.
	Runtime    Runtime           `json:"runtime,omitempty"`
	Subnet     realnode.Subnet   `json:"subnet,omitempty"`
	Components []ComponentStatus `json:"components"`
}

// ReadState tells about the cluster in a data directory. It returns
// ErrNoCluster if there was never one. A cluster whose process is gone is
// Stopped, whatever the file says. Of one whose file is lost or damaged it tells
// no more than that: its Fleet is the zero value.
func ReadState(dir string) (ClusterFile, error) {
	l := layout{dir: dir}
	s, err := l.readState()
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(l.marker()); err != nil {
			return s, fmt.Errorf("%w: %s; start one with: mlbatch up --data-dir %s", ErrNoCluster, dir, dir)
		}
	} else if err != nil && !errors.Is(err, errDamaged) {
		return s, err
	}
	pid, err := l.holder()
	if err != nil {
		return s, err
	}
	switch {
	case pid == 0:
		s.stopped()
	case s.Phase == "":
		s.Phase, s.PID = Starting, pid
	}
	return s, nil
}

// Kubeconfig is the administrator's kubeconfig in a data directory.
func Kubeconfig(dir string) string { return layout{dir: dir}.kubeconfig() }

func (s *ClusterFile) stopped() {
	s.Phase, s.PID = Stopped, 0
	for i := range s.Components {
		s.Components[i].PID, s.Components[i].Health = 0, supervise.Stopped
	}
}

// readState reads the state file. What is missing of it is found elsewhere where
// others rely on it: copies of the kubeconfig name the API server's port.
func (l layout) readState() (ClusterFile, error) {
	var s ClusterFile
	err := readJSON(l.state(), &s)
	if err == nil {
		return s, nil
	}
	s = ClusterFile{}
	if cfg, err := clientcmd.LoadFromFile(l.kubeconfig()); err == nil {
		for _, c := range cfg.Clusters {
			s.Ports.API = portOf(c.Server)
		}
	}
	return s, err
}

// portOf is the port of an address, zero if it has none.
func portOf(address string) int {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 0
	}
	return port
}

func (l layout) writeState(s ClusterFile) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", l.state(), err)
	}
	return pki.WriteFile(l.state(), append(b, '\n'))
}

// keepConfiguration stores what the controller is configured with. Nil leaves
// what is there, empty removes it.
func (l layout) keepConfiguration(content []byte) error {
	switch {
	case content == nil:
		return nil
	case len(content) > 0:
		return pki.WriteFile(l.configuration(), content)
	}
	err := os.Remove(l.configuration())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// hasConfiguration reports whether the controller has a configuration file.
func (l layout) hasConfiguration() bool {
	_, err := os.Stat(l.configuration())
	return err == nil
}
