// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package platform implements the kind DataService: a platform of components, each rendered from a chart. The package plans objects. It
// derives the state of running servers only from objects, from pods and from the agent of an import.
//
// Package component computes the graph of components, package values their chart values, and package plan their objects and Secrets. The
// status (status.go, component_status.go, conditions.go) is a pure function of an observation. Package mysql decides about the database.
package platform

import (
	"errors"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/backup"
	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/mysql"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/component"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

// The operator writes only the status of a DataService. It reads a DataService from the API server if its cache lags. It needs the right to
// update dataservices/finalizers because the API server may check that right when owner references are set.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices/status,verbs=patch
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=dataservices/finalizers,verbs=update
// The operator creates a RedisCluster for spec.redis.
// +kubebuilder:rbac:groups=redis.middleware.hc.cn,resources=redisclusters,verbs=create;update;patch;delete
// The operator creates an EtcdCluster for spec.etcd.
// +kubebuilder:rbac:groups=etcd.database.coreos.com,resources=etcdclusters,verbs=create;update;patch;delete
// The operator creates a MySQLCluster for a spec.mysql with several members.
// +kubebuilder:rbac:groups=d3os-product.com.d3os,resources=mysqlclusters,verbs=create;update;patch;delete
// The operator creates a MongoDBCommunity for spec.mongodb; MongoDB's operator reconciles it.
// +kubebuilder:rbac:groups=mongodbcommunity.mongodb.com,resources=mongodbcommunity,verbs=get;list;watch;create;patch;delete
// A service may have an httpRoute.
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete

// Kind implements the kind DataService.
type Kind struct {
	planner   *plan.Planner
	keeper    *plan.Keeper
	client    client.Client
	jobs      backup.Reader
	originals cache.Cache // metadata of the original operator's objects; nil if the caller only plans
	contents  *contents   // digests of users' Secrets and ConfigMaps; nil for a caller that only plans
	// connections maps a DataService's NamespacedName to the last MongoDB connection that confirmMongoDB found in use.
	connections sync.Map
}

var (
	_ reconcile.Kind[*dsv1.DataService, Observation] = &Kind{}
	_ reconcile.Parent                               = &Kind{}
)

// New returns the kind. c is used for writes during switches of databases; live reads from the API server. Both are nil if the caller only
// plans. originals caches the metadata of the original operator's objects.
func New(planner *plan.Planner, keeper *plan.Keeper, c client.Client, live client.Reader, originals cache.Cache) *Kind {
	k := &Kind{planner: planner, keeper: keeper, client: c, jobs: backup.Reader{Client: c, Live: live}, originals: originals}
	if c != nil {
		k.contents = newContents()
	}
	return k
}

// GVK returns the group, version and kind of DataService.
func (*Kind) GVK() schema.GroupVersionKind { return dsv1.GroupVersion.WithKind(dsv1.Kind) }

// New returns an empty DataService.
func (*Kind) New() *dsv1.DataService { return &dsv1.DataService{} }

// Children returns the kinds of resources that a component can be.
func (*Kind) Children() []schema.GroupVersionKind { return object.Optional }

// Paused returns spec.paused.
func (*Kind) Paused(ds *dsv1.DataService) bool { return ds.Spec.Paused }

// Forget drops the credentials, the plan and the connection of a DataService from the caches.
func (k *Kind) Forget(namespace, name string) {
	k.keeper.Forget(namespace, name)
	k.planner.Forget(namespace, name)
	k.connections.Delete(types.NamespacedName{Namespace: namespace, Name: name})
}

// Plan returns the parts of a platform, which are its components.
func (k *Kind) Plan(declared *dsv1.DataService, in reconcile.Inputs, obs *Observation) (*reconcile.Plan, error) {
	f, err := k.formOf(declared, in)
	if err != nil {
		return nil, err
	}
	ds, graph := f.ds, f.graph
	databases, err := databases(ds, graph, in)
	if err != nil {
		return nil, err
	}
	if used := databases.InUse(ds.Spec.MySQL); used != ds.Spec.MySQL {
		ds = ptr.To(*ds)
		ds.Spec.MySQL = used
		if graph, err = k.planner.Graph(ds); err != nil {
			return nil, reconcile.SpecErrorOf(err)
		}
	}
	secrets, err := k.keeper.Plan(ds, graph, in.Lookup, &plan.Users{Live: in.LookupLive, List: in.List})
	if err != nil {
		if field := (*render.Error)(nil); errors.As(err, &field) {
			return nil, reconcile.SpecErrorOf(err)
		}
		return nil, &reconcile.SecretError{Err: err}
	}
	trials, err := k.trials(f, secrets.Credentials)
	if err != nil {
		return nil, err
	}
	planned, err := k.planner.Make(ds, graph, secrets.Credentials)
	if err != nil {
		return nil, reconcile.SpecErrorOf(err)
	}
	result := &reconcile.Plan{
		Secrets:      secrets.Secrets,
		Trials:       trials,
		RemovalOrder: component.TableIndex,
		DeletionNote: deletionNote,
		Adopt:        func(live *unstructured.Unstructured) bool { return k.keeper.Adopt(ds, live) },
	}
	if result.Parts, err = k.parts(ds, graph, planned, secrets, in); err != nil {
		return nil, err
	}
	restarts := &restarts{contents: k.contents, ds: ds, in: in, key: secrets.DigestKey, secrets: secrets.Secrets}
	for i := range result.Parts {
		if err := restarts.plan(&result.Parts[i]); err != nil {
			return nil, err
		}
	}
	if obs.Hibernation, err = findHibernation(f, planned, result.Parts, databases, in); err != nil {
		return nil, err
	}
	if err := planDatabase(ds, graph, planned, result, databases, obs.Hibernation, in); err != nil {
		return nil, err
	}
	obs.Databases, result.IsRequested = databases, databases != nil && databases.IsAtWork() || obs.Hibernation.IsActive() || restarts.isAny
	if err := f.apply(result, obs, in); err != nil {
		return nil, err
	}
	if obs.Hibernation.IsActive() {
		return result, obs.Hibernation.plan(planned, result.Parts)
	}
	return result, wake(result.Parts, plan.OwnerOf(ds), in)
}

// parts returns the parts of the planned components.
func (k *Kind) parts(ds *dsv1.DataService, graph *component.Graph, planned *plan.Plan, secrets *plan.SecretsPlan, in reconcile.Inputs) ([]reconcile.Part, error) {
	parts := make([]reconcile.Part, len(planned.Components))
	for i := range planned.Components {
		c := &planned.Components[i]
		parts[i] = part(ds, graph, c)
		if c.Redis != nil {
			if err := markReadyBefore(ds, &parts[i], in); err != nil {
				return nil, err
			}
		}
		if c.MongoDB != nil && c.Kind == component.Managed {
			parts[i].Confirm = k.confirmMongoDB(ds, c, secrets, in)
		}
		if c.CronJob != nil && c.CronJob.HasSeconds() || c.Kind == component.ThirdParty {
			if err := database.KeepAgent(&parts[i], plan.OwnerOf(ds), in); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// databases returns the state of the databases, or nil if no single-server database runs in the cluster.
func databases(ds *dsv1.DataService, graph *component.Graph, in reconcile.Inputs) (*mysql.Databases, error) {
	c := graph.Get(component.MySQL)
	if c == nil || c.Kind == component.ThirdParty || c.Kind == component.Managed {
		return nil, nil
	}
	return mysql.FindDatabases(declaredDatabase(ds, c), in)
}

func declaredDatabase(ds *dsv1.DataService, c *component.Component) mysql.Declared {
	d := mysql.Declared{MySQL: ds.Spec.MySQL, Owner: plan.OwnerOf(ds), Generation: ds.Generation, Database: c.ObjectName, Path: c.Path}
	if c.Kind != component.ThirdParty {
		d.Workload = string(c.Kind)
	}
	for i := range ds.Status.Components {
		if known := &ds.Status.Components[i]; known.Name == string(component.MySQL) {
			d.FirstReady = ptr.Deref(firstReady(known), metav1.Time{}).Time
		}
	}
	return d
}

// planDatabase adds the record of the database in use to a plan, and the guard to the database's pods. During a switch to
// another database, it plans no pods for the services that use the database.
func planDatabase(ds *dsv1.DataService, graph *component.Graph, planned *plan.Plan, result *reconcile.Plan, databases *mysql.Databases, h *Hibernation, in reconcile.Inputs) error {
	c := graph.Get(component.MySQL)
	if c == nil || c.Kind == component.Managed { // a MySQLCluster protects its data itself
		return nil
	}
	declared := declaredDatabase(ds, c)
	if h.IsActive() && h.IsLast {
		declared.MySQL = ptr.To(*declared.MySQL)
		declared.Replica = ptr.To[int32](0)
	}
	data, err := mysql.PlanData(declared, result.Parts, databases, in)
	if err != nil {
		return err
	}
	result.Records = data.Records
	var own *reconcile.Part
	var users []*reconcile.Part
	for i := range result.Parts {
		if result.Parts[i].Name == mysql.Component {
			own = &result.Parts[i]
			data.Guard(own)
		} else if isUser(&planned.Components[i]) {
			users = append(users, &result.Parts[i])
		}
	}
	if databases == nil || h.IsActive() { // a switch continues only after the platform has woken
		return nil
	}
	return databases.Halt(users, own, data.Serves)
}

// isUser reports whether a component may use the database. All services and cron jobs may.
func isUser(c *plan.Component) bool {
	return c.Kind != component.ThirdParty && slices.Contains([]string{component.ChartMicroservice, component.ChartCronJob}, c.Chart)
}

func part(ds *dsv1.DataService, graph *component.Graph, c *plan.Component) reconcile.Part {
	var grow *apply.GrowthPolicy
	if c.MySQL != nil && c.MySQL.Storage.AutoGrow != nil && c.Kind != component.Managed { // a MySQLCluster grows its volumes itself
		g := c.MySQL.Storage.AutoGrow
		grow = apply.NewGrowthPolicy(g.Limit, g.At, g.By)
	}
	return reconcile.Part{
		Name: string(c.Name), Kind: string(c.Kind), Path: c.Path, After: texts(c.WaitsFor), CalledBy: texts(graph.Callers(c.Name)),
		Objects: c.Objects, Revision: c.Revision, Known: knownRevision(ds, c), IsOfThisSpec: ds.Status.ObservedGeneration == ds.Generation, NeedsDryRun: c.NeedsDryRun,
		Notes:       notes(c),
		NumberField: numberField(&c.Component),
		RetainsData: c.MySQL != nil && c.MySQL.Storage.Retention != dsv1.RetentionDelete,
		KeepReason:  keepReason,
		Grow:        grow,
	}
}

// numberField returns the path of the field in which a service or an EtcdCluster declares its number of pods: if a user removes this field,
// another writer may set the number. It returns "" for other components, and if the field is not set.
func numberField(c *component.Component) string {
	switch {
	case c.Service != nil && c.Workload.Replica != nil:
		return c.Path + ".replica"
	case c.Etcd != nil && c.Kind == component.Managed && c.Etcd.Replicas != nil:
		return c.Path + ".replicas"
	}
	return ""
}

func texts(names []dsv1.ComponentName) []string {
	result := make([]string, len(names))
	for i, name := range names {
		result[i] = string(name)
	}
	return result
}

// knownRevision returns the last applied revision of a component, from the status. The engine detects a new revision by
// comparing this revision with the plan. If another writer changes the status, the engine may mistake the running
// revision for a new one, and hold it back.
func knownRevision(ds *dsv1.DataService, c *plan.Component) string {
	for _, known := range ds.Status.Components {
		if known.Name == string(c.Name) {
			return known.Revision
		}
	}
	return ""
}

// podsShown is the delay until the next reconciliation if a workload counts a pod as ready before the cache shows the
// pod as ready. The later event of the pod triggers no reconciliation.
const podsShown = time.Second

// Decide returns the next step (a change of the running system), or the time of the next reconciliation. The first case
// that applies decides:
//
//   - The platform hibernates: wait until its pods have ended.
//   - A single server becomes several members, or the DataService switches to another database: the next write of that
//     change.
//   - An import runs: the write that requests its cut-over, or revokes the request.
//   - The workload of the database is ready, but the cache does not show its pod as ready: reconcile again, because the
//     data cannot be recorded yet.
//   - The binary log has a gap: make a backup.
//   - Other containers keep the Job of a backup from ending: delete the Job.
//   - The database cannot be restored to the latest points in time, a backup may become overdue, a StatefulSet starts,
//     or an autoscaler cannot work: reconcile again.
//
// With spec.rollout.restartOnChange, Decide also requests a reconciliation that reads users' Secrets and ConfigMaps
// again.
func (k *Kind) Decide(ds *dsv1.DataService, seen reconcile.PlanSeen, obs *Observation) reconcile.Decision {
	next := k.decide(ds, seen, obs)
	if ds.Spec.Rollout.RestartOnChange && !obs.Hibernation.IsActive() && (next.LookAgain == 0 || next.LookAgain > contentsKnown) {
		next.LookAgain = contentsKnown
	}
	return next
}

func (k *Kind) decide(ds *dsv1.DataService, seen reconcile.PlanSeen, obs *Observation) reconcile.Decision {
	if obs.Hibernation.IsActive() {
		return k.hibernate(ds, obs)
	}
	if next := k.decideSwitch(seen, obs); next != nil {
		return *next
	}
	if obs.Import.IsRunning() {
		return reconcile.Decision{Steps: obs.Import.Steps(k.client), LookAgain: mysql.ImportSeen}
	}
	for _, part := range seen.Parts {
		h := part.Health
		if part.Name == string(component.MySQL) && part.Kind != managed && !h.Settled && h.Problem == "" && h.Desired > 0 && h.Ready >= h.Desired {
			return reconcile.Decision{LookAgain: podsShown}
		}
	}
	if obs.AfterGap != nil {
		return reconcile.Decision{Steps: []reconcile.Step{mysql.BackUp(k.client, obs.AfterGap)}, LookAgain: backupsSeen}
	}
	if steps := backup.EndHeld(k.jobs, ds.Namespace, obs.Backups.Unfinished); len(steps) > 0 {
		return reconcile.Decision{Steps: steps, LookAgain: backupsSeen}
	}
	if _, _, recoverable := mysql.JudgeBackups(nil, obs.Backups, time.Time{}); recoverable != nil && !recoverable.Good {
		return reconcile.Decision{LookAgain: backupsSeen}
	}
	if b := obs.Backups.Declared; b != nil {
		return reconcile.Decision{LookAgain: backupsDue}
	}
	if after := obs.Members.LookAgain(); after > 0 {
		return reconcile.Decision{LookAgain: after}
	}
	return reconcile.Decision{LookAgain: startsSeen(ds, seen.Parts, time.Now())}
}

// decideSwitch returns the decision while a single server becomes several members, or during a switch to another
// database; otherwise nil. If the switch has nothing to write and an import runs, it also returns nil, so that the
// import continues: the services wait for the import.
func (k *Kind) decideSwitch(seen reconcile.PlanSeen, obs *Observation) *reconcile.Decision {
	next := &reconcile.Decision{LookAgain: podsShown}
	switch d := obs.Databases; {
	case d == nil:
		return nil
	case d.IsLeaving:
	case d.Takeover != nil:
		next.Steps = d.Takeover.Steps(k.client)
	case d.IsAtWork():
		if next.Steps = d.Steps(k.client, seen); len(next.Steps) == 0 && obs.Import.IsRunning() {
			return nil
		}
	default:
		return nil
	}
	return next
}

// startsSeen returns the delay until the next reconciliation while a StatefulSet starts, or until a note counts; otherwise 0. The next
// reconciliation detects a missed StartDeadline or BindDeadline, or the time of the note.
func startsSeen(ds *dsv1.DataService, parts []reconcile.PartSeen, now time.Time) (after time.Duration) {
	shows := func(part reconcile.PartSeen, text string) bool {
		return slices.ContainsFunc(ds.Status.Components, func(c dsv1.ComponentStatus) bool { return c.Name == part.Name && c.Message == text })
	}
	for _, part := range parts {
		if part.Health.Note.From > now.Unix() {
			after = time.Minute
		}
		if part.Kind != "StatefulSet" || !part.Exists || part.Health.Settled || part.Health.Problem != "" {
			continue
		}
		if part.Health.HintCulprit.Reason == health.ReasonNotBound && !shows(part, part.Health.Hint) {
			return BindDeadline
		}
		after = time.Minute
	}
	return after
}

// Status writes the observation to the status of a DataService.
func (k *Kind) Status(ds *dsv1.DataService, seen reconcile.Seen[Observation], now metav1.Time) {
	input := StatusInput{
		Generation: seen.Generation, Paused: seen.Paused, Deleting: seen.Deleting, Components: seen.Parts, Kept: seen.Kept,
		Pace: seen.Pace, Failure: seen.Failure,
	}
	if obs := seen.Observed; obs != nil {
		input.Members, input.Backups, input.Import, input.Switch, input.Restored = obs.Members, &obs.Backups, obs.Import, obs.Databases.Switch(), obs.Restored
		if input.Hibernation = obs.Hibernation; obs.Hibernation.IsActive() {
			input.Switch = nil
		}
	}
	ds.Status = Compute(ds.Status, input, now)
}

// notes returns notes to users about a component, even if it is healthy.
func notes(c *plan.Component) []health.Note {
	switch {
	case c.Name == component.MySQL && c.Kind == component.DaemonSet:
		return []health.Note{health.Info("kind DaemonSet has no volume, so the data ends with the pod: use kind StatefulSet")}
	case c.Name == component.Eureka && c.Kind == component.Deployment && ptr.Deref(c.Workload.Replica, 1) > 1:
		return []health.Note{health.Info("eureka replicas do not replicate in kind Deployment, so clients may see different instances: use kind StatefulSet")}
	case c.Name == component.MySQL && c.Kind == component.ThirdParty && c.ThirdParty.CheckCMD == "" && !database.HasAgent(c.Objects):
		return []health.Note{health.Info("the check of mysql connects without a login, because the operator does not know the image of its agent, and a server may block " +
			"the address of such a check: set RELATED_IMAGE_AGENT in the operator's Deployment")}
	}
	return nil
}
