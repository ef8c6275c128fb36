package install

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/api/config/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/certs"
)

// Components, as ComponentLabel has them.
const (
	ControllerComponent = "controller"
	SchedulerComponent  = "scheduler"
)

// Ports that the programs listen on, and those of Services in front of them. They are said to
// the programs, so that no configuration file moves them away from their Services.
const (
	webhookPort        = v1beta2.DefaultWebhookPort
	webhookServicePort = 443
	visibilityPort     = v1beta2.DefaultVisibilityBindPort
	metricsPort        = 8080
	healthPort         = 8081
	schedulerPort      = 10251
)

// SchedulerService names the Service in front of the scheduler's metrics.
const SchedulerService = "mlbatch-scheduler-metrics"

const (
	metricsService    = certs.MetricsService
	conversionService = certs.ConversionService
)

const (
	// nobody is the user of the image, with files on no node.
	nobody = 65532
	// configDir is where the controller's configuration is mounted, certsDir where certificates
	// of cert-manager are.
	configDir  = "/etc/mlbatch"
	configFile = "controller.yaml"
	certsDir   = "/certs"
	// ConfigHash is the annotation of pods that changes with the configuration.
	ConfigHash = "mlbatch.dev/config-hash"
	// drain is how long a program that is stopped still answers: until nobody sends to it.
	drain = 5
)

// selector finds the pods of a component. Deployments cannot change theirs, so it holds nothing
// that could ever be another.
func selector(component string) map[string]string {
	return map[string]string{NameLabel: App, ComponentLabel: component}
}

// controller is the Deployment of the controller.
func (x *rendering) controller() client.Object {
	args := []string{
		"controller",
		"--config=" + configDir + "/" + configFile,
		"--namespace=" + x.Namespace,
		fmt.Sprintf("--webhook-port=%d", webhookPort),
		fmt.Sprintf("--visibility-port=%d", x.visibilityPort()),
		fmt.Sprintf("--metrics-port=%d", metricsPort),
		fmt.Sprintf("--health-port=%d", healthPort),
		"--scheduler-name=" + x.Controller.SchedulerName,
		"--scheduler-names=" + strings.Join(x.SchedulerNames(), ","),
	}
	if modes := kindModes(x.Controller.Kinds); modes != "" {
		args = append(args, "--kinds="+modes)
	}
	volumes := []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: x.fullname("controller")},
		},
	}}}
	mounts := []corev1.VolumeMount{{Name: "config", MountPath: configDir, ReadOnly: true}}
	if x.CertManager.Enabled {
		args = append(args, "--webhook-cert-dir="+certsDir)
		volumes = append(
			volumes,
			corev1.Volume{
				Name:         "certificates",
				VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: certificatesSecret}},
			},
		)
		mounts = append(mounts, corev1.VolumeMount{Name: "certificates", MountPath: certsDir, ReadOnly: true})
	}
	ports := []corev1.ContainerPort{
		{Name: "webhooks", ContainerPort: webhookPort},
		{Name: "visibility", ContainerPort: visibilityPort},
		{Name: "metrics", ContainerPort: metricsPort},
		{Name: "health", ContainerPort: healthPort},
	}
	if !x.Visibility.Enabled {
		ports = slices.DeleteFunc(
			ports,
			func(p corev1.ContainerPort) bool { return p.ContainerPort == visibilityPort },
		)
	}
	pod := x.pod(ControllerComponent, Controller, x.Controller.Program, args, ports)
	pod.Annotations = map[string]string{ConfigHash: hash(x.Controller.Config)}
	pod.Spec.Volumes = volumes
	pod.Spec.Containers[0].VolumeMounts = mounts
	// Users' writes wait for the webhooks: a replica that goes answers until nobody asks it.
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: drain}},
	}
	return x.deployment(ControllerComponent, x.Controller.Replicas, pod)
}

// visibilityPort is where the visibility API is served; 0 turns it off.
func (x *rendering) visibilityPort() int32 {
	if !x.Visibility.Enabled {
		return 0
	}
	return visibilityPort
}

// kindModes are modes as the flag takes them, in the order of their kinds.
func kindModes(modes map[string]string) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(modes)) {
		out = append(out, kind+"="+modes[kind])
	}
	return strings.Join(out, ",")
}

// SchedulerNames are the names that mlbatch's scheduler answers to, none if it is not installed.
func (v *Values) SchedulerNames() []string {
	if !v.Scheduler.Enabled {
		return []string{}
	}
	return v.Scheduler.Names
}

// programs are the Deployments.
func (x *rendering) programs() []client.Object {
	if !x.Scheduler.Enabled {
		return []client.Object{x.controller()}
	}
	return []client.Object{x.controller(), x.scheduler()}
}

// scheduler is the Deployment of the scheduler.
func (x *rendering) scheduler() client.Object {
	args := []string{
		"scheduler",
		"--leader-elect",
		"--namespace=" + x.Namespace,
		"--bind-address=$(POD_IP)", // the kubelet probes it there
		fmt.Sprintf("--health-port=%d", schedulerPort),
		"--scheduler-names=" + strings.Join(x.Scheduler.Names, ","),
	}
	pod := x.pod(
		SchedulerComponent,
		Scheduler,
		x.Scheduler.Program,
		args,
		[]corev1.ContainerPort{{Name: "health", ContainerPort: schedulerPort}},
	)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{
			Name: "POD_IP",
			ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
			},
		},
	}
	return x.deployment(SchedulerComponent, x.Scheduler.Replicas, pod)
}

func (x *rendering) deployment(component string, replicas int32, pod corev1.PodTemplateSpec) client.Object {
	meta := x.meta(x.fullname(component))
	meta.Labels = map[string]string{ComponentLabel: component}
	return &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: selector(component)},
			Template: pod,
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				// A new one answers before an old one goes.
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxUnavailable: new(intstr.FromInt32(0)),
					MaxSurge:       new(intstr.FromInt32(1)),
				},
			},
			RevisionHistoryLimit: ptr.To[int32](3),
		},
	}
}

// pod is what both programs have in common. All of it passes the strictest level of pod security.
func (x *rendering) pod(
	component, account string,
	p Program,
	args []string,
	ports []corev1.ContainerPort,
) corev1.PodTemplateSpec {
	for i := range ports {
		ports[i].Protocol = corev1.ProtocolTCP
	}
	labels := selector(component)
	labels[PartLabel] = App
	if x.Version != "" {
		labels[VersionLabel] = x.Version
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			ServiceAccountName:            account,
			AutomountServiceAccountToken:  new(true), // it is how they log in
			ImagePullSecrets:              x.ImagePullSecrets,
			PriorityClassName:             x.PriorityClassName,
			NodeSelector:                  x.NodeSelector,
			Tolerations:                   x.Tolerations,
			Affinity:                      x.affinity(component),
			TerminationGracePeriodSeconds: ptr.To[int64](30),
			SecurityContext:               x.podSecurity(),
			Containers: []corev1.Container{{
				Name:            component,
				Image:           x.Image.String(),
				ImagePullPolicy: x.Image.PullPolicy,
				Args:            append(args, p.ExtraArgs...),
				Ports:           ports,
				Resources:       p.Resources,
				StartupProbe:    probe("/healthz", 2, 60),
				LivenessProbe:   probe("/healthz", 10, 3),
				ReadinessProbe:  probe("/readyz", 2, 3),
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					ReadOnlyRootFilesystem:   new(true),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// podSecurity leaves users to OpenShift, which gives each namespace some of its own.
func (x *rendering) podSecurity() *corev1.PodSecurityContext {
	s := &corev1.PodSecurityContext{
		RunAsNonRoot:   new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if x.Platform != OpenShift {
		s.RunAsUser, s.RunAsGroup, s.FSGroup = ptr.To[int64](nobody), ptr.To[int64](nobody), ptr.To[int64](nobody)
	}
	return s
}

// affinity is what the values say, or Apart.
func (x *rendering) affinity(component string) *corev1.Affinity {
	if x.Affinity != nil && !apiequality.Semantic.DeepEqual(x.Affinity, &corev1.Affinity{}) {
		return x.Affinity
	}
	return Apart(component)
}

// Apart has the replicas of a component run on different nodes and, if there are some, in
// different zones, as far as possible. Topology spread constraints do not say that: with one
// for zones, the scheduler of Kubernetes passes over nodes without a zone, and would not
// spread at all where no node has one.
func Apart(component string) *corev1.Affinity {
	term := func(weight int32, key string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			LabelSelector:  &metav1.LabelSelector{MatchLabels: selector(component)},
			MatchLabelKeys: []string{"pod-template-hash"},
			TopologyKey:    key,
		}}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			term(100, corev1.LabelHostname), term(50, corev1.LabelTopologyZone),
		},
	}}
}

// probe asks every so many seconds, and gives up after so many failures.
func probe(path string, seconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")},
		},
		PeriodSeconds:    seconds,
		FailureThreshold: failures,
		TimeoutSeconds:   5,
	}
}

// services are in front of the webhooks, the conversions and the metrics; that of the visibility API
// is with its registration.
//
// Webhooks are asked of pods that are ready: others have not read yet what they judge by. Conversions
// need no more than the object, and what a pod reads until it is ready may have to be converted:
// where objects are stored in an old version and no pod is ready, none ever would be otherwise.
func (x *rendering) services() []client.Object {
	webhooks := corev1.ServicePort{
		Name:       "https",
		Port:       webhookServicePort,
		TargetPort: intstr.FromString("webhooks"),
	}
	conversions := x.service(conversionService, ControllerComponent, webhooks)
	conversions.Spec.PublishNotReadyAddresses = true
	all := []client.Object{
		x.service(v1beta2.DefaultWebhookService, ControllerComponent, webhooks),
		conversions,
		x.service(
			metricsService,
			ControllerComponent,
			corev1.ServicePort{Name: "https", Port: metricsPort, TargetPort: intstr.FromString("metrics")},
		),
	}
	if x.Scheduler.Enabled {
		all = append(
			all,
			x.service(
				SchedulerService,
				SchedulerComponent,
				corev1.ServicePort{Name: "http", Port: schedulerPort, TargetPort: intstr.FromString("health")},
			),
		)
	}
	return all
}

func (x *rendering) service(name, component string, port corev1.ServicePort) *corev1.Service {
	port.Protocol = corev1.ProtocolTCP
	meta := x.meta(name)
	meta.Labels = map[string]string{ComponentLabel: component}
	return &corev1.Service{
		ObjectMeta: meta,
		Spec:       corev1.ServiceSpec{Selector: selector(component), Ports: []corev1.ServicePort{port}},
	}
}

// budgets keep one replica of each program while nodes are drained. Of a single replica they say
// nothing: its node could never be.
func (x *rendering) budgets() []client.Object {
	if !x.PodDisruptionBudget.Enabled {
		return nil
	}
	var out []client.Object
	for _, p := range []struct {
		component string
		replicas  int32
	}{{ControllerComponent, x.Controller.Replicas}, {SchedulerComponent, x.Scheduler.Replicas}} {
		if p.replicas < 2 || p.component == SchedulerComponent && !x.Scheduler.Enabled {
			continue
		}
		out = append(out, &policyv1.PodDisruptionBudget{
			ObjectMeta: x.meta(x.fullname(p.component)),
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable:             new(intstr.FromInt32(1)),
				Selector:                   &metav1.LabelSelector{MatchLabels: selector(p.component)},
				UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
			},
		})
	}
	return out
}
