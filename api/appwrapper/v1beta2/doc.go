// Package v1beta2 is the workload.codeflare.dev API: the AppWrapper, which
// queues any set of objects as one job and watches over it.
//
// The package holds types and names only. What an AppWrapper's components mean
// is known to internal/kube/jobs/appwrapper.
//
// +kubebuilder:object:generate=true
// +groupName=workload.codeflare.dev
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion names this version of the API.
var GroupVersion = schema.GroupVersion{Group: "workload.codeflare.dev", Version: "v1beta2"}

// AppWrapperKind is the kind of an AppWrapper.
const AppWrapperKind = "AppWrapper"

// AddToScheme adds the kinds of this version to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &AppWrapper{}, &AppWrapperList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
