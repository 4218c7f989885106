// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
)

const (
	defaultRegistry   = "gcr.io"
	defaultRepository = "etcd-development/etcd"
	defaultVersion    = "3.6.16"

	// defragAtLeast is the minimum size in bytes of a database file that is rewritten.
	defragAtLeast = 100 << 20
)

// path holds the last patches of the minor versions through which an upgrade passes.
var path = []string{"3.4.44", "3.5.35", "3.6.16", "3.7.3"}

// ImageName is the name of the default image of etcd in manager.Options.
const ImageName = "etcd"

// DefaultImages returns the images that the operator uses if the spec names none, by their names in manager.Options.
func DefaultImages() map[string]string {
	return map[string]string{ImageName: defaultRegistry + "/" + defaultRepository + ":v" + defaultVersion}
}

// replicasOf returns the number of members for a spec: an odd number, or 0. An autoscaler may write an even number. replicasOf increases it
// by one, because an even number of members tolerates only as many losses as the next lower odd number.
func replicasOf(spec *etcdv1.EtcdClusterSpec) int {
	if spec.Replicas == nil { // only if no API server has set the default
		return 3
	}
	n := int(*spec.Replicas)
	if n > 0 && n%2 == 0 {
		n++
	}
	return n
}

// versionOf returns the wanted version: from the spec, or else from the image's tag, or else the default.
func versionOf(spec *etcdv1.EtcdClusterSpec) string {
	if spec.Version != "" {
		return spec.Version
	}
	if _, version, _, ok := splitTag(tagOf(spec.Image)); ok {
		return version
	}
	return defaultVersion
}

// imageOf returns the image for a version of etcd. It returns "" if the spec pins an image of another version. related,
// if not empty, replaces the default image.
func imageOf(spec *etcdv1.EtcdClusterSpec, version, related string) string {
	switch {
	case spec.Image != "" && hasTag(spec.Image):
		return withVersion(spec, version)
	case spec.Image != "":
		return spec.Image + ":v" + version
	case spec.Registry != "":
		return strings.TrimSuffix(spec.Registry, "/") + "/" + defaultRepository + ":v" + version
	case related != "" && version == defaultVersion:
		return related
	case related != "" && hasTag(related) && !strings.Contains(related, "@"): // a mirror stores all versions in one repository
		return related[:strings.LastIndex(related, ":")] + ":v" + version
	}
	return defaultRegistry + "/" + defaultRepository + ":v" + version
}

// withVersion returns the spec's image with its tag changed to a version. The image has a tag or a digest. Text around
// the version in the tag stays.
func withVersion(spec *etcdv1.EtcdClusterSpec, version string) string {
	if numbers(version) == numbers(versionOf(spec)) {
		return spec.Image
	}
	if isPinned(spec) {
		return ""
	}
	tag := tagOf(spec.Image)
	before, _, after, _ := splitTag(tag)
	return strings.TrimSuffix(spec.Image, tag) + before + version + after
}

// isPinned reports whether a spec names an image that cannot be changed to another version: it has a digest, or a tag without a version.
func isPinned(spec *etcdv1.EtcdClusterSpec) bool {
	if spec.Image == "" || !hasTag(spec.Image) {
		return false
	}
	_, _, _, ok := splitTag(tagOf(spec.Image))
	return !ok || strings.Contains(spec.Image, "@")
}

func hasTag(image string) bool {
	return strings.ContainsAny(image[strings.LastIndex(image, "/")+1:], ":@")
}

// tagOf returns the tag of an image, or "". The host of a registry may have a port.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

var versionTag = regexp.MustCompile(`^(v?)([0-9]+\.[0-9]+\.[0-9]+)([-_.+].*)?$`)

// splitTag splits a tag such as v3.6.16-amd64 around its version.
func splitTag(tag string) (before, version, after string, ok bool) {
	found := versionTag.FindStringSubmatch(tag)
	if found == nil {
		return "", "", "", false
	}
	return found[1], found[2], found[3], true
}

// checkImage returns the reason why an image cannot have the wanted version, or nil. For a digest, only the agent can check the version,
// before etcd starts.
func checkImage(spec *etcdv1.EtcdClusterSpec) error {
	_, version, _, ok := splitTag(tagOf(spec.Image))
	if !ok || spec.Version == "" || numbers(version) == numbers(spec.Version) {
		return nil
	}
	return fmt.Errorf("the tag of spec.image names etcd %s, but spec.version is %s: make both fields agree, or give spec.image without a tag", version, spec.Version)
}

// numbers returns the three numbers of a version, or zeros if it does not have three.
func numbers(version string) (n [3]int) {
	version, _, _ = strings.Cut(version, "-")
	version, _, _ = strings.Cut(version, "+")
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return n
	}
	for i, part := range parts {
		number, err := strconv.Atoi(part)
		if err != nil {
			return [3]int{}
		}
		n[i] = number
	}
	return n
}

// checkVersion returns the reason why a version is not supported, or nil.
func checkVersion(version string) error {
	if n := numbers(version); n[0] != 3 || n[1] < 4 {
		return fmt.Errorf("spec.version: etcd %s is not supported: use 3.4.0 or newer, such as %s", version, defaultVersion)
	}
	return nil
}

// hasLegacyHealth reports whether a version has neither /livez nor /readyz.
func hasLegacyHealth(version string) bool {
	n := numbers(version)
	return n[0] == 3 && (n[1] == 4 && n[2] < 29 || n[1] == 5 && n[2] < 11)
}

// encrypted reports whether connections use TLS.
func encrypted(spec *etcdv1.EtcdClusterSpec) bool {
	return spec.TLS.Mode == etcdv1.TLSAuto || spec.TLS.Mode == etcdv1.TLSSecrets
}

// checkScheme returns the reason why the TLS mode of a formed cluster cannot change, or nil. Peer URLs contain the scheme: if a member
// restarts with another scheme, the other members cannot connect to it.
func checkScheme(spec *etcdv1.EtcdClusterSpec, record membership.Record) error {
	if record.Cluster == 0 || record.Scheme == "" || record.Scheme == scheme(spec) {
		return nil
	}
	return fmt.Errorf("spec.tls.mode cannot change to %s: the cluster was formed with %s addresses: set spec.tls.mode back. To change the mode, restore a backup into a new EtcdCluster (restoreFrom)",
		cmp.Or(spec.TLS.Mode, etcdv1.TLSOff), record.Scheme)
}

func scheme(spec *etcdv1.EtcdClusterSpec) string {
	if encrypted(spec) {
		return "https"
	}
	return "http"
}

func podDomain(ec *etcdv1.EtcdCluster, ordinal int) string {
	return fmt.Sprintf("%s.%s-headless.%s.svc", database.PodName(ec.Name, ordinal), ec.Name, ec.Namespace)
}

// endpoints returns the URL for clients.
func endpoints(ec *etcdv1.EtcdCluster) string {
	return fmt.Sprintf("%s://%s.%s.svc:2379", scheme(&ec.Spec), ec.Name, ec.Namespace)
}

// wanted returns the desired state of the running cluster.
func wanted(ec *etcdv1.EtcdCluster) membership.Want {
	spec := &ec.Spec
	obs := membership.Want{
		Replicas: replicasOf(spec), Version: versionOf(spec), Path: path, Pinned: isPinned(spec),
		Maintenance: membership.Maintenance{Compact: spec.Maintenance.Compaction != nil, DefragAtLeast: defragAtLeast},
	}
	for ordinal := range membership.MaxReplicas {
		obs.PeerURLs = append(obs.PeerURLs, scheme(spec)+"://"+podDomain(ec, ordinal)+":2380")
	}
	if after, err := time.ParseDuration(spec.Replacement.After); err == nil {
		obs.ReplaceAfter = after
	}
	if percent, err := strconv.Atoi(strings.TrimSuffix(spec.Maintenance.DefragThreshold, "%")); err == nil {
		obs.Maintenance.DefragPercent = percent
	}
	if spec.Recovery != nil {
		obs.Recovery = membership.Recovery{From: spec.Recovery.From, Token: spec.Recovery.Token}
	}
	return obs
}

// flags returns the flags of etcd.
func flags(spec *etcdv1.EtcdClusterSpec) map[string]string {
	result := map[string]string{}
	for name, value := range spec.Config {
		result[name] = string(value)
	}
	if compaction := spec.Maintenance.Compaction; compaction != nil {
		result["auto-compaction-mode"], result["auto-compaction-retention"] = compaction.Mode, compaction.Retention
	}
	return result
}
