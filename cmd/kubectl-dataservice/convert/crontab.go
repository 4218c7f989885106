// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

var schedule = regexp.MustCompile(`^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4,5})$`)

// cronTab converts a CronTab.
func cronTab(s *source, o Options) (map[string]any, error) {
	same := map[string]any{
		"args": &[]string{}, "command": &[]string{}, "timeZone": new(string), "suspend": new(bool), "concurrencyPolicy": new(string),
		"startingDeadlineSeconds": new(int64), "activeDeadlineSeconds": new(int64), "successfulJobsHistoryLimit": new(int32), "failedJobsHistoryLimit": new(int32),
	}
	spec, err := s.fields(slices.Concat([]string{"cronSpec", "image", "replicas", "resources", "envs"}, slices.Collect(maps.Keys(same)))...)
	if err != nil {
		return nil, err
	}
	text, _ := spec["cronSpec"].(string)
	if text = strings.TrimSpace(text); !schedule.MatchString(text) {
		return nil, s.mistake("spec.cronSpec", "'%v' must have five fields, or six with the second first", spec["cronSpec"])
	}
	entry, err := s.container(spec)
	if err != nil {
		return nil, err
	}
	entry["schedule"] = text
	if err := s.same(spec, entry, same); err != nil {
		return nil, err
	}
	own, _ := entry["command"].([]any)
	switch {
	case len(own) > 0:
	case len(o.Command) > 0:
		command := make([]any, len(o.Command))
		for i, word := range o.Command {
			command[i] = word
		}
		entry["command"] = command
	case dsv1.HasSeconds(text):
		return nil, s.mistake("spec.cronSpec", "'%s' starts runs at other seconds than 0, for which the command must be known: give it with --command, such as --command=sh,-c,date", text)
	}
	switch replicas := spec["replicas"].(type) {
	case nil:
	case int64:
		if replicas < 0 {
			return nil, s.mistake("spec.replicas", "'%d' must not be negative", replicas)
		}
		if replicas == 0 {
			entry["suspend"] = true
		}
		if replicas > 1 {
			s.note("spec.replicas", "a run has one pod: add further cronJobs for more")
		}
	default:
		return nil, s.mistake("spec.replicas", "'%v' must be a number", replicas)
	}
	return entry, nil
}
