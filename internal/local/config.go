package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

// Parts says how much of a cluster to run.
type Parts int

// The sizes of a cluster.
const (
	// Full runs everything.
	Full Parts = iota
	// Kubernetes leaves out mlbatch's controller and scheduler.
	Kubernetes
	// Bare is a cluster of Kubernetes as others have it, with its own scheduler and nothing
	// of mlbatch, to install that into. It needs nodes with real pods.
	Bare
	// APIOnly runs etcd and kube-apiserver.
	APIOnly
)

// Config says what cluster to run. Only DataDir is required.
type Config struct {
	// DataDir holds all state. It is made if it does not exist; if it holds a
	// cluster, that one resumes.
	DataDir string
	// Parts says how much to run.
	Parts Parts
	// APIPort is the port of the API server; zero keeps the last or picks one.
	APIPort int
	// Runtime is what runs the pods. Empty is what the data directory was made for, or
	// Simulated.
	Runtime Runtime
	// Images are the names under which nodes with real pods have an image of busybox.
	Images []string
	// Fleet is the nodes. The zero value keeps the last, as they are
	// remembered or else as they are, or is simnode.DefaultFleet.
	Fleet simnode.Fleet
	// TimeScale divides how long simulated pods run. Zero keeps the last, or
	// is 1.
	TimeScale float64
	// Tutorial creates the queues and teams of MLBatch's tutorial, once per
	// data directory. It needs Full.
	Tutorial bool
	// Samples are manifests of further objects that are created with the tutorial's.
	Samples string
	// Configuration is what the controller's configuration file holds; it is not
	// checked here. Nil keeps the last one, empty goes back to none.
	Configuration []byte
	// Initial is asked at every start, while etcd comes up, for definitions of kinds and other objects
	// as an API server keeps them. They are stored if none has used the store yet: to take them one by
	// one costs an API server several times what its start does.
	Initial func(a Access) ([]*unstructured.Unstructured, error)
	// Install prepares the API server (CRDs, roles, webhooks) before the nodes
	// and mlbatch start. It runs at every start.
	Install func(ctx context.Context, a Access) error
	// Answered, if set, returns once what the controller serves can be asked for through the API server.
	// It runs when the controller is ready, and a cluster is not ready before.
	Answered func(ctx context.Context, a Access) error
	// Progress, if set, is told what happens during Start. Calls are one at a
	// time.
	Progress func(Milestone)
	// StartTimeout is how long Start goes on while nothing moves; zero is two minutes, five with
	// real nodes. However much moves, it gives up after ten times that.
	StartTimeout time.Duration
	// StockAPIServer runs the API server as upstream does: it keeps a record of who
	// wrote which field of Workloads, and watch caches of old versions. Both cost
	// processor time, and every real cluster has them.
	StockAPIServer bool
	// StockScheduler runs the scheduler of Kubernetes instead of mlbatch's: jobs wait, start
	// together and have their nodes as ever, and it binds their pods there.
	StockScheduler bool
	// FeatureGates are those of Kubernetes (A=true,B=false), for all of its components;
	// mlbatch's have none of them. RuntimeConfig are the versions of its APIs that are served or
	// not (scheduling.k8s.io/v1beta1=true). The command line keeps the last ones.
	FeatureGates, RuntimeConfig string
	// AuditLog, if set, is the absolute path of a file to which the API server writes who
	// asked it for what, with the answer: people, mlbatch's processes and all others but
	// Kubernetes itself and the nodes. It goes on where the file ends.
	AuditLog string
	// Prometheus, if set, runs beside the cluster and reads its metrics.
	Prometheus *Prometheus
	// UnsafeNoFsync lets etcd not wait for the disk. Killing processes still
	// loses nothing, a crash of the machine may. For tests on slow disks.
	UnsafeNoFsync bool

	// keepNodes: it is not known how many nodes there were, and not said how many
	// there shall be.
	keepNodes bool
}

// Access is what Install gets.
type Access struct {
	// Client is cluster administrator.
	Client *rest.Config
	// WebhookURL is where the controller's webhooks answer, CABundle (PEM)
	// signs their certificate.
	WebhookURL string
	// StockScheduler says that mlbatch's scheduler does not run.
	StockScheduler bool
	// VisibilityPort is where the API of pending workloads answers, on loopback and
	// under the name VisibilityHost.
	VisibilityPort int
	CABundle       []byte
	// Moved is to be called whenever Install gets on: a start goes on while something moves.
	Moved func()
}

// Milestone is one piece of progress.
type Milestone struct {
	// Name is a component or a thing done.
	Name string
	// Took is how long it took since the start of the cluster.
	Took time.Duration
}

// Errors that a caller may want to tell apart.
var (
	// ErrPortInUse means that another program listens on the wanted port.
	ErrPortInUse = errors.New("port is in use")
	// ErrInUse means that another process runs a cluster on the directory.
	ErrInUse = errors.New("data directory is in use")
	// ErrForeign means that the directory holds something else.
	ErrForeign = errors.New("data directory holds other files")
	// ErrAge means that an older or newer program has to start the directory.
	ErrAge = errors.New("data directory of another version")
	// ErrNoCluster means that there is no cluster in the directory.
	ErrNoCluster = errors.New("no cluster in the data directory")
)

const (
	defaultStartTimeout = 2 * time.Minute
	realStartTimeout    = 5 * time.Minute
	dataDirVariable     = "MLBATCH_DATA_DIR"
)

// DefaultDataDir is where a cluster lives by default:
// $MLBATCH_DATA_DIR, else mlbatch in the user's data directory.
func DefaultDataDir() (string, error) {
	if d := os.Getenv(dataDirVariable); d != "" {
		return d, nil
	}
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "mlbatch"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a data directory: set --data-dir or %s: %w", dataDirVariable, err)
	}
	return filepath.Join(home, ".local", "share", "mlbatch"), nil
}

// kubeScheduler reports whether the scheduler of Kubernetes runs, and not mlbatch's.
func (c *Config) kubeScheduler() bool { return c.Parts == Bare || c.StockScheduler }

// complete fills in what is not set, from the last run if there was one.
func (c *Config) complete(last ClusterFile) error {
	if c.DataDir == "" {
		return errors.New("no data directory was given")
	}
	if c.Fleet.Count == 0 && c.Fleet.CPU.IsZero() {
		c.Fleet = last.Fleet
	}
	if c.Fleet.Count == 0 && c.Fleet.CPU.IsZero() {
		c.Fleet, c.keepNodes = simnode.DefaultFleet(), true
	}
	if c.TimeScale == 0 {
		c.TimeScale = last.TimeScale
	}
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	if c.Progress == nil {
		c.Progress = func(Milestone) {}
	}
	return c.validate()
}

func (c *Config) validate() error {
	switch {
	case c.APIPort < 0 || c.APIPort > 65535:
		return fmt.Errorf("API port %d: must be between 1 and 65535, or 0 to pick one", c.APIPort)
	case c.TimeScale < 0:
		return fmt.Errorf("time scale %g: must be greater than 0", c.TimeScale)
	case c.Tutorial && c.Parts != Full:
		return errors.New("the tutorial's queues need a full cluster")
	}
	if err := c.Fleet.Validate(); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	return nil
}
