// Package v1beta1 is the older version of the configuration file: apiVersion
// config.kueue.x-k8s.io/v1beta1, kind Configuration. Sections that did not
// change are those of v1beta2; Convert turns a file into one of that version.
package v1beta1

// APIVersion and Kind are what a file of this version starts with.
const (
	APIVersion = "config.kueue.x-k8s.io/v1beta1"
	Kind       = "Configuration"
)
