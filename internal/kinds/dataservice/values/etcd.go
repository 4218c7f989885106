// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
)

const (
	etcdPort = "2379"
	// What EtcdClusters call the mode without encryption, and that in which the operator makes the certificates.
	etcdPlain, etcdAuto = "Off", "Auto"
)

// managedEtcd returns the values of the chart of an EtcdCluster: the whole of its spec. fields are those of the component
// with the defaults for all components below them.
func managedEtcd(in Input, c *component.Component, fields map[string]any) (map[string]any, error) {
	e := c.Etcd
	spec := map[string]any{
		"storage": e.Storage.Size.String(),
		// What the API server would fill in is planned, or it would look like what somebody else wrote.
		"tls": map[string]any{"mode": etcdPlain}, "maintenance": map[string]any{"defragThreshold": "45%"}, "replacement": map[string]any{"after": "5m"},
	}
	if e.Replicas != nil {
		spec["replicas"] = int64(*e.Replicas)
	}
	give(spec, map[string]string{
		"storageClassName": e.Storage.StorageClassName, "version": e.Version, "antiAffinity": e.AntiAffinity, "size": named(e.Size),
	})
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
	template, err := etcdTemplate(c, fields)
	if err != nil {
		return nil, err
	}
	if len(template) > 0 {
		spec["podTemplate"] = template
	}
	return resource(in, c, fields, spec)
}

// etcdTemplate is the podTemplate, with what an EtcdCluster has no fields for below it: labels, annotations, and the class of
// the pods' priority.
func etcdTemplate(c *component.Component, fields map[string]any) (map[string]any, error) {
	template, err := templateOf(c, c.Etcd.PodTemplate)
	if err != nil {
		return nil, err
	}
	if template == nil {
		template = map[string]any{}
	}
	for _, name := range []string{"labels", "annotations"} {
		given, _ := fields[name].(map[string]any)
		for key, value := range given {
			own := added(added(template, "metadata"), name)
			if _, ok := own[key]; !ok {
				own[key] = value
			}
		}
	}
	if class, ok := fields["priorityClassName"]; ok && added(template, "spec")["priorityClassName"] == nil {
		added(template, "spec")["priorityClassName"] = class
	}
	return template, nil
}

// useEtcd gives a component that depends on etcd its addresses, and the certificate with which it connects.
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

// etcdElsewhere has the probe connect to the addresses: a request over TLS would need the certificate of a client.
func etcdElsewhere(v map[string]any, c *component.Component) {
	v["url"] = "tcp://" + strings.Join(nodes(c.ThirdParty.URL, etcdPort), ",")
	if secret := etcdSecret(c); secret != "" && c.ThirdParty.CheckCMD != "" {
		v["credentials"] = map[string]any{"etcd": map[string]any{"secretName": secret}}
	}
}

// etcdURLs returns where clients find the cluster. For one of the operator's that is its Service, behind which are the
// members that are ready: it stays the same whichever members come and go, so that no service restarts for that.
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

// etcdSecret names the Secret with the certificate of clients; empty for none. That of an EtcdCluster of the mode Auto is made
// and renewed by its own kind.
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
