// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/process"
	"d3os.com/d3os-operator/test/harness/stage"
)

// realMongoOperator is the process of MongoDB's operator.
type realMongoOperator struct {
	*mongoOperator

	guard   *process.Guard
	running *process.Process
	log     string // path
	plugin  string // path
}

// prepare installs the CRD of MongoDB's operator, and starts the agents.
func (m *realMongoOperator) prepare() {
	m.Helper()
	dir := m.TempDir()
	m.log, m.plugin = filepath.Join(dir, "log"), filepath.Join(dir, "kubectl-dataservice")
	m.Must(cluster.BuildPlugin(m.Ctx, m.plugin))
	var err error
	m.guard, err = process.NewGuard(filepath.Join(dir, "process"))
	m.Must(err)
	m.crd(filepath.Join(moduleOf(m.env), "config", "crd", "bases", "mongodbcommunity.mongodb.com_mongodbcommunity.yaml"))
	m.Cleanup(func() { // before the CRD is deleted, and the resource with it
		if m.Failed() {
			text, _ := os.ReadFile(m.log)
			lines := strings.Split(string(text), "\n")
			m.Logf("the log of MongoDB's operator ends:\n%s", strings.Join(lines[max(0, len(lines)-40):], "\n"))
			m.Logf("the resource, or the error: %v %v", m.read(), m.live)
		}
		m.Must(m.guard.End())
	})
	ctx, cancel := context.WithCancel(m.Ctx)
	var agents sync.WaitGroup
	agents.Go(func() { m.agents(ctx) })
	m.Cleanup(func() { cancel(); agents.Wait() })
}

// moduleOf returns the folder of the source of MongoDB's operator.
func moduleOf(e *env) string {
	e.Helper()
	download := exec.CommandContext(e.Ctx, "go", "mod", "download", "-json", "github.com/mongodb/mongodb-kubernetes-operator")
	download.Dir, download.Env = filepath.Join(cluster.Root(), "hack", "tools", "mongodb-operator"), append(os.Environ(), "GOWORK=off")
	out, err := download.Output()
	e.Must(err)
	module := struct{ Dir string }{}
	e.Must(json.Unmarshal(out, &module))
	return module.Dir
}

// start starts MongoDB's operator for the namespace.
func (m *realMongoOperator) start() {
	m.Helper()
	program, err := process.Program("TOOLS", "", "mongodb-operator")
	m.Must(err)
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	m.Must(err)
	m.running, err = m.guard.Start([]string{program}, append(os.Environ(),
		"KUBECONFIG="+suite.Kubeconfig, "WATCH_NAMESPACE="+m.Namespace, "AGENT_IMAGE=registry.example/agent:v1",
		"VERSION_UPGRADE_HOOK_IMAGE=registry.example/hook:v1", "READINESS_PROBE_IMAGE=registry.example/probe:v1",
		"MONGODB_REPO_URL=registry.example", "MONGODB_IMAGE=mongod"), "", log)
	m.Must(errors.Join(err, log.Close()))
}

func (m *realMongoOperator) stop() { m.running.Kill() }

// agents annotates each ready pod with the version of the settings, like the agent in the pod. While the update strategy of the StatefulSet
// is OnDelete, agents deletes one outdated pod at a time, like the hook in mongod's container.
func (m *realMongoOperator) agents(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = m.reach(ctx) // the next tick retries
		}
	}
}

func (m *realMongoOperator) reach(ctx context.Context) error {
	settings := &corev1.Secret{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: mongodb + "-config"}, settings); err != nil {
		return err
	}
	goal := struct{ Version int }{}
	if err := json.Unmarshal(settings.Data["cluster-config.json"], &goal); err != nil {
		return err
	}
	set, pods := &appsv1.StatefulSet{}, &corev1.PodList{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: mongodb}, set); err != nil {
		return err
	}
	if err := api.List(ctx, pods, client.InNamespace(m.Namespace), client.MatchingLabels{"app": mongodb + "-svc"}); err != nil {
		return err
	}
	allReady := len(pods.Items) == int(*set.Spec.Replicas)
	for i := range pods.Items {
		allReady = allReady && stage.IsReady(&pods.Items[i])
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		isOutdated := pod.Labels["controller-revision-hash"] != set.Status.UpdateRevision
		switch {
		case !stage.IsReady(pod):
		case isOutdated && allReady && set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType && set.Status.ObservedGeneration == set.Generation:
			return api.Delete(ctx, pod)
		case pod.Annotations["agent.mongodb.com/version"] != fmt.Sprint(goal.Version):
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"agent.mongodb.com/version":"%d"}}}`, goal.Version)
			if err := api.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply creates the objects of a file of this repository in the namespace.
func (m *realMongoOperator) apply(file string) {
	m.Helper()
	data, err := os.ReadFile(filepath.Join(cluster.Root(), file))
	m.Must(err)
	for _, document := range bytes.Split(data, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		m.Must(yaml.Unmarshal(document, &o.Object))
		o.SetNamespace(m.Namespace)
		m.Must(api.Create(m.Ctx, o))
	}
}
