// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// Settings make a restoring server behave like the backup's server.
type Settings struct {
	// Arguments are options of the server. Replay are additional options for the replay: they need the time zone tables, which the restore
	// fills before the replay.
	Arguments, Replay []string
	// Zone is the server's environment variable TZ; nil for the agent's TZ.
	Zone *string
	// Warnings list the differences between the backup's server and the server that will use the data.
	Warnings []string
}

// Configure compares the configurations of the image's server and of the backup's server. It fails with Refused if the restored data would
// differ. The database on a scratch volume is never used: there, the server gets the configuration of the backup's server.
func Configure(ctx context.Context, b *manifest.Backup, p Programs, more []string, scratch bool) (Settings, error) {
	var s Settings
	had := b.Server.Variables
	if had == nil && b.Server.LowerCaseTableNames != "" { // written by an older agent
		had = map[string]string{"lower_case_table_names": b.Server.LowerCaseTableNames}
	}
	has, err := p.Configured(ctx, more)
	if err != nil {
		return s, err
	}
	differ, err := s.compare(b, had, has, scratch)
	if err != nil {
		return s, err
	}
	if zone := had[server.TimeZone]; zone != "" && zone != "SYSTEM" {
		s.Replay = append(s.Replay, option("default_time_zone", zone))
	}
	if zone := b.Server.Zone; zone != nil && offsetsOf(time.Local) != zone.Offsets {
		if s.Zone, err = findZone(b.ID, *zone); err != nil {
			return s, err
		}
		differ = append(differ, fmt.Sprintf("system_time_zone (TZ=%s, was %s)", os.Getenv("TZ"), zone.Name))
	}
	if len(differ) > 0 && !scratch {
		s.Warnings = []string{"the configuration of the database differs from the configuration of the backup's database: " + strings.Join(differ, ", ")}
	}
	return s, nil
}

// compare returns a description of each variable that differs. It adds an option with the backup's value for each variable with Use Given
// except TimeZone; if scratch is true, also for variables with Use Needed and for PageSize. It fails if the restored data would differ.
func (s *Settings) compare(b *manifest.Backup, had, has map[string]string, scratch bool) ([]string, error) {
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(had)) {
		use, known := server.Variables[name]
		value, ok := has[name]
		if !known || !ok || server.SameSetting(value, had[name]) {
			continue
		}
		if !scratch && (use == server.Needed || name == server.PageSize && (b.Base != "" || number(value) < number(had[name]))) {
			return nil, contract.Errorf(contract.ReasonRefused, "backup %s is of a server with %s=%s, but the restored database is configured with %s: set %s to %s in the configuration of the database that is restored",
				b.ID, name, had[name], value, name, had[name])
		}
		differ = append(differ, fmt.Sprintf("%s (%s, was %s)", name, brief(value), brief(had[name])))
		if name != server.TimeZone && (use == server.Given || scratch && (use == server.Needed || name == server.PageSize)) {
			s.Arguments = append(s.Arguments, option(name, had[name]))
		}
	}
	return differ, nil
}

// option writes a variable as an option. Servers without the variable ignore it.
func option(name, value string) string {
	return "--loose-" + strings.ReplaceAll(name, "_", "-") + "=" + value
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // a value that is not a number does not matter
	return n
}

func brief(value string) string {
	if value == "" {
		return "empty"
	}
	return value[:min(len(value), 60)]
}

// Configured returns the variables that the server's program prints for its configuration file and options.
func (p Programs) Configured(ctx context.Context, more []string) (map[string]string, error) {
	folder, err := os.MkdirTemp("", "agent-") // in this folder, the server tests whether the file system is case-sensitive
	if err != nil {
		return nil, fmt.Errorf("make a folder for reading the configuration: %w", err)
	}
	defer os.RemoveAll(folder)
	arguments := append(p.config(), "--verbose", "--help", "--datadir="+folder)
	arguments = append(append(arguments, more...), asRoot()...)
	words := &server.Tail{}
	cmd := exec.CommandContext(ctx, p.Server, arguments...)
	cmd.Stderr = words
	text, err := cmd.Output()
	if err != nil {
		return nil, contract.Errorf(contract.ReasonFailed, "read the configuration of %s: %w: %s", p.Server, err, words)
	}
	_, list, ok := bytes.Cut(text, []byte("\nVariables (--variable-name=value)\n"))
	if !ok {
		return nil, contract.Errorf(contract.ReasonFailed, "read the configuration of %s: it lists no variables", p.Server)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(list)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name = strings.ReplaceAll(name, "-", "_")
		if name == "default_time_zone" {
			name = server.TimeZone
		}
		if _, ok := server.Variables[name]; ok {
			found[name] = strings.TrimSpace(value)
		}
	}
	return found, nil
}

// findZone returns a value of TZ whose time zone has the same offsets: the TZ of the backup's agent or, for a zone whose offset never
// changes, a generated value.
func findZone(id string, zone manifest.Zone) (*string, error) {
	for _, name := range []string{zone.TZ, zone.Name} {
		if name == "" {
			continue
		}
		if l, err := time.LoadLocation(strings.TrimPrefix(name, ":")); err == nil && offsetsOf(l) == zone.Offsets {
			return &name, nil
		}
	}
	_, offset, _ := strings.Cut(zone.Offsets, ":")
	if seconds, err := strconv.ParseInt(offset, 10, 64); err == nil {
		name := fixedZone(zone.Name, seconds)
		return &name, nil
	}
	return nil, contract.Errorf(contract.ReasonRefused, "backup %s is of a server in the time zone %s (TZ=%q), which this image does not have: set TZ in the environment of the database that is restored",
		id, zone.Name, zone.TZ)
}

// fixedZone returns a time zone in POSIX notation. In that notation, offsets are positive to the west.
func fixedZone(name string, seconds int64) string {
	sign := "-"
	if seconds < 0 {
		sign, seconds = "+", -seconds
	}
	return fmt.Sprintf("<%s>%s%02d:%02d:%02d", strings.Trim(name, "<>"), sign, seconds/3600, seconds/60%60, seconds%60)
}

func offsetsOf(l *time.Location) string {
	return server.ZoneOffsets(func(moment int64) int64 {
		_, offset := time.Unix(moment, 0).In(l).Zone()
		return int64(offset)
	})
}

func (i *Instance) inZone(ctx context.Context, b *manifest.Backup) error {
	conn, err := i.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return inZone(conn, b)
}

// inZone returns an error unless the started server has the backup's time zone.
func inZone(conn *server.Conn, b *manifest.Backup) error {
	zone := b.Server.Zone
	if zone == nil {
		return nil
	}
	name, offsets, err := conn.SystemZone()
	if err == nil && offsets != zone.Offsets {
		err = contract.Errorf(contract.ReasonRefused, "backup %s is of a server in the time zone %s (TZ=%q), but the restored database runs in %s: set TZ in the environment of the database that is restored",
			b.ID, zone.Name, zone.TZ, name)
	}
	return err
}
