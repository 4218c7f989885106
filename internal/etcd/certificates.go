// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// certificate is a certificate that a cluster needs, under a key of a Secret.
type certificate struct {
	secret, key string
	database.Validity
	problem string // reason why the certificate cannot be read
}

// readCertificates reads the validity of a cluster's certificates and of the authorities that signed them. With optional, it skips a
// missing Secret, because the operator may not have created its Secrets yet.
func readCertificates(ctx context.Context, from client.Reader, ec *etcdv1.EtcdCluster, optional bool) ([]certificate, error) {
	serverSecret, peerSecret := tlsSecrets(ec)
	var found []certificate
	for _, name := range []string{serverSecret, peerSecret, clientSecret(ec)} {
		secret := object.Empty(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := from.Get(ctx, client.ObjectKey{Namespace: ec.Namespace, Name: name}, secret)
		switch {
		case apierrors.IsNotFound(err) && optional:
			continue
		case apierrors.IsNotFound(err):
			found = append(found, certificate{secret: name, key: keyCert, problem: "there is no such Secret"})
			continue
		case err != nil:
			return nil, fmt.Errorf("read Secret %s: %w", name, err)
		}
		for _, key := range []string{keyCert, keyCA} {
			one := certificate{secret: name, key: key}
			if one.Validity, err = database.ValidityOf(dataIn(secret, key)); err != nil {
				one.problem = err.Error()
			}
			found = append(found, one)
		}
		pair := pairIn(secret, keyCert, keyKey)
		if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil && found[len(found)-2].problem == "" {
			found = append(found, certificate{secret: name, key: keyKey, problem: err.Error()})
		}
	}
	return found, nil
}

// certificates sets the condition about expiring certificates. Without TLS, it removes the condition. Without an observation, it keeps the
// condition.
func (v *view) certificates(c reconcile.Conditions) {
	ec := v.observed.of(v.ec)
	switch {
	case clientSecret(ec) == "":
		meta.RemoveStatusCondition(c.List, etcdv1.ConditionCertificatesValid)
	case len(v.observed.certificates) > 0:
		reason, message := worst(v.observed.certificates, renewer(ec), c.Now.Time)
		c.Set(etcdv1.ConditionCertificatesValid, reason == "", etcdv1.ReasonCertificatesValid, "all certificates are valid for long enough", reason, message)
	}
}

// renewer describes how the certificates of a cluster are renewed.
func renewer(ec *etcdv1.EtcdCluster) string {
	if ec.Spec.TLS.Mode == etcdv1.TLSAuto {
		return "renewal by the operator is overdue: the operator's log has the cause. If the certificate is an authority (ca.crt), set spec.tls.rotation to a new value"
	}
	return "renew the certificate, or check the program that renews it"
}

// worst returns the most urgent problem of the certificates. reason is empty if there is none.
func worst(found []certificate, renewer string, now time.Time) (reason, message string) {
	var first *certificate
	for i := range found {
		one := &found[i]
		if one.problem != "" {
			return etcdv1.ReasonCertificateUnreadable, fmt.Sprintf("Secret %s, %s: %s", one.secret, one.key, one.problem)
		}
		if one.IsLate(now) && (first == nil || one.Until.Before(first.Until)) {
			first = one
		}
	}
	if first == nil {
		return "", ""
	}
	reason, until := etcdv1.ReasonCertificateExpires, "is valid until "
	if first.IsOver(now) {
		reason, until = etcdv1.ReasonCertificateExpired, "was valid until "
	}
	return reason, fmt.Sprintf("Secret %s, %s: it %s%s: %s", first.secret, first.key, until, first.Until.UTC().Format(time.RFC3339), renewer)
}
