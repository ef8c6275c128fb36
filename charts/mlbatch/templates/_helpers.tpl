{{/* Written by "make gen" from tools/charts. Do not edit. */}}
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
