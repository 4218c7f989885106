// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/kinds/etcdcluster/membership"
)

const (
	defaultRegistry   = "gcr.io"
	defaultRepository = "etcd-development/etcd"
	defaultVersion    = "3.6.16"

	// defragAtLeast is the size of a database file below which it is not rewritten.
	defragAtLeast = 100 << 20
)

// path are the last patches of the minors that lead to other ones.
var path = []string{"3.4.44", "3.5.35", "3.6.16", "3.7.3"}

// ImageName is the name that stands for the default image of etcd in manager.Options.
const ImageName = "etcd"

// DefaultImages are the images that the operator uses by itself, by the name that stands for each in
// manager.Options.
func DefaultImages() map[string]string {
	return map[string]string{ImageName: defaultRegistry + "/" + defaultRepository + ":v" + defaultVersion}
}

// replicasOf returns the number of members that are wanted.
func replicasOf(spec *etcdv1.EtcdClusterSpec) int {
	if spec.Replicas == nil { // of a resource that no API server has completed
		return 3
	}
	return int(*spec.Replicas)
}

// versionOf returns the version that is wanted: that of the spec, or else of the image's tag.
func versionOf(spec *etcdv1.EtcdClusterSpec) string {
	if spec.Version != "" {
		return spec.Version
	}
	if _, version, _, ok := splitTag(tagOf(spec.Image)); ok {
		return version
	}
	return defaultVersion
}

// imageOf returns the image of a version of etcd, or nothing where the spec pins the image of another one. related is the one that
// stands for the default; empty for none.
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
	case related != "" && hasTag(related) && !strings.Contains(related, "@"): // a mirror has its versions beside each other
		return related[:strings.LastIndex(related, ":")] + ":v" + version
	}
	return defaultRegistry + "/" + defaultRepository + ":v" + version
}

// withVersion returns the spec's image, which has a tag or a digest, at a version: the versions on the way to that of a tag are
// tags of the same form.
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

// isPinned reports whether a spec names one image whose version nobody can read from its name.
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

// tagOf returns the tag of an image; empty for none. The host of a registry may have a port.
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

// checkImage returns why an image cannot be of the version that is wanted, or nil. Of a digest the agent sees it before etcd starts.
func checkImage(spec *etcdv1.EtcdClusterSpec) error {
	_, version, _, ok := splitTag(tagOf(spec.Image))
	if !ok || spec.Version == "" || numbers(version) == numbers(spec.Version) {
		return nil
	}
	return fmt.Errorf("spec.image is of etcd %s by its tag, and spec.version is %s: make them agree, or give the image without a tag", version, spec.Version)
}

// numbers returns the three numbers of a version; all are 0 if it has not three.
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

// checkVersion returns why the operator cannot run a version, or nil.
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

// encrypted reports whether connections are encrypted.
func encrypted(spec *etcdv1.EtcdClusterSpec) bool {
	return spec.TLS.Mode == etcdv1.TLSAuto || spec.TLS.Mode == etcdv1.TLSSecrets
}

// checkScheme returns why the members of a formed cluster cannot encrypt their connections from now on, or no more; or nil. They
// know each other by addresses with a scheme, so a member that restarts with another one is not found.
func checkScheme(spec *etcdv1.EtcdClusterSpec, record membership.Record) error {
	if record.Cluster == 0 || record.Scheme == "" || record.Scheme == scheme(spec) {
		return nil
	}
	return fmt.Errorf("spec.tls.mode cannot change to %s: the cluster was formed with %s addresses: set it back. To change it, restore a backup into a new EtcdCluster (restoreFrom)",
		cmp.Or(spec.TLS.Mode, etcdv1.TLSOff), record.Scheme)
}

func scheme(spec *etcdv1.EtcdClusterSpec) string {
	if encrypted(spec) {
		return "https"
	}
	return "http"
}

// podName returns the name of the pod of an ordinal, and podDomain its name in DNS.
func podName(cluster string, ordinal int) string { return fmt.Sprintf("%s-%d", cluster, ordinal) }

func podDomain(ec *etcdv1.EtcdCluster, ordinal int) string {
	return fmt.Sprintf("%s.%s-headless.%s.svc", podName(ec.Name, ordinal), ec.Name, ec.Namespace)
}

// endpoints returns where clients connect.
func endpoints(ec *etcdv1.EtcdCluster) string {
	return fmt.Sprintf("%s://%s.%s.svc:2379", scheme(&ec.Spec), ec.Name, ec.Namespace)
}

// wanted returns what a resource asks of the running cluster.
func wanted(ec *etcdv1.EtcdCluster) membership.Want {
	spec := &ec.Spec
	w := membership.Want{
		Replicas: replicasOf(spec), Version: versionOf(spec), Path: path, Pinned: isPinned(spec),
		Maintenance: membership.Maintenance{Compact: spec.Maintenance.Compaction != nil, DefragAtLeast: defragAtLeast},
	}
	for ordinal := range membership.MaxReplicas {
		w.PeerURLs = append(w.PeerURLs, scheme(spec)+"://"+podDomain(ec, ordinal)+":2380")
	}
	if after, err := time.ParseDuration(spec.Replacement.After); err == nil {
		w.ReplaceAfter = after
	}
	if percent, err := strconv.Atoi(strings.TrimSuffix(spec.Maintenance.DefragThreshold, "%")); err == nil {
		w.Maintenance.DefragPercent = percent
	}
	if spec.Recovery != nil {
		w.Recovery = membership.Recovery{From: spec.Recovery.From, Token: spec.Recovery.Token}
	}
	return w
}

// flags returns those of etcd.
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
