package install

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install/monitoring"
)

// monitoring is what the Prometheus operator and Grafana find.
func (x *rendering) monitoring() []client.Object {
	return slices.Concat(x.monitors(), x.alerts(), x.dashboards())
}

// monitors tell the Prometheus operator what to read. The controller and the agents show their metrics to
// those who may get them (metrics.readers), by HTTPS.
func (x *rendering) monitors() []client.Object {
	if !x.Metrics.ServiceMonitor.Enabled {
		return nil
	}
	secret := CertSecret
	if x.CertManager.Enabled {
		secret = certificatesSecret
	}
	monitor := func(component, port string, endpoint map[string]any) client.Object {
		endpoint["port"], endpoint["path"], endpoint["interval"] = port, "/metrics", "30s"
		o := x.other("monitoring.coreos.com/v1", "ServiceMonitor", x.fullname(component), map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{
				NameLabel: App, ComponentLabel: component,
			}},
			"endpoints": []any{endpoint},
		})
		if len(x.Metrics.ServiceMonitor.Labels) > 0 {
			o.SetLabels(x.Metrics.ServiceMonitor.Labels)
		}
		return o
	}
	all := []client.Object{
		monitor(ControllerComponent, "https", map[string]any{ //nolint:gosec // the path of a token
			"scheme":          "https",
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			"honorLabels":     true, // the namespace of a LocalQueue, and not that of the controller
			"tlsConfig": map[string]any{
				"ca":         map[string]any{"secret": map[string]any{"name": secret, "key": "ca.crt"}},
				"serverName": metricsService + "." + x.Namespace + ".svc",
			},
			// The Service of the webhooks has a port of that name too, and no metrics.
			"relabelings": []any{map[string]any{
				"sourceLabels": []any{"__meta_kubernetes_service_name"}, "regex": metricsService, "action": "keep",
			}},
		}),
	}
	if x.Scheduler.Enabled {
		all = append(all, monitor(SchedulerComponent, "http", map[string]any{"scheme": "http"}))
	}
	if x.Agent.Enabled {
		// Each makes its certificate itself. Nobody connects to them by this Service.
		agents := x.service(
			x.fullname(AgentComponent),
			AgentComponent,
			corev1.ServicePort{Name: "https", Port: agentPort, TargetPort: intstr.FromString("https")},
		)
		agents.Spec.ClusterIP = corev1.ClusterIPNone
		all = append(all, agents, monitor(AgentComponent, "https", map[string]any{ //nolint:gosec // see above
			"scheme":          "https",
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			"tlsConfig":       map[string]any{"insecureSkipVerify": true},
		}))
	}
	return all
}

// alerts are the rules of Prometheus.
func (x *rendering) alerts() []client.Object {
	if !x.Metrics.PrometheusRule.Enabled {
		return nil
	}
	data, err := json.Marshal(monitoring.Alerts(x.Metrics.PrometheusRule.RunbookURL))
	if err != nil {
		panic(err) // they are texts
	}
	var groups []any
	if err := json.Unmarshal(data, &groups); err != nil {
		panic(err) // it was just written
	}
	o := x.other(
		"monitoring.coreos.com/v1",
		"PrometheusRule",
		x.fullname("alerts"),
		map[string]any{"groups": groups},
	)
	o.SetLabels(maps.Clone(x.Metrics.PrometheusRule.Labels))
	return []client.Object{o}
}

// dashboards are the boards, each in a ConfigMap, which Grafana's sidecar finds by its labels.
func (x *rendering) dashboards() []client.Object {
	if !x.Metrics.Dashboards.Enabled {
		return nil
	}
	var out []client.Object
	for _, b := range monitoring.Boards() {
		out = append(out, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: x.Namespace,
				Name:      x.fullname("dashboard-" + b.Name),
				Labels:    maps.Clone(x.Metrics.Dashboards.Labels),
			},
			Data: map[string]string{"mlbatch-" + b.Name + ".json": compact(b.JSON())},
		})
	}
	return out
}

// compact is JSON in one line: Helm keeps all of a release in a Secret, which has room for 1 MiB.
func compact(text []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		panic(err) // it was just written
	}
	return b.String()
}
