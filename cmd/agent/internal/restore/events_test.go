// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"testing"

	"gotest.tools/v3/assert"
)

// The statements of the log determine the status of an event on the source, in any notation.
func TestStatusOfEventsAfterStatements(t *testing.T) {
	t.Parallel()
	e := [2]string{"a", "e"}
	for text, want := range map[string]statuses{
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1":                                                                    {e: enabled},
		"create definer=`event`@`%` event if not exists `A`.`E` on schedule every 1 day disable do update t set x='ENABLE'":     {e: disabled},
		"CREATE /* c */ OR REPLACE DEFINER=CURRENT_USER() EVENT e ON SCHEDULE AT NOW() DISABLE ON REPLICA COMMENT 'x' DO BEGIN": {e: ofReplica},
		"CREATE EVENT `e` ON SCHEDULE EVERY 1 DAY COMMENT 'it''s \\' DISABLE' DO SELECT 1":                                      {e: enabled},
		"ALTER EVENT kept COMMENT 'x'":                                        {{"a", "kept"}: disabled},
		"ALTER EVENT kept RENAME TO `b`.`Other` ENABLE DO SELECT 'DISABLE'":   {{"b", "other"}: enabled},
		"ALTER DEFINER='x'@'y' EVENT a.kept RENAME TO other":                  {{"a", "other"}: disabled},
		"DROP EVENT IF EXISTS `a`.`kept`":                                     {},
		"DROP DATABASE IF EXISTS A":                                           {},
		"CREATE EVENT IF NOT EXISTS kept ON SCHEDULE EVERY 1 DAY DO SELECT 1": {{"a", "kept"}: disabled},
	} {
		s := statuses{{"a", "kept"}: disabled}
		if _, ok := want[e]; ok {
			want[[2]string{"a", "kept"}] = disabled
		}
		assert.Assert(t, concernsEvents([]byte(text)), text)
		s.apply(eventStatement{schema: "a", text: []byte(text)})
		assert.DeepEqual(t, s, want)
	}
	for _, text := range []string{"CREATE TABLE event (id INT)", "CREATE DEFINER=`a`@`b` TRIGGER event BEFORE INSERT ON t FOR EACH ROW SET @a=1", "", "DROP TABLE `event`", "BEGIN"} {
		assert.Assert(t, !concernsEvents([]byte(text)), text)
	}
}
