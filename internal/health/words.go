// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"d3os.com/d3os-operator/internal/contract"
)

// OwnWords returns the reason and the message that a container left as its termination message: a JSON object with a one-word reason and a
// message, the format of the operator's agent and of the charts' scripts. It returns "" for any other text.
func OwnWords(message string) string {
	var own contract.Refusal
	if json.Unmarshal([]byte(message), &own) != nil || own.Message == "" || !oneWord.MatchString(own.Reason) {
		return ""
	}
	return own.Reason + ": " + own.Message
}

var oneWord = regexp.MustCompile(`^[A-Z][A-Za-z]{2,63}$`)

// words matches a log line that reports an error.
var words = regexp.MustCompile(`(?i)\b(error|exception|fatal|panic|denied|refused|failed|failure|cannot|unable|no such|not found|no space left|invalid|out ?of ?memory)\b`)

// grave matches the line with which a Go program reports why it ends. A stack trace follows.
var grave = regexp.MustCompile(`^(panic|fatal error): `)

// preamble matches the text that loggers and stack traces write before an error: a time, a level, the class of an exception, Redis' process
// and role.
var preamble = regexp.MustCompile(`^(?:` +
	`\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*|` +
	`\d+:[A-Z] \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d\.\d+ [*#.-]|` +
	`\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE|CRITICAL|panic)\]?:?|` +
	`Caused by:|Exception in thread "[^"]*"|` +
	`(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error):)\s+`)

// LastError returns the error in the last log line that reports one, without the preamble of the logger, or "". A line that reports the
// end of the program takes precedence over later lines.
func LastError(log []string) string {
	last := ""
	for _, line := range slices.Backward(log) {
		text, final := reported(strings.TrimSpace(line))
		if final {
			last = text
			break
		}
		last = cmp.Or(last, text)
	}
	const enough = 200
	return Clip(last, enough)
}

// reported returns the error in a log line, or "", and whether the program ended with that error.
func reported(line string) (text string, final bool) {
	if !words.MatchString(line) {
		return "", false
	}
	var entry struct{ Level, Msg, Message, Error string }
	if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &entry) == nil && cmp.Or(entry.Msg, entry.Message) != "" {
		text = strings.TrimSuffix(cmp.Or(entry.Msg, entry.Message)+": "+entry.Error, ": ")
		switch strings.ToLower(entry.Level) {
		case "trace", "debug", "info":
			return "", false
		case "fatal", "panic":
			return text, true
		}
		return text, false
	}
	final = grave.MatchString(line)
	for rest := preamble.ReplaceAllString(line, ""); rest != line && words.MatchString(rest); rest = preamble.ReplaceAllString(line, "") {
		line = rest
	}
	return line, final
}
