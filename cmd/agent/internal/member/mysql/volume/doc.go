// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume manages the data of a MySQL member on the volume of its pod. It stores the pod to which the data belongs and the promises
// of the member, and finds the folder with complete data.
//
// New data, from a seed or a copy of another member, is created in a second folder:
//
//	DATA                   the data on which the server runs
//	DATA.new               new data in progress; removed when its creation starts again
//	DATA.set-aside-UUID-N  old data; never removed
//	DATA.restoring         a backup that is being restored; removed when the restore starts again
//	DATA.restored          the complete data of a backup, with which the first member of a new database begins
//
// DATA also holds the data of a DataService's single server, with a mark that another package writes. Adopt makes this data the member's
// data by one write.
//
// When Replace has recorded the UUID of the new data, the new data is complete and becomes the member's data. Before that, DATA.new is
// ignored. Settle renames the folders, also after a crash between two renames.
package volume
