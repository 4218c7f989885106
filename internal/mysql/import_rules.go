// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
)

const (
	// containerImport is the container that copies a running server into a new database.
	containerImport = prefixRestore + "-import"
	// lossOfSource is the prefix of the agent's text for the loss of the imported server. The server's ID follows.
	lossOfSource = "source "
	// ImportSeen is the delay until the next pass during an import. The progress of an import triggers no pass.
	ImportSeen = 5 * time.Second
	// longestImport limits the length of an agent's message.
	longestImport = 600
)

// Import is the observation of the import of a running server.
type Import struct {
	Declared *dsv1.ImportFrom
	// Accepted is spec.mysql.acceptLoss.
	Accepted string
	// Pod is the pod whose import runs; nil for none.
	Pod *corev1.Pod
	// State is the answer of the agent; nil if there is none.
	State *contract.Import
	// Failed is the report of the last import container that ended. It is empty while an import runs.
	Failed contract.Result
	// IsDone reports whether the database has its data.
	IsDone bool
}

// importing returns the pod whose import runs, or nil.
func importing(pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range pods {
		for _, c := range pod.Status.InitContainerStatuses {
			if c.Name == containerImport && c.State.Running != nil && pod.DeletionTimestamp == nil {
				return pod
			}
		}
	}
	return nil
}

// MakesData returns the name of the pod that is restoring or importing the data of a database, or "".
func MakesData(pods []*corev1.Pod) string {
	for _, pod := range pods {
		for _, c := range pod.Status.InitContainerStatuses {
			if isRestore(c.Name) && c.State.Running != nil && pod.DeletionTimestamp == nil {
				return pod.Name
			}
		}
	}
	return ""
}

// failure returns the report of a failed import. (Kubernetes starts the import again.)
func failure(pods []*corev1.Pod) contract.Result {
	for _, pod := range pods {
		for _, c := range pod.Status.InitContainerStatuses {
			if end, said := lastWord(c); c.Name == containerImport && end != nil && end.ExitCode != 0 && pod.DeletionTimestamp == nil {
				return said
			}
		}
	}
	return contract.Result{}
}

// IsRunning reports whether an import runs.
func (i *Import) IsRunning() bool { return i != nil && i.Pod != nil }

// HasFailed reports whether the last attempt to import has failed and no attempt is running.
func (i *Import) HasFailed() bool {
	return i != nil && i.Pod == nil && !i.IsDone && i.Failed.Message != ""
}

// Verdict returns the condition about an import; nil if there is no import.
func (i *Import) Verdict() *backup.Verdict {
	switch {
	case i == nil:
		return nil
	case i.IsDone:
		return &backup.Verdict{Good: true, Reason: dsv1.ReasonImported, Message: "the copy of " + i.source() + " is the database in use: importFrom is not read any more, and may be removed"}
	case i.HasFailed():
		return &backup.Verdict{Reason: cmp.Or(string(i.Failed.Reason), dsv1.ReasonImportNotRunning), Message: i.Message()}
	case i.Pod == nil:
		return &backup.Verdict{Reason: dsv1.ReasonImportNotRunning, Message: "the import of " + i.source() + " does not run yet"}
	}
	reason := dsv1.ReasonImporting
	if s := i.State; s != nil {
		switch {
		case backup.IsReason(string(s.Reason)):
			reason = string(s.Reason)
		case s.Phase == contract.ImportFollowing:
			reason = dsv1.ReasonImportFollowing
		case s.Phase == contract.ImportWaiting:
			reason = dsv1.ReasonImportWaiting
		}
	}
	return &backup.Verdict{Reason: reason, Message: i.Message()}
}

// Message describes the progress of an import that is running or has failed.
func (i *Import) Message() string {
	s := i.State
	if i.Pod == nil {
		return bounded("the import of " + i.source() + " failed, and is tried again: " + i.Failed.Message)
	}
	if s == nil {
		return fmt.Sprintf("the import of %s runs, but does not answer the operator: see the log of container %s of pod %s", i.source(), containerImport, i.Pod.Name)
	}
	text := "import of " + i.source() + ": "
	switch s.Phase {
	case contract.ImportConnecting:
		text += "connects"
	case contract.ImportDumping:
		text += fmt.Sprintf("reads the data (%d MiB)", s.Bytes>>20)
	case contract.ImportLoading:
		text += fmt.Sprintf("loads the data (%d of %d MiB)", s.Bytes>>20, s.TotalBytes>>20)
	case contract.ImportFollowing:
		text += i.follows(s)
	case contract.ImportComparing:
		text += "compares the copy with the source"
	default:
		text += strings.ToLower(string(s.Phase))
	}
	switch {
	case s.Phase == contract.ImportWaiting && s.Reason == "" && i.isAdoption() && !i.Declared.CutOver:
		text += ": " + cutOverOfAdoption
	case s.Message != "":
		text += ": " + s.Message
	}
	if s.Again != "" {
		text += ". A copy was begun again: " + s.Again
	}
	return bounded(text)
}

// follows returns the message about a copy to which the agent applies the source's log.
func (i *Import) follows(s *contract.Import) string {
	text := "follows"
	if s.Behind != nil {
		text += fmt.Sprintf(", %d s behind", *s.Behind)
	}
	if p := s.Position; p != nil {
		text += fmt.Sprintf(" (at %s:%d", p.File, p.Offset)
		if p.GTID != "" {
			text += ", GTID " + p.GTID
		}
		text += ")"
	}
	switch {
	case s.Message != "":
	case i.Declared.CutOver:
		text += "; the cut-over begins"
	case i.isAdoption():
		text += "; " + cutOverOfAdoption
	default:
		text += "; when nothing writes to the source any more, set importFrom.cutOver to true"
	}
	return text
}

// cutOverOfAdoption is the user's next step for a copy that `kubectl dataservice adopt` has started. That command stops
// the writes, and sets cutOver in the spec.
const cutOverOfAdoption = "'kubectl dataservice adopt NAME --finish' cuts over to the copy"

// isAdoption reports whether the source is the original operator's database.
func (i *Import) isAdoption() bool {
	return i.Declared.Host == dsv1.OriginalMySQL && strings.HasSuffix(i.Declared.CredentialsSecret.Name, dsv1.OriginalMySQLSecret)
}

// source names the server that is imported.
func (i *Import) source() string {
	return fmt.Sprintf("%s:%d", i.Declared.Host, cmp.Or(i.Declared.Port, 3306))
}

// bounded returns a text of the agent for a status, with printable characters and a limited length.
func bounded(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > longestImport {
		return string(runes[:longestImport-1]) + "…"
	}
	return text
}

// ticket returns the ticket that the importing pod should have. differs reports whether the pod has another one now.
func (i *Import) ticket() (want string, differs bool) {
	if i.Declared.CutOver {
		want = contract.TicketCutOver
		if strings.HasPrefix(i.Accepted, lossOfSource) { // an older agent accepts the ticket only with this text
			want += " " + i.Accepted
		}
	}
	return want, i.Pod.Annotations[object.AnnotationTicket] != want
}
