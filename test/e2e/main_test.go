package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
	"github.com/mlbatch/mlbatch/internal/local/tutorial"
	"github.com/mlbatch/mlbatch/test/rig"
)

// cluster is shared by all tests; each empties it before it begins.
var cluster *rig.Cluster

// timeScale divides how long simulated pods run, so that the tutorial's ten
// minutes last half a minute. Durations of the system itself are not scaled.
const timeScale = "20"

// installedVariable, if set, has the tests run against a cluster with real nodes into which mlbatch
// was installed, as root (see make installed). Tests that need simulated nodes are to be left out.
// If it is withoutScheduler, the cluster's own scheduler binds pods.
const (
	installedVariable = "MLBATCH_E2E_INSTALLED"
	withoutScheduler  = "without-scheduler"
)

// controllerUser is who the controller is.
func controllerUser() string {
	if os.Getenv(installedVariable) != "" {
		return "system:serviceaccount:mlbatch-system:mlbatch-controller"
	}
	return names.ControllerUser
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run() // names, which need no cluster
	}
	if os.Getenv(judgeVariable) != "" {
		return judged("TestRolesGrantWhatIsAskedFor", judgeUsage(os.Getenv(usageVariable)))
	}
	if err := choose(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv(installedVariable) != "" {
		return runInstalled(m)
	}
	var err error
	cluster, err = rig.StartAudited(
		ctx,
		os.Stderr,
		"--time-scale",
		timeScale,
		"--config",
		"testdata/configuration.yaml",
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	// Whatever the tests did, kills included: every decision is reproduced.
	if out, err := cluster.Run(ctx, "replay", filepath.Join(cluster.Dir, "flights")); err != nil {
		code |= judged("TestEveryDecisionIsReproduced", []string{fmt.Sprintf("%v\n%s", err, out)})
	}
	wrong := auditRoles(ctx)
	switch {
	case everything() || os.Getenv(usageVariable) != "":
		code |= judged("TestRolesGrantWhatIsAskedFor", wrong)
	case len(wrong) > 0: // some tests alone say nothing of what others ask for
		fmt.Fprintf(os.Stderr, "roles against what was asked for:\n    %s\n", strings.Join(wrong, "\n    "))
	}
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// judged tells of what is looked at when all tests are through, as a test of this name that
// failed, and returns the exit status. It is silent where nothing is wrong: failed tests run again,
// with another cluster, and what is right there is no answer to what was wrong here.
func judged(name string, wrong []string) int {
	if len(wrong) == 0 {
		return 0
	}
	mark := ""
	if flag.Lookup("test.v").Value.String() == "test2json" {
		mark = "\x16" // so that the go command tells it from what tests print
	}
	fmt.Printf(
		"%s=== RUN   %s\n    %s\n%s--- FAIL: %s (0.00s)\n%sFAIL\n",
		mark,
		name,
		strings.ReplaceAll(strings.Join(wrong, "\n"), "\n", "\n    "),
		mark,
		name,
		mark,
	)
	return 1
}

// runInstalled runs the tests where controller and scheduler are pods.
func runInstalled(m *testing.M) int {
	ctx := context.Background()
	var err error
	if cluster, err = rig.StartBare(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 1
	if err = installTutorial(ctx); err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, cluster.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// installTutorial installs mlbatch as the other cluster of the tests has it, with its teams.
func installTutorial(ctx context.Context) error {
	config, err := os.ReadFile("testdata/configuration.yaml")
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	controller := map[string]any{"config": string(config)}
	given := map[string]any{"controller": controller}
	if os.Getenv(installedVariable) == withoutScheduler {
		controller["schedulerName"] = "default-scheduler"
		given["scheduler"] = map[string]any{"enabled": false}
	}
	values, err := yaml.Marshal(given)
	if err != nil {
		return fmt.Errorf("write values: %w", err)
	}
	tutorial, err := tutorial.Manifests(simnode.DefaultFleet(), names.VolumeProvisioner)
	if err != nil {
		return err
	}
	files := map[string]string{"values.yaml": string(values), "tutorial.yaml": tutorial}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(cluster.Dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	if _, err := cluster.Install(ctx, "--values", filepath.Join(cluster.Dir, "values.yaml")); err != nil {
		return err
	}
	_, err = cluster.Run(ctx, "kubectl", "apply", "-f", filepath.Join(cluster.Dir, "tutorial.yaml"))
	return err
}
