// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
)

// judgeRoll refuses a component whose pods cannot be replaced without an interruption.
func (r *Report) judgeRoll(o *Observation, part *reconcile.Part) {
	var target, service *unstructured.Unstructured
	for _, planned := range part.Objects {
		switch planned.GetKind() {
		case deploymentKind.Kind:
			target = planned
		case serviceKind.Kind:
			service = planned
		case "NetworkPolicy":
			r.refuse("spec.networkPolicy would block pods of the original operator from %s: declare spec.networkPolicy after the adoption", part.Name)
		}
	}
	for _, planned := range part.Objects {
		id := idOf(deploymentKind, planned.GetName())
		before := o.Live[id]
		if !o.isOriginal(before) {
			before = o.Record.object(id)
		}
		if before == nil || planned.GetKind() != serviceKind.Kind {
			continue
		}
		r.judgeTarget(o, part.Name, before, target, service)
	}
}

func (r *Report) judgeTarget(o *Observation, component string, before, target, service *unstructured.Unstructured) {
	if target == nil || target.GetName() != before.GetName() {
		r.refuse("%s is a Deployment, but the spec declares another kind: set spec.%s.kind to Deployment for the adoption, and change the kind later", component, component)
		return
	}
	had, _, _ := unstructured.NestedInt64(before.Object, "spec", "replicas")
	if had == 0 {
		return
	}
	if replicas, found, _ := unstructured.NestedInt64(target.Object, "spec", "replicas"); found && replicas == 0 {
		r.refuse("spec.%s.replica is 0, but pods run: set the field to %d for the adoption", component, had)
	}
	strategy, _, _ := unstructured.NestedString(target.Object, "spec", "strategy", "type")
	gap, _, _ := unstructured.NestedFieldNoCopy(target.Object, "spec", "strategy", "rollingUpdate", "maxUnavailable")
	if text := fmt.Sprint(gap); strategy == "Recreate" || gap != nil && text != "0" && text != "0%" {
		r.refuse("spec.%s.strategy and rollingUpdate remove an old pod before a new one is ready: remove both fields for the adoption", component)
	}
	if address, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP"); address == "None" {
		r.refuse("spec.%s.serviceType Headless would replace the Service: change it after the adoption", component)
	}
	if live := o.Live[object.IDOf(before)]; o.Record == nil && o.isOriginal(live) {
		if available, _, _ := unstructured.NestedInt64(live.Object, "status", "availableReplicas"); available == 0 {
			r.refuse("Deployment %s has no ready pod: repair the Deployment first. The adoption checks that ready pods stay reachable", live.GetName())
		}
	}
}

// judgeValues reports changes of settings that all components share.
func (r *Report) judgeValues(o *Observation) {
	inUse, err := o.valuesInUse()
	if err != nil {
		r.Refused = append(r.Refused, err.Error())
	}
	if name := inUse["gateway-username"]; name != "" && name != "admin" {
		r.refuse("the gateway's user name is %s, but this operator uses admin: write admin into the ConfigMaps api-manager, gateway-web and gateway-master, and restart their pods", name)
	}
	if err == nil && inUse["jwt-secret"] == "" && o.Record == nil {
		r.Changes = append(r.Changes, "no ConfigMap has the JWT secret: the adoption generates a secret, and users must log in again")
	}
	if err == nil && inUse["gateway-password"] == "" && o.Record == nil {
		r.Changes = append(r.Changes, "no ConfigMap has the gateway's password: the adoption generates a password")
	}
	r.Changes = append(r.Changes, "passwords in use stay the same and move into Secrets. Each installation of the original operator has the same passwords: change them after the adoption",
		"pods get probes, have no capabilities and do not run as root: set podSecurityContext and securityContext if a service needs more")
	if set := o.Live[idOf(object.StatefulSetKind, mysqlName)]; elsewhere(o) != nil {
		if !o.isOriginal(set) {
			r.refuse("StatefulSet %s of the original operator does not exist: set spec.mysql to kind ThirdParty with the address and the account of the database first", mysqlName)
		} else if _, err := rootPassword(set); err != nil {
			r.Refused = append(r.Refused, err.Error())
		}
	}
}

// valuesInUse returns the shared values in the original operator's ConfigMaps before the adoption.
func (o *Observation) valuesInUse() (map[string]string, error) {
	return valuesInUse(func(name string) *unstructured.Unstructured {
		id := idOf(configMapKind, name)
		if before := o.Record.object(id); before != nil {
			return before
		}
		if live := o.Live[id]; o.isOriginal(live) {
			return live
		}
		return nil
	})
}

// judgeSurroundings refuses an adoption while other programs could change the objects.
func (r *Report) judgeSurroundings(o *Observation) {
	if len(o.originals()) == 0 && o.Record == nil {
		return
	}
	for _, name := range o.Original.Running {
		namespace, deployment, _ := strings.Cut(name, "/")
		r.refuse("the original operator still runs (Deployment %s): kubectl -n %s scale deployment %s --replicas=0", name, namespace, deployment)
	}
	if !o.Original.Known {
		r.refuse("it is unknown whether the original operator still runs, because you may not list Deployments of all namespaces: stop the original operator and set --original-stopped")
	}
	if o.GitOps != "" {
		r.refuse("%s manages the DataService and would revert the changes: suspend %[1]s with: %[2]s", o.GitOps, o.Suspend)
	}
	if o.DataService.GetDeletionTimestamp() != nil {
		r.refuse("DataService %s is being deleted", r.Name)
	}
}
