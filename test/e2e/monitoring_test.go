package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/kube/install/monitoring"
	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/test/rig"
)

// Prometheus beside a cluster takes all that the boards ask, and has answers to what is always measured.
// Nobody asks it anything without the password.
func TestPrometheusAnswersTheBoards(t *testing.T) {
	if _, err := exec.LookPath(names.Prometheus); err != nil {
		t.Skip("there is no prometheus in PATH (Debian: apt-get install prometheus)")
	}
	c, err := cluster.Another(t.Context(), os.Stderr, "--nodes", "1", "--monitoring")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	var state struct{ Ports struct{ Prometheus int } }
	data, err := os.ReadFile(filepath.Join(c.Dir, "cluster.json"))
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		t.Fatal(err)
	}
	password, err := os.ReadFile(filepath.Join(c.Dir, names.PrometheusPassword))
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(c.RESTConfig().CAData)
	web := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}},
	}
	defer web.CloseIdleConnections()
	ask := func(ctx context.Context, password, query string) (answers, status int, err error) {
		at := fmt.Sprintf(
			"https://127.0.0.1:%d/api/v1/query?query=%s",
			state.Ports.Prometheus,
			url.QueryEscape(query),
		)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
		if err != nil {
			return 0, 0, err
		}
		req.SetBasicAuth(names.PrometheusLogin, password)
		resp, err := web.Do(req)
		if err != nil {
			return 0, 0, err
		}
		defer resp.Body.Close()
		var said struct {
			Error string
			Data  struct{ Result []any }
		}
		if err := json.NewDecoder(resp.Body).Decode(&said); err != nil || said.Error != "" {
			return 0, resp.StatusCode, fmt.Errorf("%s: %s %w", resp.Status, said.Error, err)
		}
		return len(said.Data.Result), resp.StatusCode, nil
	}
	secret := strings.TrimSpace(string(password))
	if out, err := c.Run(
		t.Context(),
		"run",
		"-n",
		"blue",
		"--as",
		"alice",
		"--image",
		"busybox",
		"--gpus",
		"8",
		"-d",
		"--",
		"sleep",
		"600",
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	err = rig.Await(t.Context(), time.Minute, func(ctx context.Context) error {
		n, _, err := ask(
			ctx,
			secret,
			`sum(kueue_admitted_active_workloads{replica_role!="follower"}) > 0 and on () sum(up) == 2`,
		)
		if err == nil && n == 0 {
			err = fmt.Errorf("controller and scheduler are not read, or the job is not seen")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, status, _ := ask(t.Context(), "guess", "up"); status != http.StatusUnauthorized {
		t.Errorf("whoever does not know the password is answered %d", status)
	}
	for _, b := range monitoring.Boards() {
		answered := 0
		for _, q := range b.Queries() {
			n, _, err := ask(t.Context(), secret, q)
			if err != nil {
				t.Errorf("%s: %s: %v", b.Name, q, err)
			}
			if n > 0 {
				answered++
			}
		}
		// What nothing was lost of, and what agents and DCGM's exporter tell, is not there.
		if least := map[string]int{"cluster": 8, "team": 5, "nodes": 2, "job": 2}[b.Name]; answered < least {
			t.Errorf("board %s: %d queries have an answer, want %d", b.Name, answered, least)
		}
	}
}
