package jobset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// artifacts are the service by which pods are found, and the volumes.
func artifacts(o jobs.Object, _ *jobs.Plan, _ *jobs.Progress) ([]jobs.Artifact, error) {
	js, err := cast(o)
	if err != nil {
		return nil, err
	}
	r := read(js)
	var out []jobs.Artifact
	marks := map[string]string{api.JobSetNameKey: js.Name, api.JobSetUIDKey: string(js.UID)}
	if n := r.js.Spec.Network; *n.EnableDNSHostnames {
		out = append(out, jobs.Artifact{Stays: true, Yields: true, Object: &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: n.Subdomain, Labels: marks, Annotations: marks},
			Spec: corev1.ServiceSpec{
				ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{api.JobSetNameKey: js.Name},
				PublishNotReadyAddresses: *n.PublishNotReadyAddresses,
			},
		}})
	}
	for _, c := range r.claims() {
		out = append(out, jobs.Artifact{Stays: true, Outlives: c.retained, Object: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name:        r.claimName(c.Name),
				Labels:      with(cloned(c.Labels), marks),
				Annotations: with(cloned(c.Annotations), marks),
			},
			Spec: *c.Spec.DeepCopy(),
		}})
	}
	return out, nil
}

func cloned(m map[string]string) map[string]string { return with(nil, m) }

// claim is one that is made for the JobSet.
type claim struct {
	*corev1.PersistentVolumeClaim
	// retained: it stays when the JobSet is deleted.
	retained bool
}

func (r *reading) claims() []claim {
	var out []claim
	for i := range r.js.Spec.VolumeClaimPolicies {
		p := &r.js.Spec.VolumeClaimPolicies[i]
		for j := range p.Templates {
			out = append(out, claim{&p.Templates[j], *p.RetentionPolicy.WhenDeleted == api.RetentionRetain})
		}
	}
	return out
}

func (r *reading) claimName(template string) string { return template + "-" + r.js.Name }
