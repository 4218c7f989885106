// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/clone"
	"d3os.com/d3os-operator/cmd/agent/internal/files"
	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/restore"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/cmd/agent/internal/snapshot"
	"d3os.com/d3os-operator/internal/contract"
)

// Copy configures a backup that copies the files of a MySQL server by CLONE.
type Copy struct {
	// Programs are the programs of the image.
	Programs restore.Programs
	// Scratch is a folder on a volume with enough space for the data. A run removes the files that it creates there.
	Scratch string
	// Arguments are added to the arguments of the servers that make the copy and run on it.
	Arguments []string
	// Interfere is called between the steps of a copy. Tests set it; otherwise it is nil.
	Interfere func(step string)
}

// copyFiles makes a backup of the server's files, without the manifest. If the files cannot be copied, it stores nothing and returns the
// reason. After a copy it returns "".
func (r *run) copyFiles(ctx context.Context) (why string, err error) {
	if why, err = r.unfit(); why != "" || err != nil {
		return why, err
	}
	binlog, err := r.conn.Variable("log_bin")
	if err != nil {
		return "", err
	}
	hasLog := binlog == "ON"
	if err := r.rotate(ctx, hasLog); err != nil {
		return "", err
	}
	before, err := r.inFlight(hasLog)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(r.options.Copy.Scratch, "backup-")
	if err != nil {
		return "", fmt.Errorf("make a folder for the copy: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // the volume is deleted with the pod
	onDisk, err := snapshot.OpenVolume(work)
	if err != nil {
		return "", err
	}
	defer onDisk.Close()
	folder := filepath.Join(work, "copy")
	if why, err = r.clone(ctx, work, folder, hasLog); why != "" || err != nil {
		return why, err
	}
	persisted := &extras{conn: r.conn} // persisted settings are in a file that the copy omits
	if err := persisted.persisted(); err != nil {
		return "", err
	}
	m := &r.Manifest
	m.Format, m.Base, m.Tool = manifest.FormatFiles, manifest.Physical, "clone "+r.conn.Version.Text
	if m.Objects, err = files.Put(ctx, r.Draft, folder, onDisk); err != nil {
		return "", err
	}
	if err := r.put(ctx, manifest.ObjectsName, persisted.before, &m.Objects); err != nil {
		return "", err
	}
	m.Warnings, m.TemporaryAccounts = persisted.warnings, r.options.SkipAccounts
	return "", errors.Join(r.identify(ctx), r.findPrepared(ctx, before))
}

// unfit returns the reason why CLONE cannot copy the server; "" if CLONE can.
func (r *run) unfit() (string, error) {
	v, image := r.conn.Version, r.options.Copy.Programs.Version
	switch {
	case !v.AtLeast(8, 0, 17):
		return fmt.Sprintf("the server is %s %s, but only the files of MySQL 8.0.17 and newer can be copied", v.Flavour, v.Text), nil
	case r.options.Server.IsSocket():
		return "the address of the server is a socket, but a copy needs a host and a port", nil
	case !maySend(v, image):
		return fmt.Sprintf("the server runs version %s, but the image of the backup has version %s: restart the pod of the database, so that both have the same version", v.Text, image.Text), nil
	}
	plugin, err := r.conn.Value("SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone'")
	if err != nil {
		return "", err
	}
	if plugin != "ACTIVE" {
		return "the server has not loaded the plugin clone: restart the pod of the database, or install the plugin", nil
	}
	rights, err := r.conn.Rows("SHOW GRANTS")
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(rights, func(row []string) bool { return strings.Contains(row[0], "BACKUP_ADMIN") }) {
		return "the account of the backup lacks the right BACKUP_ADMIN: restart the pod of the database, or grant the right", nil
	}
	for name, allowed := range map[string][]string{
		"innodb_data_home_dir": {"", "./"}, "innodb_undo_directory": {"", "./"}, "innodb_log_group_home_dir": {"", "./"},
		"innodb_redo_log_encrypt": {"OFF"}, "innodb_undo_log_encrypt": {"OFF"},
	} {
		value, err := r.conn.Variable(name)
		if err != nil {
			return "", err
		}
		if !slices.Contains(allowed, value) {
			return fmt.Sprintf("the server runs with %s=%s, with which files are not copied", name, value), nil
		}
	}
	return uncopied(r.conn)
}

// maySend reports whether CLONE can copy a server to a server of another version. From 8.0.37 on, both servers must
// have the same series. Before 8.0.37, both must have the same version.
func maySend(from, to server.Version) bool {
	if from.Text == to.Text {
		return true
	}
	return from.Flavour == to.Flavour && from.Major == to.Major && from.Minor == to.Minor && from.AtLeast(8, 0, 37) && to.AtLeast(8, 0, 37)
}

// mostCauses limits the number of tables or files in the reason why files were not copied.
const mostCauses = 10

// uncopied returns a description of the server's data that a copy of the files lacks, or "" if the copy lacks nothing. CLONE copies
// tables of engines other than InnoDB without their rows.
func uncopied(conn *server.Conn) (string, error) {
	for _, c := range []struct{ what, query string }{
		{"CLONE copies no rows of tables that are not InnoDB", "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME, ' (', IFNULL(ENGINE, 'broken'), ')') FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' " +
			"AND IFNULL(ENGINE, '') <> 'InnoDB' AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema') AND NOT (TABLE_SCHEMA = 'mysql' AND TABLE_NAME IN ('general_log', 'slow_log'))"},
		{"files outside of the folder of the data are not copied", "SELECT FILE_NAME FROM information_schema.FILES WHERE FILE_TYPE = 'TABLESPACE' AND FILE_NAME LIKE '/%'"},
		{"a copy cannot open encrypted tablespaces", "SELECT NAME FROM information_schema.INNODB_TABLESPACES WHERE ENCRYPTION = 'Y'"},
	} {
		rows, err := conn.Rows(c.query + " ORDER BY 1")
		if err != nil {
			return "", err
		}
		if len(rows) == 0 {
			continue
		}
		var names []string
		for _, row := range rows[:min(len(rows), mostCauses)] {
			names = append(names, row[0])
		}
		return fmt.Sprintf("%s (%d): %s", c.what, len(rows), strings.Join(names, ", ")), nil
	}
	return "", nil
}

// clone copies the server to a folder, and prepares the copy: a server of the image runs on the copy and is stopped cleanly. clone sets the
// manifest's position and tables. It returns a description of the data that the copy lacks; "" for none.
func (r *run) clone(ctx context.Context, work, folder string, hasLog bool) (why string, err error) {
	o := r.options.Server
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		return "", contract.Errorf(contract.ReasonUsage, "the address of the server: %w", err)
	}
	donor := clone.Donor{Name: "server " + o.Address, Host: host, User: o.User, Password: o.Password, HasTLS: r.conn.TLS() != nil, Answers: func(ctx context.Context) error {
		conn, err := server.Connect(ctx, o)
		if err == nil {
			conn.Close()
		} else if server.Code(err) != 0 { // an error that the server reports shows that the server answers
			err = nil
		}
		return err
	}}
	if donor.Port, err = strconv.Atoi(port); err != nil {
		return "", contract.Errorf(contract.ReasonUsage, "the address of the server: %w", err)
	}
	like, err := r.like()
	if err != nil {
		return "", err
	}
	c := r.options.Copy
	instance := func(folder string, more ...string) *restore.Instance {
		return &restore.Instance{Programs: c.Programs, Data: folder, More: slices.Concat(c.Arguments, like, clone.Scratch, more)}
	}
	helper := instance(filepath.Join(work, "helper"), clone.Small...)
	if err := donor.Copy(ctx, helper, folder, func(*server.Conn) error { r.at("copying"); return nil }); err != nil {
		return "", err
	}
	if err := os.RemoveAll(helper.Data); err != nil {
		return "", fmt.Errorf("remove the server that made the copy: %w", err)
	}
	r.at("copied")
	err = clone.On(ctx, instance(folder), func(conn *server.Conn) (err error) {
		why, err = r.prepare(conn, hasLog)
		return err
	})
	return why, err
}

func (r *run) at(step string) {
	if r.options.Copy.Interfere != nil {
		r.options.Copy.Interfere(step)
	}
}

// like returns the options without which a server cannot read the files. It reads them from the running server, because the configuration
// file may have changed since the server's start.
func (r *run) like() (options []string, err error) {
	for _, name := range []string{"lower_case_table_names", server.PageSize, "innodb_data_file_path"} {
		value, err := r.conn.Variable(name)
		if err != nil {
			return nil, err
		}
		options = append(options, "--"+strings.ReplaceAll(name, "_", "-")+"="+value)
	}
	return options, nil
}

// prepare reads the position and the tables of a copy. It removes data that a restored database must not have: prepared XA transactions,
// which a replay takes from the log; the source of the server's replication; and the server's GTIDs. It returns a description of the data
// that the copy lacks; "" for none.
func (r *run) prepare(conn *server.Conn, hasLog bool) (why string, err error) {
	m := &r.Manifest
	row, err := conn.Named("SELECT STATE, BINLOG_FILE, BINLOG_POSITION FROM performance_schema.clone_status")
	if err != nil {
		return "", fmt.Errorf("check the copy: %w", err)
	}
	m.Position = nil
	if hasLog {
		m.Position = &contract.Position{File: filepath.Base(row["BINLOG_FILE"])}
		m.Position.Offset, err = strconv.ParseUint(row["BINLOG_POSITION"], 10, 64)
	}
	if row["STATE"] != "Completed" || hasLog && (row["BINLOG_FILE"] == "" || err != nil || m.Position.Offset == 0) {
		return "", contract.Errorf(contract.ReasonDumpFailed, "check the copy: its state is %q, and its position in the log is %q:%s", row["STATE"], row["BINLOG_FILE"], row["BINLOG_POSITION"])
	}
	if why, err = uncopied(conn); why != "" || err != nil { // a user may have created such data after the check of the server
		return why, err
	}
	open, err := prepared(conn)
	if err != nil {
		return "", err
	}
	words := conn.Version.Words()
	statements := []string{words.ForgetReplica, words.ForgetGTIDs}
	for _, name := range open {
		statements = append(statements, "XA ROLLBACK "+name)
	}
	for _, statement := range statements {
		if err := conn.Do(statement); err != nil {
			return "", fmt.Errorf("prepare the copy: %w", err)
		}
	}
	m.Tables, err = restore.CountRows(conn)
	return "", err
}
