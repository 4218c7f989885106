// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const claim = "data-server-0"

// server is a container with the program of the tests and all that the tests look at.
func server() corev1.Container {
	probe := func(what string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz/" + what, Port: intstr.FromString("http")}}}
	}
	from := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	local := corev1.LocalObjectReference{Name: "settings"}
	return corev1.Container{
		Name: "server", Image: "example/server:v1", Args: []string{"server", "$(FOLDER)"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Env: []corev1.EnvVar{
			{Name: "POD_IP", ValueFrom: from("status.podIP")}, {Name: "POD_NAME", ValueFrom: from("metadata.name")},
			{Name: "FOLDER", Value: "/data"}, {Name: "ANNOTATIONS", Value: "/pod/annotations"}, {Name: "CONFIG", Value: "/etc/server/server.conf"},
			{Name: "KEY", Value: "/secrets/key"}, {Name: "ADDRESS", Value: "http://$(POD_IP):8080"},
			{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local, Key: "key"}}},
			{Name: "MODE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local, Key: "mode"}}},
			{Name: "MEMORY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}},
		},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("64Mi")}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: "/data"}, {Name: "pod", MountPath: "/pod"}, {Name: "secret", MountPath: "/secrets"},
			{Name: "config", MountPath: "/etc/server/server.conf", SubPath: "server.conf"},
		},
		StartupProbe:  &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}},
		LivenessProbe: probe("live"), ReadinessProbe: probe("ready"),
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"server", "say", "/data/words", "stopping"}}}},
	}
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "server"}, Annotations: map[string]string{"note": "first"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{server()}, Volumes: []corev1.Volume{
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "settings"}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
			{Name: "pod", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "annotations", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}}}}}},
		}},
	}
}

// settings creates what the pods of the template need.
func (s *scene) settings() {
	s.Helper()
	named := metav1.ObjectMeta{Name: "settings"}
	_, err := api.CoreV1().Secrets(s.Namespace).Create(s.Context(), &corev1.Secret{ObjectMeta: named, StringData: map[string]string{"key": "hush /data"}}, metav1.CreateOptions{})
	s.Must(err)
	_, err = api.CoreV1().ConfigMaps(s.Namespace).Create(s.Context(), &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"mode": "fast", "server.conf": "dir=/data"}}, metav1.CreateOptions{})
	s.Must(err)
}

// statefulSet creates a StatefulSet of one server with what it needs, and returns its pod when it is ready.
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
		"/env/PASSWORD": "hush /data", "/env/MODE": "fast", "/env/MEMORY": "67108864", "/env/OF_THE_IMAGE": "yes", "/env/HOSTNAME": "server-0",
		"/env/FOLDER": folder, "/read?env=CONFIG": "dir=" + folder, "/read?env=KEY": "hush /data", "/env/KUBECONFIG": "",
	} {
		s.answers(pod, path, want)
	}
	if !strings.Contains(s.ask(pod, http.MethodGet, "/read?env=ANNOTATIONS", ""), `note="first"`) {
		t.Error("the pod's annotations are not in their file")
	}
	_, err = api.CoreV1().Pods(s.Namespace).Patch(s.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"second"}}}`), metav1.PatchOptions{})
	s.Must(err)
	s.Until("the new annotation is in the file", func() error {
		if text := s.ask(pod, http.MethodGet, "/read?env=ANNOTATIONS", ""); !strings.Contains(text, `note="second"`) {
			return fmt.Errorf("it holds %q", text)
		}
		return nil
	})
	_, err = api.CoreV1().ConfigMaps(s.Namespace).Patch(s.Context(), "settings", types.MergePatchType, []byte(`{"data":{"server.conf":"new"}}`), metav1.PatchOptions{})
	s.Must(err)
	s.Until("the new settings are in the file", func() error {
		if text := s.ask(pod, http.MethodGet, "/read?env=CONFIG", ""); text != "new" {
			return fmt.Errorf("it holds %q", text)
		}
		return nil
	})
}

func TestStatusIsAKubelets(t *testing.T) {
	s := start(t)
	pod := s.statefulSet(nil)
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		if condition(pod, kind) != corev1.ConditionTrue {
			t.Errorf("condition %s is %q", kind, condition(pod, kind))
		}
	}
	c := pod.Status.ContainerStatuses[0]
	if pod.Status.Phase != corev1.PodRunning || c.State.Running == nil || !c.Ready || !*c.Started || c.RestartCount != 0 || c.ContainerID == "" {
		t.Errorf("the pod's status is %s", pod.Status.String())
	}
	if !slices.Contains(s.Nodes(), pod.Spec.NodeName) || !strings.HasPrefix(pod.Status.PodIP, "127.") || pod.Status.PodIPs[0].IP != pod.Status.PodIP {
		t.Errorf("the pod is on node %s and has address %s", pod.Spec.NodeName, pod.Status.PodIP)
	}
	set, err := api.AppsV1().StatefulSets(s.Namespace).Get(s.Context(), "server", metav1.GetOptions{})
	s.Must(err)
	s.Until("the StatefulSet counts the pod", func() error {
		set, err = api.AppsV1().StatefulSets(s.Namespace).Get(s.Context(), "server", metav1.GetOptions{})
		if err == nil && set.Status.ReadyReplicas != 1 {
			err = fmt.Errorf("its status is %s", set.Status.String())
		}
		return err
	})
}

// A deleted pod hears of it before it ends. Its data stay as long as the claim.
func TestVolumeLivesAsLongAsItsClaim(t *testing.T) {
	s := start(t)
	first := s.statefulSet(nil)
	s.answers(first, "/file/words", "404 Not Found")
	s.ask(first, http.MethodPut, "/file/words", "written")
	s.Must(api.CoreV1().Pods(s.Namespace).Delete(s.Context(), first.Name, metav1.DeleteOptions{}))
	second := s.pod(first.Name, "is ready again", func(p *corev1.Pod) bool { return p.UID != first.UID && isReady(p) })
	s.answers(second, "/file/words", "written stopping terminated ")
	if second.Status.PodIP == first.Status.PodIP {
		t.Errorf("the new pod has the address of the old one, %s", first.Status.PodIP)
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
		return fmt.Errorf("it is still there: %w", err)
	})
}

// A pod of another namespace is kwok's: it is ready, and nothing runs.
func TestOtherNamespacesAreSimulated(t *testing.T) {
	s := start(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Image: "example/server"}}}}
	pod, err := api.CoreV1().Pods(metav1.NamespaceDefault).Create(s.Context(), pod, metav1.CreateOptions{})
	s.Must(err)
	s.Until("it is ready", func() error {
		if pod, err = api.CoreV1().Pods(metav1.NamespaceDefault).Get(s.Context(), pod.Name, metav1.GetOptions{}); err != nil || isReady(pod) {
			return err
		}
		return fmt.Errorf("its status is %s", pod.Status.String())
	})
	if slices.Contains(s.Nodes(), pod.Spec.NodeName) || strings.HasPrefix(pod.Status.PodIP, "127.") {
		t.Errorf("it is on node %s and has address %s", pod.Spec.NodeName, pod.Status.PodIP)
	}
	s.Must(api.CoreV1().Pods(metav1.NamespaceDefault).Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
}

// What is not emulated is not passed over in silence.
func TestWhatIsNotEmulatedIsSaid(t *testing.T) {
	s := start(t)
	s.settings()
	pods := map[string]struct {
		reason, message string
		change          func(*corev1.PodSpec)
	}{
		"image": {"ErrImagePull", "no program for image", func(p *corev1.PodSpec) { p.Containers[0].Name, p.Containers[0].Image = "x", "example/unknown" }},
		"probe": {"CreateContainerConfigError", "gRPC probes are not emulated", func(p *corev1.PodSpec) {
			p.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}
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
		s.pod(name, "says what is missing", func(p *corev1.Pod) bool {
			return p.Status.Phase == corev1.PodPending != (name == "executable") && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
				p.Status.ContainerStatuses[0].State.Waiting.Reason == each.reason && strings.Contains(p.Status.ContainerStatuses[0].State.Waiting.Message, each.message)
		})
		s.Must(api.CoreV1().Pods(s.Namespace).Delete(s.Context(), name, metav1.DeleteOptions{}))
	}
	s.Until("they go", func() error {
		pods, err := api.CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%s is still there", pods.Items[0].Name)
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
