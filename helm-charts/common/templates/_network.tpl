{{- /*
Computes the component's ports from its port and the values ports and nodePort:
  servicePorts    the ports of the Service, the main port first; the port from the value port has the name http
  containerPorts  the ports on which the component's container listens
  port            the main port of the container; 0 if the container has none
  listen          the port in the server's configuration
The main port of the Service gets appProtocol, if given. Without it, a mesh treats a port with the name http as HTTP.
*/}}
{{- define "common.ports" }}
{{- $v := .root.Values }}
{{- $port := get . "port" | int }}
{{- $main := dict }}
{{- $rest := list }}
{{- $given := false }}
{{- if $port }}{{ $main = dict "name" "http" "port" $port }}{{ end }}
{{- range get $v "ports" | default list }}
{{- $same := and (eq (int .port) $port) (eq (get . "protocol" | default "TCP") "TCP") }}
{{- if and (not $given) (or $same (not $main)) }}
{{- $main = . }}{{ $given = true }}
{{- else }}
{{- $rest = append $rest . }}
{{- end }}
{{- end }}
{{- $servicePorts := list }}
{{- $containerPorts := list }}
{{- $seen := dict }}
{{- $first := 0 }}
{{- $listen := $port }}
{{- if $main }}
{{- range $i, $p := prepend $rest $main }}
{{- $number := int .port }}
{{- $protocol := get . "protocol" | default "TCP" }}
{{- $target := get . "targetPort" | default $number }}
{{- /* If targetPort is a name, it is the port of another container. */}}
{{- $named := regexMatch "[^0-9]" (toString $target) }}
{{- if not $named }}{{ $target = int $target }}{{ end }}
{{- $servicePort := dict "name" .name "port" $number "targetPort" $target "protocol" $protocol }}
{{- $nodePort := get . "nodePort" | int }}
{{- if and (eq $i 0) (not $nodePort) }}{{ $nodePort = get $v "nodePort" | int }}{{ end }}
{{- if $nodePort }}{{ $_ := set $servicePort "nodePort" $nodePort }}{{ end }}
{{- $servicePorts = append $servicePorts $servicePort }}
{{- if eq $i 0 }}{{ $listen = $number }}{{ with get $ "appProtocol" }}{{ $_ := set $servicePort "appProtocol" . }}{{ end }}{{ end }}
{{- if not $named }}
{{- if eq $i 0 }}{{ $first = $target }}{{ $listen = $target }}{{ end }}
{{- $id := printf "%d/%s" $target $protocol }}
{{- if not (hasKey $seen $id) }}
{{- $_ := set $seen $id true }}
{{- $containerPorts = append $containerPorts (dict "name" .name "containerPort" $target "protocol" $protocol) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set . "servicePorts" $servicePorts }}
{{- $_ := set . "containerPorts" $containerPorts }}
{{- $_ := set . "port" $first }}
{{- $_ := set . "listen" $listen }}
{{- end }}

{{- /* Renders the Service, if the component has a port. */}}
{{- define "common.service" }}
{{- $v := .root.Values }}
{{- if .servicePorts }}
{{- $type := get $v "serviceType" }}
{{- $published := false }}
{{- range .servicePorts }}{{ if hasKey . "nodePort" }}{{ $published = true }}{{ end }}{{ end }}
{{- if and $published (has $type (list "ClusterIP" "Headless")) }}
{{- fail (printf "%s: a nodePort needs a serviceType NodePort or LoadBalancer, not %s" .name $type) }}
{{- end }}
{{- $labels := .labels }}
{{- with get $v "serviceLabels" }}
{{- $all := fromJson $labels }}
{{- include "common.override" (dict "to" $all "from" .) }}
{{- include "common.override" (dict "to" $all "from" (fromJson $.identity)) }}
{{- $labels = toJson $all }}
{{- end }}
{{- $annotations := get . "serviceAnnotations" }}
{{- with get $v "serviceAnnotations" }}
{{- $all := dict }}
{{- include "common.override" (dict "to" $all "from" .) }}
{{- include "common.override" (dict "to" $all "from" ($annotations | default dict)) }}
{{- $annotations = $all }}
{{- end }}
---
apiVersion: v1
kind: Service
{{- include "common.metadata" (dict "root" .root "name" .name "labels" $labels) }}
  {{- with $annotations }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  {{- if eq $type "Headless" }}
  type: ClusterIP
  clusterIP: None
  {{- else }}
  type: {{ $type | default ($published | ternary "NodePort" "ClusterIP") | quote }}
  {{- end }}
  selector: {{ .selector }}
  {{- if eq (get $v "sessionAffinity") "ClientIP" }}
  sessionAffinity: ClientIP
  {{- end }}
  ports:
    {{- range .servicePorts }}
    - {{ toJson . }}
    {{- end }}
{{- end }}
{{- end }}

{{- define "common.ingress" }}
{{- $c := . }}
{{- with get .root.Values "ingress" }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
{{- include "common.metadata" $c }}
  {{- with get . "annotations" }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  {{- with get . "className" }}
  ingressClassName: {{ quote . }}
  {{- end }}
  rules:
    - host: {{ required "ingress.host must be given" .host | quote }}
      http:
        paths:
          - path: {{ get . "path" | default "/" | quote }}
            pathType: Prefix
            backend:
              service:
                name: {{ quote $c.name }}
                port:
                  number: {{ get (first $c.servicePorts | default dict) "port" | required (printf "%s: ingress needs a port" $c.name) }}
  {{- with get . "tlsSecret" }}
  tls:
    - secretName: {{ quote . }}
      hosts: [{{ quote $c.root.Values.ingress.host }}]
  {{- end }}
{{- end }}
{{- end }}

{{- /*
Also sets the fields that the API server would set by default, so that the stored object equals the planned object.
*/}}
{{- define "common.httpRoute" }}
{{- $c := . }}
{{- with get .root.Values "httpRoute" }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
{{- include "common.metadata" $c }}
  {{- with get . "annotations" }}
  annotations: {{ toJson . }}
  {{- end }}
spec:
  parentRefs:
    {{- range required "httpRoute.gateways must be given" .gateways }}
    - group: gateway.networking.k8s.io
      kind: Gateway
      name: {{ quote .name }}
      {{- with get . "namespace" }}
      namespace: {{ quote . }}
      {{- end }}
      {{- with get . "sectionName" }}
      sectionName: {{ quote . }}
      {{- end }}
    {{- end }}
  {{- with get . "hosts" }}
  hostnames: {{ toJson . }}
  {{- end }}
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: {{ get . "path" | default "/" | quote }}
      backendRefs:
        - group: ""
          kind: Service
          name: {{ quote $c.name }}
          port: {{ get (first $c.servicePorts | default dict) "port" | required (printf "%s: httpRoute needs a port" $c.name) }}
          weight: 1
{{- end }}
{{- end }}

{{- /*
Renders a NetworkPolicy that admits the clients in the value networkPolicy to the component's ports. If peers is true, the
component's pods may connect to each other. callers are the names of other components that may connect.
*/}}
{{- define "common.networkPolicy" }}
{{- $policy := get .root.Values "networkPolicy" | default dict }}
{{- if get $policy "enabled" }}
{{- $ports := list }}
{{- $seen := dict }}
{{- range .servicePorts }}
{{- $id := printf "%v/%v" .targetPort .protocol }}
{{- if not (hasKey $seen $id) }}{{ $_ := set $seen $id true }}{{ $ports = append $ports (dict "port" .targetPort "protocol" .protocol) }}{{ end }}
{{- end }}
{{- $from := list }}
{{- $names := get $policy "from" | default list }}
{{- if get . "peers" }}{{ $names = append $names .component }}{{ end }}
{{- $names = concat $names (get . "callers" | default list) }}
{{- with $names }}
{{- $in := dict "key" "app.kubernetes.io/name" "operator" "In" "values" (uniq . | sortAlpha) }}
{{- $from = append $from (dict "podSelector" (dict "matchLabels" (dict "app.kubernetes.io/instance" $.instance) "matchExpressions" (list $in))) }}
{{- end }}
{{- $from = concat $from (get $policy "allowFrom" | default list) }}
{{- $open := get $policy "open" | default false }}
{{- $rules := list }}
{{- if and $ports (or (get .root.Values "ingress") (get .root.Values "httpRoute")) (not $open) }}
{{- /* An ingress controller or a Gateway may run anywhere. It needs only the main port. */}}
{{- $rules = append $rules (dict "ports" (list (first $ports))) }}
{{- $ports = rest $ports }}
{{- end }}
{{- /* The rule for an ingress omits these ports: one may be the port of a mesh, through which all ports can be reached. */}}
{{- range get $policy "additionalPorts" | default list }}{{ $ports = append $ports (dict "port" (int .) "protocol" "TCP") }}{{ end }}
{{- if and $ports $open }}{{ $rules = append $rules (dict "ports" $ports) }}
{{- else if and $ports $from }}{{ $rules = append $rules (dict "ports" $ports "from" $from) }}{{ end }}
{{- /* The operator connects to these ports. It may run in any namespace. */}}
{{- range get . "openPorts" | default list }}{{ $rules = append $rules (dict "ports" (list (dict "port" . "protocol" "TCP"))) }}{{ end }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{- include "common.metadata" . }}
spec:
  podSelector:
    matchLabels: {{ .selector }}
  policyTypes: [Ingress]
  ingress: {{ toJson $rules }}
{{- end }}
{{- end }}
