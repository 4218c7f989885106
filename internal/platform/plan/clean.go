// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
)

// Users gives access to Secrets of users.
type Users struct {
	// Live reads an object from the API server.
	Live object.Lookup
	// List lists the DataService's objects of a kind.
	List func(kind string) ([]*unstructured.Unstructured, error)
}

// clean returns the name of the Secret from which containers get a user's account. This is the user's Secret, or the
// operator's copy if a value ends with a newline. (A container cannot remove the newline from its environment.)
func (p *planner) clean(c *component.Component, secret string, keep bool, keys ...string) (string, error) {
	if p.others == nil {
		return secret, nil
	}
	values, isCut, err := p.keeper.users.Read(p.ds.Namespace, secret, p.others.Live, keys...)
	if err == nil && !isCut {
		return secret, nil
	}
	name := c.ObjectName + "-clean"
	used, inUse := p.isInUse(c, secret, name)
	switch {
	case inUse != nil:
		return "", inUse
	case used && c.MySQL != nil && (c.MySQL.Backup != nil || c.MySQL.RestoreFrom != nil || c.MySQL.ImportFrom != nil):
		return "", fmt.Errorf("%s: a value in Secret %s has a newline or another control character. The database was made with this value, but a restored database "+
			"would get it without that character: change that password in the database and in the Secret", c.Name, secret)
	case used: // release 0.2.0 used such values unchanged: running workloads keep them
		return secret, nil
	case err != nil:
		return "", fmt.Errorf("%s: %w", c.Name, err)
	}
	return name, p.add(name, string(c.Name), values, keep)
}

// isCut reports whether a value in a user's Secret has a trailing newline.
func (p *planner) isCut(secret string, keys ...string) (bool, error) {
	if p.others == nil {
		return false, nil
	}
	_, isCut, err := p.keeper.users.Read(p.ds.Namespace, secret, p.others.Live, keys...)
	return isCut, err
}

// isInUse reports whether workloads or data use the values of a user's Secret with their trailing newlines. They do if
// no copy of the Secret exists, and either a workload refers to the Secret or the database has a volume.
func (p *planner) isInUse(c *component.Component, secret, name string) (bool, error) {
	if live, err := p.lookup("Secret", name); live != nil || err != nil {
		return false, err
	}
	if c.Kind != component.ThirdParty {
		claim, err := p.lookup("PersistentVolumeClaim", "data-"+c.ObjectName+"-0")
		if err != nil || claim != nil && claim.GetDeletionTimestamp() == nil {
			return err == nil, err
		}
	}
	for _, kind := range []string{"StatefulSet", "Deployment", "DaemonSet", "CronJob"} {
		workloads, err := p.others.List(kind)
		if err != nil {
			return false, err
		}
		for _, workload := range workloads {
			if object.IsReferenced(workload, secret) {
				return true, nil
			}
		}
	}
	return false, nil
}
