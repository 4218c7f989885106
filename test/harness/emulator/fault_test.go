// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build emulator

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

	"d3os.com/d3os-operator/test/harness/stage"
)

// first returns the status of a pod's first container.
func first(pod *corev1.Pod) corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return pod.Status.ContainerStatuses[0]
}

// A program starts again with its data after the program, or its node, has stopped.
func TestWhatEndsStartsAgain(t *testing.T) {
	s := start(t)
	before := s.statefulSet(nil)
	s.ask(before, http.MethodPut, "/file/words", "written")
	back := func(restarts int32) *corev1.Pod {
		s.Helper()
		pod := s.pod("server-0", "is back", func(p *corev1.Pod) bool { return first(p).RestartCount == restarts && stage.IsReady(p) })
		if pod.UID != before.UID || len(pod.Status.PodIPs) != 1 {
			s.Errorf("the pod was %s, now it is %s with %v", before.UID, pod.UID, pod.Status.PodIPs)
		}
		return pod
	}
	for restarts := range int32(3) {
		s.Must(s.Kill("server-0", syscall.SIGKILL, "server"))
		again := back(restarts + 1)
		last := first(again).LastTerminationState.Terminated
		if last == nil || last.ExitCode != 137 || last.Signal != 9 || again.Status.PodIP != before.Status.PodIP {
			t.Fatalf("after SIGKILL: %s", again.Status.String())
		}
	}

	node := s.Nodes()[0]
	s.Must(s.StopNode(s.Context(), node))
	if answer := s.ask(before, http.MethodGet, "/file/words", ""); answer == "written " {
		t.Error("the stopped program answers")
	}
	s.pod("server-0", "is given up", func(p *corev1.Pod) bool { return !stage.IsReady(p) })
	s.Must(s.StartNode(s.Context(), node))
	moved := back(4)
	s.answers(moved, "/file/words", "written ")
	s.Readdress("server-0", before.Status.PodIP)
	s.Must(s.ChangeAddresses(s.Context()))
	again := back(5)
	s.answers(again, "/file/words", "written ")
	if moved.Status.PodIP == before.Status.PodIP || again.Status.PodIP != before.Status.PodIP {
		t.Errorf("the pod's addresses were %s, %s, %s", before.Status.PodIP, moved.Status.PodIP, again.Status.PodIP)
	}

	s.ask(again, http.MethodPut, "/file/sick", "")
	s.pod("server-0", "is restarted", func(p *corev1.Pod) bool {
		last := first(p).LastTerminationState.Terminated
		return first(p).RestartCount > 5 && last != nil && last.ExitCode == 0 // the program ends on SIGTERM
	})
	s.Must(s.WipeVolume(s.Context(), claim))
	s.ready("server-0")
}

func TestProgramThatHangsIsNotReady(t *testing.T) {
	s := start(t)
	s.statefulSet(nil)
	s.Must(s.Kill("server-0", syscall.SIGSTOP, "server"))
	pod := s.pod("server-0", "is not ready", func(p *corev1.Pod) bool { return !stage.IsReady(p) })
	if pod.Status.Phase != corev1.PodRunning || first(pod).RestartCount != 0 || !*first(pod).Started {
		t.Errorf("while the program hangs: %s", pod.Status.String())
	}
	s.Must(s.Kill("server-0", syscall.SIGCONT, "server"))
	if pod := s.ready("server-0"); first(pod).RestartCount != 0 {
		t.Errorf("after SIGCONT: %s", pod.Status.String())
	}
}

func TestStubbornProgramIsKilledAfterItsGracePeriod(t *testing.T) {
	s := start(t)
	pod := s.statefulSet(func(t *corev1.PodTemplateSpec) {
		t.Spec.TerminationGracePeriodSeconds = ptr.To(int64(5)) // on a busy machine, the preStop hook may need that time
		t.Spec.Containers[0].Args = append(t.Spec.Containers[0].Args, "stubborn")
	})
	s.Must(api.CoreV1().Pods(s.Namespace).Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
	again := s.pod(pod.Name, "is another", func(p *corev1.Pod) bool { return p.UID != pod.UID && stage.IsReady(p) })
	s.answers(again, "/file/words", "stopping terminated ")
}

func TestJobs(t *testing.T) {
	s := start(t)
	for name, each := range map[string]struct {
		policy  corev1.RestartPolicy
		command string
		want    batchv1.JobConditionType
	}{
		"succeeds":                   {corev1.RestartPolicyNever, "mkdir /scratch/tried", batchv1.JobComplete},
		"fails":                      {corev1.RestartPolicyOnFailure, "exit 3", batchv1.JobFailed},
		"succeeds-at-the-second-try": {corev1.RestartPolicyOnFailure, "test -e /scratch/tried || { : >/scratch/tried; exit 1; }", batchv1.JobComplete},
	} {
		_, err := api.BatchV1().Jobs(s.Namespace).Create(s.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(int32(2)), PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: each.policy, AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{
					Name: "server", Image: "example/server", Command: []string{"sh", "-c", each.command}, VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
				}}, Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}},
		}}, metav1.CreateOptions{})
		s.Must(err)
		s.Until("job "+name, func() error {
			job, err := api.BatchV1().Jobs(s.Namespace).Get(s.Context(), name, metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == each.want && c.Status == corev1.ConditionTrue }) {
				err = fmt.Errorf("the Job's status is %s", job.Status.String())
			}
			return err
		})
	}
	s.Until("a job's pod has a termination message", func() error {
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
