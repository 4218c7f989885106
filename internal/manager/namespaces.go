// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
)

// rightsPoll is the interval between checks for rights in a namespace; see Options.RightsPoll.
const rightsPoll = 15 * time.Second

// ErrRights reports that the operator has received rights in a namespace of --watch-namespaces that it does not watch yet. After this
// error, a new operator in the same process also watches that namespace.
var ErrRights = errors.New("the operator now has the rights in another namespace of --watch-namespaces")

// namespaces are the namespaces of --watch-namespaces in which the operator lacks rights. The operator does not watch
// them. If it did, its caches would serve no object, because a cache must list all of its namespaces first.
type namespaces struct {
	reader  client.Reader // without a cache
	lacking map[string]string
}

// newNamespaces checks the operator's rights in the namespaces to watch. It also returns the namespaces in which the operator has all
// rights, or all namespaces if there is no such namespace.
func newNamespaces(ctx context.Context, reader client.Reader, watched []string) (*namespaces, []string) {
	n := &namespaces{reader: reader, lacking: map[string]string{}}
	if len(watched) < 2 { // there is no other namespace to serve
		return n, watched
	}
	for _, namespace := range watched {
		if problem := n.lacks(ctx, namespace); problem != "" {
			n.lacking[namespace] = problem
		}
	}
	for namespace := range n.lacking {
		metrics.NamespacesWithoutRights.WithLabelValues(namespace).Set(1)
	}
	if len(n.lacking) == len(watched) { // an empty list would select all namespaces
		return n, watched
	}
	return n, slices.DeleteFunc(slices.Clone(watched), func(namespace string) bool { return n.lacking[namespace] != "" })
}

// lacks returns the API server's refusal of a list in a namespace, or "". It ignores other failures, such as a missing CRD.
func (n *namespaces) lacks(ctx context.Context, namespace string) string {
	kinds := append(slices.Clone(object.Kinds), object.JobKind, corev1.SchemeGroupVersion.WithKind("Pod"), dsv1.GroupVersion.WithKind(dsv1.Kind),
		backupv1.GroupVersion.WithKind("DataBackup"), backupv1.GroupVersion.WithKind("DataRestore"))
	kinds = append(kinds, object.Optional...)
	for _, gvk := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind + "List"})
		if err := n.reader.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); apierrors.IsForbidden(err) {
			text := err.Error()
			return text[max(strings.Index(text, "cannot "), 0):]
		}
	}
	return ""
}

// Problems returns a sentence for each namespace without rights, in order.
func (n *namespaces) Problems() []string {
	found := make([]string, 0, len(n.lacking))
	for namespace, problem := range n.lacking {
		found = append(found, fmt.Sprintf("the operator does nothing in namespace %s: it %s; correct its Role or RoleBinding there, or --watch-namespaces", namespace, problem))
	}
	slices.Sort(found)
	return found
}

// await returns ErrRights when the operator has received the rights in one of these namespaces.
func (n *namespaces) await(ctx context.Context, poll time.Duration) error {
	if len(n.lacking) == 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(cmp.Or(poll, rightsPoll))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for namespace := range n.lacking {
			if n.lacks(ctx, namespace) == "" && ctx.Err() == nil {
				ctrl.Log.WithName("readiness").Info("the operator has the rights in this namespace now, and restarts to watch it", "namespace", namespace)
				return ErrRights
			}
		}
	}
}

// close removes the metrics of these namespaces.
func (n *namespaces) close() {
	for namespace := range n.lacking {
		metrics.NamespacesWithoutRights.DeleteLabelValues(namespace)
	}
}
