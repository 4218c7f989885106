// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9/maintnotifications"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
)

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// kubernetes is a Fleet as steps see Kubernetes.
type kubernetes struct{ *Fleet }

// Pod returns a pod as it is now.
func (k kubernetes) Pod(_ context.Context, name string) (server.Pod, error) {
	k.mu.Lock()
	pod := k.pods[name]
	k.mu.Unlock()
	if pod == nil {
		return server.Pod{}, nil
	}
	pod.mu.Lock()
	defer pod.mu.Unlock()
	return server.Pod{UID: pod.uid, IP: pod.ip}, nil
}

// Record keeps the record.
func (k kubernetes) Record(_ context.Context, record topology.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.record = record
	k.records++
	return nil
}

// DeletePod ends a pod as a kubelet does and makes it anew.
func (k kubernetes) DeletePod(ctx context.Context, place topology.Place) error {
	if pod, err := k.Pod(ctx, place.Pod); err != nil || pod.UID != place.UID {
		return fmt.Errorf("pod %s has UID %q, not %q (%w)", place.Pod, pod.UID, place.UID, err)
	}
	k.mu.Lock()
	pod := k.pods[place.Pod]
	k.mu.Unlock()
	pod.stop()
	pod.replace()
	return nil
}

// DeleteClaim removes the folder of a pod that is gone.
func (k kubernetes) DeleteClaim(_ context.Context, place topology.Place) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pods[place.Pod] != nil {
		return fmt.Errorf("pod %s is still there", place.Pod)
	}
	return removeFolder(k.dir, place.Pod)
}
