// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Form is the declared form of a DataService's database, a single server or a MySQLCluster, with the existing objects
// of the other form. The two forms store data differently, so neither may start on the other's data.
type Form struct {
	// Name is the name of the wanted database. IsReplicated reports whether this database is a MySQLCluster. IsElsewhere reports whether
	// it runs outside of the Kubernetes cluster, and IsImported whether it is a new copy of a running server.
	Name                                  string
	IsReplicated, IsElsewhere, IsImported bool

	// Records are the records of single-server databases. IsTaken reports whether a Service with the database's name belongs to the
	// DataService itself.
	Records []Record
	IsTaken bool
	// Clusters are the MySQLClusters of the DataService.
	Clusters []string
	// Claim names the form that the claim of the database's first pod belongs to: ClaimOfServer, ClaimOfCluster, or ""
	// without a claim.
	Claim string
	// Mark is the mark of the volume, from the clean record of a single server named Name; "" for none.
	Mark string
	// Left names the objects that still exist of a single server named Name.
	Left []string
	// Cluster is the MySQLCluster named Name; nil for none.
	Cluster *unstructured.Unstructured
}

// Stage is the stage of a change of the form.
type Stage string

// The stages. A change from a single server to several members passes through Check, Remove and Declared. At the end of
// Check, the operator changes the label of the claim, and Remove follows. An import begins with Import.
const (
	StageDeclared Stage = ""       // the declared form runs
	StageKeep     Stage = "Keep"   // a MySQLCluster continues although a single server is declared
	StageImport   Stage = "Import" // a single server copies a running server, and then becomes several members
	StageCheck    Stage = "Check"  // a single server runs until the first member may take over its data
	StageRemove   Stage = "Remove" // the objects and the pod of a single server are deleted; its volume is retained
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

// hasData reports whether a record shows that a single server has data.
func (f *Form) hasData() bool {
	return slices.ContainsFunc(f.Records, func(r Record) bool { return r.isClean() || r.HasData && r.Database == f.Name })
}

// Stays reports whether the database remains a MySQLCluster although a single server is declared, because the data belongs to members.
func (f *Form) Stays() bool {
	return !f.IsElsewhere && !f.IsReplicated && (f.Claim == ClaimOfCluster || slices.Contains(f.Clusters, f.Name))
}

// isOnlyServer reports whether the database named Name is a single server in use, and no other database is in use.
func (f *Form) isOnlyServer() bool {
	return len(f.Clusters) == 0 && slices.ContainsFunc(f.Records, func(r Record) bool { return r.Database == f.Name && r.isClean() }) &&
		!slices.ContainsFunc(f.Records, func(r Record) bool { return r.Database != f.Name && r.isClean() })
}

// The values of a claim's label. They show which form of the database the claim belongs to.
const (
	ClaimOfServer  = "mysql"
	ClaimOfCluster = "mysql.cluster"
)

// Refusal returns the field that must change and the reason; "" if the declared form may run. While a form is refused, nothing of the
// database changes.
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
		return "", "" // the cluster is removed when the external database answers; its claims are retained
	case f.IsElsewhere:
		return "name", fmt.Sprintf("must not be %s while MySQLCluster %s runs, because its Service has that name%s", f.Name, f.Name, keep)
	}
	return "name", fmt.Sprintf("must be %s, or replica above 1: MySQLCluster %s has the data%s", f.Clusters[0], f.Clusters[0], keep)
}

func (f *Form) refusesMembers() (field, why string) {
	const how = "Set replica back to 1 and remove replication. To have several members, restore a dump of the database into a database of another DataService"
	for i := range f.Records {
		if r := &f.Records[i]; r.isClean() && (r.Database != f.Name || f.Claim != ClaimOfCluster) {
			return "replica", fmt.Sprintf("makes several members without the data of database %s, which is one server. %s; "+
				"or, to continue without the data, choose another name and delete ConfigMap %s", r.Database, how, RecordName(r.Database))
		}
	}
	switch {
	case f.Claim == ClaimOfServer:
		return "replica", fmt.Sprintf("makes several members, but PersistentVolumeClaim %s has the data of one server. %s; or choose another name", ClaimName(f.Name), how)
	case f.IsTaken && f.Claim != ClaimOfCluster:
		return "name", fmt.Sprintf("must not be %s: Service %s still belongs to the database in its earlier form (one server or several members)", f.Name, f.Name)
	}
	return "", ""
}
