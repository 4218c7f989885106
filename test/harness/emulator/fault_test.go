// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// first is the status of a pod's first container.
func first(pod *corev1.Pod) corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}

func TestKilledProgramStartsAgain(t *testing.T) {
	s := start(t)
	pod := s.statefulSet(nil)
	for restarts := int32(1); restarts <= 3; restarts++ {
		s.Must(s.Kill("server-0", syscall.SIGKILL))
		again := s.pod("server-0", "is ready again", func(p *corev1.Pod) bool { return first(p).RestartCount == restarts && isReady(p) })
		last := first(again).LastTerminationState.Terminated
		if last == nil || last.ExitCode != 137 || last.Signal != 9 || again.UID != pod.UID || again.Status.PodIP != pod.Status.PodIP {
			t.Fatalf("after SIGKILL: %s", again.Status.String())
		}
	}
}

func TestProgramThatHangsIsNotReady(t *testing.T) {
	s := start(t)
	s.statefulSet(func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].LivenessProbe = nil })
	s.Must(s.Kill("server-0", syscall.SIGSTOP))
	pod := s.pod("server-0", "is not ready", func(p *corev1.Pod) bool { return !isReady(p) })
	if pod.Status.Phase != corev1.PodRunning || first(pod).RestartCount != 0 || !*first(pod).Started {
		t.Errorf("while it hangs: %s", pod.Status.String())
	}
	s.Must(s.Kill("server-0", syscall.SIGCONT))
	if pod := s.ready("server-0"); first(pod).RestartCount != 0 {
		t.Errorf("after it went on: %s", pod.Status.String())
	}
}

func TestLivenessProbeRestarts(t *testing.T) {
	s := start(t)
	pod := s.statefulSet(nil)
	s.ask(pod, http.MethodPut, "/file/sick-live", "")
	s.pod("server-0", "is restarted", func(p *corev1.Pod) bool {
		last := first(p).LastTerminationState.Terminated
		return first(p).RestartCount > 0 && last != nil && last.ExitCode == 0 // it heeds SIGTERM
	})
	s.Must(s.WipeVolume(s.Context(), claim))
	s.ready("server-0")
}

func TestStubbornProgramIsKilledAfterItsGracePeriod(t *testing.T) {
	s := start(t)
	pod := s.statefulSet(func(t *corev1.PodTemplateSpec) {
		t.Spec.TerminationGracePeriodSeconds = ptr.To(int64(1))
		t.Spec.Containers[0].Args = append(t.Spec.Containers[0].Args, "stubborn")
	})
	s.Must(api.CoreV1().Pods(s.Namespace).Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
	again := s.pod(pod.Name, "is another", func(p *corev1.Pod) bool { return p.UID != pod.UID && isReady(p) })
	s.answers(again, "/file/words", "stopping terminated ")
}

func TestNodeFailsAndComesBack(t *testing.T) {
	s := start(t)
	before := s.statefulSet(nil)
	s.ask(before, http.MethodPut, "/file/words", "written")
	node := s.Nodes()[0]
	s.Must(s.StopNode(s.Context(), node))
	if answer := s.ask(before, http.MethodGet, "/file/words", ""); answer == "written " {
		t.Error("the program still answers")
	}
	s.pod("server-0", "is given up", func(p *corev1.Pod) bool { return !isReady(p) })
	s.Must(s.StartNode(s.Context(), node))
	s.back(before, 1)
	s.Must(s.ChangeAddresses(s.Context()))
	s.back(s.ready("server-0"), 2)
}

// back waits until a pod has come back with another address.
func (s *scene) back(before *corev1.Pod, restarts int32) {
	s.Helper()
	pod := s.pod(before.Name, "is back", func(p *corev1.Pod) bool { return first(p).RestartCount == restarts && isReady(p) })
	if pod.UID != before.UID || restarts == 1 && pod.Status.PodIP == before.Status.PodIP || len(pod.Status.PodIPs) != 1 {
		s.Errorf("it was %s with %s, it is %s with %v", before.UID, before.Status.PodIP, pod.UID, pod.Status.PodIPs)
	}
	s.answers(pod, "/file/words", "written ")
}

// Init containers run in order and to their end; a sidecar starts among them, runs on, and ends after the others.
func TestInitContainersAndSidecars(t *testing.T) {
	s := start(t)
	pod := s.statefulSet(func(t *corev1.PodTemplateSpec) {
		say := func(name string, args ...string) corev1.Container {
			return corev1.Container{Name: name, Image: "example/server", Args: args, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}
		}
		sidecar := say("sidecar", "server", "/data/deep")
		sidecar.Command, sidecar.Args = []string{"sh", "-c"}, []string{"trap 'rm /data/started; server say /data/words sidecar-ends; exit' TERM; server say /data/words sidecar; touch /data/started; while :; do sleep 0.05; done"}
		sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		sidecar.StartupProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "test -e /data/started"}}}}
		t.Spec.InitContainers = []corev1.Container{say("one", "say", "/data/words", "one"), sidecar, say("two", "say", "/data/words", "two")}
	})
	s.answers(pod, "/file/words", "one sidecar two ")
	states := pod.Status.InitContainerStatuses
	if len(states) != 3 || states[0].State.Terminated == nil || states[1].State.Running == nil || states[2].State.Terminated == nil {
		t.Errorf("init containers are %v", states)
	}
	s.Must(api.CoreV1().Pods(s.Namespace).Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
	again := s.pod(pod.Name, "is another", func(p *corev1.Pod) bool { return p.UID != pod.UID && isReady(p) })
	s.answers(again, "/file/words", "one sidecar two stopping terminated sidecar-ends one sidecar two ")
}

func TestJobs(t *testing.T) {
	s := start(t)
	job := func(name string, policy corev1.RestartPolicy, command ...string) {
		_, err := api.BatchV1().Jobs(s.Namespace).Create(s.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(int32(2)), PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{
				Name: "server", Image: "example/server", Command: command, VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
			}}, Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}},
		}}, metav1.CreateOptions{})
		s.Must(err)
	}
	job("succeeds", corev1.RestartPolicyNever, "server", "exit", "0")
	job("fails", corev1.RestartPolicyOnFailure, "server", "exit", "3")
	job("succeeds-later", corev1.RestartPolicyOnFailure, "sh", "-c", "mkdir /scratch/tried")
	job("succeeds-at-the-second-try", corev1.RestartPolicyOnFailure, "sh", "-c", "test -e /scratch/tried || { : >/scratch/tried; exit 1; }")
	for name, want := range map[string]batchv1.JobConditionType{
		"succeeds": batchv1.JobComplete, "fails": batchv1.JobFailed, "succeeds-later": batchv1.JobComplete, "succeeds-at-the-second-try": batchv1.JobComplete,
	} {
		s.Until("job "+name, func() error {
			job, err := api.BatchV1().Jobs(s.Namespace).Get(s.Context(), name, metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == want && c.Status == corev1.ConditionTrue }) {
				err = fmt.Errorf("its status is %s", job.Status.String())
			}
			return err
		})
	}
	s.Until("a job's pod says how it ended", func() error {
		pods, err := api.CoreV1().Pods(s.Namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=succeeds-at-the-second-try"})
		if err != nil || len(pods.Items) != 1 {
			return fmt.Errorf("%d pods: %w", len(pods.Items), err)
		}
		if c := first(&pods.Items[0]); c.RestartCount != 1 || c.State.Terminated == nil || pods.Items[0].Status.Phase != corev1.PodSucceeded {
			return errors.New(pods.Items[0].Status.String())
		}
		return nil
	})
}
