package raycluster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
)

// Names of what is added to pods.
const (
	autoscalerName = "autoscaler"
	waitName       = "wait-gcs-ready"
	memoryVolume   = "shared-mem"
	memoryPath     = "/dev/shm"
	logVolume      = "ray-logs"
	logPath        = "/tmp/ray"
	tokenVolume    = "ray-token"                              // of a ServiceAccount
	tokenPath      = "/var/run/secrets/ray.io/serviceaccount" //nolint:gosec // where Ray looks for one
)

// shared returns a template whose lists can be added to without a change of the author's.
// What is in them is the author's still, but for the first container.
func shared(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	out := *t
	out.Labels, out.Annotations = maps.Clone(t.Labels), maps.Clone(t.Annotations)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	for key, value := range map[string]string{"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator"} {
		if _, says := out.Labels[key]; !says {
			out.Labels[key] = value
		}
	}
	out.Spec.Containers = slices.Clone(t.Spec.Containers)
	out.Spec.InitContainers = slices.Clip(t.Spec.InitContainers)
	out.Spec.Volumes = slices.Clip(t.Spec.Volumes)
	c := &out.Spec.Containers[0]
	c.Env, c.VolumeMounts, c.Ports = slices.Clip(c.Env), slices.Clip(c.VolumeMounts), slices.Clip(c.Ports)
	return &out
}

// head makes the template of the head.
func head(c *api.RayCluster) *corev1.PodTemplateSpec {
	s := &c.Spec
	t := shared(&s.HeadGroupSpec.Template)
	maps.Copy(t.Labels, s.HeadGroupSpec.Labels) // people find by them what Ray finds by them
	main := &t.Spec.Containers[0]
	main.Ports = headPorts(t)
	n := node{
		head:       true,
		params:     s.HeadGroupSpec.RayStartParams,
		resources:  s.HeadGroupSpec.Resources,
		labels:     s.HeadGroupSpec.Labels,
		container:  main,
		autoscaled: autoscales(s),
	}
	if gcs := s.GcsFaultToleranceOptions; gcs != nil {
		n.redis, n.redisUse = gcs.RedisPassword != nil, gcs.RedisUsername != nil
	}
	command := n.command()
	introduce(t, c)
	environment(c, t, command, "127.0.0.1:"+port(&n))
	persistence(c, main)
	probe(main, n.options(), true)
	sharedMemory(t)
	run(main, command, leavesCommand(c))
	if autoscales(s) {
		chosen(s, main)
		if version2(s) {
			once(t)
		}
		t.Spec.ServiceAccountName = account(c)
		mountLogs(t)
		t.Spec.Containers = append(t.Spec.Containers, autoscaler(c, main))
	}
	return t
}

// port of the head, where its author wrote another one.
func port(n *node) string {
	if p := n.params["port"]; p != "" {
		return p
	}
	return strconv.Itoa(gcsPort)
}

// worker makes the template of a group's pods.
func worker(c *api.RayCluster, g *group) *corev1.PodTemplateSpec {
	t := shared(&g.Template)
	maps.Copy(t.Labels, g.Labels)
	main := &t.Spec.Containers[0]
	host := HeadAddress(c)
	at := host + ":" + port(&node{params: c.Spec.HeadGroupSpec.RayStartParams})
	n := node{params: g.RayStartParams, resources: g.Resources, labels: g.Labels, container: main, address: at}
	command := n.command()
	if !slices.ContainsFunc(
		main.Ports,
		func(p corev1.ContainerPort) bool { return p.Name == api.MetricsPort || p.ContainerPort == 8080 },
	) {
		main.Ports = append(main.Ports, corev1.ContainerPort{Name: api.MetricsPort, ContainerPort: 8080})
	}
	variable(main, "FQ_RAY_IP", host)
	variable(main, "RAY_IP", ServiceName(c))
	introduce(t, c)
	environment(c, t, command, at)
	if tolerant(c) {
		variable(main, "RAY_gcs_rpc_server_reconnect_timeout_s", "600")
	}
	probe(main, n.options(), false)
	sharedMemory(t)
	t.Spec.InitContainers = append(t.Spec.InitContainers, wait(main, at))
	run(main, command, leavesCommand(c))
	if autoscales(&c.Spec) && version2(&c.Spec) {
		once(t)
	}
	return t
}

// once: the autoscaler of version 2 takes a container that was restarted for another node.
func once(t *corev1.PodTemplateSpec) {
	if t.Spec.RestartPolicy == "" {
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
}

// variable sets one that the author did not.
func variable(c *corev1.Container, name, value string) {
	add(c, corev1.EnvVar{Name: name, Value: value})
}

func add(c *corev1.Container, v corev1.EnvVar) {
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == v.Name }) {
		c.Env = append(c.Env, v)
	}
}

// fieldOf is a variable that is read from the pod.
func fieldOf(name, path string) corev1.EnvVar {
	return corev1.EnvVar{
		Name:      name,
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}},
	}
}

// introduce tells the author's init containers where the head is: in workers they wait for it,
// in the head they make a certificate with its name.
func introduce(t *corev1.PodTemplateSpec, c *api.RayCluster) {
	t.Spec.InitContainers = slices.Clone(t.Spec.InitContainers)
	for i := range t.Spec.InitContainers {
		of := &t.Spec.InitContainers[i]
		of.Env = slices.Clip(of.Env)
		variable(of, "FQ_RAY_IP", HeadAddress(c))
		variable(of, "RAY_IP", ServiceName(c))
	}
}

// environment is what every Ray container is told.
func environment(c *api.RayCluster, t *corev1.PodTemplateSpec, command, address string) {
	main := &t.Spec.Containers[0]
	add(main, fieldOf("RAY_CLUSTER_NAME", "metadata.labels['"+api.ClusterLabel+"']"))
	add(main, fieldOf("RAY_CLOUD_INSTANCE_ID", "metadata.name"))
	add(main, fieldOf("RAY_NODE_TYPE_NAME", "metadata.labels['"+api.GroupLabel+"']"))
	variable(main, "KUBERAY_GEN_RAY_START_CMD", command)
	variable(main, "RAY_PORT", port(&node{params: c.Spec.HeadGroupSpec.RayStartParams}))
	variable(main, "RAY_ADDRESS", address)
	variable(main, "RAY_USAGE_STATS_KUBERAY_IN_USE", "1")
	variable(main, "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1")
	authenticate(c, main)
	if !AsksKubernetes(&c.Spec) ||
		slices.ContainsFunc(t.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == tokenVolume }) {
		return
	}
	t.Spec.Volumes = append(
		t.Spec.Volumes,
		corev1.Volume{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			},
		}}},
	)
}

// TokenKey is the key of the token in the Secret of a cluster that asks for one.
const TokenKey = "auth_token"

// tokenVariable is the variable in which Ray's processes have it.
const tokenVariable = "RAY_AUTH_TOKEN" //nolint:gosec // a name, and no token

// AsksForToken reports whether those who talk to a cluster need its token.
func AsksForToken(s *api.RayClusterSpec) bool {
	return s.AuthOptions != nil && s.AuthOptions.Mode != api.AuthDisabled
}

// AsksKubernetes reports whether the tokens of a cluster are those of ServiceAccounts.
func AsksKubernetes(s *api.RayClusterSpec) bool {
	return AsksForToken(s) && ptr.Deref(s.AuthOptions.EnableK8sTokenAuth, false)
}

// TokenSecret is the Secret with the token of a cluster of that name: one that is made for it,
// unless its author names another one.
func TokenSecret(s *api.RayClusterSpec, cluster string) string {
	if named := ptr.Deref(s.AuthOptions.SecretName, ""); named != "" {
		return named
	}
	return cluster
}

// Authenticate gives a container the token of a cluster of that name.
func Authenticate(s *api.RayClusterSpec, cluster string, to *corev1.Container) {
	if !AsksForToken(s) {
		return
	}
	variable(to, "RAY_AUTH_MODE", string(api.AuthToken))
	if AsksKubernetes(s) {
		variable(to, "RAY_ENABLE_K8S_TOKEN_AUTH", "true")
		if !slices.ContainsFunc(
			to.VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.Name == tokenVolume || m.MountPath == tokenPath },
		) {
			to.VolumeMounts = append(
				to.VolumeMounts,
				corev1.VolumeMount{Name: tokenVolume, MountPath: tokenPath, ReadOnly: true},
			)
		}
		return
	}
	add(to, corev1.EnvVar{Name: tokenVariable, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: TokenSecret(s, cluster)},
			Key:                  TokenKey,
		},
	}})
}

func authenticate(c *api.RayCluster, to *corev1.Container) { Authenticate(&c.Spec, c.Name, to) }

// tolerant reports whether a cluster survives its head.
func tolerant(c *api.RayCluster) bool {
	return c.Spec.GcsFaultToleranceOptions != nil || c.Annotations[api.FaultTolerantAnnotation] == "true"
}

// persistence tells the head where it keeps what has to survive it.
func persistence(c *api.RayCluster, main *corev1.Container) {
	if !tolerant(c) {
		return
	}
	where := c.Annotations[api.StorageNamespaceAnnotation]
	if o := c.Spec.GcsFaultToleranceOptions; o != nil {
		if o.ExternalStorageNamespace != "" {
			where = o.ExternalStorageNamespace
		}
		if o.RedisAddress != "" {
			variable(main, "RAY_REDIS_ADDRESS", o.RedisAddress)
		}
		credential(main, "REDIS_USERNAME", o.RedisUsername)
		credential(main, "REDIS_PASSWORD", o.RedisPassword)
	}
	if where == "" {
		where = string(c.UID)
	}
	variable(main, "RAY_external_storage_namespace", where)
}

func credential(c *corev1.Container, name string, of *api.RedisCredential) {
	if of != nil {
		add(c, corev1.EnvVar{Name: name, Value: of.Value, ValueFrom: of.ValueFrom})
	}
}

// Times of probes, in seconds.
const (
	liveDelay, readyDelay, probePeriod = 30, 10, 5
	liveFailures, readyFailures        = 120, 10
	headPatience, workerPatience       = 5, 2
)

// probe asks Ray how it is, where the author asks nothing.
func probe( //nolint:revive // one of two kinds of nodes
	c *corev1.Container,
	options map[string]string,
	isHead bool,
) {
	const ask = "wget --tries 1 -T %d -q -O- http://localhost:%s/api/%s | grep success"
	script := fmt.Sprintf(ask, workerPatience, options[optAgent], "local_raylet_healthz")
	patience := int32(workerPatience)
	if isHead {
		dashboard := options["dashboard-port"]
		if dashboard == "" {
			dashboard = "8265"
		}
		script += " && " + fmt.Sprintf(ask, 10, dashboard, "gcs_healthz")
		patience = headPatience
	}
	with := func(delay, failures int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				Exec: &corev1.ExecAction{Command: []string{"bash", "-c", script}},
			},
			InitialDelaySeconds: delay,
			TimeoutSeconds:      patience,
			PeriodSeconds:       probePeriod,
			SuccessThreshold:    1,
			FailureThreshold:    failures,
		}
	}
	if c.LivenessProbe == nil {
		c.LivenessProbe = with(liveDelay, liveFailures)
	}
	if c.ReadinessProbe == nil {
		c.ReadinessProbe = with(readyDelay, readyFailures)
	}
}

// sharedMemory gives Ray's object store its room, of the memory that the container has.
func sharedMemory(t *corev1.PodTemplateSpec) {
	c := &t.Spec.Containers[0]
	mounted := slices.ContainsFunc(
		c.VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.MountPath == memoryPath || m.Name == memoryVolume },
	)
	if mounted ||
		slices.ContainsFunc(t.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == memoryVolume }) {
		return
	}
	volume := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	size := c.Resources.Requests[corev1.ResourceMemory]
	if size.IsZero() {
		size = c.Resources.Limits[corev1.ResourceMemory]
	}
	if !size.IsZero() {
		volume.SizeLimit = new(size.DeepCopy())
	}
	t.Spec.Volumes = append(
		t.Spec.Volumes,
		corev1.Volume{Name: memoryVolume, VolumeSource: corev1.VolumeSource{EmptyDir: volume}},
	)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: memoryVolume, MountPath: memoryPath})
}

// mountLogs gives the autoscaler the files by which it tells Ray what it does.
func mountLogs(t *corev1.PodTemplateSpec) {
	c := &t.Spec.Containers[0]
	if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == logPath }) {
		return
	}
	t.Spec.Volumes = append(
		t.Spec.Volumes,
		corev1.Volume{Name: logVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: logVolume, MountPath: logPath})
}

// wait makes the container that holds a worker back until the head answers. It asks for no
// more than the one that it is for, so that a pod needs no more than its author wrote.
func wait(main *corev1.Container, address string) corev1.Container {
	script := "until ray health-check --address " + address + " > /dev/null 2>&1; do echo 'The head does not answer yet.'; sleep 5; done"
	return corev1.Container{
		Name:            waitName,
		Image:           main.Image,
		ImagePullPolicy: main.ImagePullPolicy,
		SecurityContext: main.SecurityContext,
		Command:         shell(),
		Args:            []string{script},
		Env:             slices.Clone(main.Env),
		EnvFrom:         main.EnvFrom,
		VolumeMounts:    slices.Clone(main.VolumeMounts),
		Resources: corev1.ResourceRequirements{
			Limits:   atMost(main.Resources.Limits),
			Requests: atMost(main.Resources.Requests),
		},
	}
}

// atMost is what there is of cpu and memory, and not more than a little.
func atMost(has corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	for name, most := range map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("256Mi")} {
		q, is := has[name]
		if !is {
			continue
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		if q.Cmp(most) > 0 {
			q = most
		}
		out[name] = q
	}
	return out
}

// chosen tells Ray which autoscaler its author wants, who need not want the one that the
// version of Ray has by itself.
func chosen(s *api.RayClusterSpec, to *corev1.Container) {
	if o := s.AutoscalerOptions; o != nil && o.Version != nil {
		variable(to, "RAY_enable_autoscaler_v2", map[bool]string{true: "1", false: "0"}[version2(s)])
	}
}

func version2(s *api.RayClusterSpec) bool {
	return s.AutoscalerOptions != nil &&
		ptr.Deref(s.AutoscalerOptions.Version, api.AutoscalerV1) == api.AutoscalerV2
}

// account is the ServiceAccount of the head of a cluster that grows by itself.
func account(c *api.RayCluster) string {
	if name := c.Spec.HeadGroupSpec.Template.Spec.ServiceAccountName; name != "" {
		return name
	}
	return c.Name
}

// scaler is what is counted of the container that decides how many workers there are.
func scaler(s *api.RayClusterSpec, image string) corev1.Container {
	some := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("500m"),
		corev1.ResourceMemory: resource.MustParse("512Mi"),
	}
	out := corev1.Container{
		Name:      autoscalerName,
		Image:     image,
		Resources: corev1.ResourceRequirements{Limits: some, Requests: some},
	}
	if o := s.AutoscalerOptions; o != nil {
		if o.Image != nil {
			out.Image = *o.Image
		}
		if o.Resources != nil {
			out.Resources = *o.Resources
		}
	}
	return out
}

// scalerCommand is the variable with the command that starts the autoscaler, for those who
// start it otherwise.
const scalerCommand = "KUBERAY_GEN_AUTOSCALER_START_CMD"

// autoscaler makes the container that decides how many workers there are.
func autoscaler(c *api.RayCluster, main *corev1.Container) corev1.Container {
	out := scaler(&c.Spec, main.Image)
	out.ImagePullPolicy = main.ImagePullPolicy
	if o := c.Spec.AutoscalerOptions; o != nil {
		out.Env, out.EnvFrom, out.VolumeMounts = slices.Clip(o.Env), o.EnvFrom, slices.Clip(o.VolumeMounts)
		out.SecurityContext = o.SecurityContext
		if o.ImagePullPolicy != nil {
			out.ImagePullPolicy = *o.ImagePullPolicy
		}
	}
	add(&out, fieldOf("RAY_CLUSTER_NAME", "metadata.labels['"+api.ClusterLabel+"']"))
	add(&out, fieldOf("RAY_CLUSTER_NAMESPACE", "metadata.namespace"))
	add(&out, fieldOf("RAY_HEAD_POD_NAME", "metadata.name"))
	variable(&out, "KUBERAY_CRD_VER", "v1")
	chosen(&c.Spec, &out)
	authenticate(c, &out)
	const command = "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
	variable(&out, scalerCommand, command)
	out.Command, out.Args = shell(), []string{command}
	if o := c.Spec.AutoscalerOptions; o != nil {
		if len(o.Command) > 0 {
			out.Command = o.Command
		}
		if len(o.Args) > 0 {
			out.Args = o.Args
		}
	}
	for _, m := range main.VolumeMounts { // the author may have given the logs another volume
		if m.MountPath == logPath {
			out.VolumeMounts = append(out.VolumeMounts, m)
		}
	}
	return out
}
