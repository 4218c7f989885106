// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// accepted replaces each refused field of the resource with its present value, and returns the reasons of the refusals
// (nil if no field is refused). So an invalid field in the spec does not stop the repair of the cluster. If no live
// object shows the present values, accepted returns the resource unchanged, and plan refuses it.
func accepted(ec *etcdv1.EtcdCluster, owner object.Owner, in reconcile.Inputs) (*etcdv1.EtcdCluster, *reconcile.SpecError, error) {
	record, err := records.Planned(in, owner)
	if err != nil {
		return nil, nil, err
	}
	version, image, scheme := checkVersion(versionOf(&ec.Spec)), checkImage(&ec.Spec), checkScheme(&ec.Spec, record)
	refused := errors.Join(version, image, scheme)
	if refused == nil {
		return ec, nil, nil
	}
	live, err := in.Lookup(object.StatefulSetKind.Kind, ec.Name)
	if live == nil || err != nil {
		return ec, nil, err
	}
	runs, reason := ec.DeepCopy(), reconcile.ReasonInvalidSpec
	if version != nil || image != nil {
		runs.Spec.Image, runs.Spec.Version = database.ImageOf(live, container), cmp.Or(expectedIn(live), record.Version)
		if runs.Spec.Image == "" || runs.Spec.Version == "" {
			return ec, nil, nil
		}
		if version != nil {
			reason = etcdv1.ReasonUnsupportedVersion
		}
	}
	if scheme != nil {
		server, err := in.Lookup("Secret", ec.Name+suffixServer)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case record.Scheme == "http":
			runs.Spec.TLS = etcdv1.TLS{Mode: etcdv1.TLSOff}
		case secretIn(live, "tls-server") == ec.Name+suffixServer:
			names := ec.Spec.TLS.AdditionalNames
			if len(names) == 0 {
				names = additionalIn(ec, server)
			}
			runs.Spec.TLS = etcdv1.TLS{Mode: etcdv1.TLSAuto, AdditionalNames: names, Rotation: ec.Spec.TLS.Rotation}
		default: // no live object names the Secret of clients
			return ec, nil, nil
		}
	}
	return runs, &reconcile.SpecError{Reason: reason, Err: refused}, nil
}

// secretIn returns the Secret of a volume in the pods of a StatefulSet, or "".
func secretIn(set *unstructured.Unstructured, volume string) string {
	volumes, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "volumes")
	for _, v := range volumes {
		if fields, _ := v.(map[string]any); fields["name"] == volume {
			name, _, _ := unstructured.NestedString(fields, "secret", "secretName")
			return name
		}
	}
	return ""
}

// additionalIn returns the additional names in a server's certificate. It omits the names that the certificate contains
// without spec.tls.additionalNames.
func additionalIn(ec *etcdv1.EtcdCluster, secret *unstructured.Unstructured) (found []string) {
	block, _ := pem.Decode(dataIn(secret, keyCert))
	if block == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	plain := ec.DeepCopy()
	plain.Spec.TLS.AdditionalNames = nil
	known := leaves(plain)[0].Hosts
	given := slices.Clone(certificate.DNSNames)
	for _, ip := range certificate.IPAddresses {
		given = append(given, ip.String())
	}
	return slices.DeleteFunc(given, func(name string) bool { return slices.Contains(known, name) })
}
