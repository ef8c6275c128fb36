package v1

import "k8s.io/apimachinery/pkg/runtime"

// Anything is an object that is kept as it is and not read.
// +kubebuilder:object:generate=true
type Anything struct {
	runtime.RawExtension `json:",inline"`
}
