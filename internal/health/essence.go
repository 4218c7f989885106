// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// lead is a pattern of text that precedes the cause in the messages of API servers, controllers, kubelets and image registries, and the
// replacement of that text.
type lead struct {
	pattern *regexp.Regexp
	with    string
}

// leads are tried in order until no lead matches. A lead matches only at the start of a message.
var leads = []lead{
	{regexp.MustCompile(`^Error creating: `), ""},
	{regexp.MustCompile(`^[Cc]reate (?:Pod|Claim) \S+ (?:for Pod \S+ )?in StatefulSet \S+ failed error: `), ""},
	{regexp.MustCompile(`^failed to create PVC \S+: `), ""},
	{regexp.MustCompile(`^Internal error occurred: `), ""},
	{regexp.MustCompile(`^rpc error: code = \w+ desc = `), ""},
	// API servers name the refused object. The name is dropped, because the caller names the object or its workload.
	{regexp.MustCompile(`^[a-z.]+ "[^"]*" is forbidden: `), ""},
	{regexp.MustCompile(`^[A-Za-z.]+ "[^"]*" is invalid: `), ""},
	{regexp.MustCompile(`^error looking up service account \S+: `), ""},
	{regexp.MustCompile(`^ValidatingAdmissionPolicy ('[^']*') with binding '[^']*' denied request: `), "policy $1 denied request: "},
	{regexp.MustCompile(`^failed calling webhook ("[^"]*"): failed to call webhook: (?:Post "[^"]*": )?`), "webhook $1 cannot be called: "},
	// Each layer between the kubelet and a registry adds a text about its failure.
	{regexp.MustCompile(`^[Bb]ack-off pulling image "([^"]*)": `), "image $1: "},
	{regexp.MustCompile(`^[Ff]ailed to pull and unpack image "([^"]*)": `), "image $1: "},
	{regexp.MustCompile(`^[Ff]ailed to pull image "([^"]*)": `), "image $1: "},
	{regexp.MustCompile(`^[Ee]rror response from daemon: `), ""},
	{regexp.MustCompile(`^[Ww]aiting for a volume to be created either by the external provisioner ('[^']*') or manually by the system administrator\..*$`), "no volume from provisioner $1"},
	{regexp.MustCompile(`^0/\d+ nodes are available: persistentvolumeclaim ("[^"]*") (not found|is being deleted)\..*$`), "claim $1 $2"},
	// The scheduler found no pod whose eviction would help.
	{regexp.MustCompile(`^(.*?)\s*(?:no new claims to deallocate, )?preemption: .*$`), "$1"},
}

// pulls match the texts of the layers of a failed pull. The name of the image may precede these texts.
var pulls = []*regexp.Regexp{
	regexp.MustCompile(`^ErrImagePull: `),
	regexp.MustCompile(`^rpc error: code = \w+ desc = `),
	regexp.MustCompile(`^[Ff]ailed to pull and unpack image "[^"]*": `),
	regexp.MustCompile(`^failed to (?:resolve reference|copy|do request|authorize)(?: "[^"]*")?: `),
	regexp.MustCompile(`^failed to fetch (?:anonymous |oauth )?token: `),
	regexp.MustCompile(`^unexpected status(?: from \w+ request to \S+| code \S+)?: `),
	regexp.MustCompile(`^(?:initializing source|reading manifest \S+ in|pinging container registry) \S+: `),
	regexp.MustCompile(`^(?:Get|Head|Post) "[^"]*": `),
}

// nodes matches the scheduler's answer: the reasons why nodes do not take a pod, each with a number of nodes.
var nodes = regexp.MustCompile(`^(0/\d+ nodes are available: )(.+?)\.( .*)?$`)

// mostFirst orders reasons such as "1 node(s) had untolerated taint(s), 20 Insufficient memory" by their number of nodes, the largest first.
func mostFirst(reasons string) string {
	type reason struct {
		text string
		n    int
	}
	var all []reason
	for _, text := range strings.Split(reasons, ", ") {
		count, _, _ := strings.Cut(text, " ")
		n, err := strconv.Atoi(count)
		if err != nil && len(all) > 0 { // the reason contains a comma
			all[len(all)-1].text += ", " + text
			continue
		}
		all = append(all, reason{text, n})
	}
	slices.SortStableFunc(all, func(a, b reason) int { return b.n - a.n })
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = r.text
	}
	return strings.Join(texts, ", ")
}

// image matches the image at the start of a message. The replacements of leads move the image there.
var image = regexp.MustCompile(`^image (\S+): `)

// Essence returns a message without the words that precede its cause: the refused request, the object that the caller names anyway, and the
// layers between a kubelet and a registry. The result is one line with the whole cause.
func Essence(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	for again := true; again; {
		again = false
		for _, l := range leads {
			if shorter := l.pattern.ReplaceAllString(message, l.with); shorter != message {
				message, again = shorter, true
			}
		}
	}
	if found := nodes.FindStringSubmatch(message); found != nil {
		return found[1] + mostFirst(found[2]) + "." + found[3]
	}
	if found := image.FindStringSubmatch(message); found != nil {
		return found[0] + pullCause(strings.TrimPrefix(message, found[0]), found[1])
	}
	return message
}

// request matches the start of an error of the operator: the component or the field, if any, and then the attempted request.
var request = regexp.MustCompile(`^((?:[a-z][\w.\[\]-]*: )?)(?:apply|check|create|make|update|replace|delete|read|write|mark|annotate|scale|stop|complete) ` +
	`([A-Z]\w+|pod|claim) (?:[a-z0-9.-]+/)?([a-z0-9.-]+)(?: without server-side apply| to \d+ pods| of CronJob \S+)?: `)

// step matches the start of the error of a failed step. A step is a change that the operator makes on a running server.
var step = regexp.MustCompile(`^step (\w+) \((.*?)\): `)

// clusterPart matches the name of the only part of a RedisCluster, an EtcdCluster or a MySQLCluster.
var clusterPart = regexp.MustCompile(`^(?:redis|etcd|mysql)\.cluster: `)

// Refusal shortens the error of a request that the operator sent. The result names the object and the essence of the
// API server's answer, and then the step that sent the request, if any.
func Refusal(message string) string {
	if found := step.FindStringSubmatch(message); found != nil {
		return Refusal(strings.TrimPrefix(message, found[0])) + " (" + strings.TrimSuffix("step "+found[1]+": "+found[2], ": ") + ")"
	}
	message = strings.TrimPrefix(clusterPart.ReplaceAllString(message, ""), "to be tried again: ")
	if found := request.FindStringSubmatch(message); found != nil {
		return found[1] + found[2] + " " + found[3] + ": " + Essence(strings.TrimPrefix(message, found[0]))
	}
	return Essence(message)
}

// pullCause returns the reason why a registry did not serve an image, without the texts of the layers that report the reason.
func pullCause(message, name string) string {
	for again := true; again; {
		again = false
		for _, layer := range pulls {
			if at := layer.FindStringIndex(message); at != nil {
				message, again = message[at[1]:], true
			}
		}
		if rest := strings.TrimPrefix(message, name+": "); rest != message {
			message, again = rest, true
		}
	}
	return message
}

// Clip returns a text of at most n characters. The last character of a shortened text is an ellipsis.
func Clip(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return strings.TrimRight(string(runes[:n-1]), " ,;:") + "…"
}
