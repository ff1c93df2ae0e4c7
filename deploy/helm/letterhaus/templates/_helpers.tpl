{{- define "letterhaus.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "letterhaus.selector" -}}
app.kubernetes.io/name: letterhaus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "letterhaus.labels" -}}
{{ include "letterhaus.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "letterhaus.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The API itself speaks TLS when it has a certificate. */}}
{{- define "letterhaus.scheme" -}}
{{ ternary "HTTPS" "HTTP" (or (hasKey .Values.env "LETTERHAUS_API_TLS_CERT") (hasKey .Values.env "LETTERHAUS_ACME")) }}
{{- end -}}

{{- define "letterhaus.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "letterhaus.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# Without it Kubernetes changes owner and mode of each file at each start: of a large database for minutes.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{/*
The pod, which is the same with both databases but for its volume. Takes the root of the chart with `role`, one of
`roles`; a role without a name does everything. Services select pods by what they serve.
*/}}
{{- define "letterhaus.pod" -}}
{{- $parts := .role.only | default "api,delivery,webhooks,inbound" | splitList "," }}
{{- $servesApi := has "api" $parts }}
{{- $receivesMail := has "inbound" $parts -}}
metadata:
  labels:
    {{- include "letterhaus.labels" . | nindent 4 }}
    {{- with .role.name }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
    {{- if $servesApi }}
    letterhaus/serves-api: 'true'
    {{- end }}
    {{- if $receivesMail }}
    letterhaus/receives-mail: 'true'
    {{- end }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with .Values.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "letterhaus.fullname" . }}
  automountServiceAccountToken: false
  # Kubernetes would add a variable for each service of the namespace.
  enableServiceLinks: false
  # Longer than a stop waits for replies of mail servers, after the pause of preStop.
  terminationGracePeriodSeconds: 75
  {{- if .Values.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "letterhaus.podSecurityContext" . | nindent 4 }}
  containers:
    - name: letterhaus
      image: {{ include "letterhaus.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      securityContext: {{- include "letterhaus.securityContext" . | nindent 8 }}
      {{- with .role.only }}
      args: [start, --only, {{ . | quote }}]
      {{- end }}
      env:
        - { name: LETTERHAUS_HOSTNAME, value: {{ required "hostname is required: the name in the PTR record of the address that mail leaves from" .Values.hostname | quote }} }
        {{- with .Values.publicUrl }}
        - { name: LETTERHAUS_PUBLIC_URL, value: {{ . | quote }} }
        {{- end }}
        {{- with .Values.trustedProxies }}
        - { name: LETTERHAUS_TRUSTED_PROXIES, value: {{ join "," . | quote }} }
        {{- end }}
        {{- if and $receivesMail .Values.inbound.enabled }}
        - { name: LETTERHAUS_INBOUND_PORT, value: '2525' }
        {{- end }}
        {{- if and $receivesMail .Values.submission.enabled }}
        - { name: LETTERHAUS_SUBMISSION_PORTS, value: '2587' }
        {{- end }}
        {{- if .Values.metrics.enabled }}
        - { name: LETTERHAUS_METRICS_PORT, value: '0.0.0.0:9464' }
        {{- end }}
        {{- range $name, $value := .Values.env }}
        - { name: {{ $name }}, value: {{ $value | toString | quote }} }
        {{- end }}
        {{- with .Values.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with .Values.existingSecret }}
      envFrom:
        - secretRef: { name: {{ . }} }
      {{- end }}
      ports:
        {{- if $servesApi }}
        - { name: api, containerPort: 3000 }
        {{- end }}
        {{- if and $receivesMail .Values.inbound.enabled }}
        - { name: inbound, containerPort: 2525 }
        {{- end }}
        {{- if and $receivesMail .Values.submission.enabled }}
        - { name: submission, containerPort: 2587 }
        {{- end }}
        {{- if .Values.metrics.enabled }}
        - { name: metrics, containerPort: 9464 }
        {{- end }}
      {{- $health := dict "path" "/healthz" "port" "api" "scheme" (include "letterhaus.scheme" .) }}
      {{- if not $servesApi }}
      {{- $health = dict "path" "/metrics" "port" "metrics" }}
      {{- end }}
      {{- if or $servesApi .Values.metrics.enabled }}
      # A first start creates the database, and a new version may migrate it.
      startupProbe:
        httpGet: {{- toYaml $health | nindent 10 }}
        periodSeconds: 5
        failureThreshold: 60
      # Says that the process is alive, and never anything of the database: a restart would not mend that.
      livenessProbe:
        httpGet: {{- toYaml $health | nindent 10 }}
        timeoutSeconds: 5
        failureThreshold: 6
      {{- end }}
      {{- if $servesApi }}
      readinessProbe:
        httpGet: { path: /readyz, port: api, scheme: {{ include "letterhaus.scheme" . }} }
        periodSeconds: 5
        timeoutSeconds: 5
      {{- end }}
      # The pod leaves the service before it stops to accept.
      lifecycle:
        preStop: { exec: { command: [sleep, '5'] } }
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: tmp, mountPath: /tmp }
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if eq .Values.database "external" }}
    # Everything that must last is in the database and in the secret.
    - name: data
      emptyDir: {}
    {{- else if .Values.storage.existingClaim }}
    - name: data
      persistentVolumeClaim: { claimName: {{ .Values.storage.existingClaim }} }
    {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
