package rayservice

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// Roles of a service: the cluster that serves or is to, the one that is to take over, and the
// one that served before.
const (
	servingRole = "serving"
	nextRole    = "next"
	beforeRole  = "before"
)

// compile makes the plan of a service: clusters, which have no end.
func compile(o jobs.Object) (*jobs.Plan, error) {
	s, err := cast(o)
	if err != nil {
		return nil, err
	}
	if errs := validate(s); len(errs) > 0 {
		return nil, fmt.Errorf("plan RayService %s/%s: %w", s.Namespace, s.Name, errs.ToAggregate())
	}
	p := &jobs.Plan{Plan: podplan.Plan{Suspended: s.Spec.Suspend}}
	add := func(role, cluster string) {
		p.Roles = append(
			p.Roles,
			podplan.Role{
				Name:      role,
				Count:     1,
				Member:    cluster,
				OnFailure: podplan.Replace,
				Forever:   true,
				Alone:     true,
			},
		)
		p.Templates, p.Make, p.Where = append(
			p.Templates,
			nil,
		), append(
			p.Make,
			makeCluster(s),
		), append(
			p.Where,
			configPath,
		)
	}
	serves, next := clusters(s)
	if serves != "" {
		add(servingRole, serves)
	}
	before := s.Status.RetiredService
	if before != nil && before.RayClusterName != serves && before.RayClusterName != next {
		add(beforeRole, before.RayClusterName)
	} else {
		before = nil
	}
	if next != "" && before == nil { // there are two at most
		add(nextRole, next)
	}
	return p, nil
}

// clusters are the one that serves, and the one that is to take over; "" are none.
func clusters(s *api.RayService) (serves, next string) {
	serves, target := s.Status.ActiveServiceStatus.RayClusterName, clusterName(s)
	switch {
	case serves == target:
		return serves, ""
	case serves == "":
		return "", target
	case upgrade(s) == api.UpgradeNever:
		return serves, ""
	case upgrade(s) == api.UpgradeNewCluster:
		return serves, target
	}
	return "", target
}

// makeCluster makes a cluster, whose pods get what the service was admitted with.
func makeCluster(s *api.RayService) jobs.Make {
	return func(_ podplan.Member, _ *podplan.RetryState, admitted jobs.Admitted) (jobs.Object, error) {
		c := &api.RayCluster{Spec: *s.Spec.RayClusterSpec.DeepCopy()}
		c.Labels = map[string]string{
			"ray.io/originated-from-crd":     api.RayServiceKind,
			"ray.io/originated-from-cr-name": s.Name,
		}
		for key, value := range s.Annotations {
			if strings.HasPrefix(key, "ray.io/") {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value)
			}
		}
		c.Spec.Suspend, c.Spec.ManagedBy = nil, nil
		metav1.SetMetaDataLabel(
			&c.Spec.HeadGroupSpec.Template.ObjectMeta,
			api.ServeLabel,
			strconv.FormatBool(!s.Spec.ExcludeHeadPodFromServeSvc),
		)
		for i := range c.Spec.WorkerGroupSpecs {
			t := &c.Spec.WorkerGroupSpecs[i].Template
			metav1.SetMetaDataLabel(&t.ObjectMeta, api.ServeLabel, "true")
			onceServing(t, servePort(s))
		}
		return c, raycluster.Inject(&c.Spec, admitted)
	}
}

// onceServing makes a worker ready once it answers requests: one without any replica does not,
// and must not get any.
func onceServing(t *corev1.PodTemplateSpec, port int32) {
	if len(t.Spec.Containers) == 0 || t.Spec.Containers[0].ReadinessProbe != nil {
		return
	}
	const ask = "wget --tries 1 -T 2 -q -O- http://localhost:%d/%s | grep success > /dev/null"
	script := fmt.Sprintf(ask, 52365, "api/local_raylet_healthz") + " && " + fmt.Sprintf(ask, port, "-/healthz")
	t.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"bash", "-c", script}}},
		InitialDelaySeconds: 10, TimeoutSeconds: 5, PeriodSeconds: 5, SuccessThreshold: 1, FailureThreshold: 1,
	}
}

// servePort is where requests are answered.
func servePort(s *api.RayService) int32 {
	for _, p := range raycluster.ServicePorts(&s.Spec.RayClusterSpec) {
		if p.Name == api.ServePort {
			return p.Port
		}
	}
	return 8000
}

// artifacts are the services by which the cluster that serves is found.
func artifacts(o jobs.Object, _ *jobs.Plan, _ *jobs.Progress) ([]jobs.Artifact, error) {
	s, err := cast(o)
	if err != nil {
		return nil, err
	}
	cluster := s.Status.ActiveServiceStatus.RayClusterName
	if cluster == "" {
		return nil, nil
	}
	labels := func() map[string]string {
		return map[string]string{
			api.ClusterLabel:               cluster,
			"app.kubernetes.io/name":       "kuberay",
			"app.kubernetes.io/created-by": "kuberay-operator",
		}
	}
	head := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-head-svc", Labels: labels()},
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector: map[string]string{
				api.NodeLabel:     "yes",
				api.ClusterLabel:  cluster,
				api.NodeTypeLabel: api.HeadNode,
			},
			Ports: raycluster.ServicePorts(&s.Spec.RayClusterSpec),
		},
	}
	serve := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-serve-svc", Labels: labels()}}
	serve.Labels[api.ServeLabel] = s.Name + "-serve"
	ports := []corev1.ServicePort{{Name: api.ServePort, Port: servePort(s)}}
	if own := s.Spec.ServeService; own != nil {
		own = own.DeepCopy()
		if own.Name != "" {
			serve.Name = own.Name
		}
		serve.Annotations = own.Annotations
		for key, value := range own.Labels {
			if _, is := serve.Labels[key]; !is {
				serve.Labels[key] = value
			}
		}
		serve.Spec = own.Spec
		if len(own.Spec.Ports) > 0 {
			ports = own.Spec.Ports
		}
	}
	serve.Spec.Selector, serve.Spec.Ports = map[string]string{
		api.ClusterLabel: cluster,
		api.ServeLabel:   "true",
	}, ports
	return []jobs.Artifact{{Object: head, Yields: true}, {Object: serve, Yields: true}}, nil
}

// delay is how long a cluster stays after another took over.
func delay(s *api.RayService) time.Duration {
	return time.Duration(ptr.Deref(s.Spec.RayClusterDeletionDelaySeconds, 60)) * time.Second
}
