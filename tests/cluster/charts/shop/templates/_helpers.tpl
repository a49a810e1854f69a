{{- define "shop.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "shop.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}
