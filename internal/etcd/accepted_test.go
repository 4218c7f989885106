// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/etcd/membership"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/test/databasetest"
)

// A refused field changes no object and stops no repair: a lost member is replaced, and a parked cluster stays parked and can start again.
// The status names the field.
func TestRefusedFieldsKeepWhatRuns(t *testing.T) {
	t.Parallel()
	const store = "destination: {claim: {name: backups}}"
	for name, c := range map[string]struct {
		before, after, reason, message string
	}{
		"unknown field": {"{}", "{podTemplate: {spec: {hostnames: a}}}", reconcile.ReasonInvalidSpec, "spec.podTemplate"},
		"label":         {"{}", "{podTemplate: {metadata: {labels: {app.kubernetes.io/instance: other}}}}", reconcile.ReasonInvalidSpec, "spec.podTemplate"},
		"schedule":      {"{}", "{backup: {" + store + ", schedule: '61 * * * *'}}", reconcile.ReasonInvalidSpec, "spec.backup.schedule"},
		"time zone":     {"{}", "{backup: {" + store + ", schedule: '1 * * * *', timeZone: Nowhere/City}}", reconcile.ReasonInvalidSpec, "spec.backup.timeZone"},
		"backup's pods": {"{}", "{backup: {" + store + ", podTemplate: {spec: {hostnames: a}}}}", reconcile.ReasonInvalidSpec, "spec.backup.podTemplate"},
		"field and mode": {"{}", "{tls: {mode: Auto}, podTemplate: {spec: {hostnames: a}}}", reconcile.ReasonInvalidSpec,
			"spec.tls.mode cannot change to Auto: the cluster was formed with http addresses: set spec.tls.mode back. To change the mode, restore a backup into a new EtcdCluster (restoreFrom); spec.podTemplate"},
		"no agent":      {"{}", "{}", etcdv1.ReasonAgentMissing, "set RELATED_IMAGE_AGENT"},
		"old version":   {"{}", "{version: 3.3.27}", etcdv1.ReasonUnsupportedVersion, "spec.version: etcd 3.3.27 is not supported"},
		"unknown major": {"{}", "{version: 4.0.0}", etcdv1.ReasonUnsupportedVersion, "spec.version: etcd 4.0.0 is not supported"},
		"old tag":       {"{}", "{image: 'registry:5000/etcd:v3.3.27'}", etcdv1.ReasonUnsupportedVersion, "etcd 3.3.27 is not supported"},
		"another tag":   {"{registry: 'registry:5000'}", "{image: 'etcd:v3.4.44', version: 3.6.16}", reconcile.ReasonInvalidSpec, "the tag of spec.image names etcd 3.4.44"},
		"encrypted":     {"{}", "{tls: {mode: Auto}}", reconcile.ReasonInvalidSpec, "spec.tls.mode cannot change to Auto"},
		"not encrypted": {"{tls: {mode: Auto, additionalNames: [store.example.com, 192.0.2.7]}}", "{}", reconcile.ReasonInvalidSpec, "spec.tls.mode cannot change to Off"},
		"two fields":    {"{}", "{tls: {mode: Auto}, version: 4.0.0}", etcdv1.ReasonUnsupportedVersion, "spec.tls.mode cannot change to Auto"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ec := read(t, "minimal")
			ec.Generation, ec.UID, ec.Spec.Replicas = 1, "u", ptr.To[int32](3)
			assert.NilError(t, yaml.Unmarshal([]byte(c.before), &ec.Spec))
			record := membership.Record{Cluster: 0xc1, Replicas: 3, Version: "3.6.16", Scheme: scheme(&ec.Spec)}
			live := there{}
			k := &Kind{planner: testPlanner(t), now: time.Now}
			plan := func(obs *Observation) *reconcile.Plan {
				made, err := k.Plan(ec, live.Inputs(), obs)
				assert.NilError(t, err)
				return made
			}
			urls := wanted(ec).PeerURLs
			digests := func(plan *reconcile.Plan) (all []string) {
				for _, o := range append(plan.Parts[0].Objects, plan.Secrets...) {
					all = append(all, o.GetKind()+"/"+o.GetName()+" "+object.Digest(o))
				}
				return all
			}
			first := plan(&Observation{})
			live = withRecord(t, ec, record)
			for _, o := range append(first.Parts[0].Objects, first.Secrets...) {
				if key := o.GetKind() + "/" + o.GetName(); live[key] == nil { // the record is kept
					live[key] = o
				}
			}
			before := digests(plan(&Observation{}))

			spec := read(t, "minimal").Spec
			spec.Replicas = ptr.To[int32](3)
			assert.NilError(t, yaml.Unmarshal([]byte(c.after), &spec))
			ec.Spec, ec.Generation = spec, 2
			obs := &Observation{}
			if name == "no agent" {
				k.planner.images.Agent = ""
			}
			made, err := k.Plan(ec, live.Inputs(), obs)
			if refusal := (*reconcile.SpecError)(nil); errors.As(err, &refusal) {
				runs, err := k.Maintain(ec, live.Inputs(), refusal, obs)
				assert.Assert(t, runs && err == nil, err)
			} else {
				assert.NilError(t, err)
				assert.DeepEqual(t, digests(made), before)
			}
			assert.DeepEqual(t, ec.Spec, spec)

			list := []membership.Member{{ID: 1, Name: "store-0", PeerURLs: urls[:1]}, {ID: 2, Name: "store-1", PeerURLs: urls[1:2]}, {ID: 3, Name: "store-2", PeerURLs: urls[2:3]}}
			obs.View = membership.View{Record: record, Live: 3}
			for i, member := range list {
				pod := membership.Pod{Name: member.Name, Ordinal: i, UID: member.Name, IP: "192.0.2.1", Running: true, Ready: true}
				if i == 2 {
					pod.Report = &membership.Report{Volume: membership.VolumeEmpty}
				} else {
					pod.Answer = &membership.Answer{Cluster: 0xc1, Member: member.ID, Leader: 1, Version: "3.6.16", Linear: true, Members: list}
				}
				obs.View.Pods = append(obs.View.Pods, pod)
			}
			healthy := *obs
			assert.Equal(t, k.Decide(ec, reconcile.PlanSeen{}, obs).Steps[0].Name, string(membership.ActionRemove))

			healthy.View.Pods[2].Report = nil
			healthy.View.Pods[2].Answer = &membership.Answer{Cluster: 0xc1, Member: 3, Leader: 1, Version: "3.6.16", Linear: true, Members: list}
			report(k, ec, &healthy, metav1.NewTime(time.Unix(1000, 0)))
			assert.Equal(t, ec.Status.Phase, etcdv1.PhaseRunning, "%s", ec.Status.Message)
			assert.Equal(t, ec.Status.Reason, c.reason)
			assert.Assert(t, strings.Contains(ec.Status.Message, c.message), ec.Status.Message)
			assert.Assert(t, meta.IsStatusConditionTrue(ec.Status.Conditions, etcdv1.ConditionStalled) && !meta.IsStatusConditionTrue(ec.Status.Conditions, etcdv1.ConditionReady))
			assert.Assert(t, strings.HasPrefix(ec.Status.Endpoints, record.Scheme+"://"))

			if made == nil {
				return // no object changes until the field is corrected
			}
			ec.Spec.Replicas, ec.Generation = ptr.To[int32](0), 3
			parked := &Observation{}
			set := databasetest.Find(plan(parked), object.StatefulSetKind.Kind, "store")
			assert.Equal(t, database.Replicas(set), 0)
			parked.View.Record = record
			report(k, ec, parked, metav1.NewTime(time.Unix(1000, 0)))
			assert.Equal(t, ec.Status.Phase, etcdv1.PhaseParked)
			assert.Assert(t, strings.Contains(ec.Status.Message, c.message), ec.Status.Message)
			live["StatefulSet/store"] = set
			ec.Spec.Replicas, ec.Generation = ptr.To[int32](3), 4
			assert.DeepEqual(t, digests(plan(&Observation{})), before)
		})
	}
}
