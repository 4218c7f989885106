// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Version is the version of a server.
type Version struct {
	Major, Minor int
	Text         string // such as 5.7.44 or 10.11.19-MariaDB
	MariaDB      bool
}

// Series returns the release series. Servers of the same series can use each other's data.
func (v *Version) Series() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (v *Version) String() string {
	if v.MariaDB {
		return "MariaDB " + v.Text
	}
	return "MySQL " + v.Text
}

var versionPattern = regexp.MustCompile(`(\d{1,3})\.(\d{1,3})\.\d{1,3}(-[0-9A-Za-z.+~-]+)?`)

// ParseVersion finds the version of a server in a text, such as the output of `mysqld --version`.
func ParseVersion(text string) (*Version, bool) {
	// MySQL 5.7 prints "mysqld  Ver 5.7.44 for Linux", MariaDB "mariadbd  Ver 10.11.19-MariaDB-deb12 for debian-linux".
	found := versionPattern.FindStringSubmatch(text)
	if found == nil {
		return nil, false
	}
	v := &Version{Text: found[0], MariaDB: strings.Contains(text, "MariaDB")}
	v.Major, _ = strconv.Atoi(found[1]) // cannot fail: the pattern matches digits
	v.Minor, _ = strconv.Atoi(found[2])
	return v, true
}

// Evidence describes the server that wrote the files of a data folder.
type Evidence struct {
	// Version is known for data of MySQL 8.0 and newer, which store it in a file, and for marked volumes.
	Version *Version
	// MariaDB, Dictionary (MySQL 8.0 or newer) and Old (MySQL 5.7 or older) are derived from the kinds of files. If none is true, the
	// server is unknown.
	MariaDB, Dictionary, Old bool
}

func (e Evidence) String() string {
	switch {
	case e.Version != nil:
		return e.Version.String()
	case e.MariaDB:
		return "MariaDB"
	case e.Dictionary:
		return "MySQL 8.0 or newer"
	case e.Old:
		return "MySQL 5.7 or older"
	}
	return "an unknown server"
}

// allows reports whether a server may start on the data. If the version of the data is unknown, it returns true: a wrong guess would stop a
// running platform.
func (e Evidence) allows(server *Version) bool {
	switch {
	case e.Version != nil:
		return e.Version.MariaDB == server.MariaDB && e.Version.Series() == server.Series()
	case e.MariaDB:
		return server.MariaDB
	case e.Dictionary:
		return !server.MariaDB && server.Major >= 8
	case e.Old:
		return !server.MariaDB && server.Major < 8
	}
	return true
}

// evidence derives the server that wrote the data from the files of a data folder. For servers before MySQL 8.0 it ignores the file
// mysql_upgrade_info: only the tool mysql_upgrade writes that file, and users may not have run the tool.
func evidence(data string) Evidence {
	exists := func(names ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{data}, names...)...))
		return err == nil
	}
	switch {
	case exists("aria_log_control"):
		return Evidence{MariaDB: true}
	case exists("mysql.ibd"):
		return Evidence{Dictionary: true, Version: upgraded(data)}
	case exists("mysql", "user.frm"):
		return Evidence{Old: true}
	}
	return Evidence{}
}

// upgraded returns the version to which MySQL 8.0 or newer has upgraded its data, or nil.
func upgraded(data string) *Version {
	if text, err := os.ReadFile(filepath.Join(data, "mysql_upgrade_history")); err == nil { // exists since 8.4
		var history struct {
			Entries []struct{ Version string } `json:"upgrade_history"`
		}
		if json.Unmarshal(text, &history) == nil && len(history.Entries) > 0 {
			if v, ok := ParseVersion(history.Entries[len(history.Entries)-1].Version); ok {
				return v
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(data, "mysql_upgrade_info"))
	if err != nil {
		return nil
	}
	v, _ := ParseVersion(string(text))
	return v
}
