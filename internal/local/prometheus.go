package local

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/local/names"
	"github.com/mlbatch/mlbatch/internal/local/pki"
)

// prometheusUser is who reads metrics.
const prometheusUser = "mlbatch-prometheus"

// Prometheus is one that runs beside a cluster.
type Prometheus struct {
	// Path is the program, Rules the rules that it is to evaluate, and Reader the ClusterRole of those who may read
	// metrics.
	Path   string
	Rules  []byte
	Reader string
}

// monitor starts Prometheus, if it is asked for. A cluster is ready without it: it only looks on.
func (c *Cluster) monitor(ctx context.Context) error {
	if c.cfg.Prometheus == nil || c.cfg.Parts != Full {
		return nil
	}
	if err := c.mayReadMetrics(ctx); err != nil {
		return err
	}
	password, err := pki.Token(c.files.pki(), strings.TrimSuffix(path.Base(names.PrometheusPassword), ".token"))
	if err != nil {
		return err
	}
	if err := c.writePrometheus(password); err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(c.files.prometheus(), name) }
	return c.sup.Start(c.spec(program{ //nolint:contextcheck // the process outlives the start, which ctx bounds
		name:   names.Prometheus,
		path:   c.cfg.Prometheus.Path,
		stage:  stageRest,
		grace:  10 * time.Second,
		goGC:   100,
		memory: 512,
		probe: httpProbe(
			fmt.Sprintf("https://%s:%s@%s/-/ready", names.PrometheusLogin, password, address(c.ports.Prometheus)),
			c.adminTLS,
		),
		args: []string{
			names.Prometheus,
			"--config.file=" + at("prometheus.yml"),
			"--web.config.file=" + at("web.yml"),
			"--storage.tsdb.path=" + at("data"),
			"--storage.tsdb.retention.time=15d",
			"--storage.tsdb.retention.size=4GB", // etcd is on the same disk
			"--web.listen-address=" + address(c.ports.Prometheus),
		},
	}))
}

// mayReadMetrics gives the right to read metrics to the user of Prometheus, and nothing else.
func (c *Cluster) mayReadMetrics(ctx context.Context) error {
	cl, err := client.New(c.admin, client.Options{})
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	err = cl.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: prometheusUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: c.cfg.Prometheus.Reader},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: prometheusUser}},
	})
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("let Prometheus read metrics: %w", err)
	}
	return nil
}

// writePrometheus writes what Prometheus is configured with.
func (c *Cluster) writePrometheus(password string) error {
	type object = map[string]any
	hash, err := bcrypt.GenerateFromPassword(
		[]byte(password),
		bcrypt.MinCost,
	) // the password is a long random one
	if err != nil {
		return fmt.Errorf("make the login of Prometheus: %w", err)
	}
	targets := func(port int) []object { return []object{{"targets": []string{address(port)}}} }
	scrapes := []object{{
		"job_name": Controller, "scheme": "https", "static_configs": targets(c.ports.Metrics),
		"authorization": object{"credentials_file": filepath.Join(c.files.pki(), names.Prometheus+".token")},
		"tls_config":    object{"ca_file": c.id.ca.CertFile()},
	}}
	if !c.cfg.kubeScheduler() {
		scrapes = append(scrapes, object{"job_name": Scheduler, "static_configs": targets(c.ports.Scheduler)})
	}
	if err := os.MkdirAll(c.files.prometheus(), 0o700); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	for name, content := range map[string]any{
		"web.yml": object{
			"tls_server_config": object{
				"cert_file": c.id.prometheus.Cert, "key_file": c.id.prometheus.Key, "min_version": "TLS12",
			},
			"basic_auth_users": object{names.PrometheusLogin: string(hash)},
		},
		"prometheus.yml": object{
			"global":         object{"scrape_interval": "5s", "evaluation_interval": "15s"},
			"rule_files":     []string{"alerts.yml"},
			"scrape_configs": scrapes,
		},
		"alerts.yml": nil,
	} {
		text := c.cfg.Prometheus.Rules
		if content != nil {
			if text, err = yaml.Marshal(content); err != nil {
				return fmt.Errorf("configure Prometheus: %w", err)
			}
		}
		if err := pki.WriteFile(filepath.Join(c.files.prometheus(), name), text); err != nil {
			return err
		}
	}
	return nil
}
