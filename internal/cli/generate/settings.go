package generate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mlbatch/mlbatch/internal/strict"
)

// Setting is what there is to know of one value: flags, schema and documentation are made of it.
type Setting struct {
	// Name is that of the chart.
	Name string
	// Default in words; "" is none.
	Default string
	// Help says what it does.
	Help string
	// Like shows how a flag is written that does not take plain text or a number.
	Like string
	// Enum lists all that there is.
	Enum []string
	// Least and Most bound a number; Most 0 is without.
	Least, Most int64
	// Flag is the name of the flag where it is not made of Name.
	Flag string
}

// Settings are all values, in the order of Values.
func Settings() []Setting {
	const (
		pods     = 10000
		grace    = "a duration such as 90s, 1h30m or 2d"
		ofSystem = "that of the AppWrapper controller"
	)
	return []Setting{
		{
			Name: "jobName",
			Help: "name of the AppWrapper and of the PyTorchJob in it, up to 50 characters; required",
		},
		{Name: "namespace", Help: "namespace to write into the manifest", Default: "that of kubectl"},
		{Name: "queueName", Help: "LocalQueue; empty or null leaves the label out", Default: "default-queue"},
		{Name: "priority", Help: "PriorityClass of the pods", Default: "default-priority"},
		{Name: "customLabels", Help: "labels of the AppWrapper, the PyTorchJob and the pods", Like: "KEY=VALUE"},
		{Name: "containerImage", Help: "image of the container; required"},
		{Name: "imagePullSecrets", Help: "Secrets to pull images with", Like: "NAME"},
		{
			Name:    "imagePullPolicy",
			Help:    "when the image is pulled",
			Default: "IfNotPresent",
			Enum:    []string{"IfNotPresent", "Always", "Never"},
		},
		{Name: "numPods", Help: "number of pods: a master and workers", Default: "1", Least: 1, Most: pods},
		{Name: "numCpusPerPod", Help: "CPUs that each pod requests", Default: "1"},
		{Name: "numGpusPerPod", Help: "GPUs of each pod, and processes of torchrun if there are any", Default: "0"},
		{Name: "totalMemoryPerPod", Help: "memory that each pod requests", Default: "1Gi"},
		{Name: "limitCpusPerPod", Help: "CPUs that each pod may use", Default: "as requested"},
		{
			Name:    "limitGpusPerPod",
			Help:    "must be numGpusPerPod if it is given: GPUs are not overcommitted",
			Default: "as requested",
		},
		{Name: "limitMemoryPerPod", Help: "memory that each pod may use", Default: "as requested"},
		{
			Name: "environmentVariables",
			Help: "variables: a value, or an entry of a Secret or ConfigMap",
			Like: "NAME=VALUE",
		},
		{
			Name: "envFrom",
			Help: "Secrets and ConfigMaps all of whose entries become variables",
			Like: "{secretRef: {name: NAME}}",
		},
		{
			Name: "sshGitCloneConfig",
			Help: "Secret with a deploy key (id_rsa) and ConfigMap with known_hosts for git",
			Like: "secretName=NAME,configMapName=NAME",
		},
		{Name: "setupCommands", Help: "shell commands that run first in each pod"},
		{
			Name: "mainProgram",
			Help: "program for torchrun, with its arguments; without one, only the setup commands run",
		},
		{
			Name: "volumes",
			Help: "PersistentVolumeClaims to mount",
			Like: "name=NAME,claimName=CLAIM,mountPath=PATH",
		},
		{Name: "roceGdrResName", Help: "resource of RDMA over Ethernet", Default: "nvidia.com/roce_gdr"},
		{Name: "numRoceGdr", Help: "how many of it each pod has; more than one pod only", Default: "0"},
		{Name: "topologyFileConfigMap", Help: "ConfigMap with NCCL's topology file"},
		{Name: "ncclGdrEnvConfigMap", Help: "ConfigMap with variables for NCCL"},
		{Name: "multiNicNetworkName", Help: "network to attach pods to (annotation k8s.v1.cni.cncf.io/networks)"},
		{
			Name:    "disableSharedMemory",
			Help:    "true leaves /dev/shm at its 64 MB; false makes it as large as the pod's memory",
			Default: "false",
		},
		{Name: "mountNVMe", Flag: "mount-nvme", Help: "scratch volume of each pod's own", Like: "storage=SIZE"},
		{
			Name: "initContainers",
			Help: "containers that run before the others",
			Like: "{name: NAME, image: IMAGE, command: [COMMAND]}",
		},
		{
			Name: "autopilotHealthChecks",
			Help: "labels for Autopilot's former per-job checks; nothing reads them any more",
		},
		{Name: "hostIgnoreList", Help: "nodes that pods must not run on"},
		{
			Name:    "schedulerName",
			Help:    "scheduler of the pods",
			Default: ofSystem,
			Enum: []string{
				"sakkara",
				"sakkara-scheduler",
				"scheduler-plugins-scheduler",
				"mlbatch-scheduler",
				"default-scheduler",
			},
		},
		{Name: "serviceAccountName", Help: "ServiceAccount of the pods"},
		{
			Name:    "admissionGracePeriodDuration",
			Help:    "how long pods may take to exist; " + grace,
			Default: ofSystem,
		},
		{Name: "warmupGracePeriodDuration", Help: "how long pods may take to run; " + grace, Default: ofSystem},
		{
			Name:    "failureGracePeriodDuration",
			Help:    "how long pods may be failed before the job is reset; " + grace,
			Default: ofSystem,
		},
		{Name: "retryPausePeriodDuration", Help: "how long to wait before a retry; " + grace, Default: ofSystem},
		{
			Name:    "forcefulDeletionGracePeriodDuration",
			Help:    "when pods that do not go are deleted by force; " + grace,
			Default: ofSystem,
		},
		{
			Name:    "deletionOnFailureGracePeriodDuration",
			Help:    "how long a failed job is kept with its quota, to look at it; " + grace,
			Default: ofSystem,
		},
		{Name: "successTTLDuration", Help: "how long what ended well is kept; " + grace, Default: ofSystem},
		{Name: "retryLimit", Help: "how often the job is retried", Default: ofSystem, Most: 100},
		{
			Name:    "restartPolicy",
			Help:    "what becomes of a pod whose container ended",
			Default: "Never",
			Enum:    []string{"Never", "Always", "OnFailure", "ExitCode"},
		},
		{
			Name:    "terminationGracePeriodSeconds",
			Help:    "how long pods may take to stop",
			Default: "30",
			Most:    1 << 31,
		},
	}
}

// FlagName is how the value is called on a command line: numPods is num-pods.
func (s *Setting) FlagName() string {
	if s.Flag != "" {
		return s.Flag
	}
	return kebab(s.Name)
}

// kebab splits a name at its capitals.
func kebab(name string) string {
	var b strings.Builder
	all := []rune(name)
	for i, r := range all {
		last := i > 0 && !unicode.IsUpper(all[i-1])
		ends := i > 0 && i+1 < len(all) && !unicode.IsUpper(all[i+1])
		if unicode.IsUpper(r) && (last || ends) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// target is the field of a setting.
func (v *Values) target(name string) reflect.Value {
	return strict.FieldsOf(reflect.ValueOf(v).Elem())[name]
}

// Many reports whether a setting can be given several times.
func (s *Setting) Many() bool { return (&Values{}).target(s.Name).Kind() == reflect.Slice }

// Set gives a setting what was written for its flag; one that can be given several times gets
// another entry.
func (v *Values) Set(s *Setting, text string) error {
	at := v.target(s.Name)
	if at.Kind() != reflect.Slice {
		return fill(at, text)
	}
	one := reflect.New(at.Type().Elem()).Elem()
	if err := fill(one, text); err != nil {
		return err
	}
	at.Set(reflect.Append(at, one))
	return nil
}

// Clear empties a setting, so that flags replace what a file says.
func (v *Values) Clear(s *Setting) { v.target(s.Name).SetZero() }

// Get is the value of a setting.
func (v *Values) Get(s *Setting) any { return v.target(s.Name).Interface() }

// fill reads the text of a flag: plain for what is plain, KEY=VALUE,... or YAML for the rest.
func fill(at reflect.Value, text string) error {
	kind := at.Type()
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch {
	case kind.Kind() == reflect.String && kind != reflect.TypeFor[Amount]():
		at.SetString(text)
		return nil
	case kind.Kind() == reflect.Struct && !strings.HasPrefix(strings.TrimSpace(text), "{"):
		return short(at, kind, text)
	}
	return decode(at, text)
}

// decode reads YAML.
func decode(at reflect.Value, text string) error {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 {
		return fmt.Errorf("%q is not understood", text)
	}
	d := strict.Decoder{Places: strict.Places{}}
	d.Value(doc.Content[0], at, nil)
	if len(d.Problems) == 0 {
		return nil
	}
	p := d.Problems[0]
	return fmt.Errorf("%s", strings.TrimPrefix(p.Path+": "+p.Text, ": "))
}

// short reads structs from what is quick to type.
func short(at reflect.Value, kind reflect.Type, text string) error {
	name, value, pair := strings.Cut(text, "=")
	switch kind {
	case reflect.TypeFor[Name]():
		at.Set(reflect.ValueOf(Name{text}))
		return nil
	case reflect.TypeFor[Pair]():
		if !pair {
			return fmt.Errorf("%q: write KEY=VALUE", text)
		}
		at.Set(reflect.ValueOf(Pair{name, value}))
		return nil
	case reflect.TypeFor[Variable]():
		if !pair {
			return fmt.Errorf("%q: write NAME=VALUE, or {name: NAME, secret: {name: NAME, key: KEY}}", text)
		}
		at.Set(reflect.ValueOf(Variable{Name: name, Value: new(Scalar(value))}))
		return nil
	}
	one := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		k, v, is := strings.Cut(part, "=")
		if !is {
			return fmt.Errorf("%q: write KEY=VALUE,KEY=VALUE or {key: value}", text)
		}
		one[strings.TrimSpace(k)] = v
	}
	data, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return decode(at, string(data))
}

// Schema is a JSON schema of the values, for editors.
func Schema() map[string]any {
	properties := map[string]any{}
	for _, s := range Settings() {
		one := typeSchema((&Values{}).target(s.Name).Type())
		one["description"] = s.Help
		if s.Default != "" {
			one["description"] = s.Help + " (default: " + s.Default + ")"
		}
		if len(s.Enum) > 0 {
			one["enum"] = append(anySlice(s.Enum), nil)
		}
		if one["type"] != nil &&
			slices.Contains(one["type"].([]any), any("integer")) && //nolint:forcetypeassert // made below
			s.Name != "numCpusPerPod" &&
			s.Name != "limitCpusPerPod" {
			one["minimum"] = s.Least
			if s.Most > 0 {
				one["maximum"] = s.Most
			}
		}
		properties[s.Name] = one
	}
	return map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Values of mlbatch generate pytorchjob",
		"type":                 "object",
		"additionalProperties": false,
		"required":             []any{"jobName", "containerImage"},
		"properties":           properties,
	}
}

func anySlice(all []string) []any {
	out := make([]any, len(all))
	for i := range all {
		out[i] = all[i]
	}
	return out
}

// typeSchema is that of a Go type; null is the default everywhere.
func typeSchema(t reflect.Type) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[Amount]():
		return map[string]any{"type": []any{"string", "number", "integer", "null"}}
	case t == reflect.TypeFor[Scalar]():
		return map[string]any{"type": []any{"string", "number", "integer", "boolean"}}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": []any{"array", "null"}, "items": typeSchema(t.Elem())}
	case t.Kind() == reflect.Struct:
		properties := map[string]any{}
		for name, f := range strict.FieldsOf(reflect.New(t).Elem()) {
			properties[name] = typeSchema(f.Type())
		}
		return map[string]any{
			"type":                 []any{"object", "null"},
			"additionalProperties": false,
			"properties":           properties,
		}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": []any{"boolean", "null"}}
	case t.Kind() == reflect.String:
		return map[string]any{"type": []any{"string", "null"}}
	}
	return map[string]any{"type": []any{"integer", "null"}}
}

// bounds judges a value by its setting.
func (s *Setting) bounds(v *Values) *field.Error {
	at, path := v.target(s.Name), field.NewPath(s.Name)
	for at.Kind() == reflect.Pointer {
		if at.IsNil() {
			return nil
		}
		at = at.Elem()
	}
	if text := at.String(); len(s.Enum) > 0 && text != "" && !slices.Contains(s.Enum, text) {
		return field.NotSupported(path, text, s.Enum)
	}
	if !at.CanInt() {
		return nil
	}
	switch n := at.Int(); {
	case n < s.Least:
		return field.Invalid(path, n, fmt.Sprintf("must be %d or more", s.Least))
	case s.Most > 0 && n > s.Most:
		return field.Invalid(path, n, fmt.Sprintf("must be %d or less", s.Most))
	}
	return nil
}
