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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	// GroupVersion names this version of the API.
	GroupVersion = schema.GroupVersion{Group: "workload.codeflare.dev", Version: "v1beta2"}

	// SchemeBuilder adds the kinds of this version to a scheme.
	SchemeBuilder = (&scheme.Builder{GroupVersion: GroupVersion}).Register(&AppWrapper{}, &AppWrapperList{})

	// AddToScheme adds the kinds of this version to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// AppWrapperKind is the kind of an AppWrapper.
const AppWrapperKind = "AppWrapper"
