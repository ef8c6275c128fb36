package manager

import (
	"crypto/tls"
	"testing"

	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

func TestRoleOf(t *testing.T) {
	elected := make(chan struct{})
	alone, competitor := roleOf(LeaderElection{}, elected), roleOf(LeaderElection{Enabled: true}, elected)
	if alone() != metrics.RoleStandalone || competitor() != metrics.RoleFollower {
		t.Errorf("before the election: %s and %s", alone(), competitor())
	}
	close(elected)
	if alone() != metrics.RoleStandalone || competitor() != metrics.RoleLeader {
		t.Errorf("after the election: %s and %s", alone(), competitor())
	}
}

func TestSecureMetrics(t *testing.T) {
	plain := metricsOptions(Options{MetricsAddress: ":1", WebhookCertDir: "certs"})
	if plain.SecureServing || plain.FilterProvider != nil || plain.BindAddress != ":1" {
		t.Errorf("plain: %+v", plain)
	}
	secure := metricsOptions(
		Options{
			MetricsAddress: ":1",
			WebhookCertDir: "certs",
			MetricsSecure:  true,
			TLS:            &tls.Config{MinVersion: tls.VersionTLS13},
		},
	)
	if !secure.SecureServing || secure.FilterProvider == nil || secure.CertDir != "certs" ||
		len(secure.TLSOpts) != 1 {
		t.Errorf("secure: %+v", secure)
	}
	if off := metricsOptions(Options{MetricsSecure: true}); off.BindAddress != "0" {
		t.Errorf("off: %+v", off)
	}
}
