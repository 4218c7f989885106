// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume keeps the data of a MySQL member on the volume of its pod: to which pod it belongs, what the member promised, and
// which folder has complete data.
//
// New data, that of a seed or a copy of another member, is made in a second folder:
//
//	DATA                   the data that the server runs on
//	DATA.new               data that is being made; removed when making it starts over
//	DATA.set-aside-UUID-N  former data; it is never removed
//	DATA.restoring         data that is being restored from a backup; removed when that starts over
//	DATA.restored          the complete data of a backup, which the first member of a new database begins with
//
// The data of one server of a DataService is in DATA, too, with a mark that another package writes. Adopt makes it the member's by one write.
//
// After Replace has noted the UUID of the new data, the new data is complete and counts. Before that, what is in DATA.new counts for
// nothing. Settle renames the folders, even after a crash between two renames.
package volume
