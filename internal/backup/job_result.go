// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"encoding/json"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Result is the final report of a container: the last line that the agent prints (package contract of cmd/agent).
type Result struct {
	OK           bool       `json:"ok"`
	Reason       string     `json:"reason"`
	Message      string     `json:"message"`
	ID           string     `json:"id"`
	Bytes        int64      `json:"bytes"`
	StoredBytes  int64      `json:"storedBytes"`
	Tables       int32      `json:"tables"`
	Rows         int64      `json:"rows"`
	Revision     int64      `json:"revision"`
	Server       string     `json:"server"`
	Seconds      float64    `json:"seconds"`
	Warnings     []string   `json:"warnings"`
	RestoredTo   *time.Time `json:"restoredTo"`
	Transactions int64      `json:"transactions"`
	Position     *struct {
		File   string `json:"file"`
		Offset int64  `json:"offset"`
		GTID   string `json:"gtid"`
	} `json:"position"`
	Later *Later `json:"later"`
}

// Later describes the archive after the restored moment.
type Later struct {
	Transactions int64      `json:"transactions"`
	First        *time.Time `json:"first"`
	Reached      time.Time  `json:"reached"`
}

// Duration returns the duration of the work.
func (r *Result) Duration() string {
	return time.Duration(r.Seconds * float64(time.Second)).Round(time.Second).String()
}

// reasonPattern matches a part of the reasons that conditions allow. Another program may have written the message.
var reasonPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,63}$`)

// resultOf parses the final report of a container, or returns nil. A container that failed has not succeeded, whatever it reports.
func resultOf(end *corev1.ContainerStateTerminated) *Result {
	var result Result
	if json.Unmarshal([]byte(end.Message), &result) != nil || !result.OK && result.Message == "" {
		return nil
	}
	result.OK = result.OK && end.ExitCode == 0
	if !reasonPattern.MatchString(result.Reason) {
		result.Reason = ""
	}
	return &result
}
