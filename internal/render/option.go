// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	optionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)
	quoted     = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	comment    = regexp.MustCompile(`[ \t]#`)
)

// longestOption is the longest line of my.cnf that the chart writes: mysqld reads at most 4,095 bytes as one line.
const longestOption = 4000

// CheckOption refuses a setting of my.cnf that mysqld would parse as another value. The chart quotes all other values that need quotes.
// path is the path of the field config.
func CheckOption(path, name, value string) error {
	refuse := func(text string) error { return FieldError(fmt.Sprintf("%s[%s]", path, name), "%s", text) }
	switch {
	case strings.ContainsAny(name+value, "\n\r\x00"):
		return refuse("must be one line: a setting of my.cnf cannot continue on the next line")
	case !optionName.MatchString(name):
		return refuse("must be the name of an option: letters, digits, '_', '-' and '.', without dashes before it")
	case value != "" && strings.ContainsRune(`'"`, rune(value[0])) && value[0] == value[len(value)-1]:
		return refuse("must not be in quotes: remove them, the operator quotes the value in my.cnf where it needs quotes")
	case comment.MatchString(quoted.ReplaceAllString(value, "")):
		return refuse("must not have a comment: remove '#' and the text after it")
	case len(name)+len(value)+strings.Count(value, `\`)+strings.Count(value, `"`) > longestOption:
		return refuse(fmt.Sprintf("must be shorter than %d bytes: mysqld cuts longer lines of my.cnf", longestOption))
	}
	return nil
}
