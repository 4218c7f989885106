#!/usr/bin/env bash
# controller-runtime 0.25.2: with EnableReadYourWritesConsistency, a read of the client starts an informer, although the cache has
# ReaderFailOnMissingInformer.
#
# ReaderFailOnMissingInformer returns ErrResourceNotCached for a kind without an informer. A controller that adds a watch when a CRD appears can
# rely on this error: it shows that the watch is still missing. The consistent client asks the cache for an informer before each read. So the
# read succeeds, and the informer that it has started has no event handler. The cache is current, but no event triggers a reconciliation.
# The read also lists the kind in the whole cluster, which the option is meant to prevent.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module example
go 1.26.0
require (
	k8s.io/api v0.37.2
	k8s.io/client-go v0.37.2
	sigs.k8s.io/controller-runtime v0.25.2
)
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// answers are those of an API server that serves ConfigMaps and has none.
var answers = map[string]string{
	"/api":           `{"kind": "APIVersions", "versions": ["v1"]}`,
	"/apis":          `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
	"/api/v1":        `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap", "verbs": ["get", "list", "watch"]}]}`,
	"/api/v1/configmaps": `{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "10"}, "items": []}`,
}

const listed = `{"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}}}`

func main() {
	log.SetLogger(logr.Discard())
	for _, consistent := range []bool{false, true} {
		watches := &atomic.Int64{}
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Get("watch") == "" {
				fmt.Fprint(w, answers[strings.TrimSuffix(r.URL.Path, "/")])
				return
			}
			watches.Add(1)
			if r.URL.Query().Get("sendInitialEvents") == "true" {
				fmt.Fprintln(w, listed)
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		mgr, err := ctrl.NewManager(&rest.Config{Host: api.URL}, ctrl.Options{
			Metrics: server.Options{BindAddress: "0"},
			Cache:   cache.Options{ReaderFailOnMissingInformer: true},
			Client:  client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &consistent}},
		})
		if err != nil {
			panic(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		go func() { _ = mgr.Start(ctx) }()
		mgr.GetCache().WaitForCacheSync(ctx)
		err = mgr.GetClient().Get(ctx, client.ObjectKey{Namespace: "default", Name: "none"}, &corev1.ConfigMap{})
		notCached := &cache.ErrResourceNotCached{}
		fmt.Printf("consistent %t: ErrResourceNotCached %t, NotFound %t, watches %d\n", consistent, errors.As(err, &notCached), apierrors.IsNotFound(err), watches.Load())
		stop()
		api.CloseClientConnections()
	}
}
GO
go mod tidy >/dev/null 2>&1
go list -m sigs.k8s.io/controller-runtime k8s.io/client-go
out=$(go run .)
echo "$out"
for line in 'consistent false: ErrResourceNotCached true, NotFound false, watches 0' \
	'consistent true: ErrResourceNotCached false, NotFound true, watches 1'; do
	grep -qxF "$line" <<<"$out"
done
