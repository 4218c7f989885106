// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/object"
)

// maxBehind is the maximum lag of a copy, in seconds, when writes stop.
const maxBehind = 30

// Copy copies the original database, but does not cut over. After an interruption, it can be repeated.
func (a *Adopter) Copy(ctx context.Context) error {
	o, err := a.observeData(ctx)
	if err != nil {
		return err
	}
	switch progressOf(o.DataService) {
	case notCopied:
		err = a.declare(ctx, o)
	case copying:
	case refused:
		if err = a.patchSpec(ctx, o.DataService, false, withCutOver(o, false)); err == nil {
			a.Say("another copy starts")
		}
	case cuttingOver:
		err = errors.New("the cut-over was requested: continue with --finish")
	case finished:
		a.Say("the services use database " + newName + ": there is nothing to copy")
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.waitForCopy(ctx, o, false); err != nil {
		return err
	}
	a.Say("the copy exists: --finish cuts over to it, --undo abandons it")
	return nil
}

// Finish copies the original database if there is no copy, and cuts over. After an interruption, it can be repeated.
func (a *Adopter) Finish(ctx context.Context) error {
	o, err := a.observeData(ctx)
	if err != nil {
		return err
	}
	switch at := progressOf(o.DataService); {
	case at <= refused:
		if o, err = a.requestCutOver(ctx); err != nil {
			return err
		}
	case at == cuttingOver:
		if err := a.lookAtFence(ctx, o); err != nil { // prove checks this again
			a.Say("it is unknown whether the original server accepts writes: " + err.Error())
		}
	}
	if err := a.waitForCopy(ctx, o, true); err != nil {
		return err
	}
	if err := a.waitForReady(ctx, o); err != nil {
		return err
	}
	return a.prove(ctx, o)
}

// requestCutOver copies the database, stops the writes of the original server, and requests the cut-over.
func (a *Adopter) requestCutOver(ctx context.Context) (*Observation, error) {
	if err := a.Copy(ctx); err != nil {
		return nil, err
	}
	o, err := a.observeData(ctx)
	if err != nil {
		return nil, err
	}
	if at := progressOf(o.DataService); at != copying {
		return nil, errors.New("another writer has changed spec.mysql of the DataService: see the report")
	}
	if err = a.fence(ctx, o, nil); err == nil {
		// If an undo has changed the spec since, the generation differs and this write fails.
		err = a.patchSpec(ctx, o.DataService, false, withCutOver(o, true))
	}
	if err != nil {
		return nil, errors.Join(err, a.unfenceIfUndone(ctx, o))
	}
	a.Say("the cut-over is requested: all tables are compared, and the services move to " + newName)
	return o, nil
}

// unfenceIfUndone allows writes again if an undo ran at the same time: that undo may have read the server's state before this run stopped
// the writes.
func (a *Adopter) unfenceIfUndone(ctx context.Context, o *Observation) error {
	ds, err := a.dataService(ctx, o)
	if err != nil || progressOf(ds) != notCopied || o.Record.Fence == nil || o.Record.Fence.SuperReadOnly {
		return err
	}
	return a.open(ctx, o)
}

// lookAtFence checks the original server after the cut-over was requested. If the server accepts writes, the copy may lack some writes:
// lookAtFence records that, and stops the writes again.
func (a *Adopter) lookAtFence(ctx context.Context, o *Observation) error {
	seen, err := a.agent(ctx, o, "look at")
	if err != nil || seen.SuperReadOnly {
		return err
	}
	if o.Record.Fence == nil {
		o.Record.Fence = seen
	}
	o.Record.Fence.Reopened = true
	if err := a.saveRecord(ctx, o); err != nil {
		return err
	}
	_, err = a.agent(ctx, o, "stop the writes of", "--close")
	return err
}

// prove checks that the original server still accepts no writes.
func (a *Adopter) prove(ctx context.Context, o *Observation) error {
	if set, err := a.get(ctx, object.StatefulSetKind, o.owner().Namespace, mysqlName); err != nil || set == nil {
		return err // the user has deleted the server
	}
	if err := a.lookAtFence(ctx, o); err != nil {
		return fmt.Errorf("the services use database %s; it is unknown whether the original server accepted later writes: %w", newName, err)
	}
	if o.Record.Fence != nil && o.Record.Fence.Reopened {
		return fmt.Errorf("the services use database %s. The original server was restarted, or accepted writes for another reason: writes since the cut-over may exist only on the original server. "+
			"Writes are stopped again: compare the tables of both databases before you delete the original database", newName)
	}
	a.Say("the services use database " + newName + ", and the original server has accepted no write since the cut-over: delete the original server when you no longer need it")
	return nil
}

// observeData observes the cluster. It returns an error if the report refuses the steps of the database.
func (a *Adopter) observeData(ctx context.Context) (*Observation, error) {
	o, err := a.Observe(ctx)
	if err != nil {
		return nil, err
	}
	report := Judge(o)
	surroundings := &Report{Name: report.Name}
	surroundings.judgeSurroundings(o)
	reasons := surroundings.Refused
	switch at := progressOf(o.DataService); {
	case o.Record == nil || at == notCopied && !report.Complete:
		reasons = append(reasons, "not all objects are adopted: run --apply first")
	case report.Data == nil:
		reasons = append(reasons, "spec.mysql was of kind ThirdParty before the adoption: the original operator did not make the database")
	default:
		reasons = append(reasons, report.Data.Refused...)
	}
	if isPaused(o.DataService) {
		reasons = append(reasons, "DataService "+report.Name+" is paused, so the operator makes no copy: kubectl dataservice resume "+report.Name)
	}
	if len(reasons) > 0 {
		return nil, &RefusedError{Reasons: reasons}
	}
	return o, nil
}

// declare makes the operator create a database that imports the original database.
func (a *Adopter) declare(ctx context.Context, o *Observation) error {
	seen, err := a.agent(ctx, o, "look at")
	if err != nil {
		return err
	}
	if seen.HasLog {
		a.Say("server " + mysqlName + " (" + seen.Server + ") keeps a binary log: the copy runs while the services write")
	} else if err := a.fence(ctx, o, seen); err != nil {
		return err
	}
	if err := a.patchSpec(ctx, o.DataService, false, copied(o.owner().Name, o.original())); err != nil {
		return err
	}
	a.Say("spec.mysql is StatefulSet " + newName + ", which copies the original database")
	return nil
}

// fence stops the writes of the original server. Before that, it records the server's state, because --undo must
// restore that state. seen is the state of the server; nil if it was not read yet.
func (a *Adopter) fence(ctx context.Context, o *Observation, seen *Fence) (err error) {
	if before := o.Record.Fence; before == nil || before.Reopened { // Reopened: another copy has replaced a refused copy
		if before == nil && seen == nil {
			if seen, err = a.agent(ctx, o, "look at"); err != nil {
				return err
			}
		}
		if before != nil {
			seen, before.Reopened = before, false
		}
		o.Record.Fence = seen
		if err := a.saveRecord(ctx, o); err != nil {
			return err
		}
	}
	if _, err := a.agentIf(ctx, o, func(ctx context.Context) error { return a.unchanged(ctx, o) }, "stop the writes of", "--close"); err != nil {
		return err
	}
	a.Say("WRITES HAVE STOPPED: server " + mysqlName + " accepts no writes until --finish or --undo has ended")
	return nil
}

// unchanged fails if the spec has changed since an observation.
func (a *Adopter) unchanged(ctx context.Context, o *Observation) error {
	ds, err := a.dataService(ctx, o)
	if err == nil && ds.GetGeneration() != o.DataService.GetGeneration() {
		err = fmt.Errorf("another writer has changed DataService %s: run the command again", ds.GetName())
	}
	return err
}

// open makes the original server accept writes again.
func (a *Adopter) open(ctx context.Context, o *Observation) error {
	flags := []string{"--open"}
	if o.Record.Fence.ReadOnly {
		flags = append(flags, "--keep-read-only")
	}
	if _, err := a.agent(ctx, o, "allow the writes of", flags...); err != nil {
		return err
	}
	a.Say("server " + mysqlName + " accepts writes again")
	return nil
}

// unfence allows writes again if the adoption has stopped them.
func (a *Adopter) unfence(ctx context.Context, o *Observation) error {
	before := o.Record.Fence
	if before == nil {
		return nil
	}
	if !before.SuperReadOnly {
		if err := a.open(ctx, o); err != nil {
			return err
		}
	}
	o.Record.Fence = nil
	return a.saveRecord(ctx, o)
}

// giveUp sets spec.mysql to the original database again, and pauses the DataService.
func (a *Adopter) giveUp(ctx context.Context, o *Observation) error {
	if err := a.patchSpec(ctx, o.DataService, true, o.thirdParty()); err != nil {
		return err
	}
	a.Say("the copy is abandoned. Claim data-" + newName + "-0 and Secret " + newName + "-credentials stay: if the original server has lost its data, the claim has the only copy. Delete the claim and the Secret before another --copy")
	return nil
}

// withCutOver returns spec.mysql with another value of importFrom.cutOver.
func withCutOver(o *Observation, cutOver bool) map[string]any {
	mysql, _, _ := unstructured.NestedMap(o.DataService.Object, "spec", "mysql")
	_ = unstructured.SetNestedField(mysql, cutOver, "importFrom", "cutOver") // cannot fail: progressOf has found the map
	return mysql
}

// behind matches the lag of a copy in the message of the condition.
var behind = regexp.MustCompile(`follows, (\d+) s behind`)

// waitForCopy waits until a cut-over to the copy is possible. With isCutOver, it waits until the copy is the database
// in use.
func (a *Adopter) waitForCopy(ctx context.Context, o *Observation, isCutOver bool) error {
	var printed time.Time
	return a.until(ctx, func() (string, error) {
		ds, err := a.dataService(ctx, o)
		if err != nil {
			return "", err
		}
		if progressOf(ds) == notCopied {
			return "", errors.New("spec.mysql no longer copies the original database: another writer has changed spec.mysql")
		}
		_, reason, message := imported(ds)
		switch {
		case reason == dsv1.ReasonImported, !isCutOver && reason == dsv1.ReasonImportWaiting:
			return "", nil
		case !isCutOver && reason == dsv1.ReasonImportFollowing:
			if found := behind.FindStringSubmatch(message); found != nil {
				if seconds, err := strconv.Atoi(found[1]); err == nil && seconds <= maxBehind {
					return "", nil
				}
			}
		case isCutOver && progressOf(ds) == refused:
			return "", fmt.Errorf("the services have not moved: %s: run --copy for another copy, or --undo", message)
		}
		if message == "" {
			message = "the operator has not reported on the copy: check that the operator runs"
		}
		if time.Since(printed) > 10*time.Second {
			printed = time.Now()
			a.Say(message)
		}
		return message, nil
	})
}
