package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// generated begins all files.
const generated = "# Written by mlbatch install --write-charts. Do not edit.\n"

// chartFrame is what a chart has beside its objects.
func chartFrame(appVersion string) (map[string]string, error) {
	v := install.DefaultValues("")
	values, err := valuesFile(v)
	if err != nil {
		return nil, err
	}
	schema, err := json.MarshalIndent(schemaOf(reflect.TypeOf(v), ""), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	files := map[string]string{
		"Chart.yaml": generated + `apiVersion: v2
name: mlbatch
description: Queues, quotas and gang scheduling for AI batch jobs on Kubernetes
type: application
version: ` + chartVersion + `
appVersion: ` + strconv.Quote(appVersion) + `
kubeVersion: ">= 1.32.0-0"
keywords: [batch, ai, gpu, scheduling, quota, queue, kueue]
annotations:
  artifacthub.io/license: Apache-2.0
  artifacthub.io/category: ai-machine-learning
  artifacthub.io/operator: "true"
`,
		"values.yaml":               generated + values,
		"values.schema.json":        string(schema) + "\n",
		"templates/_helpers.tpl":    helpers,
		"templates/NOTES.txt":       notes,
		"templates/extra.yaml":      extra,
		"templates/checks.yaml":     checks,
		"templates/tests/test.yaml": testPod,
	}
	for name, one := range variants() {
		text, err := yaml.Marshal(one.values)
		if err != nil {
			return nil, fmt.Errorf("write values: %w", err)
		}
		files["values-"+name+".yaml"] = generated + "# " + one.about + "\n" + string(text)
	}
	return files, nil
}

const helpers = `{{/* Written by mlbatch install --write-charts. Do not edit. */}}
{{- define "mlbatch.fullname" -}}
{{ default "mlbatch" .Values.fullnameOverride }}
{{- end }}

{{- define "mlbatch.chart" -}}
{{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "mlbatch.version" -}}
{{ default .Chart.AppVersion .Values.image.tag | trunc 63 }}
{{- end }}

{{- define "mlbatch.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- define "mlbatch.kinds" -}}
{{- $modes := list }}
{{- range $kind, $mode := . }}{{ $modes = append $modes (printf "%s=%s" $kind $mode) }}{{ end }}
{{- join "," $modes }}
{{- end }}
`

// extra are objects of the admin, with the labels by which they are found again.
const extra = `{{- $labels := dict
  "app.kubernetes.io/name" "mlbatch" "app.kubernetes.io/part-of" "mlbatch"
  "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/version" (include "mlbatch.version" .) "helm.sh/chart" (include "mlbatch.chart" .) }}
{{- range .Values.extraObjects }}
---
{{ toYaml (mergeOverwrite (deepCopy .) (dict "metadata" (dict "labels" $labels))) }}
{{- end }}
`

// checks refuse what no schema can say.
const checks = `{{/* Written by mlbatch install --write-charts. Do not edit. */}}
{{- if and (not .Values.scheduler.enabled) (has .Values.controller.schedulerName (list "" "mlbatch-scheduler")) }}
{{- fail "controller.schedulerName: mlbatch's scheduler is not installed (scheduler.enabled: false): name the one that binds the pods of jobs, such as default-scheduler" }}
{{- end }}
{{- range $i, $o := .Values.extraObjects }}
{{- if not (and $o.apiVersion $o.kind (dig "metadata" "name" "" $o)) }}
{{- fail (printf "extraObjects[%d]: an object needs apiVersion, kind and metadata.name" $i) }}
{{- end }}
{{- end }}
`

const notes = `mlbatch {{ include "mlbatch.version" . }} is in namespace {{ .Release.Namespace }}, as soon as its pods are ready:

  kubectl rollout status -n {{ .Release.Namespace }} deployment/{{ include "mlbatch.fullname" . }}-controller

Then, with the program on your machine:

  mlbatch doctor
  mlbatch team create blue --create-flavor --gpus 8 --users alice
  mlbatch run -n blue --gpus 1 --image IMAGE -- COMMAND
{{ if not .Values.crds.keep }}
crds.keep is false: helm uninstall deletes all queues, quotas and jobs of mlbatch's kinds.
{{ end }}
{{- if eq .Values.image.registry "localhost" }}
No registry has the image {{ include "mlbatch.image" . }}: import it on every node (make images),
or push it to a registry of yours and set image.registry, image.repository and image.tag.
{{ end }}`

// testPod asks, from where the programs run, whether they answer. It has an account of its own, which
// may read what mlbatch doctor looks at, and is there for as long as the test. What administrators and
// teams have set up is none of its business.
const testPod = `{{- define "mlbatch.test" -}}
name: {{ include "mlbatch.fullname" . }}-test
labels:
  app.kubernetes.io/name: mlbatch
  app.kubernetes.io/part-of: mlbatch
  app.kubernetes.io/component: test
  app.kubernetes.io/instance: {{ .Release.Name | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "mlbatch.test" . | nindent 2 }}
    helm.sh/hook-weight: "-1"
  namespace: {{ .Release.Namespace | quote }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "mlbatch.test" . | nindent 2 }}
    helm.sh/hook-weight: "-1"
rules:
- {apiGroups: [""], resources: [namespaces, nodes, pods], verbs: [get, list]}
- {apiGroups: [apps], resources: [deployments], verbs: [get, list]}
- {apiGroups: [scheduling.k8s.io], resources: [priorityclasses], verbs: [get, list]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations], verbs: [get, list]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list]}
- {apiGroups: [apiregistration.k8s.io], resources: [apiservices], verbs: [get, list]}
- {apiGroups: [kueue.x-k8s.io], resources: [admissionchecks, clusterqueues, cohorts, localqueues, resourceflavors, workloads], verbs: [get, list]}
- {apiGroups: [visibility.kueue.x-k8s.io], resources: [clusterqueues/pendingworkloads], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "mlbatch.test" . | nindent 2 }}
    helm.sh/hook-weight: "-1"
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ include "mlbatch.fullname" . }}-test}
subjects:
- {kind: ServiceAccount, name: {{ include "mlbatch.fullname" . }}-test, namespace: {{ .Release.Namespace | quote }}}
---
apiVersion: v1
kind: Pod
metadata:
  {{- include "mlbatch.test" . | nindent 2 }}
  namespace: {{ .Release.Namespace | quote }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ include "mlbatch.fullname" . }}-test
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    {{- if ne .Values.platform "openshift" }}
    runAsUser: 65532
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  containers:
  - name: test
    image: {{ include "mlbatch.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args: [doctor, --installation, --fail-on, error]
    resources:
      requests: {cpu: 10m, memory: 64Mi}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
`

// variant is values of the platforms of MLBatch's set-up document.
type variant struct {
	about  string
	values map[string]any
}

func variants() map[string]variant {
	of := func(name string) map[string]any {
		return map[string]any{"controller": map[string]any{"schedulerName": name}}
	}
	return map[string]variant{
		"openshift": {
			"OpenShift: users of containers are those of the namespace, its monitoring reads the metrics, members of teams see routes and projects.",
			map[string]any{
				"platform": install.OpenShift,
				"networkPolicy": map[string]any{
					"metrics": []any{
						map[string]any{
							"namespaceSelector": map[string]any{
								"matchLabels": map[string]any{"kubernetes.io/metadata.name": "openshift-monitoring"},
							},
						},
					},
				},
			},
		},
		"coscheduling": {
			"A cluster that was set up with Coscheduling: pods keep the name of that scheduler, which mlbatch's answers to.",
			of("scheduler-plugins-scheduler"),
		},
		"stock": {
			"Without mlbatch's scheduler: that of Kubernetes binds the pods of jobs, each to the node that its job was given (docs/install.md).",
			map[string]any{
				"controller": map[string]any{"schedulerName": "default-scheduler"},
				"scheduler":  map[string]any{"enabled": false},
			},
		},
		"sakkara": {
			"A cluster that was set up with Sakkara: pods keep the name of that scheduler, which mlbatch's answers to.",
			of("sakkara-scheduler"),
		},
	}
}

// about says what values are for, by path.
func about() map[string]string {
	program := func(name string) map[string]string {
		return map[string]string{
			name + ".replicas":  "How many of them run; one leads.",
			name + ".resources": "What its container asks for. Of the CPU there is no limit: what is throttled decides late.",
			name + ".extraArgs": "Further flags, see `mlbatch " + name + " --help`.",
		}
	}
	out := map[string]string{
		"fullnameOverride":                  "Name of Deployments and what belongs to them, instead of mlbatch. Roles, accounts and Services keep their names.",
		"platform":                          "kubernetes or openshift.",
		"image":                             "The image of mlbatch.",
		"image.registry":                    "localhost is on no registry: the nodes have it.",
		"image.repository":                  "Its name there.",
		"image.tag":                         "Empty means the version of the chart, or of the program that installs.",
		"image.digest":                      "sha256:..., instead of a tag.",
		"image.pullPolicy":                  "Always, IfNotPresent or Never.",
		"imagePullSecrets":                  "Secrets to pull the image with, as {name: NAME}.",
		"controller":                        "The controller decides, starts and stops jobs, and answers webhooks.",
		"controller.config":                 "Its configuration file, that of Kueue (docs/configuration.md).",
		"controller.schedulerName":          "Scheduler of pods of jobs that name none of scheduler.names. Of another than mlbatch's they are held until their job has nodes, and bound to those.",
		"controller.kinds":                  "What is done with jobs of a kind: run (the default), queue or ignore (docs/other-operators.md). The definitions of kinds that are not run are left to their operator.",
		"scheduler":                         "The scheduler binds pods where they were planned.",
		"scheduler.enabled":                 "Without it controller.schedulerName binds the pods of jobs, and must be another one (docs/install.md).",
		"scheduler.names":                   "Names in spec.schedulerName that it answers to.",
		"agent":                             "The agents look after the health of nodes, one on each (docs/agent.md).",
		"agent.enabled":                     "Installs them.",
		"agent.config":                      "Their configuration file: which checks run when, what is expected of GPUs.",
		"agent.writeLabel":                  "Has them write the label autopilot.ibm.com/gpuhealth, for clusters whose controller does not.",
		"agent.toolsImage":                  "An image with the tools that they run, such as dcgmi, into which the program is copied. Empty: that of mlbatch, which has none.",
		"agent.runtimeClassName":            "RuntimeClass that shows containers the GPUs, such as nvidia; empty where the default does.",
		"agent.kernelLog":                   "File of nodes with the kernel log, such as /var/log/kern.log, for the check xid. The namespace must let pods see files of nodes.",
		"agent.nodeSelector":                "Labels of the nodes that they run on.",
		"agent.tolerations":                 "Taints of nodes that they may run on: all, by default.",
		"agent.resources":                   "What their container asks for. The limit is for the tools that they run.",
		"agent.extraArgs":                   "Further flags, see `mlbatch agent --help`.",
		"nodeSelector":                      "Labels of the nodes that both run on.",
		"tolerations":                       "Taints of nodes that both may run on.",
		"affinity":                          "Where both are to run. Left out, replicas are spread over nodes and zones.",
		"priorityClassName":                 "Priority class of both.",
		"podDisruptionBudget":               "Keeps one of two replicas while nodes are drained.",
		"podDisruptionBudget.enabled":       "Replicas of one are not kept.",
		"networkPolicy":                     "Who may connect to them.",
		"networkPolicy.enabled":             "Lets in the API server, probes and readers of metrics.",
		"networkPolicy.apiServer":           "Addresses of the API server, as 10.0.0.0/28. Without any the ports that it calls are open to all who prove who they are.",
		"networkPolicy.nodes":               "Addresses of nodes, for network plugins that do not let in probes of kubelets.",
		"networkPolicy.metrics":             "Who may read metrics, as peers of a NetworkPolicy.",
		"metrics":                           "Metrics of both.",
		"metrics.serviceMonitor":            "For the Prometheus operator.",
		"metrics.serviceMonitor.enabled":    "Makes ServiceMonitors.",
		"metrics.serviceMonitor.labels":     "Labels by which your Prometheus finds them, such as {release: prometheus}.",
		"metrics.prometheusRule":            "Rules that alert, for the Prometheus operator (docs/runbook.md has a row for each).",
		"metrics.prometheusRule.enabled":    "Makes the PrometheusRule.",
		"metrics.prometheusRule.labels":     "Labels by which your Prometheus finds it, such as {release: prometheus}.",
		"metrics.prometheusRule.runbookURL": "Where people find docs/runbook.md; each alert names it then.",
		"metrics.dashboards":                "Boards for Grafana: the cluster, a team, nodes, a job.",
		"metrics.dashboards.enabled":        "Makes a ConfigMap of each, in the namespace of mlbatch.",
		"metrics.dashboards.labels":         "Labels by which Grafana's sidecar finds them.",
		"metrics.readers":                   "Who may read the controller's metrics, as subjects of a binding: the service account of your Prometheus.",
		"visibility":                        "The API of what waits, which mlbatch why asks (docs/visibility-api.md).",
		"visibility.enabled":                "Registers it with the API server. Without it why answers from conditions alone.",
		"certManager":                       "Certificates by cert-manager.",
		"certManager.enabled":               "Without it the controller makes and renews them itself.",
		"crds":                              "The definitions of kinds.",
		"crds.enabled":                      "Installs and upgrades them.",
		"crds.keep":                         "Keeps them, and all queues and jobs, when Helm uninstalls the release.",
		"extraObjects":                      "Further objects, as manifests.",
	}
	for _, name := range []string{"controller", "scheduler"} {
		maps.Copy(out, program(name))
	}
	return out
}

// fieldsOf are the fields of a struct in their order, those of embedded ones in their place.
func fieldsOf(t reflect.Type) []reflect.StructField {
	var out []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous && f.Tag.Get("json") == "" {
			for _, inner := range fieldsOf(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				out = append(out, inner)
			}
			continue
		}
		out = append(out, f)
	}
	return out
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// owned reports whether a type is a section of values, and not one of Kubernetes.
func owned(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasSuffix(t.PkgPath(), "internal/kube/install")
}

// valuesFile is values.yaml: all values with their defaults and what they are for.
func valuesFile(v install.Values) (string, error) {
	var b strings.Builder
	err := section(&b, reflect.ValueOf(v), "", "")
	return b.String(), err
}

func section(b *strings.Builder, v reflect.Value, at, indent string) error {
	for _, f := range fieldsOf(v.Type()) {
		name := jsonName(f)
		path := strings.TrimPrefix(at+"."+name, ".")
		text := about()[path]
		if text == "" {
			return fmt.Errorf("nothing says what the value %s is for", path)
		}
		if indent == "" {
			b.WriteString("\n")
		}
		fmt.Fprintf(b, "%s# %s\n", indent, text)
		value := v.FieldByIndex(f.Index)
		if owned(value.Type()) {
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			if err := section(b, value, path, indent+"  "); err != nil {
				return err
			}
			continue
		}
		data, err := yaml.Marshal(map[string]any{name: orEmpty(value)})
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		for l := range strings.Lines(string(data)) {
			b.WriteString(indent + l)
		}
	}
	return nil
}

// orEmpty is an empty set where there is nothing: Helm knows what may be merged by that.
func orEmpty(v reflect.Value) any {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return map[string]any{}
	}
	return v.Interface()
}

// schemaOf is a JSON schema of values.
func schemaOf(t reflect.Type, at string) map[string]any {
	out := map[string]any{}
	if at == "" {
		out["$schema"], out["title"] = "https://json-schema.org/draft-07/schema#", "Values of mlbatch"
	}
	if text := about()[at]; text != "" {
		out["description"] = text
	}
	switch at {
	case "platform":
		out["enum"] = []string{install.Kubernetes, install.OpenShift}
	case "image.pullPolicy":
		out["enum"] = []string{"Always", "IfNotPresent", "Never"}
	case "image.repository", "controller.config", "agent.config":
		out["minLength"] = 1
	case "scheduler.names":
		out["minItems"] = 1
	case "controller.replicas", "scheduler.replicas":
		out["minimum"], out["maximum"] = 1, 9
	case "controller.kinds":
		kinds, modes := install.KindModes()
		out["propertyNames"], out["additionalProperties"] = map[string]any{
			"enum": kinds,
		}, map[string]any{
			"enum": modes,
		}
	case "tolerations", "agent.tolerations":
		out["items"] = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
			"key": map[string]any{
				"type": "string",
			},
			"value":             map[string]any{"type": "string"},
			"tolerationSeconds": map[string]any{"type": "integer"},
			"operator": map[string]any{
				"enum": install.Operators(),
			},
			"effect": map[string]any{"enum": install.Effects()},
		}}
	}
	if pattern := install.Patterns()[at]; pattern != "" && t.Kind() == reflect.String {
		out["pattern"] = pattern
	}
	if t == reflect.TypeFor[resource.Quantity]() {
		out["type"] = []string{"string", "number"}
		return out
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), at)
	case reflect.Struct:
		out["type"] = "object"
		if owned(t) {
			properties := map[string]any{}
			for _, f := range fieldsOf(t) {
				name := jsonName(f)
				properties[name] = schemaOf(f.Type, strings.TrimPrefix(at+"."+name, "."))
			}
			if at == "" {
				properties["global"] = map[string]any{
					"type":        "object",
					"description": "Helm adds it to charts within charts.",
				}
			}
			out["properties"], out["additionalProperties"] = properties, false
		}
	case reflect.Map:
		out["type"] = "object"
		if t.Elem().Kind() == reflect.String && out["additionalProperties"] == nil {
			out["additionalProperties"] = map[string]any{"type": "string"}
		}
	case reflect.Slice:
		out["type"] = "array"
		items := map[string]any{"type": "object"}
		if t.Elem().Kind() == reflect.String {
			items["type"] = "string"
		}
		if pattern := install.Patterns()[at]; pattern != "" {
			items["pattern"] = pattern
		}
		if at == "scheduler.names" { // that of Kubernetes answers to it
			items["not"] = map[string]any{"const": "default-scheduler"}
		}
		if out["items"] == nil {
			out["items"] = items
		}
	case reflect.String:
		out["type"] = "string"
	case reflect.Bool:
		out["type"] = "boolean"
	default:
		out["type"] = "integer"
	}
	return out
}
