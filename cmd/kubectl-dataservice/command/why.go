// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	appv1 "d3os.com/d3os-operator/api/app/v1"
	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	modelv1 "d3os.com/d3os-operator/api/model/v1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	stablev1 "d3os.com/d3os-operator/api/stable/v1"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/plugin/why"
)

// logLines is the number of lines at the end of a log that are searched for an error.
const logLines = 30

func (p *cli) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why NAME [COMPONENT]",
		Short: "Explain why a DataService or another resource of the operator is not healthy, and name the next step",
		Long: "Explain why a DataService, or one component of it, is not ready: the chain of waiting components, the root cause with its\n" +
			"pod, the end of its log, and its events. The first line is the cause, the second the object to look at.\n" +
			"redis/NAME, etcd/NAME, mysql/NAME, databackup/NAME and datarestore/NAME explain a RedisCluster, an EtcdCluster, a MySQLCluster, a\n" +
			"DataBackup and a DataRestore; appservice/NAME, modelbox/NAME and crontab/NAME explain an AppService, a ModelBox and a CronTab.\n\n" +
			"Exit codes: 0: nothing is wrong, also during a rollout; 1: something is wrong; 2: an error.",
		Example: "  kubectl dataservice why platform\n  kubectl dataservice why platform auth\n  kubectl dataservice why etcd/my-etcd-cluster",
		Args:    cobra.RangeArgs(1, 2), ValidArgsFunction: p.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			facts, err := c.facts(cmd.Context(), args, p.now())
			if err != nil {
				return err
			}
			diagnosis := why.Explain(facts)
			c.lookable(cmd.Context(), facts, diagnosis)
			c.addHolder(cmd.Context(), diagnosis)
			c.addTaint(cmd.Context(), facts, diagnosis)
			text := diagnosis.Print(p.style(), p.now())
			if p.output == "json" {
				if text, err = toJSON(diagnosis); err != nil {
					return err
				}
			}
			if err := p.print(text); err != nil {
				return err
			}
			if diagnosis.Wrong {
				return errNo
			}
			return nil
		},
	}
	p.outputFlag(cmd)
	return cmd
}

// facts reads the input of why: the resource to diagnose, and the objects, pods, events and last log lines of the component that causes the
// problem. It omits objects that the user may not read.
func (c *cluster) facts(ctx context.Context, args []string, now time.Time) (*why.Facts, error) {
	f, objects, err := c.subject(ctx, args, now)
	if err != nil {
		return nil, err
	}
	if f.Events, err = c.events(ctx); apierrors.IsForbidden(err) {
		f.Refused = append(f.Refused, "events")
	} else if err != nil {
		return nil, err
	}
	if n, err := c.Client.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{}); err == nil { // the user may lack the right to read it
		f.Namespace = n
	}
	f.Operator = c.operatorState(ctx)
	f.Objects = objects
	for _, o := range objects {
		if object.IsResource(o) || hasInside(o.GroupVersionKind()) {
			if err := c.inside(ctx, f, o); err != nil {
				return nil, err
			}
		}
	}
	if f.AsksForBackups() {
		if f.Backups, err = c.backups(ctx); err != nil {
			return nil, err
		}
	}
	if source := why.Source(f); source != nil {
		f.Log, err = c.lastLines(ctx, source)
		if err != nil {
			f.LogError = "the log cannot be read: " + err.Error()
			if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) {
				f.LogError = "there is no log: " + err.Error()
			}
		}
	}
	return f, nil
}

// clusters maps the prefix in PREFIX/NAME, by which users name a cluster, to the cluster's kind.
var clusters = map[string]schema.GroupVersionKind{
	"redis": redisKind, "rediscluster": redisKind, "redisclusters": redisKind, "rec": redisKind,
	"etcd": etcdKind, "etcdcluster": etcdKind, "etcdclusters": etcdKind,
	"mysql": mysqlKind, "mysqlcluster": mysqlKind, "mysqlclusters": mysqlKind, "myc": mysqlKind,
	"databackup": backupKind, "databackups": backupKind, "dbk": backupKind,
	"datarestore": restoreKind, "datarestores": restoreKind, "drs": restoreKind,
	"appservice": appServiceKind, "appservices": appServiceKind,
	"modelbox": modelBoxKind, "modelboxes": modelBoxKind,
	"crontab": cronTabKind, "crontabs": cronTabKind, "ct": cronTabKind,
}

var (
	mysqlKind   = mysqlv1.GroupVersion.WithKind(mysqlv1.Kind)
	backupKind  = backupv1.GroupVersion.WithKind("DataBackup")
	restoreKind = backupv1.GroupVersion.WithKind("DataRestore")

	appServiceKind = appv1.GroupVersion.WithKind(appv1.Kind)
	modelBoxKind   = modelv1.GroupVersion.WithKind(modelv1.Kind)
	cronTabKind    = stablev1.GroupVersion.WithKind(stablev1.Kind)
)

// hasInside reports whether a diagnosis reads the objects and pods of a resource of this kind. It does not read those of a backup or a
// restore, because their status names the pod.
func hasInside(gvk schema.GroupVersionKind) bool {
	return gvk != backupKind && gvk != restoreKind && slices.Contains(slices.Collect(maps.Values(clusters)), gvk)
}

// subject reads the resource to diagnose, and the objects and pods of the component that causes the problem.
func (c *cluster) subject(ctx context.Context, args []string, now time.Time) (*why.Facts, []*unstructured.Unstructured, error) {
	kind, name, found := strings.Cut(args[0], "/")
	if !found {
		return c.component(ctx, args, now)
	}
	gvk, known := clusters[kind]
	switch {
	case !known:
		return nil, nil, fmt.Errorf("%s: must be the name of a DataService, or redis/NAME, etcd/NAME, mysql/NAME, databackup/NAME, datarestore/NAME, "+
			"appservice/NAME, modelbox/NAME or crontab/NAME", args[0])
	case len(args) > 1:
		return nil, nil, fmt.Errorf("%s %s has no components: leave %s out", gvk.Kind, name, args[1])
	}
	live, err := c.resource(ctx, gvk, name)
	if err != nil {
		return nil, nil, err
	}
	f, err := why.Alone(live)
	if err != nil {
		return nil, nil, err
	}
	f.Now = now
	return f, []*unstructured.Unstructured{live}, nil
}

// component reads a DataService, and the objects and pods of the component that causes the problem. If the status names no such component,
// it reads all components: the operator may be down and the status outdated.
func (c *cluster) component(ctx context.Context, args []string, now time.Time) (*why.Facts, []*unstructured.Unstructured, error) {
	ds, err := c.get(ctx, args[0])
	if err != nil {
		return nil, nil, err
	}
	f := &why.Facts{DataService: ds, Now: now}
	if len(args) == 2 && len(ds.Status.Components) > 0 {
		f.Component = args[1]
		var names []string
		for _, component := range ds.Status.Components {
			names = append(names, component.Name)
		}
		if !slices.Contains(names, f.Component) {
			return nil, nil, fmt.Errorf("%s has no component %s; its components are %s", ds.Name, f.Component, strings.Join(names, ", "))
		}
	}
	blamed, _ := why.Blamed(ds, f.Component)
	selector := plugin.Selector(ds.Name, "")
	if blamed != nil {
		selector = plugin.Selector(ds.Name, blamed.Name)
	}
	if f.Pods, err = c.Pods(ctx, selector); apierrors.IsForbidden(err) {
		f.Refused = append(f.Refused, "pods")
	} else if err != nil {
		return nil, nil, err
	}
	objects, refused, err := c.Objects(ctx, selector, shownKinds)
	if err != nil {
		return nil, nil, err
	}
	f.Refuse(refused)
	if blamed == nil {
		objects = f.Contradict(objects)
	}
	return f, objects, nil
}

// backups returns the DataBackups of the namespace, or none if the user may not list them.
func (c *cluster) backups(ctx context.Context) ([]backupv1.DataBackup, error) {
	found, _, err := c.Objects(ctx, "", []schema.GroupVersionKind{backupKind})
	if err != nil {
		return nil, err
	}
	list := make([]backupv1.DataBackup, len(found))
	for i, o := range found {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &list[i]); err != nil {
			return nil, fmt.Errorf("read DataBackup %s: %w", o.GetName(), err)
		}
	}
	return list, nil
}

// lookable replaces the object of a diagnosis if the object does not exist or the user may not read it. So the command in line 2 always
// works.
func (c *cluster) lookable(ctx context.Context, f *why.Facts, d *why.Diagnosis) {
	if d.Object == nil || d.Object.Name == f.DataService.Name || d.Object.Elsewhere || d.Object.Kind == "Namespace" || f.Has(d.Object) {
		return
	}
	known := slices.Concat(object.Kinds, object.Optional, []schema.GroupVersionKind{object.JobKind, corev1.SchemeGroupVersion.WithKind("Pod")})
	for _, gvk := range known {
		if gvk.Kind != d.Object.Kind {
			continue
		}
		_, err := c.Dynamic.Resource(object.ResourceOf(gvk)).Namespace(c.Namespace).Get(ctx, d.Object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			d.Object = f.Instead(d.Object)
		}
		return
	}
}

// addHolder names the Service that already uses the node port that the API server refused. It searches all namespaces, or only the
// namespace of the command if the user may not list the Services of all namespaces.
func (c *cluster) addHolder(ctx context.Context, d *why.Diagnosis) {
	port := d.TakenPort()
	if port == 0 {
		return
	}
	list, err := c.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		if list, err = c.Client.CoreV1().Services(c.Namespace).List(ctx, metav1.ListOptions{}); err != nil {
			return
		}
	}
	for i := range list.Items {
		if s := &list.Items[i]; slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == port }) {
			d.Do = slices.Insert(d.Do, 0, fmt.Sprintf("Service %s in namespace %s has node port %d: choose another node port, or set none", s.Name, s.Namespace, port))
			return
		}
	}
	d.Do = slices.Insert(d.Do, 0, fmt.Sprintf("choose another node port than %d: a Service that you may not read uses this one", port))
}

// shownKinds lists the operator's kinds of objects that have a state: all except Secrets and ConfigMaps.
var shownKinds = slices.DeleteFunc(slices.Concat(object.Kinds, object.Optional), func(gvk schema.GroupVersionKind) bool {
	return gvk.Kind == "Secret" || gvk.Kind == "ConfigMap"
})

// inside adds the objects that the operator created for a resource, and their pods.
func (c *cluster) inside(ctx context.Context, f *why.Facts, of *unstructured.Unstructured) error {
	pods, err := c.Pods(ctx, plugin.SelectorOf(of))
	if apierrors.IsForbidden(err) {
		f.Refused = append(f.Refused, "pods")
	} else if err != nil {
		return err
	}
	objects, refused, err := c.Objects(ctx, plugin.SelectorOf(of), shownKinds)
	if err != nil {
		return err
	}
	f.Refuse(refused)
	f.Pods = append(f.Pods, pods...)
	f.Objects = append(objects, f.Objects...)
	return nil
}

func (c *cluster) lastLines(ctx context.Context, from *why.Container) ([]string, error) {
	stream, err := c.Client.CoreV1().Pods(c.Namespace).GetLogs(from.Pod, &corev1.PodLogOptions{
		Container: from.Name, Previous: from.Previous, TailLines: ptr.To(int64(logLines)), LimitBytes: ptr.To(int64(64 << 10)),
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(stream)
	_ = stream.Close()
	if err != nil {
		return nil, err
	}
	text := strings.TrimRight(string(data), "\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}
