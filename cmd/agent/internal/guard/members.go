// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReasonNoMember reports that the data of one server cannot become the data of a MySQLCluster's first member.
const ReasonNoMember = "NoMember"

// maxNamed bounds the number of tables in a refusal.
const maxNamed = 5

// NoMember returns the reason why the first member of a MySQLCluster cannot use the volume's data; "" if it can. server is the version of
// the member's server.
func (v Volume) NoMember(server *Version) string {
	data := v.Data.Version
	switch {
	case server == nil:
		return "the version of the server in the image is unknown"
	case !server.canReplicate():
		return fmt.Sprintf("the image has %s, but a MySQLCluster needs MySQL 8.4 or newer", server)
	case !v.HasData:
		return "the volume has no data"
	case v.Restoring():
		return "a restore to the volume has not ended"
	case data == nil || !data.canReplicate() || data.Series() != server.Series():
		return fmt.Sprintf("the image has %s, but the data is of %s: both must be of the same series, MySQL 8.4 or newer", server, v.Data)
	case len(v.Others) > 0:
		return fmt.Sprintf("these tables are not of the engine InnoDB, and no copy would have their rows: %s. Change them: ALTER TABLE … ENGINE = InnoDB",
			strings.Join(v.Others, ", "))
	}
	return ""
}

// canReplicate reports whether a MySQLCluster can run servers of this version.
func (v *Version) canReplicate() bool {
	return !v.MariaDB && (v.Major > 8 || v.Major == 8 && v.Minor >= 4)
}

// others returns up to maxNamed user tables that do not use InnoDB, each as SCHEMA.TABLE. MySQL 8.0 and newer store the definition of such
// a table in a file with the suffix .sdi. InnoDB tables have no such file.
func others(data string, entries []fs.DirEntry) (found []string) {
	for _, entry := range entries {
		if !entry.IsDir() || slices.Contains(systemFolders, entry.Name()) {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(data, entry.Name())) // on an error, the server's own check follows
		for _, file := range files {
			name, isOther := strings.CutSuffix(file.Name(), ".sdi")
			if number := strings.LastIndex(name, "_"); isOther && number > 0 && len(found) < maxNamed {
				found = append(found, entry.Name()+"."+name[:number])
			}
		}
	}
	return found
}
