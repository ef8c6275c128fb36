package install

import (
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/certs"
)

// VisibilityService names the Service in front of the visibility API.
const VisibilityService = certs.VisibilityService

// Visibility is where the visibility API is served.
type Visibility struct {
	// Port is the one that the controller listens on.
	Port int32
	// Selector finds the controller's pods.
	Selector map[string]string
	// ExternalName is a host, instead of pods, where the controller runs outside the
	// cluster.
	ExternalName string
}

// visibilityObjects are the Service and the registrations of the APIs that the controller answers. The
// Service leads to pods that are not ready as well, which say what there is: as long as nobody does, the API
// server knows the kinds of the cluster in part only, and no namespace can be deleted.
func visibilityObjects(o Options) []client.Object {
	v := o.Visibility
	if v == nil {
		return nil
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: VisibilityService}}
	if v.ExternalName != "" {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: v.ExternalName}
	} else {
		s.Spec = corev1.ServiceSpec{
			Selector:                 v.Selector,
			PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{{
				Name: "https", Port: v.Port, TargetPort: intstr.FromInt32(v.Port), Protocol: corev1.ProtocolTCP,
			}},
		}
	}
	objects := []client.Object{s}
	for i, v := range certs.Served() {
		objects = append(objects, apiService(o, v, int64(20-i)))
	}
	return objects
}

// apiService registers an API. The higher the priority, the more it is
// preferred among versions of the group.
func apiService(o Options, v schema.GroupVersion, priority int64) client.Object {
	spec := map[string]any{
		"group":                v.Group,
		"version":              v.Version,
		"groupPriorityMinimum": int64(100),
		"versionPriority":      priority,
		"service": map[string]any{
			"namespace": o.Namespace,
			"name":      VisibilityService,
			"port":      int64(o.Visibility.Port),
		},
	}
	if len(o.CABundle) > 0 {
		spec["caBundle"] = base64.StdEncoding.EncodeToString(o.CABundle)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1",
		"kind":       "APIService",
		"metadata":   map[string]any{"name": certs.APIService(v)},
		"spec":       spec,
	}}
}
