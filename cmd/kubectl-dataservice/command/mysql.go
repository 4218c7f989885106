// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/exec"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plugin"
)

// The shell commands of the MySQL client. They read the password from the container's environment, so that no argument contains it and the
// user need not read a Secret.
const (
	asService = `MYSQL_PWD="$MYSQL_PASSWORD" exec mysql --user="$MYSQL_USER" "$@"`
	asRoot    = `MYSQL_PWD="$MYSQL_ROOT_PASSWORD" exec mysql --user=root "$@"`

	// A database with several members stores the passwords in files.
	asMember     = `MYSQL_PWD="$(cat /d3os-secrets/password)" exec mysql --user="$(cat /d3os-secrets/username)" --socket=/var/run/mysqld/mysqld.sock "$@"`
	asMemberRoot = `MYSQL_PWD="$(cat /d3os-secrets/root-password)" exec mysql --user=root --socket=/var/run/mysqld/mysqld.sock "$@"`
)

func (p *cli) mysqlCommand() *cobra.Command {
	var root bool
	cmd := &cobra.Command{
		Use:   "mysql NAME [-- ARGUMENTS]",
		Short: "Open a MySQL client in the database's pod",
		Long: "Open a MySQL client in the database's pod, with the account of the services, or as root. If the database has several members,\n" +
			"the pod is that of the primary. NAME may also be the name of a MySQLCluster. You need the right to create pods/exec. Arguments\n" +
			"after -- are passed to the client.",
		Example: "  kubectl dataservice mysql platform\n  kubectl dataservice mysql platform -- --execute 'show databases'",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			pod, isMember, err := c.databaseOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			script := map[bool]map[bool]string{false: {false: asService, true: asRoot}, true: {false: asMember, true: asMemberRoot}}[isMember][root]
			return p.exec(cmd.Context(), c, pod, databaseContainer(pod), append([]string{"/bin/sh", "-c", script, "mysql"}, args[1:]...))
		},
	}
	cmd.Flags().BoolVar(&root, "root", false, "as root")
	return cmd
}

// databaseOf returns the database pod of a DataService, or of the MySQLCluster of that name. If there are several members, it returns the
// primary's pod.
func (c *cluster) databaseOf(ctx context.Context, name string) (pod *corev1.Pod, isMember bool, err error) {
	ds, err := c.get(ctx, name)
	var of *unstructured.Unstructured
	switch {
	case apierrors.IsNotFound(err):
		if of, err = c.resource(ctx, mysqlKind, name); apierrors.IsNotFound(err) {
			return nil, false, fmt.Errorf("there is no DataService and no MySQLCluster %s in namespace %s", name, c.Namespace)
		}
	case err == nil && hasMembers(ds):
		of, err = c.resourceOf(ctx, name, "mysql", mysqlKind)
	case err == nil:
		pods, err := c.Pods(ctx, plugin.Selector(ds.Name, "mysql"))
		if err != nil {
			return nil, false, err
		}
		pod, err = databasePod(ds, pods)
		return pod, false, err
	}
	if err != nil {
		return nil, false, err
	}
	primary, _, _ := unstructured.NestedString(of.Object, "status", "primary")
	if primary == "" {
		return nil, false, fmt.Errorf("MySQLCluster %s has no primary yet: run 'kubectl dataservice why mysql/%s' for the reason", of.GetName(), of.GetName())
	}
	pod, err = c.Client.CoreV1().Pods(c.Namespace).Get(ctx, primary, metav1.GetOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("read the pod of the primary: %w", err)
	}
	return pod, true, nil
}

// databasePod returns the pod of the database.
func databasePod(ds *dsv1.DataService, pods []*corev1.Pod) (*corev1.Pod, error) {
	i := slices.IndexFunc(ds.Status.Components, func(c dsv1.ComponentStatus) bool { return c.Name == "mysql" })
	switch {
	case ds.Spec.MySQL == nil:
		return nil, fmt.Errorf("%s declares no mysql", ds.Name)
	case i >= 0 && ds.Status.Components[i].Kind == "ThirdParty":
		return nil, fmt.Errorf("mysql of %s runs elsewhere (kind ThirdParty): use your own client", ds.Name)
	}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("no pod of mysql runs: run 'kubectl dataservice why %s mysql' for the reason", ds.Name)
}

// hasMembers reports whether mysql is a MySQLCluster. The MySQLCluster remains even if the spec later declares one server.
func hasMembers(ds *dsv1.DataService) bool {
	return ds.Spec.MySQL != nil && slices.ContainsFunc(ds.Status.Components, func(c dsv1.ComponentStatus) bool { return c.Name == "mysql" && c.Kind == "Managed" })
}

// databaseContainer returns the name of the database's container. In a pod of a MySQLCluster, the name is mysql. Otherwise it is the name
// of the workload, which is the prefix of the pod's name. A mesh may have added containers before it.
func databaseContainer(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == "mysql" || strings.HasPrefix(pod.Name, c.Name+"-") {
			return c.Name
		}
	}
	return pod.Spec.Containers[0].Name
}

// exec runs a command in a container of a pod.
func (p *cli) exec(ctx context.Context, c *cluster, pod *corev1.Pod, container string, command []string) error {
	config := rest.CopyConfig(c.config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	options := &exec.ExecOptions{
		StreamOptions: exec.StreamOptions{
			IOStreams: p.IOStreams, Stdin: true, TTY: terminal(p.In) && terminal(p.Out), Quiet: true,
			Namespace: pod.Namespace, PodName: pod.Name, ContainerName: container,
		},
		Command: command, Config: config, PodClient: c.Client.CoreV1(), Executor: &exec.DefaultRemoteExecutor{},
	}
	_ = ctx // an interrupt from the terminal ends the client directly
	return options.Run()
}
