// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/platform/component"
)

const (
	etcdPort = "2379"
	// Modes of an EtcdCluster: without TLS, and with certificates of the operator.
	etcdPlain, etcdAuto = "Off", "Auto"
)

// managedEtcd returns the chart values of an EtcdCluster, with its whole spec. fields are the component's fields, including the defaults for
// all components.
func managedEtcd(in Input, c *component.Component, fields map[string]any) (map[string]any, error) {
	e := c.Etcd
	spec := map[string]any{
		"storage": e.Storage.Size.String(),
		// The plan includes defaults of the API server: otherwise they would look like changes by another writer.
		"tls": map[string]any{"mode": etcdPlain}, "maintenance": map[string]any{"defragThreshold": "45%"}, "replacement": map[string]any{"after": "5m"},
	}
	if e.Replicas != nil { // nil keeps the number in the EtcdCluster, which an autoscaler may set
		spec["replicas"] = int64(*e.Replicas)
	}
	give(spec, map[string]string{
		"storageClassName": e.Storage.StorageClassName, "version": e.Version, "antiAffinity": e.AntiAffinity, "size": named(e.Size),
	})
	giveGrowth(spec, "storageAutoGrow", e.Storage.AutoGrow)
	if e.Image != "" {
		spec["image"] = withRegistry(in, e.Image)
	} else if in.registry() != "" {
		spec["registry"] = in.registry()
	}
	take(spec, fields, "config", "resources", "affinity", "nodeSelector", "tolerations", "topologySpreadConstraints", "imagePullSecrets", "recovery")
	if err := takeBackup(c.Path, spec, e.Backup, e.RestoreFrom); err != nil {
		return nil, err
	}
	if e.TLS != nil {
		tls := map[string]any{"mode": e.TLS.Mode}
		give(tls, map[string]string{"serverSecret": e.TLS.ServerSecret, "peerSecret": e.TLS.PeerSecret, "clientSecret": e.TLS.ClientSecret, "rotation": e.TLS.Rotation})
		given, _ := fields["tls"].(map[string]any)
		take(tls, given, "additionalNames")
		spec["tls"] = tls
	}
	template, err := podsOf(c, e.PodTemplate, fields)
	if err != nil {
		return nil, err
	}
	if len(template) > 0 {
		spec["podTemplate"] = template
	}
	return resource(in, c, fields, spec)
}

// useEtcd adds the addresses of etcd and the client certificate to a component that depends on etcd.
func useEtcd(v map[string]any, in Input, c *component.Component) {
	etcd := in.Graph.Get(component.Etcd)
	if etcd == nil || etcd.Etcd == nil || !slices.Contains(c.Requires, component.Etcd) {
		return
	}
	added(v, "endpoints")["etcd"] = map[string]any{"urls": strings.Join(etcdURLs(in, etcd), ",")}
	if secret := etcdSecret(etcd); secret != "" {
		added(v, "credentials")["etcd"] = map[string]any{"secretName": secret}
	}
}

// etcdElsewhere makes the probe only connect to the addresses, because a request over TLS would need a client certificate.
func etcdElsewhere(v map[string]any, c *component.Component) {
	v["url"] = "tcp://" + strings.Join(nodes(c.ThirdParty.URL, etcdPort), ",")
	if secret := etcdSecret(c); secret != "" && c.ThirdParty.CheckCMD != "" {
		v["credentials"] = map[string]any{"etcd": map[string]any{"secretName": secret}}
	}
}

// etcdURLs returns the client URLs of the cluster. For an EtcdCluster, the URL is that of its Service, which selects the ready members. The
// URL does not change with the members, so no service restarts.
func etcdURLs(in Input, c *component.Component) []string {
	if c.Kind != component.ThirdParty {
		scheme := "http"
		if c.Etcd.TLS != nil && c.Etcd.TLS.Mode != etcdPlain {
			scheme = "https"
		}
		return []string{scheme + "://" + host(in, c) + ":" + etcdPort}
	}
	scheme, _, _ := strings.Cut(c.ThirdParty.URL, "://")
	found := nodes(c.ThirdParty.URL, etcdPort)
	for i := range found {
		found[i] = scheme + "://" + found[i]
	}
	return found
}

// etcdSecret returns the name of the Secret with the client certificate, or "". In the mode Auto, the operator creates and renews the
// Secret.
func etcdSecret(c *component.Component) string {
	e := c.Etcd
	switch {
	case c.Kind == component.ThirdParty:
		return e.ThirdParty.TLSSecret
	case e.TLS == nil:
		return ""
	case e.TLS.Mode == etcdAuto:
		return c.ObjectName + "-client-tls"
	}
	return e.TLS.ClientSecret
}
