// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9/maintnotifications"

	"d3os.com/d3os-operator/internal/kinds/rediscluster/server"
	"d3os.com/d3os-operator/internal/kinds/rediscluster/topology"
	"d3os.com/d3os-operator/internal/kinds/stateful/proof"
)

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// kubernetes is a Fleet as steps see Kubernetes.
type kubernetes struct {
	*Fleet
	tap server.Tap
}

// tapped sends a request, before and after which an operator may be broken off.
func (k kubernetes) tapped(place topology.Place, request string, send func() error) error {
	if k.tap == nil {
		return send()
	}
	if n, err := k.tap.Send(place, []string{request}); n == 0 || err != nil {
		return errors.Join(err, server.ErrBrokenOff)
	}
	if err := send(); err != nil {
		return err
	}
	return k.tap.Received(place, []string{request})
}

// Pod returns a pod as it is now.
func (k kubernetes) Pod(_ context.Context, name string) (proof.Pod, error) {
	k.mu.Lock()
	pod := k.pods[name]
	k.mu.Unlock()
	if pod == nil {
		return proof.Pod{}, nil
	}
	pod.mu.Lock()
	defer pod.mu.Unlock()
	return proof.Pod{UID: pod.uid, IP: pod.ip}, nil
}

// Record keeps the record.
func (k kubernetes) Record(_ context.Context, record topology.Record) error {
	return k.tapped(topology.Place{}, "RECORD", func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.record = record
		k.records++
		return nil
	})
}

// DeletePod ends a pod as a kubelet does and makes it anew.
func (k kubernetes) DeletePod(ctx context.Context, place topology.Place) error {
	if pod, err := k.Pod(ctx, place.Pod); err != nil || pod.UID != place.UID {
		return fmt.Errorf("pod %s has UID %q, not %q (%w)", place.Pod, pod.UID, place.UID, err)
	}
	return k.tapped(place, "DELETE POD", func() error {
		k.mu.Lock()
		pod := k.pods[place.Pod]
		k.mu.Unlock()
		pod.stop()
		pod.replace()
		return nil
	})
}
