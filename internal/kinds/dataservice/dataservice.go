// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataservice is the kind DataService: a platform of components, each
// rendered from a chart. It has objects only: nothing to decide, and nothing to
// observe in what runs but what the pods of backups report. Below it are the
// graph of components (component), their chart values (values), their objects
// (plan), their Secrets (credentials), how backups are (backups) and the status.
package dataservice

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/day2"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/agentjob"
	"d3os.com/d3os-operator/internal/kinds/dataservice/backups"
	"d3os.com/d3os-operator/internal/kinds/dataservice/component"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/status"
	"d3os.com/d3os-operator/internal/kinds/runs"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/specfield"
)

// The operator never writes a DataService but its status. It reads one from the API server when its
// cache lags. Nothing shows the right to finalizers: the API server asks for it where owner
// references need rights.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices/finalizers,verbs=update
// A RedisCluster is made of spec.redis.
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters,verbs=create;update;patch;delete
// An EtcdCluster is made of spec.etcd.
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters,verbs=create;update;patch;delete

// Kind is the kind DataService.
type Kind struct {
	planner   *plan.Planner
	keeper    *credentials.Keeper
	client    client.Client
	jobs      agentjob.Reader
	originals cache.Cache // the metadata of what the original operator made; nil for none
}

var (
	_ kinds.Kind[*dsv1.DataService, World] = &Kind{}
	_ kinds.Parent                         = &Kind{}
)

// New returns the kind. The client writes what switches databases, live reads from the API server; who only plans gives nil for both. originals is the metadata of what
// the original operator made.
func New(planner *plan.Planner, keeper *credentials.Keeper, c client.Client, live client.Reader, originals cache.Cache) *Kind {
	return &Kind{planner: planner, keeper: keeper, client: c, jobs: agentjob.Reader{Client: c, Live: live}, originals: originals}
}

// GVK is DataService of the API's version.
func (*Kind) GVK() schema.GroupVersionKind { return dsv1.GroupVersion.WithKind(dsv1.Kind) }

// New returns an empty DataService.
func (*Kind) New() *dsv1.DataService { return &dsv1.DataService{} }

// Children are the kinds of the components that are resources of their own.
func (*Kind) Children() []schema.GroupVersionKind { return object.Resources }

// Paused is spec.paused.
func (*Kind) Paused(ds *dsv1.DataService) bool { return ds.Spec.Paused }

// Forget drops the credentials that are remembered, and the plan.
func (k *Kind) Forget(namespace, name string) {
	k.keeper.Forget(namespace, name)
	k.planner.Forget(namespace, name)
}

// Plan returns the parts of a platform: its components.
func (k *Kind) Plan(declared *dsv1.DataService, in kinds.Inputs) (*engine.Plan, error) {
	graph, err := k.planner.Graph(declared)
	if err != nil {
		return nil, mistake(err)
	}
	databases, err := k.databases(declared, graph.Get(component.MySQL), in)
	if err != nil {
		return nil, err
	}
	ds := k.inUse(declared, databases)
	if ds != declared {
		if graph, err = k.planner.Graph(ds); err != nil {
			return nil, mistake(err)
		}
	}
	secrets, err := k.keeper.Plan(ds, graph, in.Lookup, &credentials.Users{Live: in.LookupLive, List: in.List})
	if err != nil {
		if field := (*specfield.Error)(nil); errors.As(err, &field) {
			return nil, mistake(err)
		}
		return nil, &engine.SecretError{Err: err}
	}
	planned, err := k.planner.Make(ds, graph, secrets.Credentials)
	if err != nil {
		return nil, mistake(err)
	}
	data, err := k.data(ds, graph, planned, databases, in)
	if err != nil {
		return nil, err
	}
	result := &engine.Plan{
		Secrets:      secrets.Secrets,
		Records:      data.records,
		Parts:        make([]engine.Part, len(planned.Components)),
		RemovalOrder: component.TableIndex,
		Farewell:     farewell,
		Adopt:        func(live *unstructured.Unstructured) bool { return k.keeper.Adopt(ds, live) },
	}
	for i := range planned.Components {
		result.Parts[i] = part(ds, graph, &planned.Components[i])
		if result.Parts[i].Name == string(component.MySQL) {
			data.guard(&result.Parts[i])
		}
	}
	if databases != nil {
		result.Found = databases
		err = databases.halts(ds, planned, result.Parts, data.serves, in)
	}
	return result, err
}

// mistake: the spec has to change before anything helps.
func mistake(err error) error {
	reason := kinds.ReasonRenderFailed
	var field *specfield.Error
	if errors.As(err, &field) {
		reason = kinds.ReasonInvalidSpec
	}
	return &kinds.Mistake{Reason: reason, Err: err}
}

func part(ds *dsv1.DataService, graph *component.Graph, c *plan.Component) engine.Part {
	return engine.Part{
		Name: string(c.Name), Kind: string(c.Kind), Path: c.Path, After: texts(c.WaitsFor), CalledBy: texts(graph.Callers(c.Name)),
		Objects: c.Objects, Revision: c.Revision, Known: knownRevision(ds, c), IsOfThisSpec: ds.Status.ObservedGeneration == ds.Generation, NeedsDryRun: c.NeedsDryRun,
		Notes:       notes(c),
		RetainsData: c.MySQL != nil && c.MySQL.Storage.Retention != dsv1.RetentionDelete,
		Spare:       spare,
	}
}

func texts(names []dsv1.ComponentName) []string {
	result := make([]string, len(names))
	for i, name := range names {
		result[i] = string(name)
	}
	return result
}

// knownRevision is the revision of a component that the status says was applied last. This is what
// decides whether a component's plan is a new revision, so a foreign write of the status changes
// what is held back.
func knownRevision(ds *dsv1.DataService, c *plan.Component) string {
	for _, known := range ds.Status.Components {
		if known.Name == string(c.Name) {
			return known.Revision
		}
	}
	return ""
}

// podsShown is how soon the operator looks again for a pod that its workload counts as ready and that the cache does not
// show as ready yet: the pod's own event is none that brings a pass.
const podsShown = time.Second

// Decide decides on the next write of a switch between databases, and to look again while one goes on; while the database's
// workload is ready and its pod is not seen so, without which its data cannot be recorded; on a backup after a gap of the
// binary log; and to look again while the latest moments cannot be restored, whether a backup is overdue, and while a StatefulSet starts.
func (k *Kind) Decide(ds *dsv1.DataService, seen engine.Seen, w World) kinds.Decision {
	if d := w.Databases; d != nil && d.isAtWork() {
		return kinds.Decision{Steps: k.switches(ds, seen, d), LookAgain: podsShown}
	}
	for _, part := range seen.Parts {
		h := part.Health
		if part.Name == string(component.MySQL) && !h.Settled && h.Problem == "" && h.Desired > 0 && h.Ready >= h.Desired {
			return kinds.Decision{LookAgain: podsShown}
		}
	}
	if w.AfterGap != nil {
		return kinds.Decision{Steps: []day2.Step{k.backUp(w.AfterGap)}, LookAgain: backupsSeen}
	}
	if steps := runs.EndHeld(k.jobs, ds.Namespace, w.Backups.Unfinished); len(steps) > 0 {
		return kinds.Decision{Steps: steps, LookAgain: backupsSeen}
	}
	if _, _, recoverable := backups.Judge(nil, w.Backups, time.Time{}); recoverable != nil && !recoverable.Good {
		return kinds.Decision{LookAgain: backupsSeen}
	}
	if b := w.Backups.Declared; b != nil {
		return kinds.Decision{LookAgain: backupsDue}
	}
	return kinds.Decision{LookAgain: startsSeen(ds, seen.Parts)}
}

// startsSeen returns how soon the operator looks again while a StatefulSet starts, to see that it misses status.StartDeadline, or that its
// claim misses status.BindDeadline, which the status does not have yet. It returns 0 when none starts.
func startsSeen(ds *dsv1.DataService, parts []engine.PartSeen) (after time.Duration) {
	for _, part := range parts {
		if part.Kind != "StatefulSet" || !part.Exists || part.Health.Settled || part.Health.Problem != "" {
			continue
		}
		if part.Health.HintCulprit.Reason == health.ReasonNotBound && !slices.ContainsFunc(ds.Status.Components, func(c dsv1.ComponentStatus) bool {
			return c.Name == part.Name && c.Message == part.Health.Hint
		}) {
			return status.BindDeadline
		}
		after = time.Minute
	}
	return after
}

// Status writes what was seen into the status of a DataService.
func (k *Kind) Status(ds *dsv1.DataService, seen kinds.Seen[World], now metav1.Time) {
	observation := status.Observation{Generation: seen.Generation, Paused: seen.Paused, Deleting: seen.Deleting, Components: seen.Parts, Kept: seen.Kept}
	if p := seen.Pace; p != nil {
		observation.Pace = &status.Pace{Granted: p.Granted, Reason: p.Reason, Message: p.Message}
	}
	if f := seen.Failure; f != nil {
		observation.Failure = &status.Failure{Reason: f.Reason, Message: f.Message, Stalled: f.Stalled}
	}
	if seen.Observed != nil {
		observation.Backups = &seen.Observed.Backups
		observation.Switch = seen.Observed.Databases.told()
	}
	ds.Status = status.Compute(ds.Status, observation, now)
}

// notes are what a person should know of a component even while all is well.
func notes(c *plan.Component) []string {
	switch {
	case c.Name == component.MySQL && c.Kind == component.DaemonSet:
		return []string{"kind DaemonSet has no volume, so the data ends with the pod: use kind StatefulSet"}
	case c.Name == component.Eureka && c.Kind == component.Deployment && ptr.Deref(c.Workload.Replica, 1) > 1:
		return []string{"eureka replicas do not replicate in kind Deployment, so clients may see different instances: use kind StatefulSet"}
	}
	return nil
}
