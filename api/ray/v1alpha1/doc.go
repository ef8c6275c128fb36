// Package v1alpha1 is an older version of the ray.io API. What is written in it is read as
// v1: the fields are the same.
//
// +kubebuilder:object:generate=true
// +groupName=ray.io
package v1alpha1
