package v1beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MultiKueue sends jobs to other clusters.
type MultiKueue struct {
	GCInterval                  *metav1.Duration              `json:"gcInterval,omitempty"`
	Origin                      *string                       `json:"origin,omitempty"`
	WorkerLostTimeout           *metav1.Duration              `json:"workerLostTimeout,omitempty"`
	DispatcherName              *string                       `json:"dispatcherName,omitempty"`
	ExternalFrameworks          []MultiKueueExternalFramework `json:"externalFrameworks,omitempty"`
	ClusterProfile              *ClusterProfile               `json:"clusterProfile,omitempty"`
	IncrementalDispatcherConfig *IncrementalDispatcherConfig  `json:"incrementalDispatcherConfig,omitempty"`
}

// MultiKueueExternalFramework is a kind, as kind.version.group, that other
// clusters run.
type MultiKueueExternalFramework struct {
	Name string `json:"name"`
}

// ClusterProfile says how to log in to clusters known by their ClusterProfile.
type ClusterProfile struct {
	AccessProviders      []ClusterProfileProvider `json:"accessProviders,omitempty"`
	CredentialsProviders []ClusterProfileProvider `json:"credentialsProviders,omitempty"`
}

// ClusterProfileProvider is a program that hands out credentials.
type ClusterProfileProvider struct {
	Name       string     `json:"name"`
	ExecConfig ExecConfig `json:"execConfig"`
}

// ExecConfig is the exec section of a kubeconfig.
type ExecConfig struct {
	APIVersion         string       `json:"apiVersion,omitempty"`
	Command            string       `json:"command,omitempty"`
	Args               []string     `json:"args,omitempty"`
	Env                []ExecEnvVar `json:"env,omitempty"`
	InstallHint        string       `json:"installHint,omitempty"`
	InteractiveMode    string       `json:"interactiveMode,omitempty"`
	ProvideClusterInfo bool         `json:"provideClusterInfo,omitempty"`
}

// ExecEnvVar is a variable of the environment of such a program.
type ExecEnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// IncrementalDispatcherConfig says how many clusters are asked at a time.
type IncrementalDispatcherConfig struct {
	StepSize *int32 `json:"stepSize,omitempty"`
}
