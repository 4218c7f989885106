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
	// mode is Off (connections are not encrypted, and everyone who reaches etcd may read and write), Auto (the operator
	// makes two certificate authorities, for clients and for members, and renews the certificates) or Secrets
	// (you provide the certificates in Secrets).
	// +kubebuilder:default=Off
	// +kubebuilder:validation:Enum=Off;Auto;Secrets
	// +kubebuilder:example=`Auto`
	// +optional
	Mode TLSMode `json:"mode,omitempty"`

	// additionalNames are names and addresses, besides those of the Services and pods, in the certificate that
	// clients see with mode Auto: those of a load balancer, or a wildcard such as *.etcd.example.com. A change is
	// served without a restart.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?$`
	// +kubebuilder:example=`[etcd.example.com, 192.0.2.10]`
	// +listType=set
	// +optional
	// +nullable
	AdditionalNames []string `json:"additionalNames,omitempty"`

	// rotation is any text. For each new one the operator replaces both certificate authorities of mode Auto, in
	// steps and one pod at a time: members and clients trust the old and the new ones, then certificates are those
	// of the new ones, then the old ones are dropped. It does so by itself after two thirds of their life.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`2026-01-01`
	// +optional
	// +nullable
	Rotation string `json:"rotation,omitempty"`

	// serverSecret names a Secret with tls.crt, tls.key and ca.crt: the certificate that clients see, and the
	// authority of the clients' certificates. It must be valid for the names that docs/etcd.md lists.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +kubebuilder:example=`my-etcd-server`
	// +optional
	// +nullable
	ServerSecret string `json:"serverSecret,omitempty"`

	// peerSecret names a Secret with tls.crt, tls.key and ca.crt: the certificate of members among each other.
	// Its authority should sign nothing else: any client with a certificate of it can act as a member.
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

// TLSMode is where certificates come from.
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

	// defragThreshold is the unused part of a database file, as a percentage, from which it is rewritten, one member at
	// a time. A member answers nothing during that. 0% is never. Files below 100 MiB are left alone.
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
	// mode is periodic (history older than retention is dropped) or revision (all but the last retention
	// revisions are dropped).
	// +kubebuilder:validation:Enum=periodic;revision
	// +kubebuilder:example=`periodic`
	Mode string `json:"mode"`

	// retention is the history that is kept: a duration (a number alone is hours), or a number of revisions.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:example=`1h`
	Retention string `json:"retention"`
}

// Recovery is the consent to go on with the data of one member.
type Recovery struct {
	// from is the pod whose data lives on, Best (the operator chooses the newest data of those that it can read)
	// or Empty (no data is left: start again with an empty cluster).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(Best|Empty|[a-z]([-a-z0-9]*[a-z0-9])?)$`
	// +kubebuilder:example=`Best`
	From string `json:"from"`

	// token is any text. The operator recovers once for each new one, and only while a quorum is lost.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	// +kubebuilder:example=`"1"`
	Token string `json:"token"`
}

// Replacement configures when a member is given up.
type Replacement struct {
	// after is the time for which a member may keep crashing before it is given up. Its volume is deleted then, and
	// the member that replaces it gets its data from the others. 0s is never.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:example=`10m`
	// +optional
	After string `json:"after,omitempty"`
}

// NetworkPolicy limits who may connect as a client.
type NetworkPolicy struct {
	// enabled lets only the cluster's own pods, the operator and allowFrom connect to clients' port and to the
	// metrics. While it is false every pod may.
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

	// additionalPorts lists further TCP ports that the same peers may connect to, such as 15008 of Istio in ambient mode. Only used
	// with enabled. A client that a mesh's port admits reaches every port of the pod through it, also that of members:
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
