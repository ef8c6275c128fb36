package raycluster

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// sweepFinalizer has KubeRay's name, so that either goes on where the other was.
const sweepFinalizer = "ray.io/gcs-ft-redis-cleanup-finalizer"

// sweepNode is what the pod is called that removes what a cluster kept.
const sweepNode = "redis-cleanup"

// sweepLinger is how many seconds its Job stays if nobody removes it.
const sweepLinger = 3600

// forget asks Ray to remove what a cluster kept, with the functions of its own release.
const forget = `python -c '
import os, sys
from urllib.parse import urlparse
from ray._private.gcs_utils import cleanup_redis_storage

first = os.environ["RAY_REDIS_ADDRESS"].split(",")[0]
at = urlparse(first if "://" in first else "redis://" + first)
user = os.environ.get("REDIS_USERNAME", at.username)
more = {"username": user} if user else {}
sys.exit(not cleanup_redis_storage(
    host=at.hostname, port=at.port or 6379, use_ssl=at.scheme == "rediss",
    password=os.environ.get("REDIS_PASSWORD", at.password or ""),
    storage_namespace=os.environ["RAY_external_storage_namespace"], **more))
'`

// sweep is the Job that removes what a cluster kept in Redis; nil if it keeps nothing there. It
// runs in a container like the head's, which knows where that is, and asks for little.
func sweep(c *api.RayCluster) *batchv1.Job {
	if !tolerant(c) || len(c.Spec.HeadGroupSpec.Template.Spec.Containers) == 0 {
		return nil
	}
	t := shared(&c.Spec.HeadGroupSpec.Template)
	main := t.Spec.Containers[0]
	persistence(c, &main)
	if password := c.Spec.HeadGroupSpec.RayStartParams["redis-password"]; password != "" &&
		!strings.HasPrefix(password, "$") {
		variable(&main, "REDIS_PASSWORD", password)
	}
	if !slices.ContainsFunc(main.Env, func(e corev1.EnvVar) bool { return e.Name == "RAY_REDIS_ADDRESS" }) {
		return nil
	}
	main.Command, main.Args = shell(), []string{forget}
	main.Ports, main.Lifecycle, main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = nil, nil, nil, nil, nil
	little := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("200m"),
		corev1.ResourceMemory: resource.MustParse("256Mi"),
	}
	main.Resources = corev1.ResourceRequirements{Limits: little, Requests: little}
	t.Spec.Containers, t.Spec.InitContainers, t.Spec.RestartPolicy = []corev1.Container{
		main,
	}, nil, corev1.RestartPolicyNever
	t.Spec.Hostname, t.Spec.Subdomain, t.Spec.Resources, t.Spec.ResourceClaims = "", "", nil, nil
	labels := func() map[string]string {
		return map[string]string{api.ClusterLabel: c.Name, api.NodeTypeLabel: sweepNode}
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:   cut(c.Name, longestName-len("-"+sweepNode)) + "-" + sweepNode,
			Labels: labels(),
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(
				int32(0),
			),
			ActiveDeadlineSeconds:   new(int64(jobs.FinalizationTimeout.Seconds())),
			TTLSecondsAfterFinished: new(int32(sweepLinger)),
			// Those of a cluster that is a part of a job are of the job's admission.
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}, Spec: t.Spec},
		},
	}
}
