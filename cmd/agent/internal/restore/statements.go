// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"io"
	"strings"

	"d3os.com/d3os-operator/cmd/agent/internal/manifest"
	"d3os.com/d3os-operator/cmd/agent/internal/server"
	"d3os.com/d3os-operator/internal/contract"
)

// hasStatements reports whether a restore runs the statements of an object one by one.
func hasStatements(o manifest.Object) bool {
	return strings.HasPrefix(o.Name, manifest.ObjectsName) || strings.HasPrefix(o.Name, manifest.ViewsName)
}

// loadStatements runs the statements of an object. A statement may need an object that a later statement creates. So loadStatements
// repeats the failed statements as long as at least one of these succeeds in a round. It returns a warning for each statement that
// still fails.
func (s Source) loadStatements(ctx context.Context, o manifest.Object, to server.Options) ([]string, error) {
	r, done, err := s.open(ctx, o)
	if err != nil {
		return nil, s.damaged(ctx, o, err)
	}
	defer done()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, s.damaged(ctx, o, err)
	}
	conn, err := server.Connect(ctx, to)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	rest := manifest.DecodeStatements(string(text))
	for {
		var failed []manifest.Statement
		var warnings []string
		for _, statement := range rest {
			err := conn.Do(statement.SQL)
			if contract.ReasonOf(err) == contract.ReasonServerUnreachable {
				return nil, err
			}
			if err != nil {
				failed = append(failed, statement)
				warnings = append(warnings, fmt.Sprintf("%s is not restored: the server refused it with error %d", statement.Name, server.Code(err)))
			}
		}
		if len(failed) == 0 || len(failed) == len(rest) {
			return warnings, nil
		}
		rest = failed
	}
}
