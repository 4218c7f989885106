// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package example

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/database"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/metrics"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

//go:embed charts
var charts embed.FS

const (
	part           = "ledger" // the value of the component label on all objects
	keyPassword    = "password"
	suffixPassword = "-password"
	soon           = 200 * time.Millisecond // the delay before the operator observes again, after a step whose effect causes no event
	atRest         = 2 * time.Second        // the delay before the operator observes the members again, if no step is needed
)

// records determines where the record of each ledger is stored.
var records = database.Records[Record]{
	Annotation: "example.d3os-product.com.d3os/record", Suffix: "-record", Advice: "remove the annotation, and the operator writes it again from the data of the pods",
}

// Kind implements the kind Ledger.
type Kind struct {
	gvk     schema.GroupVersionKind
	plans   *database.Plans
	secrets *database.Secrets
	client  client.Client // cached
	live    client.Reader // reads from the API server
	members Client
}

var _ reconcile.Kind[*Ledger, Observation] = &Kind{}

// Register adds the kind to an operator. transport connects to the members.
func Register(op *manager.Operator, gv schema.GroupVersion, transport http.RoundTripper) error {
	AddToScheme(op.GetScheme(), gv)
	files, err := fs.Sub(charts, "charts")
	if err != nil {
		return err
	}
	renderer, err := render.NewFrom(files, "v1.29.0", op.GetScheme())
	if err != nil {
		return err
	}
	return manager.Register(context.Background(), op, &Kind{
		gvk: gv.WithKind("Ledger"), plans: database.NewPlans(renderer), secrets: database.NewSecrets(),
		client: op.Parts.Client, live: op.Parts.Live, members: Client{transport},
	})
}

// GVK returns the group, version and kind of Ledgers.
func (k *Kind) GVK() schema.GroupVersionKind { return k.gvk }

// New returns an empty Ledger.
func (*Kind) New() *Ledger { return &Ledger{} }

// Paused returns spec.paused.
func (*Kind) Paused(l *Ledger) bool { return l.Spec.Paused }

// Forget removes the plan and the password of a ledger from memory.
func (k *Kind) Forget(namespace, name string) {
	k.plans.Forget(namespace, name)
	k.secrets.Forget(types.NamespacedName{Namespace: namespace, Name: name + suffixPassword})
}

func passwordOf(l *Ledger) types.NamespacedName {
	return types.NamespacedName{Namespace: l.Namespace, Name: l.Name + suffixPassword}
}

func isPassword(data map[string][]byte) bool { return len(data[keyPassword]) > 0 }

// Plan returns the objects of the chart as one part, and the Secret with the password.
func (k *Kind) Plan(l *Ledger, in reconcile.Inputs, _ *Observation) (*reconcile.Plan, error) {
	if _, found := l.Spec.Settings["password"]; found {
		return nil, &reconcile.SpecError{Reason: reconcile.ReasonInvalidSpec, Err: fmt.Errorf("spec.settings: may not have 'password': it is in Secret %s", passwordOf(l).Name)}
	}
	owner := reconcile.OwnerOf(k, l)
	record, err := records.Planned(in, owner)
	if err != nil {
		return nil, err
	}
	secret, err := k.secret(l, owner, in, record)
	if err != nil {
		return nil, &reconcile.SecretError{Err: err}
	}
	objects, err := k.plans.Part(l, "", func() (reconcile.Part, error) {
		values := map[string]any{"name": l.Name, "labels": owner.Labels(part), "replicas": l.Spec.Replicas, "settings": l.Spec.Settings}
		return k.plans.Render(reconcile.Part{Name: part, Kind: object.StatefulSetKind.Kind, Path: "spec", RetainsData: true},
			database.Rendering{Owner: owner, Chart: "ledger", Values: values})
	})
	if err != nil {
		return nil, err
	}
	return &reconcile.Plan{
		Parts: []reconcile.Part{objects}, Secrets: []*unstructured.Unstructured{secret},
		Adopt: func(live *unstructured.Unstructured) bool { return k.secrets.Adopt(live, isPassword) },
	}, nil
}

// secret plans the Secret with the password. The members of a ledger with data keep the password that they have.
func (k *Kind) secret(l *Ledger, owner object.Owner, in reconcile.Inputs, record Record) (*unstructured.Unstructured, error) {
	live, err := in.Lookup("Secret", passwordOf(l).Name)
	if err != nil {
		return nil, err
	}
	content := database.Content{IsValid: isPassword, IsFixed: record.Data != "", Create: func() (map[string][]byte, error) {
		return map[string][]byte{keyPassword: []byte(rand.Text())}, nil
	}}
	if record.Data != "" {
		content.Lost = &database.LostError{Secret: passwordOf(l).Name, Database: "Ledger " + l.Name}
	}
	data, err := k.secrets.Data(passwordOf(l), live, content)
	if err != nil {
		return nil, err
	}
	secret := database.Secret(owner, part, suffixPassword, data)
	secret.SetAnnotations(map[string]string{object.AnnotationPolicy: object.PolicyKeep})
	_, err = object.Finish(secret, owner)
	return secret, err
}

// Observe reads the record and the pods from the cache, and queries each pod for the ID of its data.
func (k *Kind) Observe(ctx context.Context, l *Ledger, _ reconcile.PlanSeen, pods reconcile.Pods, obs *Observation) error {
	owner := reconcile.OwnerOf(k, l)
	obs.Password = string(k.secrets.Known(passwordOf(l))[keyPassword])
	record, at, err := records.Observe(ctx, k.client, owner)
	if err != nil {
		return err
	}
	seen, err := database.SeePods(ctx, k.client, owner, pods, part)
	if err != nil {
		return err
	}
	obs.Record, obs.NewData, obs.Waiting = record, string(at.UID), seen.Lagging
	for _, pod := range seen.List {
		m := Member{Pod: pod.Name, UID: string(pod.UID), IP: pod.Status.PodIP, Problem: pod.Problem}
		if data, err := k.members.Data(ctx, host(l, pod.Name), obs.Password); err == nil {
			m.Data, m.Problem = data, ""
		} else if m.Problem == "" {
			m.Problem = "it does not answer"
		}
		obs.Members = append(obs.Members, m)
	}
	return nil
}

func host(l *Ledger, pod string) string { return pod + "." + l.Name + "." + l.Namespace + ".svc" }

// Decide returns the step that follows from an observation.
func (k *Kind) Decide(l *Ledger, _ reconcile.PlanSeen, obs *Observation) reconcile.Decision {
	verdict := Decide(int(l.Spec.Replicas), *obs)
	obs.verdict = verdict
	step := verdict.Step
	switch {
	case step != nil:
		return reconcile.Decision{LookAgain: soon, Steps: []reconcile.Step{{Name: string(step.Action), Message: step.Message, Do: func(ctx context.Context) error {
			if err := k.take(ctx, l, obs, *step); err != nil {
				return fmt.Errorf("%w: %w", reconcile.ErrAgain, err)
			}
			return nil
		}}}}
	case verdict.State == Waiting:
		return reconcile.Decision{LookAgain: soon}
	}
	return reconcile.Decision{LookAgain: atRest}
}

// take runs a step if the API server still has the record and the pods of the decision.
func (k *Kind) take(ctx context.Context, l *Ledger, obs *Observation, step Step) error {
	cluster := database.Cluster{Client: k.client, Live: k.live, Owner: reconcile.OwnerOf(k, l)}
	record, at, err := records.Observe(ctx, k.live, cluster.Owner)
	switch {
	case err != nil:
		return err
	case record != obs.Record:
		return errors.New("the record has changed")
	case step.Action == Write:
		return records.Write(ctx, cluster, at, Record{Data: step.Data})
	}
	for _, m := range []Member{step.To, step.From} {
		if m.Pod == "" {
			continue
		}
		pod, err := cluster.Pod(ctx, m.Pod)
		if err == nil {
			err = pod.Is(m.Pod, m.UID, m.IP)
		}
		if err != nil {
			return err
		}
	}
	if step.Action == Copy {
		return k.members.Copy(ctx, host(l, step.To.Pod), obs.Password, step.From.Pod)
	}
	return k.members.Create(ctx, host(l, step.To.Pod), obs.Password, step.Data)
}

// Status writes the observation and the decision to the status.
func (*Kind) Status(l *Ledger, seen reconcile.Seen[Observation], now metav1.Time) {
	s, verdict := &l.Status, Verdict{}
	s.ObservedGeneration = seen.Generation
	if seen.Observed != nil {
		verdict = seen.Observed.verdict
		whole := 0
		for _, m := range seen.Observed.Members {
			if m.Problem == "" && m.Data != "" {
				whole++
			}
		}
		s.Ready = fmt.Sprintf("%d/%d", whole, l.Spec.Replicas)
	}
	isLost := verdict.State == DataLost || verdict.State == OtherData
	step, doing := database.Doing(seen, "")
	standing := &database.Standing{
		Settled: verdict.State == Whole && seen.Failure == nil, Hopeless: isLost, Degraded: isLost, PauseField: "spec.paused",
		Deleting: "being deleted; the claims, the Secret and the record stay", WellReason: string(Whole), Well: "each pod has the data",
		Notes: database.Notes(seen.PlanSeen), Unwell: verdict.Message, Step: step, Doing: doing, Looking: "looking at the ledger",
		WaitReason: string(verdict.State), Wait: database.Join(database.Blocked(seen.PlanSeen), verdict.Message),
	}
	switch wasReady := s.Phase == PhaseRunning || s.Phase == PhaseChanging; {
	case isLost || seen.Failure != nil:
		s.Phase = PhaseFailed
	case standing.Settled:
		s.Phase = PhaseRunning
	case wasReady:
		s.Phase = PhaseChanging
	default:
		s.Phase = PhaseCreating
	}
	s.Step = step
	s.Reason, s.Message = database.Explain(standing, seen)
	c := reconcile.Conditions{List: &s.Conditions, Generation: seen.Generation, Now: now}
	database.SetConditions(c, standing, seen, s.Reason, s.Message, nil)
}

// Summary returns the summary of the status, for events and metrics.
func (*Kind) Summary(l *Ledger) reconcile.Summary {
	s := &l.Status
	ready := meta.IsStatusConditionTrue(s.Conditions, "Ready")
	summary := reconcile.Summary{
		Phase: string(s.Phase), Generation: s.ObservedGeneration, Ready: ready, ReadyText: s.Message, New: s.Phase == "" || s.Phase == PhaseCreating,
		Urgent: s.Step != "" || ready, Parts: []metrics.Part{{Name: part, Ready: ready}},
	}
	database.Summarize(&summary, s.Conditions, "Degraded", s.Step, s.Message)
	return summary
}
