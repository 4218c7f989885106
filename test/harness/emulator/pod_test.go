// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build emulator

package emulator_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/test/harness/stage"
)

const claim = "data-server-0"

// server returns a container that runs the tests' program and uses all features that the tests check.
func server() corev1.Container {
	probe := func(handler corev1.ProbeHandler) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: handler}
	}
	patient := func(handler corev1.ProbeHandler) *corev1.Probe { // a busy machine must not cause a restart
		return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 60, ProbeHandler: handler}
	}
	port := intstr.FromInt32(8080)
	from := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	local := corev1.LocalObjectReference{Name: "settings"}
	return corev1.Container{
		Name: "server", Image: "example/server:v1", Args: []string{"server", "$(FOLDER)"},
		Env: []corev1.EnvVar{
			{Name: "POD_IP", ValueFrom: from("status.podIP")}, {Name: "POD_NAME", ValueFrom: from("metadata.name")},
			{Name: "FOLDER", Value: "/data"}, {Name: "NOTE", Value: "/pod/note"}, {Name: "CONFIG", Value: "/etc/server/server.conf"},
			{Name: "KEY", Value: "/secrets/key"}, {Name: "ADDRESS", Value: "http://$(POD_IP):8080"},
			{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local, Key: "key"}}},
			{Name: "MEMORY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}},
		},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("64Mi")}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: "/data"}, {Name: "pod", MountPath: "/pod"}, {Name: "secret", MountPath: "/secrets"},
			{Name: "config", MountPath: "/etc/server/server.conf", SubPath: "server.conf"},
		},
		StartupProbe:   &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 120, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}},
		ReadinessProbe: probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/env/POD_IP", Port: port}}),
		LivenessProbe:  patient(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "test ! -e /data/sick"}}}),
		Lifecycle:      &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"server", "say", "/data/words", "stopping"}}}},
	}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "server"}, Annotations: map[string]string{"note": "first"}},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{server()}, Volumes: []corev1.Volume{
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "settings"}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
			{Name: "pod", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}}}}}},
		}},
	}
}

// settings creates the Secret and the ConfigMap that pods from template need.
func (s *scene) settings() {
	s.Helper()
	named := metav1.ObjectMeta{Name: "settings"}
	_, err := api.CoreV1().Secrets(s.Namespace).Create(s.Context(), &corev1.Secret{ObjectMeta: named, StringData: map[string]string{"key": "hush /data"}}, metav1.CreateOptions{})
	s.Must(err)
	_, err = api.CoreV1().ConfigMaps(s.Namespace).Create(s.Context(), &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"server.conf": "dir=/data"}}, metav1.CreateOptions{})
	s.Must(err)
}

// statefulSet creates a StatefulSet with one replica and the objects that its pod needs. It returns the pod when the pod is ready.
func (s *scene) statefulSet(change func(*corev1.PodTemplateSpec)) *corev1.Pod {
	s.Helper()
	s.settings()
	t := template()
	if change != nil {
		change(&t)
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "server"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: t.Labels}, Template: t,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}},
	}}
	_, err := api.AppsV1().StatefulSets(s.Namespace).Create(s.Context(), set, metav1.CreateOptions{})
	s.Must(err)
	return s.ready("server-0")
}

func TestProgramSeesItsContainer(t *testing.T) {
	s := start(t)
	pod := s.statefulSet(nil)
	folder, err := s.VolumeFolder(s.Context(), claim)
	s.Must(err)
	for path, want := range map[string]string{
		"/env/POD_IP": pod.Status.PodIP, "/env/POD_NAME": "server-0", "/env/ADDRESS": "http://" + pod.Status.PodIP + ":8080",
		"/env/PASSWORD": "hush /data", "/env/MEMORY": "67108864", "/env/OF_THE_IMAGE": "yes", "/env/HOSTNAME": "server-0",
		"/env/FOLDER": folder, "/read?env=CONFIG": "dir=" + folder, "/read?env=KEY": "hush /data", "/read?env=NOTE": "first", "/env/KUBECONFIG": "",
	} {
		s.answers(pod, path, want)
	}
	_, err = api.CoreV1().Pods(s.Namespace).Patch(s.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"second"}}}`), metav1.PatchOptions{})
	s.Must(err)
	_, err = api.CoreV1().ConfigMaps(s.Namespace).Patch(s.Context(), "settings", types.MergePatchType, []byte(`{"data":{"server.conf":"new"}}`), metav1.PatchOptions{})
	s.Must(err)
	s.Until("the new annotation and settings are in their files", func() error {
		note, config := s.ask(pod, http.MethodGet, "/read?env=NOTE", ""), s.ask(pod, http.MethodGet, "/read?env=CONFIG", "")
		if note != "second" || config != "new" {
			return fmt.Errorf("the files contain %q and %q", note, config)
		}
		return nil
	})
}

// Init containers run in order. A deleted pod runs its preStop hook and gets SIGTERM. Its data exists until its claim is deleted.
func TestVolumeLivesAsLongAsItsClaim(t *testing.T) {
	s := start(t)
	first := s.statefulSet(func(t *corev1.PodTemplateSpec) {
		for _, name := range []string{"one", "two"} {
			t.Spec.InitContainers = append(t.Spec.InitContainers, corev1.Container{
				Name: name, Image: "example/server", Args: []string{"say", "/data/words", name}, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}})
		}
	})
	s.answers(first, "/file/words", "one two ")
	s.Must(api.CoreV1().Pods(s.Namespace).Delete(s.Context(), first.Name, metav1.DeleteOptions{}))
	second := s.pod(first.Name, "is ready again", func(p *corev1.Pod) bool { return p.UID != first.UID && stage.IsReady(p) })
	s.answers(second, "/file/words", "one two stopping terminated one two ")
	if second.Status.PodIP == first.Status.PodIP {
		t.Errorf("the new pod has the old pod's address %s", first.Status.PodIP)
	}
	s.Must(s.WipeVolume(s.Context(), claim))
	s.answers(second, "/file/words", "404 Not Found")

	folder, err := s.VolumeFolder(s.Context(), claim)
	s.Must(err)
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	s.Must(api.CoreV1().PersistentVolumeClaims(s.Namespace).Delete(s.Context(), claim, metav1.DeleteOptions{}))
	s.Must(api.AppsV1().StatefulSets(s.Namespace).Delete(s.Context(), "server", metav1.DeleteOptions{}))
	s.Until("the folder goes with the claim", func() error {
		_, err := os.Stat(folder)
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("the claim's folder still exists: %w", err)
	})
}

// The pod's status names a feature that the emulator does not support.
func TestUnsupportedFeaturesAreReported(t *testing.T) {
	s := start(t)
	s.settings()
	pods := map[string]struct {
		reason, message string
		change          func(*corev1.PodSpec)
	}{
		"image": {"ErrImagePull", "no program for image", func(p *corev1.PodSpec) { p.Containers[0].Name, p.Containers[0].Image = "x", "example/unknown" }},
		"probe": {"CreateContainerConfigError", "probes but by exec, TCP and HTTP are not emulated", func(p *corev1.PodSpec) {
			p.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}
		}},
		"hook": {"CreateContainerConfigError", "hooks but preStop by exec and sleep are not emulated", func(p *corev1.PodSpec) {
			p.Containers[0].Lifecycle.PostStart = &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}
		}},
		"volume": {"CreateContainerConfigError", "its type is not emulated", func(p *corev1.PodSpec) {
			p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}},
		"secret": {"CreateContainerConfigError", `"absent" not found`, func(p *corev1.PodSpec) { p.Volumes[0].Secret.SecretName = "absent" }},
		"executable": {"CrashLoopBackOff", "back-off", func(p *corev1.PodSpec) {
			p.Containers[0] = corev1.Container{Name: "server", Image: "example/server", Command: []string{"/absent"}}
		}},
	}
	for name, each := range pods {
		spec := template().Spec
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		each.change(&spec)
		s.create(name, spec)
	}
	for name, each := range pods {
		s.pod(name, "reports what is missing", func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodPending != (name == "executable") && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
				p.Status.ContainerStatuses[0].State.Waiting.Reason == each.reason && strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, each.message)
		})
		s.Must(api.CoreV1().Pods(s.Namespace).Delete(s.Context(), name, metav1.DeleteOptions{}))
	}
	s.Until("they go", func() error {
		pods, err := api.CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%s still exists", pods.Items[0].Name)
		}
		return err
	})
}

// create creates a pod.
func (s *scene) create(name string, spec corev1.PodSpec) {
	s.Helper()
	_, err := api.CoreV1().Pods(s.Namespace).Create(s.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	s.Must(err)
}
