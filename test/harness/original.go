// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// OriginalComponent describes the original operator's objects of one component: a workload, a Service and ConfigMaps.
type OriginalComponent struct {
	Name    string
	Port    int32
	Configs map[string]string // name of a ConfigMap -> name of its file
}

const applicationFile = "application.yml"

// OriginalComponents are the sample's components for which the original operator creates objects. The twelfth component, uuc, is a third
// party without objects.
var OriginalComponents = []OriginalComponent{
	{"mysql-dataservice", 3306, map[string]string{"mysql-dataservice": "my.cnf", "mysql-dataservice-init": "sdh_auth.sql"}},
	{"eureka", 8761, nil},
	{"api-manager", 9085, map[string]string{"api-manager": applicationFile}},
	{"auth", 9081, map[string]string{"auth": "application.properties"}},
	{"ds-adapter", 9086, map[string]string{"ds-adapter": applicationFile}},
	{"es-adapter", 9087, map[string]string{"es-adapter": applicationFile}},
	{"trd-adapter", 9088, map[string]string{"trd-adapter": applicationFile, "trd-adapter-py": "pythonScript.py"}},
	{"gateway-master", 9184, map[string]string{"gateway-master": applicationFile}},
	{"gateway-web", 9084, map[string]string{"gateway-web": applicationFile}},
	{"proxy", 9094, map[string]string{"proxy": applicationFile}},
	{"web", 80, map[string]string{"web": "app.config.js", "web-template": "default.conf.template"}},
}

// The passwords in the original operator's objects.
const (
	OriginalRootPassword    = "the-root-of-all"
	OriginalJWTSecret       = "0123456789abcdef0123456789abcdef"
	OriginalGatewayPassword = "the-gateway"
)

// originalConfig returns the part of the original operator's file that contains a password.
func originalConfig(config string) string {
	switch config {
	case "auth":
		return "jwt.token.secret=" + OriginalJWTSecret + "\n"
	case "proxy":
		return "jwt:\n  token:\n    secret: " + OriginalJWTSecret + "\n"
	case "api-manager":
		return "gateway:\n  userName: admin\n  password: " + OriginalGatewayPassword + "\n"
	case "gateway-web", "gateway-master":
		return "spring.security.user:\n  name: admin\n  password: " + OriginalGatewayPassword + "\n"
	}
	return "server: {}\n"
}

// Objects returns the component's objects with the original operator's labels and owners.
func (c OriginalComponent) Objects(ds *dsv1.DataService) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Namespace: ds.Namespace, Labels: map[string]string{"dataservice": ds.Name, "app": c.Name},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, dsv1.GroupVersion.WithKind(dsv1.Kind))},
		}
	}
	var made []client.Object
	for name, file := range c.Configs {
		made = append(made, &corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{file: originalConfig(name)}})
	}
	app := map[string]string{"app": c.Name}
	made = append(made, &corev1.Service{ObjectMeta: meta(c.Name), Spec: corev1.ServiceSpec{
		Selector: app, Ports: []corev1.ServicePort{{Name: "http", Port: c.Port}},
	}})
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: app},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: c.Name, Image: "registry.example/" + c.Name, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: c.Port}},
		}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: app}
	if c.Name == "mysql-dataservice" {
		pods.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MYSQL_ROOT_PASSWORD", Value: OriginalRootPassword}}
		return append(made, &appsv1.StatefulSet{ObjectMeta: meta(c.Name), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: pods}})
	}
	return append(made, &appsv1.Deployment{ObjectMeta: meta(c.Name), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Selector: selector, Template: pods}})
}

// OriginalsRun returns an error that names a workload without an available pod, or nil if each workload of the original operator has one.
// The journal must watch the workloads' kinds.
func OriginalsRun(j *Journal) error {
	for _, c := range OriginalComponents {
		ready := int32(0)
		if set := Lookup[*appsv1.StatefulSet](j, c.Name); set != nil {
			ready = set.Status.AvailableReplicas
		} else if deployment := Lookup[*appsv1.Deployment](j, c.Name); deployment != nil {
			ready = deployment.Status.AvailableReplicas
		}
		if ready != 1 {
			return fmt.Errorf("%s has no available pod", c.Name)
		}
	}
	return nil
}
