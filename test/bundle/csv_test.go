// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
)

type descriptor struct {
	Path        string `json:"path"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
}

type image struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

type permission struct {
	Rules []rbacv1.PolicyRule `json:"rules"`
}

// csv is what these tests read of a ClusterServiceVersion.
type csv struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Version     string `json:"version"`
		Description string `json:"description"`
		Replaces    string `json:"replaces"`
		Icon        []struct {
			Data      string `json:"base64data"`
			MediaType string `json:"mediatype"`
		} `json:"icon"`
		RelatedImages []image `json:"relatedImages"`
		Definitions   struct {
			Owned []struct {
				Resources []struct {
					Kind    string `json:"kind"`
					Version string `json:"version"`
				} `json:"resources"`
				SpecDescriptors   []descriptor `json:"specDescriptors"`
				StatusDescriptors []descriptor `json:"statusDescriptors"`
			} `json:"owned"`
		} `json:"customresourcedefinitions"`
		Install struct {
			Spec struct {
				Deployments []struct {
					Spec struct {
						Template corev1.PodTemplateSpec `json:"template"`
					} `json:"spec"`
				} `json:"deployments"`
				Permissions        []permission `json:"permissions"`
				ClusterPermissions []permission `json:"clusterPermissions"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

func read[T any](t *testing.T, file string) T {
	t.Helper()
	var into T
	assert.NilError(t, yaml.Unmarshal(mustRead(t, file), &into), file)
	return into
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(cluster.Root(), file))
	assert.NilError(t, err)
	return data
}
