// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NotServedError says that the API server does not serve a kind: its CRD is not installed.
type NotServedError struct{ Kind schema.GroupVersionKind }

func (e *NotServedError) Error() string {
	return fmt.Sprintf("the API server does not serve %s of %s: install its CRD", e.Kind.Kind, e.Kind.GroupVersion())
}

// isNotServed reports whether a read failed because of the kind: the API server does not serve it, or it did not when
// the cache was set up.
func isNotServed(err error) bool {
	var notCached *cache.ErrResourceNotCached
	return meta.IsNoMatchError(err) || errors.As(err, &notCached)
}
