// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
)

// The condition reports the progress of the copy, and the user's next step.
func TestImportVerdict(t *testing.T) {
	t.Parallel()
	from, pod := &dsv1.ImportFrom{Host: "old", Port: 3307}, &corev1.Pod{}
	at := &contract.Import{Phase: "Following", Behind: ptr.To[int64](3), Position: &contract.Position{File: "binlog.000004", Offset: 198, GTID: "0-1-7"}}
	for name, c := range map[string]struct {
		seen            *Import
		good            bool
		reason, message string
	}{
		"pending":   {&Import{Declared: from}, false, dsv1.ReasonImportNotRunning, "the import of old:3307 does not run yet"},
		"done":      {&Import{Declared: from, IsDone: true}, true, dsv1.ReasonImported, "the copy of old:3307 is the database"},
		"failed":    {&Import{Declared: from, Failed: contract.Result{Reason: "AccessDenied", Message: "no\nway"}}, false, "AccessDenied", "the import of old:3307 failed, and is tried again: no way"},
		"silent":    {&Import{Declared: from, Pod: pod}, false, dsv1.ReasonImporting, "does not answer the operator"},
		"loads":     {&Import{Declared: from, Pod: pod, State: &contract.Import{Phase: "Loading", Bytes: 3 << 20, TotalBytes: 9 << 20}}, false, dsv1.ReasonImporting, "import of old:3307: loads the data (3 of 9 MiB)"},
		"follows":   {&Import{Declared: from, Pod: pod, State: at}, false, dsv1.ReasonImportFollowing, "follows, 3 s behind (at binlog.000004:198, GTID 0-1-7); when nothing writes to the source any more, set importFrom.cutOver to true"},
		"adopts":    {&Import{Declared: &dsv1.ImportFrom{Host: "mysql-dataservice", CredentialsSecret: backupv1.SecretName{Name: "p-original-mysql"}}, Pod: pod, State: &contract.Import{Phase: "Waiting", Message: "set cutOver"}}, false, dsv1.ReasonImportWaiting, "waiting: 'kubectl dataservice adopt NAME --finish' cuts over"},
		"refused":   {&Import{Declared: from, Pod: pod, State: &contract.Import{Phase: "Refused", Reason: "Mismatch", Message: "x differs"}}, false, "Mismatch", "import of old:3307: refused: x differs"},
		"no reason": {&Import{Declared: from, Pod: pod, State: &contract.Import{Phase: "Waiting", Reason: "not a reason", Message: strings.Repeat("é", 900)}}, false, dsv1.ReasonImportWaiting, "…"},
	} {
		v := c.seen.Verdict()
		assert.Equal(t, v.Good, c.good, name)
		assert.Equal(t, v.Reason, c.reason, name)
		assert.Assert(t, strings.Contains(v.Message, c.message), "%s: %s", name, v.Message)
		assert.Assert(t, len([]rune(v.Message)) <= longestImport, name)
	}
	assert.Assert(t, (*Import)(nil).Verdict() == nil)
}

// While the spec requests the cut-over, the importing pod has the ticket to cut over. Otherwise it has none.
func TestImportTicket(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wanted   bool
		accepted string
		has      string
		steps    int
	}{
		{false, "", "", 0}, {true, "", "", 1}, {true, "", contract.TicketCutOver, 0}, {false, "", contract.TicketCutOver, 1}, {true, "", "join:7", 1},
		{true, "source a-b", contract.TicketCutOver, 1}, {true, "source a-b", contract.TicketCutOver + " source a-b", 0}, {true, "everything since 2026", contract.TicketCutOver, 0}, {false, "source a-b", "", 0},
	} {
		pod := &corev1.Pod{}
		if c.has != "" {
			pod.Annotations = map[string]string{object.AnnotationTicket: c.has}
		}
		i := &Import{Declared: &dsv1.ImportFrom{Host: "old", CutOver: c.wanted}, Accepted: c.accepted, Pod: pod}
		assert.Equal(t, len(i.Steps(nil)), c.steps, "%+v", c)
	}
	assert.Equal(t, len((*Import)(nil).Steps(nil)), 0)
}
