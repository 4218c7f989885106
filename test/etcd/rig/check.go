// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
)

// Client returns a client of some pods' etcd.
func Client(pods ...*Pod) (*clientv3.Client, error) {
	var endpoints []string
	for _, pod := range pods {
		endpoints = append(endpoints, "http://"+pod.IP+":2379")
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: time.Second})
}

// Check holds a settled cluster against what it should be: as many voters as wanted, no learner, one cluster for life, the
// same data in all members at one revision.
func (d *Driver) Check(ctx context.Context, m membership.Model) error {
	if m.Voters != d.Want.Replicas || m.Healthy != d.Want.Replicas || len(m.Members) != d.Want.Replicas {
		return fmt.Errorf("%d voters, %d healthy, %d members, and %d are wanted", m.Voters, m.Healthy, len(m.Members), d.Want.Replicas)
	}
	if len(d.Clusters) > 1 {
		return fmt.Errorf("there were several clusters: %v", d.Clusters)
	}
	if d.Want.Replicas == 0 {
		return nil
	}
	pods := d.Fleet.Pods()
	if len(pods) != d.Want.Replicas {
		return fmt.Errorf("there are %d pods, and %d are wanted", len(pods), d.Want.Replicas)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	one, err := Client(pods[0])
	if err != nil {
		return err
	}
	defer one.Close()
	now, err := one.Get(ctx, "revision", clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	revision, hash := now.Header.Revision, uint32(0)
	for i, pod := range pods {
		said, err := one.HashKV(ctx, "http://"+pod.IP+":2379", revision)
		if err != nil {
			return fmt.Errorf("hash of %s at revision %d: %w", pod.Name, revision, err)
		}
		if i == 0 {
			hash = said.Hash
		}
		if said.Hash != hash {
			return fmt.Errorf("%s has other data than %s at revision %d", pod.Name, pods[0].Name, revision)
		}
	}
	return nil
}
