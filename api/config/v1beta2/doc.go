// Package v1beta2 is the configuration file of mlbatch's controller. Its format
// is Kueue's own: apiVersion config.kueue.x-k8s.io/v1beta2, kind Configuration.
// It is the version that others are converted to.
//
// The package holds the types, Default, which fills in what a file leaves out,
// and Validate, which says what is wrong and how to mend it. It reads no files
// and knows nothing of what the settings do; internal/kube/settings does both.
// docs/configuration.md says what each field means to mlbatch.
package v1beta2

// APIVersion and Kind are what a file of this version starts with.
const (
	APIVersion = "config.kueue.x-k8s.io/v1beta2"
	Kind       = "Configuration"
)
