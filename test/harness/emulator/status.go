// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// change changes the status of a container and requests a report.
func (c *container) change(f func(*corev1.ContainerStatus)) {
	c.pod.mu.Lock()
	f(c.pod.statuses[c.spec.Name])
	c.pod.mu.Unlock()
	c.pod.touch()
}

// waiting sets the reason why the container does not run.
func (c *container) waiting(reason, message string) {
	c.change(func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

// terminated records the end of the container.
func (c *container) terminated(id string, code int, reason, message string, began metav1.Time) {
	c.change(func(s *corev1.ContainerStatus) {
		notStarted := false
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(code), Reason: reason, Message: message, StartedAt: began, FinishedAt: now(), ContainerID: id, // #nosec G115 -- below 256
		}}
		if code > 128 {
			s.State.Terminated.Signal = int32(code - 128) // #nosec G115 -- below 256
		}
		s.ContainerID, s.Started, s.Ready = id, &notStarted, c.init && code == 0
	})
}

// restarting increments the restart count, and stores the end of the last run as the last state.
func (c *container) restarting() {
	c.change(func(s *corev1.ContainerStatus) {
		s.RestartCount++
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
		}
	})
}

// now returns the time with the API server's precision.
func now() metav1.Time { return metav1.Now().Rfc3339Copy() }

// remember reads the pod and restores the status from before its node stopped, such as the numbers of restarts.
func (p *pod) remember() bool {
	object, err := p.read()
	if err != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.object = object
	earlier := map[string]corev1.ContainerStatus{}
	for _, s := range slices.Concat(object.Status.InitContainerStatuses, object.Status.ContainerStatuses) {
		earlier[s.Name] = s
	}
	if done := object.Status.Phase; done == corev1.PodSucceeded || done == corev1.PodFailed {
		p.phase = done
	}
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		s := earlier[c.Name]
		p.statuses[c.Name] = &s
		if p.phase != "" {
			continue
		}
		notStarted := false
		s.Name, s.Image, s.ImageID, s.Ready, s.Started = c.Name, c.Image, "emulator://"+c.Image, false, &notStarted
		if s.ContainerID != "" {
			p.lost(&s)
		} else {
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		}
	}
	return true
}

// lost sets the status of a container that was running when its node stopped.
func (p *pod) lost(s *corev1.ContainerStatus) {
	if s.State.Terminated == nil {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "ContainerStatusUnknown", ContainerID: s.ContainerID, FinishedAt: now()}}
	}
	if p.spec.RestartPolicy == corev1.RestartPolicyNever {
		p.phase = corev1.PodFailed
		return
	}
	s.LastTerminationState = s.State
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	s.ContainerID = ""
	s.RestartCount++
}

// read reads the pod, and repeats after errors. It returns an error if the pod does not exist.
func (p *pod) read() (*corev1.Pod, error) {
	for {
		object, err := p.api().Get(p.ctx, p.name, metav1.GetOptions{})
		if err == nil && object.UID != p.uid {
			err = apierrors.NewNotFound(corev1.Resource("pods"), p.name)
		}
		if err == nil || apierrors.IsNotFound(err) || !sleep(p.ctx, often) {
			return object, err
		}
	}
}

func (p *pod) api() clientcorev1.PodInterface {
	return p.emulator.api.CoreV1().Pods(p.emulator.options.Namespace)
}

// report writes the status after each change, and renders files, until the returned function is called.
func (p *pod) report() func() {
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		again := time.NewTicker(time.Second)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.dirty:
				p.write()
			case <-again.C:
			}
			p.refresh(ctx)
		}
	}()
	p.touch()
	return func() { cancel(); <-done }
}

// write writes the status if it differs from the status in the API server.
func (p *pod) write() {
	for p.ctx.Err() == nil {
		p.mu.Lock()
		object := p.object.DeepCopy()
		p.mu.Unlock()
		status := p.status(object)
		if equality.Semantic.DeepEqual(status, object.Status) {
			return
		}
		object.Status = status
		written, err := p.api().UpdateStatus(p.ctx, object, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			written, err = p.read()
		}
		switch {
		case err == nil:
			p.learn(written)
		case apierrors.IsNotFound(err):
			return
		default:
			sleep(p.ctx, often)
		}
	}
}

// remove deletes the pod from the API server after all its processes have ended.
func (p *pod) remove() {
	none := int64(0)
	for p.ctx.Err() == nil {
		err := p.api().Delete(p.ctx, p.name,
			metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &p.uid}})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		sleep(p.ctx, often)
	}
}

// status returns the status of the pod as a kubelet writes it.
func (p *pod) status(object *corev1.Pod) corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := *object.Status.DeepCopy()
	host := p.emulator.network.Host()
	s.HostIP, s.HostIPs = host, []corev1.HostIP{{IP: host}}
	s.PodIP, s.PodIPs = p.address, []corev1.PodIP{{IP: p.address}}
	if s.StartTime == nil {
		began := p.began
		s.StartTime = &began
	}
	var unready []string
	of := func(containers []corev1.Container) (all []corev1.ContainerStatus) {
		for _, c := range containers {
			one := *p.statuses[c.Name].DeepCopy()
			all = append(all, one)
			if !one.Ready {
				unready = append(unready, c.Name)
			}
		}
		return all
	}
	s.InitContainerStatuses = of(p.spec.InitContainers)
	s.ContainerStatuses = of(p.spec.Containers)
	started := slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.ContainerID != "" || c.LastTerminationState.Terminated != nil
	})
	switch {
	case p.phase != "":
		s.Phase = p.phase
	case p.ready && started:
		s.Phase = corev1.PodRunning
	default:
		s.Phase = corev1.PodPending
	}
	p.conditions(&s, unready)
	return s
}

func (p *pod) conditions(s *corev1.PodStatus, unready []string) {
	set := func(kind corev1.PodConditionType, holds bool, reason, message string) {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now()}
		if !holds {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
		i := slices.IndexFunc(s.Conditions, func(old corev1.PodCondition) bool { return old.Type == kind })
		if i < 0 {
			s.Conditions = append(s.Conditions, c)
			return
		}
		if s.Conditions[i].Status == c.Status {
			c.LastTransitionTime = s.Conditions[i].LastTransitionTime
		}
		c.ObservedGeneration = s.Conditions[i].ObservedGeneration
		s.Conditions[i] = c
	}
	reason, message := "ContainersNotReady", "containers with unready status: ["+strings.Join(unready, " ")+"]"
	if p.phase == corev1.PodSucceeded {
		reason, message = "PodCompleted", ""
	}
	ready := len(unready) == 0 && p.ready && p.phase == ""
	set(corev1.PodReadyToStartContainers, p.phase == "", "", "")
	set(corev1.PodInitialized, p.ready || p.phase == corev1.PodSucceeded, "ContainersNotInitialized", "init containers have not completed")
	set(corev1.ContainersReady, ready, reason, message)
	set(corev1.PodReady, ready, reason, message)
}
