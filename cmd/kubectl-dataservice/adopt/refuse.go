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

// judgeRoll refuses a component whose pods could not be replaced without a gap.
func (r *Report) judgeRoll(o *Observation, part *reconcile.Part) {
	var target, service *unstructured.Unstructured
	for _, planned := range part.Objects {
		switch planned.GetKind() {
		case deploymentKind.Kind:
			target = planned
		case serviceKind.Kind:
			service = planned
		case "NetworkPolicy":
			r.refuse("spec.networkPolicy: pods of the original operator would be shut out of %s: declare it after the adoption", part.Name)
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
		r.refuse("%s is a Deployment now and would be of another kind: set spec.%s.kind to Deployment for the adoption, and change it later", component, component)
		return
	}
	had, _, _ := unstructured.NestedInt64(before.Object, "spec", "replicas")
	if had == 0 {
		return
	}
	if replicas, found, _ := unstructured.NestedInt64(target.Object, "spec", "replicas"); found && replicas == 0 {
		r.refuse("spec.%s.replica is 0 and pods run: set it to %d for the adoption", component, had)
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
			r.refuse("Deployment %s has no ready pod: repair it first, or an adoption cannot show that it stays reachable", live.GetName())
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
		r.refuse("the gateway's user name is %s, and the operator's is admin: change it in the ConfigMaps api-manager, gateway-web and gateway-master, and restart their pods", name)
	}
	if err == nil && inUse["jwt-secret"] == "" && o.Record == nil {
		r.Changes = append(r.Changes, "no ConfigMap has the JWT secret: a new one is made, and users log in again")
	}
	if err == nil && inUse["gateway-password"] == "" && o.Record == nil {
		r.Changes = append(r.Changes, "no ConfigMap has the gateway's password: a new one is made")
	}
	r.Changes = append(r.Changes, "passwords in use stay and move into Secrets: they are the same in each installation of the original operator: change them after the adoption",
		"pods get probes, and run without capabilities and not as root: podSecurityContext and securityContext change that")
	if set := o.Live[idOf(object.StatefulSetKind, mysqlName)]; elsewhere(o) != nil {
		if !o.isOriginal(set) {
			r.refuse("StatefulSet %s of the original operator is not there: set spec.mysql to kind ThirdParty with the address and the account of the database first", mysqlName)
		} else if _, err := rootPassword(set); err != nil {
			r.Refused = append(r.Refused, err.Error())
		}
	}
}

// valuesInUse returns the shared values in the original's ConfigMaps from before the adoption.
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

// judgeSurroundings refuses an adoption during which other programs could change the objects.
func (r *Report) judgeSurroundings(o *Observation) {
	if len(o.originals()) == 0 && o.Record == nil {
		return
	}
	for _, name := range o.Original.Running {
		namespace, deployment, _ := strings.Cut(name, "/")
		r.refuse("the original operator still runs (Deployment %s): kubectl -n %s scale deployment %s --replicas=0", name, namespace, deployment)
	}
	if !o.Original.Known {
		r.refuse("whether the original operator still runs is not known, because you may not list Deployments of all namespaces: stop it and give --original-stopped")
	}
	if o.GitOps != "" {
		r.refuse("%s manages the DataService and would revert the changes: suspend it: %s", o.GitOps, o.Suspend)
	}
	if o.DataService.GetDeletionTimestamp() != nil {
		r.refuse("DataService %s is being deleted", r.Name)
	}
}
