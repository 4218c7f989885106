// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	"d3os.com/d3os-operator/internal/contract"
)

// reasonPattern matches reasons that conditions allow. A message may come from another program, whose reason may be
// invalid.
var reasonPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)

// Read parses the termination message of a container of the agent: its last line. It drops a reason that conditions do
// not allow. For any other text, the result is empty.
func Read(message string) contract.Result {
	var result contract.Result
	if json.Unmarshal([]byte(message), &result) != nil {
		result = readCut(message)
	}
	if !IsReason(string(result.Reason)) {
		result.Reason = ""
	}
	return result
}

// readCut parses a message that Kubernetes has cut within the warnings, which are the last field. The messages of all containers of a pod have
// at most 12 KiB, and each container has an equal share.
func readCut(message string) contract.Result {
	message = strings.ToValidUTF8(message, "")
	if !strings.Contains(message, `"warnings":[`) {
		return contract.Result{}
	}
	const longestEscape = len(`\u0000`)
	for end := len(message); end >= len(message)-longestEscape; end-- {
		for _, rest := range []string{`…"]}`, `]}`} {
			var result contract.Result
			if json.Unmarshal([]byte(message[:end]+rest), &result) == nil {
				result.Warnings = append(result.Warnings, "Kubernetes has cut the warnings: the last line of the log has all of them")
				return result
			}
		}
	}
	return contract.Result{}
}

// resultOf parses the final report of a container, or returns nil. If the container has failed, a report of success is ignored.
func resultOf(end *corev1.ContainerStateTerminated) *contract.Result {
	result := Read(end.Message)
	if !result.OK && result.Message == "" {
		return nil
	}
	result.OK = result.OK && end.ExitCode == 0
	return &result
}

// durationOf returns the duration of the work.
func durationOf(r *contract.Result) string {
	return time.Duration(r.Seconds * float64(time.Second)).Round(time.Second).String()
}

// positionOf returns the position of the data in the binary log, or nil.
func positionOf(r *contract.Result) *backupv1.Position {
	if r.Position == nil {
		return nil
	}
	return &backupv1.Position{File: r.Position.File, Offset: int64(min(r.Position.Offset, math.MaxInt64)), GTID: r.Position.GTID}
}

// tablesOf returns the number of tables, as the API stores it.
func tablesOf(r *contract.Result) int32 { return int32(min(max(r.Tables, 0), math.MaxInt32)) }
