// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/render"
)

const (
	// mysqlPort is the only port of the members of a MySQLCluster.
	mysqlPort = 3306
	// mysqlClusterImage is the key in Input.Images of the default image of a MySQLCluster.
	mysqlClusterImage = "mysql-cluster"
)

// managedMySQL returns the chart values of a MySQLCluster, with its whole spec. fields are the component's fields, including the defaults for
// all components.
func managedMySQL(in Input, c *component.Component, fields map[string]any) (map[string]any, error) {
	if err := checkReplicated(c, fields); err != nil {
		return nil, err
	}
	m, single := c.MySQL, load(component.ChartMySQL+"/values.yaml")
	// The plan includes defaults of the API server: otherwise they would look like changes by another writer.
	service := map[string]any{"type": cmp.Or(m.ServiceType, "ClusterIP")}
	if annotations, ok := fields["serviceAnnotations"]; ok {
		service["annotations"] = annotations
	}
	spec := map[string]any{
		"replicas": int64(1), "replication": replicationOf(m), "service": service, "credentialsSecret": in.Credentials.MySQLSecret,
		"storage": map[string]any{"size": m.Storage.Size.String()}, "timeZone": single.TimeZone,
	}
	if m.Replica != nil {
		spec["replicas"] = int64(*m.Replica)
	}
	if in.Defaults != nil && in.Defaults.TimeZone != "" {
		spec["timeZone"] = in.Defaults.TimeZone
	}
	give(spec["storage"].(map[string]any), map[string]string{"storageClassName": m.Storage.StorageClassName})
	giveGrowth(spec["storage"].(map[string]any), "autoGrow", m.Storage.AutoGrow)
	give(spec, map[string]string{"image": mysqlImage(in, m), "size": named(m.Size)})
	take(spec, fields, "config", "resources", "affinity", "nodeSelector", "tolerations", "topologySpreadConstraints", "imagePullSecrets")
	var databases []any
	for _, name := range single.Schemas {
		databases = append(databases, name)
	}
	for _, name := range m.Databases {
		if !slices.ContainsFunc(databases, func(other any) bool { return strings.EqualFold(other.(string), string(name)) }) {
			databases = append(databases, string(name))
		}
	}
	spec["databases"] = databases
	if len(m.Users) > 0 {
		spec["users"], spec["usersSecret"] = usersOf(m), in.Credentials.MySQLUsersSecret
	}
	if err := takeMembersBackup(c, spec); err != nil {
		return nil, err
	}
	if err := takeMembersRestore(c, spec); err != nil {
		return nil, err
	}
	template, err := podsOf(c, m.PodTemplate, fields)
	if err != nil {
		return nil, err
	}
	if len(template) > 0 {
		spec["podTemplate"] = template
	}
	return resource(in, c, fields, spec)
}

// usersOf returns the additional accounts that spec.mysql declares.
func usersOf(m *dsv1.MySQL) []any {
	users := make([]any, 0, len(m.Users))
	for _, u := range m.Users {
		user := map[string]any{"name": u.Name}
		var databases []any
		for _, name := range u.Databases {
			databases = append(databases, string(name))
		}
		if databases != nil {
			user["databases"] = databases
		}
		users = append(users, user)
	}
	return users
}

func replicationOf(m *dsv1.MySQL) map[string]any {
	given := m.Replication
	if given == nil {
		given = &dsv1.MySQLReplication{}
	}
	r := map[string]any{
		"whenAlone": cmp.Or(given.WhenAlone, "Write"), "failover": cmp.Or(given.Failover, "Automatic"), "maxLag": cmp.Or(given.MaxLag, "10s"),
	}
	give(r, map[string]string{"acceptLoss": given.AcceptLoss})
	if given.Primary != nil {
		r["primary"] = int64(*given.Primary)
	}
	return r
}

// mysqlImage returns the image of the members if the spec sets the image, the version or a registry. Otherwise the kind MySQLCluster uses
// its default.
func mysqlImage(in Input, m *dsv1.MySQL) string {
	if m.Image != "" {
		return withRegistry(in, m.Image)
	}
	if m.Version == "" && in.registry() == "" {
		return ""
	}
	shipped := cmp.Or(in.Images[mysqlClusterImage], load("mysqlcluster/values.yaml").Image)
	if m.Version != "" {
		shipped = withTag(shipped, m.Version)
	}
	return inRegistry(in, shipped)
}

// notReplicated are the fields that a MySQLCluster lacks, with the alternatives.
var notReplicated = []struct{ field, instead string }{
	{"initScripts", "run the scripts in the database yourself: after a loss of the primary, the operator could not prove that they ran exactly once"},
	{"acceptLoss", "it is for a switch from one single-server database to another; for several members, use replication.acceptLoss"},
	{"command", ""}, {"args", "use config"}, {"configFiles", "use config"}, {"probes", ""}, {"nodePort", "use serviceType NodePort, and read the assigned port from the Service"}, {"serviceLabels", ""},
	{"env", inTemplate}, {"envs", inTemplate}, {"envFrom", inTemplate}, {"volumes", inTemplate}, {"volumeMounts", inTemplate}, {"initContainers", inTemplate},
	{"sidecars", inTemplate}, {"serviceAccountName", inTemplate}, {"securityContext", inTemplate}, {"podSecurityContext", inTemplate},
}

const inTemplate = "use podTemplate"

// longestName is the maximum length of the name of a MySQLCluster, and of a single server with backups: the name of the CronJob
// <name>-restore may have 52 characters.
const longestName = 44

// checkReplicated refuses fields that a MySQLCluster lacks, instead of ignoring them.
func checkReplicated(c *component.Component, fields map[string]any) error {
	refuse := func(field, instead string) error {
		if instead != "" {
			instead = "; " + instead
		}
		return render.FieldError(c.Path+"."+field, "may not be set for a mysql of several members (replica above 1, or replication): remove it%s", instead)
	}
	m := c.MySQL
	given := map[string]bool{
		"initScripts": len(m.InitScripts) > 0, "acceptLoss": m.AcceptLoss != "", "nodePort": m.NodePort != nil && *m.NodePort != 0,
	}
	for _, f := range notReplicated {
		is, known := given[f.field]
		if is || !known && fields[f.field] != nil {
			return refuse(f.field, f.instead)
		}
	}
	switch {
	case len(c.ObjectName) > longestName:
		return render.FieldError(c.Path+".name", "must have at most %d characters for a mysql of several members: it becomes a part of the names of Services and pods", longestName)
	case m.ImportFrom != nil && m.Image == "":
		return render.FieldError(c.Path+".image", "must be set for an import into several members: a server with this image makes the copy and becomes the first member")
	case m.Port != nil && *m.Port != mysqlPort:
		return refuse("port", "the port is 3306")
	case m.ServiceType == "Headless":
		return render.FieldError(c.Path+".serviceType", "may not be 'Headless' for a mysql of several members: Service %s-headless has the names of their pods", c.ObjectName)
	case m.ImagePullPolicy != "" && m.ImagePullPolicy != corev1.PullIfNotPresent:
		return render.FieldError(c.Path+".imagePullPolicy", "must be IfNotPresent for a mysql of several members: set another policy in podTemplate")
	case m.Storage.Retention == dsv1.RetentionDelete:
		return render.FieldError(c.Path+".storage.retention", "must be Retain for a mysql of several members: their volumes are always kept")
	case m.Storage.AccessMode != "" && m.Storage.AccessMode != string(corev1.ReadWriteOnce):
		return render.FieldError(c.Path+".storage.accessMode", "must be ReadWriteOnce for a mysql of several members")
	}
	return nil
}
