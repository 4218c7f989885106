// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// extras holds the objects that dump programs omit. A restore runs their statements one by one, and warns of each statement that fails.
type extras struct {
	conn *server.Conn
	// before holds the statements for objects of the server itself, which run before the load of the dump. views holds the statements of
	// views that the dump program cannot read.
	before, views []manifest.Statement
	// ignored are the views that are left out of the dump, as schema.name.
	ignored []string
	// versioned are the tables that keep former versions of their rows.
	versioned []string
	// candidates are columns whose values a dump may change. sets are the character sets of such columns.
	candidates []candidate
	sets       []string
	warnings   []string
}

// readExtras reads the objects that the dump leaves out.
func readExtras(conn *server.Conn) (*extras, error) {
	e := &extras{conn: conn}
	if err := e.readColumns(); err != nil {
		return nil, err
	}
	e.charsets()
	e.floats()
	steps := []func() error{e.inSystemSchemas, e.servers, e.functions, e.plugins, e.readViews, e.keys, e.folders, e.stopwords}
	if conn.Version.Flavour == server.MariaDB {
		steps = append(steps, e.history)
	} else {
		e.json()
	}
	if conn.Version.AtLeast(8, 0, 0) {
		steps = append(steps, e.components, e.persisted, e.spatial)
	}
	if conn.Version.AtLeast(8, 0, 14) {
		steps = append(steps, e.resourceGroups)
	}
	if conn.Version.AtLeast(5, 7, 0) {
		steps = append(steps, e.tablespaces)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// each runs a query and calls take for each row. If the account lacks the right, each adds a warning.
func (e *extras) each(what, query string, take func(row []string)) error {
	rows, err := e.conn.Rows(query)
	if err != nil && contract.ReasonOf(err) == contract.ReasonAccessDenied {
		e.warnings = append(e.warnings, what+" are not in the backup: the account of the backup may not read them")
		return nil
	}
	for _, row := range rows {
		take(row)
	}
	return err
}

func (e *extras) add(name, sql string) {
	e.before = append(e.before, manifest.Statement{Name: name, SQL: sql})
}

func (e *extras) servers() error {
	return e.each("entries of CREATE SERVER", "SELECT Server_name, Wrapper, Host, Db, Username, Password, Socket, Owner, Port FROM mysql.servers ORDER BY 1", func(row []string) {
		var options []string
		for i, option := range []string{"HOST", "DATABASE", "USER", "PASSWORD", "SOCKET", "OWNER"} {
			if row[i+2] != "" {
				options = append(options, option+" "+server.Literal(row[i+2]))
			}
		}
		options = append(options, "PORT "+row[8])
		e.add("server "+server.Quote(row[0]), fmt.Sprintf("CREATE SERVER %s FOREIGN DATA WRAPPER %s OPTIONS (%s)", server.Quote(row[0]), server.Quote(row[1]), strings.Join(options, ", ")))
	})
}

func (e *extras) functions() error {
	return e.each("loadable functions", "SELECT name, ret, dl, type FROM mysql.func ORDER BY 1", func(row []string) {
		kind := ""
		if row[3] == "aggregate" {
			kind = "AGGREGATE "
		}
		returns := map[string]string{"0": "STRING", "1": "REAL", "2": "INTEGER", "4": "DECIMAL"}[row[1]]
		e.add("function "+server.Quote(row[0]), fmt.Sprintf("CREATE %sFUNCTION %s RETURNS %s SONAME %s", kind, server.Quote(row[0]), returns, server.Literal(row[2])))
	})
}

func (e *extras) plugins() error {
	return e.each("plugins", "SELECT name, dl FROM mysql.plugin ORDER BY 1", func(row []string) {
		e.add("plugin "+server.Quote(row[0]), fmt.Sprintf("INSTALL PLUGIN %s SONAME %s", server.Quote(row[0]), server.Literal(row[1])))
	})
}

func (e *extras) components() error {
	return e.each("components", "SELECT component_urn FROM mysql.component ORDER BY component_id", func(row []string) {
		e.add("component "+row[0], "INSTALL COMPONENT "+server.Literal(row[0]))
	})
}

// persisted saves the variables of SET PERSIST for the server that will use the data. The restoring server does not set them.
func (e *extras) persisted() error {
	return e.each("variables of SET PERSIST", "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables ORDER BY 1", func(row []string) {
		value := server.Literal(row[1])
		if _, err := strconv.ParseFloat(row[1], 64); err == nil {
			value = row[1]
		}
		e.add("SET PERSIST "+row[0], "SET PERSIST_ONLY "+server.Quote(row[0])+" = "+value)
	})
}

// spatial saves the spatial reference systems that columns use: users may have created them.
func (e *extras) spatial() error {
	return e.each("spatial reference systems", "SELECT DISTINCT s.SRS_ID, s.SRS_NAME, s.ORGANIZATION, s.ORGANIZATION_COORDSYS_ID, s.DEFINITION FROM information_schema.ST_GEOMETRY_COLUMNS c "+
		"JOIN information_schema.ST_SPATIAL_REFERENCE_SYSTEMS s ON s.SRS_ID = c.SRS_ID WHERE s.SRS_ID > 0 ORDER BY 1", func(row []string) {
		organization := ""
		if row[2] != "" {
			organization = fmt.Sprintf(" ORGANIZATION %s IDENTIFIED BY %s", server.Literal(row[2]), row[3])
		}
		e.add("spatial reference system "+row[0], fmt.Sprintf("CREATE SPATIAL REFERENCE SYSTEM IF NOT EXISTS %s NAME %s%s DEFINITION %s", row[0], server.Literal(row[1]), organization, server.Literal(row[4])))
	})
}

// tablespaces saves the tablespaces. A restore creates them within the data folder, regardless of their former place.
func (e *extras) tablespaces() error {
	return e.each("tablespaces", "SELECT TABLESPACE_NAME FROM information_schema.FILES WHERE FILE_TYPE = 'TABLESPACE' AND ENGINE = 'InnoDB' AND TABLESPACE_NAME NOT LIKE 'innodb\\_%' "+
		"AND TABLESPACE_NAME NOT LIKE '%/%' AND TABLESPACE_NAME NOT IN ('mysql', 'sys') ORDER BY 1", func(row []string) {
		e.add("tablespace "+server.Quote(row[0]), fmt.Sprintf("CREATE TABLESPACE %s ADD DATAFILE %s ENGINE = InnoDB", server.Quote(row[0]), server.Literal(row[0]+".ibd")))
	})
}

// folders warns of tables outside of the data folder. A restore creates them within the data folder.
func (e *extras) folders() error {
	query := "SELECT FILE_NAME FROM information_schema.FILES WHERE FILE_TYPE = 'TABLESPACE' AND FILE_NAME LIKE '/%'"
	if e.conn.Version.Flavour == server.MariaDB {
		query = "SELECT CONCAT('`', REPLACE(TABLE_SCHEMA, '`', '``'), '`.`', REPLACE(TABLE_NAME, '`', '``'), '`') FROM information_schema.TABLES WHERE CREATE_OPTIONS LIKE '%DATA DIRECTORY%'"
	}
	var names []string
	err := e.each("folders of tables", query+" ORDER BY 1", func(row []string) { names = append(names, row[0]) })
	e.warn("tables with a DATA DIRECTORY are restored within the folder of the data", names)
	return err
}

func (e *extras) history() error {
	return e.each("versions of rows", "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'SYSTEM VERSIONED' ORDER BY 1, 2", func(row []string) {
		if !e.conn.Omits(row[0]) {
			e.versioned = append(e.versioned, server.Quote(row[0])+"."+server.Quote(row[1]))
		}
	})
}

// readViews finds the views at which the dump program would fail: broken views, and views that call a function that the account may not
// execute.
func (e *extras) readViews() error {
	var all [][2]string
	err := e.each("views", "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN ('sys', 'mysql') ORDER BY 1, 2", func(row []string) {
		if !e.conn.Omits(row[0]) {
			all = append(all, [2]string{row[0], row[1]})
		}
	})
	for _, view := range all {
		if err != nil {
			return err
		}
		name := server.Quote(view[0]) + "." + server.Quote(view[1])
		_, fieldsErr := e.conn.Rows("SHOW FIELDS FROM " + name)
		if code := server.Code(fieldsErr); code == 0 || code == mysql.ER_NO_SUCH_TABLE && !strings.Contains(fieldsErr.Error(), "view") {
			err = onlyBroken(fieldsErr)
			continue
		}
		e.ignored = append(e.ignored, view[0]+"."+view[1])
		row, createErr := e.conn.Named("SHOW CREATE VIEW " + name)
		if createErr != nil || row["Create View"] == "" {
			e.warnings = append(e.warnings, fmt.Sprintf("view %s is not in the backup: it is broken: %v", name, createErr))
			continue
		}
		e.views = append(e.views, manifest.Statement{Name: "view " + name, SQL: row["Create View"]})
		if server.Code(fieldsErr) == mysql.ER_VIEW_INVALID {
			e.warnings = append(e.warnings, fmt.Sprintf("view %s is broken: a restore cannot make it", name))
		}
	}
	return err
}

// onlyBroken returns nil for an error that the server reported, and returns any other error.
func onlyBroken(err error) error {
	if server.Code(err) != 0 {
		return nil
	}
	return err
}

// put writes statements as an object, and appends the object's entry to the list to.
func (r *run) put(ctx context.Context, name string, statements []manifest.Statement, to *[]manifest.Object) error {
	if len(statements) == 0 {
		return nil
	}
	object, err := r.Put(ctx, name, func(w io.Writer) error {
		_, err := io.WriteString(w, manifest.EncodeStatements(statements))
		return err
	})
	if err == nil {
		*to = append(*to, object)
	}
	return err
}
