// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/cluster"
)

func readCRD() (*unstructured.Unstructured, error) {
	data, err := os.ReadFile(filepath.Join(cluster.Root(), "config", "crd", "bases", "d3os-product.com.d3os_dataservices.yaml"))
	if err != nil {
		return nil, err
	}
	crd := &unstructured.Unstructured{}
	return crd, yaml.Unmarshal(data, &crd.Object)
}

// installCRD creates the CRD, or takes that of the cluster, and waits until it is served.
func (b *bench) installCRD(ctx context.Context) error {
	crd, err := readCRD()
	if err != nil {
		return err
	}
	err = b.client.Create(ctx, crd.DeepCopy())
	b.ownCRD = err == nil
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install the CRD: %w", err)
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(crd.GroupVersionKind())
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		empty: {Field: fields.OneTermEqualSelector("metadata.name", crd.GetName())},
	}}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	t, err := startTracker(ctx, b.config(), options, map[string]client.Object{"CRD": empty})
	if err != nil {
		return err
	}
	err = t.await(ctx, func(objects map[string]client.Object) string {
		if live, ok := objects[key("CRD", "", crd.GetName())].(*unstructured.Unstructured); ok && established(live) {
			return ""
		}
		return "the CRD is not established"
	})
	if err != nil {
		return err
	}
	// Discovery follows a moment later.
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return b.client.List(ctx, &dsv1.DataServiceList{}, client.Limit(1)) == nil, nil
	})
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" {
			return m["status"] == "True"
		}
	}
	return false
}

func (b *bench) uninstallCRD(ctx context.Context) error {
	if !b.ownCRD {
		return nil
	}
	crd, err := readCRD()
	return errors.Join(err, client.IgnoreNotFound(b.client.Delete(ctx, crd)))
}
