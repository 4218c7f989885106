// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"io"

	"d3os.com/d3os-operator/cmd/agent/internal/dump"
	"d3os.com/d3os-operator/internal/contract"
)

// zones writes the object with the server's named time zones, which are rows of the schema mysql. The events, sessions and configuration of
// a restored database may use these zones. A restore loads the zones first.
func (r *run) zones(ctx context.Context) error {
	count, err := r.conn.Value("SELECT COUNT(*) FROM mysql.time_zone_name")
	switch {
	case err == nil && count == "0":
		return nil
	case err != nil && contract.ReasonOf(err) != contract.ReasonAccessDenied:
		return err
	case err != nil:
		r.said = append(r.said, "the named time zones are not in the backup: the account of the backup may not read table mysql.time_zone_name")
		return nil //nolint:nilerr // the warning replaces the error
	}
	object, err := r.Put(ctx, "zones.sql", func(w io.Writer) error {
		for _, table := range dump.ZoneTables {
			if _, err := fmt.Fprintf(w, "TRUNCATE TABLE mysql.%s;\n", table); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(w, "USE mysql;\n"); err != nil {
			return err
		}
		_, err := dump.Run(ctx, dump.Options{Server: r.options.Server, Conn: r.conn, Version: r.conn.Version, Zones: true}, r.options.DumpProgram, w)
		return err
	})
	if err == nil {
		r.before = append(r.before, object)
	}
	return err
}
