// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract

// VolumePort is the port at which `agent volume` serves a Volume at PathState.
const VolumePort = "6300"

// Volume is the use of a volume's file system in bytes. Used includes the space that only root may use.
type Volume struct {
	Used     int64 `json:"used"`
	Capacity int64 `json:"capacity"`
}
