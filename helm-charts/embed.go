// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmcharts carries the charts in the binary. Each is a plain Helm
// chart; the library chart common, which the others share through a symbolic
// link that embed leaves out, is added to each of them when it is loaded.
package helmcharts

import "embed"

// Library is the chart that all others use.
const Library = "common"

// FS holds one folder for each chart.
//
//go:embed all:common all:cronjob all:etcd all:etcdcluster all:eureka all:microservice all:mongodb all:mysql all:mysqlcluster all:mysqlmembers all:redis all:rediscluster all:third-party
var FS embed.FS
