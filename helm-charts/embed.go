// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helmcharts embeds the charts in the binary. Each chart is a plain Helm chart. The charts share the library chart common through a
// symbolic link, which embed omits. So common is added to each chart when the chart is loaded.
package helmcharts

import "embed"

// Library is the chart that all others use.
const Library = "common"

// FS holds one folder for each chart.
//
//go:embed all:common all:cronjob all:etcd all:etcdcluster all:eureka all:microservice all:mongodb all:mysql all:mysqlcluster all:mysqlmembers all:redis all:rediscluster all:third-party
var FS embed.FS
