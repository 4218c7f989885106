// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Flag is the value of a flag of etcd: one line.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[^\r\n]*$`
type Flag string

// TLS configures the encryption of connections.
//
// +kubebuilder:validation:XValidation:rule="has(self.mode) && self.mode == 'Secrets' ? (has(self.serverSecret) && has(self.peerSecret) && has(self.clientSecret)) : (!has(self.serverSecret) && !has(self.peerSecret) && !has(self.clientSecret))",message="serverSecret, peerSecret and clientSecret must be given when mode is 'Secrets', and may not be given otherwise"
type TLS struct {
	// mode is Off (connections are not encrypted, and every client that can connect may read and write), Auto (the
	// operator makes two certificate authorities, for clients and for members, and renews the certificates) or Secrets
	// (you provide the certificates in Secrets).
	// +kubebuilder:default=Off
	// +kubebuilder:validation:Enum=Off;Auto;Secrets
	// +kubebuilder:example=`Auto`
	// +optional
	Mode TLSMode `json:"mode,omitempty"`

	// additionalNames are names and addresses for the certificate of the server in mode Auto, in addition to
	// those of the Services and pods: the address of a load balancer, or a wildcard such as *.etcd.example.com. A
	// change takes effect without a restart.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`
	// +kubebuilder:example=`[etcd.example.com, 192.0.2.10]`
	// +listType=set
	// +optional
	// +nullable
	AdditionalNames []string `json:"additionalNames,omitempty"`

	// rotation is any text. A new text makes the operator replace both certificate authorities of mode Auto, one
	// pod at a time, in three steps: members and clients trust the old and the new authorities; the new
	// authorities sign all certificates; the old authorities are removed. The operator also does this after two
	// thirds of the lifetime of the authorities.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`2026-01-01`
	// +optional
	// +nullable
	Rotation string `json:"rotation,omitempty"`

	// serverSecret names a Secret with tls.crt, tls.key and ca.crt: the certificate of the server, and the
	// authority of the clients' certificates. The certificate must be valid for the names that docs/etcd.md
	// lists.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`my-etcd-server`
	// +optional
	// +nullable
	ServerSecret string `json:"serverSecret,omitempty"`

	// peerSecret names a Secret with tls.crt, tls.key and ca.crt: the certificate for connections between
	// members. Its authority should sign nothing else: any client with a certificate of this authority can act
	// as a member.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`my-etcd-peer`
	// +optional
	// +nullable
	PeerSecret string `json:"peerSecret,omitempty"`

	// clientSecret names a Secret with tls.crt, tls.key and ca.crt: the certificate of the operator, and the
	// authority of the server's certificate.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`my-etcd-client`
	// +optional
	// +nullable
	ClientSecret string `json:"clientSecret,omitempty"`
}

// TLSMode selects the source of certificates.
type TLSMode string

// The modes of TLS.
const (
	TLSOff     TLSMode = "Off"
	TLSAuto    TLSMode = "Auto"
	TLSSecrets TLSMode = "Secrets"
)

// Maintenance configures compaction and defragmentation.
type Maintenance struct {
	// compaction configures when etcd drops the history of keys. Default: never.
	// +kubebuilder:example=`{mode: periodic, retention: 1h}`
	// +optional
	// +nullable
	Compaction *Compaction `json:"compaction,omitempty"`

	// defragThreshold is the percentage of unused space at which the operator rewrites a database file, one member at
	// a time. During the rewrite the member answers no request. 0% means never. Files below 100 MiB are not rewritten.
	// +kubebuilder:default="45%"
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}%$`
	// +kubebuilder:example=`60%`
	// +optional
	DefragThreshold string `json:"defragThreshold,omitempty"`
}

// Compaction configures when etcd drops the history of keys.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'revision' ? self.retention.matches('^[1-9][0-9]*$') : self.retention.matches('^[1-9][0-9]*[hms]?$')",fieldPath=".retention",message="must be a duration such as '1h' when mode is 'periodic', and a number of revisions such as '1000' when it is 'revision'"
type Compaction struct {
	// mode is periodic (etcd drops history that is older than the duration in retention) or revision (etcd keeps only the
	// newest revisions; retention is their number).
	// +kubebuilder:validation:Enum=periodic;revision
	// +kubebuilder:example=`periodic`
	Mode string `json:"mode"`

	// retention is the length of the history that is kept: a duration (a number alone means hours), or a number of revisions.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:example=`1h`
	Retention string `json:"retention"`
}

// Recovery consents to continue with the data of one member.
type Recovery struct {
	// from is the pod whose data is used, Best (the operator uses the newest data that it can read) or Empty (no
	// data is left: start again with an empty cluster).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(Best|Empty|[a-z]([-a-z0-9]*[a-z0-9])?)$`
	// +kubebuilder:example=`Best`
	From string `json:"from"`

	// token is any text. The operator recovers once for each new text, and only while a quorum is lost.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`"1"`
	Token string `json:"token"`
}

// Replacement configures when the operator replaces a crashing member.
type Replacement struct {
	// after is the time for which a member may keep crashing. After that, the operator deletes the volume of the
	// member, and the new member copies the data from the others. 0s means never.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:example=`10m`
	// +optional
	After string `json:"after,omitempty"`
}

// NetworkPolicy limits the peers that may connect as clients.
type NetworkPolicy struct {
	// enabled lets only the cluster's own pods, the operator and the peers in allowFrom connect to the port for clients
	// and to the metrics. While enabled is false, every pod may connect.
	// +kubebuilder:default=false
	// +kubebuilder:example=`true`
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// allowFrom lists further peers (NetworkPolicyPeer) that may connect, such as the namespaces of clients.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:example=`[{namespaceSelector: {matchLabels: {team: data}}}]`
	// +listType=atomic
	// +optional
	// +nullable
	AllowFrom []Object `json:"allowFrom,omitempty"`

	// additionalPorts opens further TCP ports to the admitted peers, such as 15008 of Istio in ambient mode. Only used if enabled
	// is true. Through the port of a mesh, a client can reach every port of the pod, also the port for members: see
	// docs/services.md.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="!(2380 in self)",message="2380 is for the cluster's own pods alone"
	// +kubebuilder:example=`[15008]`
	// +listType=set
	// +optional
	// +nullable
	AdditionalPorts []int32 `json:"additionalPorts,omitempty"`
}
