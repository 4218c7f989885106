// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// CatchUp waits until the journal has all changes that the API server had made when it was called.
func (j *Journal) CatchUp(ctx context.Context) error {
	var all errgroup.Group
	for _, list := range j.lists {
		all.Go(func() error { return j.catchUp(ctx, list) })
	}
	return all.Wait()
}

func (j *Journal) catchUp(ctx context.Context, list client.ObjectList) error {
	gvk, err := apiutil.GVKForObject(list, j.api.Scheme())
	if err != nil {
		return err
	}
	live := &metav1.PartialObjectMetadataList{}
	live.SetGroupVersionKind(gvk)
	for {
		if err = j.api.List(ctx, live, client.InNamespace(j.namespace)); err == nil {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond): // the API server may be what a test has stopped
		case <-ctx.Done():
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
	}
	kind := strings.TrimSuffix(gvk.Kind, "List")
	for {
		next := j.Next()
		missing := j.missing(kind, live)
		if missing == "" {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return fmt.Errorf("the watch of %s has not told that %s: %w", gvk.Kind, missing, ctx.Err())
		}
	}
}

// missing returns what of a list the journal does not have yet, or nothing.
func (j *Journal) missing(kind string, live *metav1.PartialObjectMetadataList) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	there := map[string]bool{}
	for _, object := range live.Items {
		id := kind + "/" + object.Name
		there[id] = true
		if older(j.last[id], object.ResourceVersion) {
			return fmt.Sprintf("%s has version %s, only %q", id, object.ResourceVersion, j.last[id])
		}
	}
	for id, object := range j.current {
		if strings.HasPrefix(id, kind+"/") && !there[id] && older(object.GetResourceVersion(), live.ResourceVersion) {
			return id + " is gone"
		}
	}
	return ""
}

// older reports whether a resource version is older than another. None is older than any.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order < 0
}
