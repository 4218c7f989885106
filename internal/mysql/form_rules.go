// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Form is the form in which a DataService declares its database, with the existing objects of the other form. One server and a MySQLCluster
// store data differently, so neither may start in place of the other.
type Form struct {
	// Name is the name of the wanted database. IsReplicated reports whether it is a MySQLCluster, IsElsewhere whether it runs elsewhere,
	// and IsImported whether a new database is copied from a running server.
	Name                                  string
	IsReplicated, IsElsewhere, IsImported bool

	// Records are the records of databases of one server. IsTaken reports whether a Service with the name of the database belongs to the
	// DataService itself.
	Records []Record
	IsTaken bool
	// Clusters are the MySQLClusters of the DataService.
	Clusters []string
	// Claim is the owner of the claim of the first pod of a database with that name: ClaimOfServer, ClaimOfCluster or "".
	Claim string
	// Mark is the volume's mark in the clean record of a single server with that name; "" for none.
	Mark string
	// Left names the remaining objects of a single server with that name.
	Left []string
	// Cluster is the MySQLCluster of that name; nil for none.
	Cluster *unstructured.Unstructured
}

// Stage is the state of a change of the form.
type Stage string

// The stages. One server becomes several members in the order Check, Remove, Declared. The label of the claim is written between Check and
// Remove. An import begins with Import.
const (
	StageDeclared Stage = ""       // the declared form runs
	StageKeep     Stage = "Keep"   // a MySQLCluster continues although one server is declared
	StageImport   Stage = "Import" // one server copies a running server, and then becomes several members
	StageCheck    Stage = "Check"  // one server runs until the first member may take over its data
	StageRemove   Stage = "Remove" // the objects and the pod of one server are deleted; its volume stays
)

// Stage returns the stage of the change to the declared form.
func (f *Form) Stage() Stage {
	switch {
	case f.IsElsewhere:
	case f.Claim == ClaimOfCluster && len(f.Left) > 0:
		return StageRemove
	case f.Stays():
		return StageKeep
	case f.IsReplicated && f.Claim == ClaimOfServer && f.isOnlyServer():
		return StageCheck
	case f.IsReplicated && f.IsImported && f.Claim != ClaimOfCluster && len(f.Clusters) == 0 && !f.hasData():
		return StageImport
	}
	return StageDeclared
}

// hasData reports whether a database of one server is recorded as having data.
func (f *Form) hasData() bool {
	return slices.ContainsFunc(f.Records, func(r Record) bool { return r.isClean() || r.HasData && r.Database == f.Name })
}

// Stays reports whether the database stays a MySQLCluster although one server is declared, because members have its data.
func (f *Form) Stays() bool {
	return !f.IsElsewhere && !f.IsReplicated && (f.Claim == ClaimOfCluster || slices.Contains(f.Clusters, f.Name))
}

// isOnlyServer reports whether the database with that name is a single server and the only database in use.
func (f *Form) isOnlyServer() bool {
	return len(f.Clusters) == 0 && slices.ContainsFunc(f.Records, func(r Record) bool { return r.Database == f.Name && r.isClean() }) &&
		!slices.ContainsFunc(f.Records, func(r Record) bool { return r.Database != f.Name && r.isClean() })
}

// The owners of a claim, by its label.
const (
	ClaimOfServer  = "mysql"
	ClaimOfCluster = "mysql.cluster"
)

// Refusal returns the field that must change and the reason, or "" if the declared form may run. Running objects stay unchanged.
func (f *Form) Refusal() (field, why string) {
	const keep = "; until then the database continues unchanged"
	switch {
	case f.Stage() == StageCheck, f.Stage() == StageImport:
		return "", ""
	case f.IsReplicated, f.Stays():
		return f.refusesMembers()
	case len(f.Clusters) == 0:
		return "", ""
	case f.IsElsewhere && !slices.Contains(f.Clusters, f.Name):
		return "", "" // the cluster is removed when the database elsewhere answers, and its claims stay
	case f.IsElsewhere:
		return "name", fmt.Sprintf("must be another one than %s while MySQLCluster %s runs, whose Service has that name%s", f.Name, f.Name, keep)
	}
	return "name", fmt.Sprintf("must be %s, or replica above 1: MySQLCluster %s has the data%s", f.Clusters[0], f.Clusters[0], keep)
}

func (f *Form) refusesMembers() (field, why string) {
	const how = "Set replica back to 1 and remove replication. To have several members, restore a dump of it into a database of another DataService"
	for i := range f.Records {
		if r := &f.Records[i]; r.isClean() && (r.Database != f.Name || f.Claim != ClaimOfCluster) {
			return "replica", fmt.Sprintf("makes several members, and database %s, which is one server, has data that would not be taken along. %s; "+
				"or, to continue without the data, choose another name and delete ConfigMap %s", r.Database, how, RecordName(r.Database))
		}
	}
	switch {
	case f.Claim == ClaimOfServer:
		return "replica", fmt.Sprintf("makes several members, and PersistentVolumeClaim %s is that of one server. %s; or choose another name", ClaimName(f.Name), how)
	case f.IsTaken && f.Claim != ClaimOfCluster:
		return "name", fmt.Sprintf("must not be %s: Service %s belongs to the database in its earlier form", f.Name, f.Name)
	}
	return "", ""
}
