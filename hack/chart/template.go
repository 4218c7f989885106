// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const prefix = "d3os-operator-"

// template returns the path of an object's template below templates/, and its text.
func (c *chart) template(object *unstructured.Unstructured) (path, text string, err error) {
	folder, condition := placeOf(object)
	path = folder + "/" + strings.TrimPrefix(object.GetName(), prefix)
	change := func(*unstructured.Unstructured) (actions, error) { return nil, nil }
	switch kind := object.GetKind(); kind {
	case "CustomResourceDefinition":
		change = keptCRD
	case "Deployment":
		change = c.deployment
	case "ClusterRoleBinding":
		if object.GetName() == prefix+"manager-rolebinding" {
			return c.binding(path, object)
		}
	}
	if folder == "manager" || folder == "admission" { // several kinds of objects have the same name
		path = folder + "/" + strings.ToLower(object.GetKind())
	}
	lines, err := change(object)
	if err != nil {
		return "", "", err
	}
	text, err = c.print(object, lines)
	return path, when(condition, text), err
}

// placeOf returns the folder of an object's template. condition is the condition under which Helm installs the object; "" for always.
func placeOf(object *unstructured.Unstructured) (folder, condition string) {
	name := strings.TrimPrefix(object.GetName(), prefix)
	switch kind := object.GetKind(); {
	case kind == "CustomResourceDefinition":
		return "crd", ".Values.crd.enable"
	case kind == "ServiceMonitor", kind == "PrometheusRule", strings.HasPrefix(name, "prometheus-"):
		return "prometheus", ".Values.prometheus.enable"
	case strings.HasPrefix(kind, "ValidatingAdmissionPolicy"):
		return "admission", ".Values.admission.enable"
	case strings.Contains(name, "metrics"):
		return "metrics", ".Values.metrics.enable"
	case kind == "PodDisruptionBudget":
		return "manager", "gt (int .Values.manager.replicas) 1"
	case kind == "Deployment", kind == "ServiceAccount":
		return "manager", ""
	case kind == "ClusterRole" && name != "manager-role" && name != "ingressclass-role": // roles for users
		return "rbac", ".Values.rbacHelpers.enable"
	}
	return "rbac", ""
}

func when(condition, text string) string {
	if condition == "" {
		return text
	}
	return "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
}

// actions maps a placeholder to its template lines. In each line, $ stands for the indentation of the placeholder's line.
type actions map[string]string

var placeholder = regexp.MustCompile(`(?m)^( *)(?:- )?(?:[a-zA-Z./-]+: )?'?(@[a-z]+@)'?\n`)

// print returns an object as a template. It replaces a line with a placeholder by the placeholder's action. It replaces the namespace by
// the namespace of the release, also in the user names of ServiceAccounts.
func (c *chart) print(object *unstructured.Unstructured, lines actions) (string, error) {
	data, err := yaml.Marshal(object.Object)
	if err != nil {
		return "", err
	}
	text := strings.NewReplacer("{{", `{{ "{{" }}`, "}}", `{{ "}}" }}`).Replace(string(data))
	text = strings.ReplaceAll(text, "namespace: "+c.namespace+"\n", "namespace: {{ .Release.Namespace }}\n")
	text = strings.ReplaceAll(text, "system:serviceaccount:"+c.namespace+":", "system:serviceaccount:{{ .Release.Namespace }}:")
	if strings.Contains(text, c.namespace) {
		return "", fmt.Errorf("it names the namespace %s elsewhere than in a field namespace or in the name of an account", c.namespace)
	}
	used := 0
	text = placeholder.ReplaceAllStringFunc(text, func(line string) string {
		found := placeholder.FindStringSubmatch(line)
		action, ok := lines[found[2]]
		if !ok {
			return line
		}
		used++
		return found[1] + strings.ReplaceAll(action, "\n$", "\n"+found[1]) + "\n"
	})
	if used != len(lines) {
		return "", fmt.Errorf("it has %d of %d placeholders", used, len(lines))
	}
	return text, nil
}

// keptCRD makes Helm keep a CRD, and the resources of its kind, when the release is uninstalled.
func keptCRD(crd *unstructured.Unstructured) (actions, error) {
	annotations := maps.Clone(crd.GetAnnotations())
	annotations["helm.sh/resource-policy"] = "@keep@"
	crd.SetAnnotations(annotations)
	return actions{"@keep@": "{{- if .Values.crd.keep }}\n$helm.sh/resource-policy: keep\n$" + "{{- end }}"}, nil
}

// binding returns the template of the operator's binding. An operator that watches only certain namespaces has rights only in these
// namespaces and in the operator's own namespace.
func (c *chart) binding(path string, everywhere *unstructured.Unstructured) (string, string, error) {
	one := everywhere.DeepCopy()
	one.SetKind("RoleBinding")
	one.SetNamespace("@namespace@")
	all, err := c.print(everywhere, nil)
	if err != nil {
		return "", "", err
	}
	each, err := c.print(one, actions{"@namespace@": "namespace: {{ . }}"})
	if err != nil {
		return "", "", err
	}
	each = strings.ReplaceAll(each, ".Release", "$.Release") // inside range, only $.Release is the release
	return path, "{{- if .Values.manager.watchNamespaces }}\n{{- range append .Values.manager.watchNamespaces .Release.Namespace | uniq }}\n---\n" + each +
		"{{- end }}\n{{- else }}\n" + all + "{{- end }}\n", nil
}

// deployment replaces the defaults in the operator's Deployment by placeholders for values.
func (c *chart) deployment(object *unstructured.Unstructured) (actions, error) {
	spec, _ := object.Object["spec"].(map[string]any)
	pod, _, err := unstructured.NestedMap(spec, "template", "spec")
	if err != nil {
		return nil, err
	}
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return nil, errors.New("it has more than one container")
	}
	manager, _ := containers[0].(map[string]any)

	var found bool
	if c.Replicas, found, err = unstructured.NestedInt64(spec, "replicas"); err != nil || !found {
		return nil, fmt.Errorf("it has no number of replicas: %w", err)
	}
	resources, err := yaml.Marshal(manager["resources"])
	if err != nil {
		return nil, err
	}
	c.Resources = string(resources)
	if manager["env"], err = c.withoutRelatedImages(manager["env"]); err != nil {
		return nil, err
	}
	arguments, _ := manager["args"].([]any)
	for i, argument := range arguments {
		if text, _ := argument.(string); strings.HasPrefix(text, "--metrics-bind-address=") {
			arguments[i] = "@metrics@"
		}
	}
	manager["args"] = append(arguments, "@args@")
	manager["image"], manager["resources"], manager["imagePullPolicy"] = "@image@", "@resources@", "@pull@"
	pod["serviceAccount"] = "@pod@" // the key sorts before serviceAccountName, and print replaces its line
	spec["replicas"] = "@replicas@"
	return deploymentActions, unstructured.SetNestedMap(spec, pod, "template", "spec")
}

var deploymentActions = actions{
	"@replicas@":  "replicas: {{ .Values.manager.replicas }}",
	"@image@":     `image: {{ include "d3os-operator.image" . | quote }}`,
	"@pull@":      "{{- with .Values.manager.image.pullPolicy }}\n$imagePullPolicy: {{ . }}\n$" + "{{- end }}",
	"@resources@": "resources: {{- toYaml .Values.manager.resources | nindent 10 }}",
	"@metrics@":   "{{- if .Values.metrics.enable }}\n$- --metrics-bind-address=:8443\n$" + "{{- end }}",
	"@args@": "{{- with .Values.manager.watchNamespaces }}\n$" + `- {{ printf "--watch-namespaces=%s" (join "," .) | quote }}` + "\n$" + "{{- end }}\n$" +
		"{{- with .Values.manager.args }}\n$" + "{{- toYaml . | nindent 8 }}\n$" + "{{- end }}",
	"@images@": "{{- range $name, $image := .Values.relatedImages }}\n$- name: RELATED_IMAGE_{{ $name }}\n$  value: {{ $image | quote }}\n$" + "{{- end }}",
	"@env@":    "{{- with .Values.manager.env }}\n$" + "{{- toYaml . | nindent 8 }}\n$" + "{{- end }}",
	"@pod@": "{{- with .Values.manager.imagePullSecrets }}\n$imagePullSecrets: {{- toYaml . | nindent 8 }}\n$" + "{{- end }}\n$" +
		"{{- with .Values.manager.nodeSelector }}\n$nodeSelector: {{- toYaml . | nindent 8 }}\n$" + "{{- end }}\n$" +
		"{{- with .Values.manager.tolerations }}\n$tolerations: {{- toYaml . | nindent 8 }}\n$" + "{{- end }}\n$" +
		"{{- with .Values.manager.priorityClassName }}\n$priorityClassName: {{ . | quote }}\n$" + "{{- end }}",
}

// withoutRelatedImages returns the variables that do not name default images. Default images become values.
func (c *chart) withoutRelatedImages(env any) ([]any, error) {
	variables, _ := env.([]any)
	kept, images := []any{"@images@"}, map[string]any{}
	for _, variable := range variables {
		fields, _ := variable.(map[string]any)
		name, _ := fields["name"].(string)
		if component, ok := strings.CutPrefix(name, "RELATED_IMAGE_"); ok {
			images[component] = fields["value"]
			continue
		}
		kept = append(kept, variable)
	}
	data, err := yaml.Marshal(images)
	c.RelatedImages = string(data)
	return append(kept, "@env@"), err
}
