// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"strconv"
	"strings"
)

// leastBefore maps a minor version to a patch of the previous minor version. Every member must run that patch or a
// later one before the upgrade.
var leastBefore = map[string]string{"3.6": "3.5.32"}

// unproven maps a minor version to the reason why members are not upgraded to it. 3.5 writes versions and addresses of
// members to the log in a form that 3.6 can read and 3.7.3 cannot. A member removes these entries from its log when it
// saves a snapshot, after 10,000 writes. Only the member's disk shows whether the member has saved a snapshot.
var unproven = map[string]string{
	"3.7": "3.7 may be unable to read the log that a member wrote with 3.6, and the member cannot go back: restore a backup into a new EtcdCluster of 3.7 instead (restoreFrom)",
}

// NextVersion returns the next version on the way from one version of etcd to another. In general, this is the last
// patch of the next minor version. If that minor version requires it, the last patch of the present minor version comes
// first. path contains these patches. why is the reason if the upgrade is not possible.
func NextVersion(from, to string, path []string) (next, why string) {
	a, okA := parse(from)
	b, okB := parse(to)
	switch {
	case !okA || !okB:
		return "", fmt.Sprintf("%q or %q is no version such as 3.6.16", from, to)
	case a[0] != b[0]:
		return "", fmt.Sprintf("there is no upgrade path from %s to %s", from, to)
	case a[1] == b[1]:
		return to, ""
	case a[1] > b[1]:
		return "", fmt.Sprintf("it cannot go back from %s to %s: restore a backup into a new cluster instead", from, to)
	}
	up := fmt.Sprintf("%d.%d", a[0], a[1]+1)
	if why := unproven[up]; why != "" {
		return "", fmt.Sprintf("an upgrade from %s to %s is not known to be safe: %s", minor(from), up, why)
	}
	if least, ok := leastBefore[up]; ok && newer(least, from) {
		patch := lastPatch(minor(from), path)
		if patch == "" || newer(least, patch) {
			return "", fmt.Sprintf("%s has to be %s or newer before %s, and no such version is known", from, least, up)
		}
		return patch, ""
	}
	if up == minor(to) {
		return to, ""
	}
	patch := lastPatch(up, path)
	if patch == "" {
		return "", fmt.Sprintf("no version of etcd %s is known on the way from %s to %s", up, from, to)
	}
	return patch, ""
}

// fault is a range of patches of a minor version, including both ends, and their defect.
type fault struct{ from, to, text string }

// faults are the releases of etcd that the etcd project warns against.
var faults = []fault{
	{"3.4.0", "3.4.13", "after a loss of the quorum, a cluster that has had a learner cannot continue from one member"},
	{"3.5.0", "3.5.4", "members may come to have different data without any sign of it"},
	{"3.5.5", "3.5.19", "a member that was promoted to a voter may be a learner again after the upgrade to 3.6"},
	{"3.6.0", "3.6.2", "members may crash after a member was replaced"},
}

// knownFault returns the known defect of a version, or "".
func knownFault(version string) string {
	for _, f := range faults {
		if minor(version) == minor(f.from) && !newer(f.from, version) && !newer(version, f.to) {
			return f.text
		}
	}
	return ""
}

func lastPatch(of string, path []string) string {
	last := ""
	for _, version := range path {
		if minor(version) == of && (last == "" || newer(version, last)) {
			last = version
		}
	}
	return last
}

// minor returns the first two numbers of a version.
func minor(version string) string {
	v, ok := parse(version)
	if !ok {
		return version
	}
	return fmt.Sprintf("%d.%d", v[0], v[1])
}

// newer reports whether one version is higher than another one. A version that cannot be parsed counts as the lowest.
func newer(a, b string) bool {
	x, _ := parse(a)
	y, _ := parse(b)
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
}

func parse(version string) (v [3]int, ok bool) {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "-")
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return [3]int{}, false
		}
		v[i] = n
	}
	return v, true
}
