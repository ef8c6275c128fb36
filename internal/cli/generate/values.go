package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// Values are what a PyTorchJob is made of, by the names that MLBatch's chart
// pytorchjob-generator has for them. Settings says what each is for.
type Values struct {
	JobName                              string      `json:"jobName"`
	Namespace                            string      `json:"namespace"`
	QueueName                            string      `json:"queueName"`
	Priority                             string      `json:"priority"`
	CustomLabels                         []Pair      `json:"customLabels"`
	ContainerImage                       string      `json:"containerImage"`
	ImagePullSecrets                     []Name      `json:"imagePullSecrets"`
	ImagePullPolicy                      string      `json:"imagePullPolicy"`
	NumPods                              int32       `json:"numPods"`
	NumCPUsPerPod                        Amount      `json:"numCpusPerPod"`
	NumGPUsPerPod                        int32       `json:"numGpusPerPod"`
	TotalMemoryPerPod                    Amount      `json:"totalMemoryPerPod"`
	LimitCPUsPerPod                      Amount      `json:"limitCpusPerPod"`
	LimitGPUsPerPod                      *int32      `json:"limitGpusPerPod"`
	LimitMemoryPerPod                    Amount      `json:"limitMemoryPerPod"`
	EnvironmentVariables                 []Variable  `json:"environmentVariables"`
	EnvFrom                              []Source    `json:"envFrom"`
	SSHGitCloneConfig                    *GitOverSSH `json:"sshGitCloneConfig"`
	SetupCommands                        []string    `json:"setupCommands"`
	MainProgram                          string      `json:"mainProgram"`
	Volumes                              []Claim     `json:"volumes"`
	RoceGdrResName                       string      `json:"roceGdrResName"`
	NumRoceGdr                           int32       `json:"numRoceGdr"`
	TopologyFileConfigMap                string      `json:"topologyFileConfigMap"`
	NCCLGdrEnvConfigMap                  string      `json:"ncclGdrEnvConfigMap"`
	MultiNicNetworkName                  string      `json:"multiNicNetworkName"`
	DisableSharedMemory                  bool        `json:"disableSharedMemory"`
	MountNVMe                            *Scratch    `json:"mountNVMe"`
	InitContainers                       []Init      `json:"initContainers"`
	AutopilotHealthChecks                []string    `json:"autopilotHealthChecks"`
	HostIgnoreList                       []string    `json:"hostIgnoreList"`
	SchedulerName                        string      `json:"schedulerName"`
	ServiceAccountName                   string      `json:"serviceAccountName"`
	AdmissionGracePeriodDuration         string      `json:"admissionGracePeriodDuration"`
	WarmupGracePeriodDuration            string      `json:"warmupGracePeriodDuration"`
	FailureGracePeriodDuration           string      `json:"failureGracePeriodDuration"`
	RetryPausePeriodDuration             string      `json:"retryPausePeriodDuration"`
	ForcefulDeletionGracePeriodDuration  string      `json:"forcefulDeletionGracePeriodDuration"`
	DeletionOnFailureGracePeriodDuration string      `json:"deletionOnFailureGracePeriodDuration"`
	SuccessTTLDuration                   string      `json:"successTTLDuration"`
	RetryLimit                           *int32      `json:"retryLimit"`
	RestartPolicy                        string      `json:"restartPolicy"`
	TerminationGracePeriodSeconds        *int64      `json:"terminationGracePeriodSeconds"`
}

// Pair is a label.
type Pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Name names an object.
type Name struct {
	Name string `json:"name"`
}

// Key is an entry of a Secret or ConfigMap.
type Key struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// Variable is one of the environment: a text, or an entry of a Secret or ConfigMap.
type Variable struct {
	Name      string  `json:"name"`
	Value     *Scalar `json:"value"`
	Secret    *Key    `json:"secret"`
	ConfigMap *Key    `json:"configmap"`
}

// Source is a Secret or ConfigMap all of whose entries become variables.
type Source struct {
	Prefix       string     `json:"prefix"`
	SecretRef    *SourceRef `json:"secretRef"`
	ConfigMapRef *SourceRef `json:"configMapRef"`
}

// SourceRef names the object of a Source.
type SourceRef struct {
	Name     string `json:"name"`
	Optional *bool  `json:"optional"`
}

// GitOverSSH is what git needs to clone with a deploy key.
type GitOverSSH struct {
	SecretName         string `json:"secretName"`
	ConfigMapName      string `json:"configMapName"`
	SecretMountPath    string `json:"secretMountPath"`
	ConfigMapMountPath string `json:"configMapMountPath"`
	SSHCmd             string `json:"sshCmd"`
}

// Claim is a PersistentVolumeClaim in every pod.
type Claim struct {
	Name      string `json:"name"`
	ClaimName string `json:"claimName"`
	MountPath string `json:"mountPath"`
}

// Scratch is a volume of each pod's own, gone with it.
type Scratch struct {
	Storage          Amount `json:"storage"`
	MountPath        string `json:"mountPath"`
	StorageClassName string `json:"storageClassName"`
}

// Init is a container that runs first.
type Init struct {
	Name    string   `json:"name"`
	Image   string   `json:"image"`
	Command []string `json:"command"`
}

// Amount is a quantity, written as a number or as text; "" is none.
type Amount string

// UnmarshalJSON reads either.
func (a *Amount) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if _, err := resource.ParseQuantity(text); err != nil {
		return fmt.Errorf("read quantity: %w", err)
	}
	*a = Amount(text)
	return nil
}

// quantity of what was checked.
func (a Amount) quantity() resource.Quantity {
	q, _ := resource.ParseQuantity(string(a)) // "" and what was refused is zero
	return q
}

// Scalar is a text that may be written as a number or a truth value.
type Scalar string

// UnmarshalJSON takes numbers and truth values as they are written.
func (s *Scalar) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		text = string(data)
	}
	*s = Scalar(text)
	return nil
}

// Defaults are the values of the chart.
func Defaults() *Values {
	return &Values{
		QueueName:         "default-queue",
		Priority:          "default-priority",
		ImagePullPolicy:   "IfNotPresent",
		NumPods:           1,
		NumCPUsPerPod:     "1",
		TotalMemoryPerPod: "1Gi",
		RoceGdrResName:    "nvidia.com/roce_gdr",
		RestartPolicy:     "Never",
	}
}

// Read fills values from a file in YAML or JSON, and returns where each is written. What is
// wrong is a *strict.FileError.
func (v *Values) Read(file string, data []byte) (strict.Places, error) {
	var doc, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	err := documents.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return strict.Places{}, nil // all values are those of the chart
	}
	if err == nil && !errors.Is(documents.Decode(&second), io.EOF) {
		err = fmt.Errorf("line %d: there is a second document: keep one", max(second.Line, doc.Line))
	}
	if err != nil {
		return nil, strict.Failed(file, []strict.Problem{*strict.SyntaxError(err)})
	}
	root := doc.Content[0]
	if root.ShortTag() == "!!null" {
		return strict.Places{}, nil
	}
	d := strict.Decoder{Places: strict.Places{}, LikeKubectl: true, Hints: map[string]string{
		"mountNVMe.storageClass": `unknown field; did you mean "storageClassName"?`,
	}}
	d.Value(root, reflect.ValueOf(v).Elem(), nil)
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "queueName" && root.Content[i+1].ShortTag() == "!!null" {
			v.QueueName = ""
		}
	}
	return d.Places, strict.Failed(file, d.Problems)
}

// problems gives what is wrong with values the places where they are written.
func problems(places strict.Places, errs field.ErrorList) []strict.Problem {
	out := make([]strict.Problem, len(errs))
	for i, e := range errs {
		text := e.ErrorBody()
		if e.Type == field.ErrorTypeForbidden || e.Type == field.ErrorTypeRequired {
			text = e.Detail
		}
		out[i] = strict.Problem{Position: places.Find(e.Field), Path: e.Field, Text: text}
	}
	return out
}
