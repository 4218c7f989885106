// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package adopt

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/object"
)

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// jobSeconds is the deadline of a Job.
const jobSeconds = 180

// Fence is the state of the original server in the record of an adoption.
type Fence struct {
	contract.Fence
	// Reopened: the server accepted writes after services may have switched to the copy. Only the record can have this state.
	Reopened bool `json:"reopened,omitempty"`
}

// agent runs `agent fence` in a Job and returns the reported state. It first deletes an earlier Job and waits until its pod is deleted:
// otherwise the earlier Job could change the server after the new Job.
func (a *Adopter) agent(ctx context.Context, o *Observation, what string, flags ...string) (*Fence, error) {
	return a.agentIf(ctx, o, func(context.Context) error { return nil }, what, flags...)
}

// agentIf does the same as agent, but calls holds immediately before it creates the Job. It creates no Job if holds returns an error.
func (a *Adopter) agentIf(ctx context.Context, o *Observation, holds func(context.Context) error, what string, flags ...string) (*Fence, error) {
	if err := a.removeJob(ctx, o); err != nil {
		return nil, err
	}
	if err := holds(ctx); err != nil {
		return nil, err
	}
	job := newJob(o, flags)
	if err := a.Client.Create(ctx, job, client.FieldOwner(manager)); err != nil {
		return nil, fmt.Errorf("create Job %s: %w", job.GetName(), err)
	}
	var seen *Fence
	err := a.until(ctx, func() (missing string, err error) {
		seen, missing, err = a.answer(ctx, job)
		return missing, err
	})
	if err != nil {
		err = fmt.Errorf("%s server %s: %w", what, mysqlName, err)
	}
	return seen, errors.Join(err, a.removeJob(ctx, o))
}

// removeJob removes the Job, and waits until its pod is deleted.
func (a *Adopter) removeJob(ctx context.Context, o *Observation) error {
	name := jobName(o.owner().Name)
	return a.until(ctx, func() (string, error) {
		live, err := a.get(ctx, jobKind, o.owner().Namespace, name)
		if live == nil || err != nil {
			return "", err
		}
		if live.GetLabels()[object.LabelManagedBy] != manager {
			return "", fmt.Errorf("the Job %s exists, but no adoption created it: remove that Job", name)
		}
		if live.GetDeletionTimestamp() == nil {
			if err := a.delete(ctx, live, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
				return "", err
			}
		}
		return "Job " + name + " is being deleted", nil
	})
}

// answer returns the report of a Job's pod. If there is no report yet, it returns the reason as a text.
func (a *Adopter) answer(ctx context.Context, job *unstructured.Unstructured) (*Fence, string, error) {
	live, err := a.get(ctx, jobKind, job.GetNamespace(), job.GetName())
	if err != nil {
		return nil, "", err
	}
	if live == nil || live.GetUID() != job.GetUID() {
		return nil, "", fmt.Errorf("another client deleted Job %s: run the command again", job.GetName())
	}
	pods, err := a.list(ctx, podKind, job.GetNamespace(), map[string]string{batchv1.JobNameLabel: job.GetName()})
	if err != nil {
		return nil, "", err
	}
	missing := "Job " + job.GetName() + " has not ended"
	for _, pod := range controlledBy(pods, live) {
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
		for _, s := range statuses {
			status, _ := s.(map[string]any)
			if text, _, _ := unstructured.NestedString(status, "state", "terminated", "message"); text != "" {
				return parse(text)
			}
			if why, _, _ := unstructured.NestedString(status, "state", "waiting", "message"); why != "" {
				missing += ": " + why
			}
		}
	}
	if condition := conditionOf(live, string(batchv1.JobFailed)); condition["status"] == "True" {
		return nil, "", fmt.Errorf("the Job %s failed (%v): run the command again", job.GetName(), condition["message"])
	}
	return nil, missing, nil
}

// parse parses the report of the agent.
func parse(text string) (*Fence, string, error) {
	var result contract.Result
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return nil, "", fmt.Errorf("read the report of the agent: %w", err)
	}
	if !result.OK || result.Fence == nil {
		return nil, "", fmt.Errorf("%s", result.Message)
	}
	return &Fence{Fence: *result.Fence}, "", nil
}

// newJob returns the Job. The Job's pod has no token for the API server, and reads the account from files.
func newJob(o *Observation, flags []string) *unstructured.Unstructured {
	ds := o.DataService
	command := []any{"/agent", "fence", "--server=" + mysqlName + ":3306", "--report=/dev/termination-log"}
	for _, flag := range flags {
		command = append(command, flag)
	}
	file := func(key string) map[string]any {
		return map[string]any{"name": map[string]string{"username": contract.EnvUser, "password": contract.EnvPassword}[key] + contract.InFile, "value": "/account/" + key}
	}
	pod := map[string]any{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
		"securityContext": map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		"containers": []any{map[string]any{
			"name": "agent", "image": o.AgentImage, "imagePullPolicy": "IfNotPresent", "command": command,
			"env":             []any{file("username"), file("password")},
			"resources":       map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "32Mi"}, "limits": map[string]any{"cpu": "500m", "memory": "256Mi"}},
			"securityContext": map[string]any{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": map[string]any{"drop": []any{"ALL"}}},
			"volumeMounts":    []any{map[string]any{"name": "account", "mountPath": "/account", "readOnly": true}},
		}},
		"volumes": []any{map[string]any{"name": "account", "secret": map[string]any{"secretName": accountName(ds.GetName())}}},
	}
	if secrets, found, _ := unstructured.NestedSlice(ds.Object, "spec", "imagePullSecrets"); found {
		pod["imagePullSecrets"] = secrets
	}
	job := object.Empty(jobKind)
	job.SetNamespace(ds.GetNamespace())
	job.SetName(jobName(ds.GetName()))
	job.SetLabels(map[string]string{object.LabelManagedBy: manager, object.LabelPartOf: "dataservice"})
	job.Object["spec"] = map[string]any{
		"backoffLimit": int64(0), "activeDeadlineSeconds": int64(jobSeconds), "ttlSecondsAfterFinished": int64(3600),
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{object.LabelPartOf: "dataservice"}}, "spec": pod},
	}
	return job
}

// saveRecord writes the record.
func (a *Adopter) saveRecord(ctx context.Context, o *Observation) error {
	live, err := a.get(ctx, secretKind, o.owner().Namespace, recordName(o.owner().Name))
	if err != nil {
		return err
	}
	if live == nil {
		return fmt.Errorf("no Secret %s with the record of the adoption exists: nothing was changed", recordName(o.owner().Name))
	}
	text, err := json.Marshal(o.Record)
	if err != nil {
		return fmt.Errorf("write the record of the adoption: %w", err)
	}
	if live.GetResourceVersion() != o.Record.version {
		return fmt.Errorf("another run of the command has changed Secret %s: run the command again", live.GetName())
	}
	o.Record.version, err = a.merged(ctx, live, map[string]any{
		"metadata": map[string]any{"resourceVersion": o.Record.version}, "data": map[string]any{recordKey: base64.StdEncoding.EncodeToString(text)}})
	return err
}
