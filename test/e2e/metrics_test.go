package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// scrape reads the controller's metrics as Prometheus does.
func scrape(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cluster.Dir, "cluster.json"))
	if err != nil {
		t.Fatal(err)
	}
	var state struct {
		Ports struct {
			Metrics int `json:"metrics"`
		} `json:"ports"`
	}
	if err := json.Unmarshal(data, &state); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(
		t.Context(),
		http.MethodGet,
		fmt.Sprintf("https://127.0.0.1:%d/metrics", state.Ports.Metrics),
		http.NoBody,
	)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+scraper(t))
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(cluster.RESTConfig().CAData)
	web := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}},
	}
	defer web.CloseIdleConnections()
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", resp.Status, body, err)
	}
	return string(body)
}

// scraper is the token of an account that may read metrics, and nothing else.
func scraper(t *testing.T) string {
	t.Helper()
	admin := user(t, "")
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mlbatch-system", Name: "scraper"},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName,
			Kind:     "ClusterRole",
			Name:     install.MetricsReaderRole,
		},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name},
		},
	}
	for _, o := range []client.Object{account, binding} {
		if err := admin.Create(t.Context(), o); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// After one job that runs and one that waits, dashboards have what they show.
func TestMetrics(t *testing.T) {
	awaitEmpty(t, "blue", "red")
	alice := user(t, "alice")
	create(t, alice, gang("runs", 3, 8, 600), "blue")
	eventually(t, "it runs", inPhase(t, "Running", "blue", "runs"))
	create(t, alice, gang("waits", 3, 8, 600), "blue")
	eventually(t, "it says why it waits", waits(t, "blue", "waits", "WaitingForQuota"))

	const queue, local = `cluster_queue="blue-cluster-queue"`, `name="default-queue",namespace="blue"`
	want := []string{
		`kueue_build_info{build_date=`,
		`kueue_admission_attempts_total{replica_role="standalone",result="success"} `,
		`kueue_admitted_active_workloads{` + queue + `,replica_role="standalone"} 1`,
		`kueue_admitted_workloads_total{` + queue + `,priority_class="`,
		`kueue_local_queue_admitted_workloads_total{` + local + `,priority_class="`,
		`kueue_unadmitted_workloads{` + queue + `,reason="NoReservation",replica_role="standalone",underlying_cause="WaitingForQuota"} 1`,
		`kueue_local_queue_unadmitted_workloads{` + queue + `,` + local + `,reason="NoReservation",replica_role="standalone",underlying_cause="WaitingForQuota"} 1`,
		`kueue_pending_scheduling_hashes{` + queue + `,replica_role="standalone",status="inadmissible"} 1`,
		`kueue_cluster_queue_info{` + queue + `,parent_cohort="default-cohort",replica_role="standalone",root_cohort="default-cohort"} 1`,
		`kueue_cohort_info{cohort="default-cohort",parent_cohort="",replica_role="standalone",root_cohort="default-cohort"} 1`,
		`kueue_cohort_subtree_admitted_active_workloads{cohort="default-cohort",replica_role="standalone"} 1`,
		`kueue_cohort_subtree_admitted_workloads_total{cohort="default-cohort",priority_class="`,
		`kueue_cohort_subtree_resource_reservations{cohort="default-cohort",flavor="default-flavor",replica_role="standalone",resource="nvidia.com/gpu"} 24`,
		`kueue_workload_creation_latency_seconds_count{job_kind="AppWrapper",replica_role="standalone"} `,
		`kueue_start_estimates_total{quantile="0.9",replica_role="standalone",result="right"} `,
	}
	eventually(t, "all of it is shown", func() string {
		got := scrape(t)
		for _, line := range want {
			if !strings.Contains(got, "\n"+line) {
				return "no series " + line
			}
		}
		return ""
	})
}
