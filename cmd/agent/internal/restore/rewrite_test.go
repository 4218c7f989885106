// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"io"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// A dump of MySQL 5.7 loads into 8.0 although its routines use an SQL mode that 8.0 lacks. Equal text in data is not changed.
func TestDumpOfOldSeriesLosesTheModeThatIsGone(t *testing.T) {
	t.Parallel()
	data := "INSERT INTO `t` VALUES ('" + strings.Repeat("/*!50003 SET sql_mode = 'NO_AUTO_CREATE_USER' */ ;", 9000) + "');\n"
	head := "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;\n"
	dump := head + data + "/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER' */ ;\n/*!50003 SET sql_mode = 'NO_AUTO_CREATE_USER,ANSI' */ ;;\n" + head
	newHead := strings.Replace(head, "ZERO'", "ZERO,NO_DIR_IN_CREATE'", 1)
	old, now := server.Version{Flavour: server.MySQL, Major: 5, Minor: 7, Patch: 44}, server.Version{Flavour: server.MySQL, Major: 8, Minor: 4}
	text, err := io.ReadAll(rewritten(strings.NewReader(dump), old, now))
	assert.NilError(t, err)
	want := newHead + data + "/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES' */ ;\n/*!50003 SET sql_mode = 'ANSI' */ ;;\n" + head
	assert.Assert(t, string(text) == want, "%d bytes, %d wanted", len(text), len(want))
	text, err = io.ReadAll(rewritten(strings.NewReader(dump), now, now))
	assert.NilError(t, err)
	assert.Assert(t, string(text) == newHead+strings.TrimPrefix(dump, head))
}
