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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/exec"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/cli/foresee"
)

// The client's shell command. The passwords are in the container's environment, so they are on no command line and
// nobody has to read a Secret.
const (
	asService = `MYSQL_PWD="$MYSQL_PASSWORD" exec mysql --user="$MYSQL_USER" "$@"`
	asRoot    = `MYSQL_PWD="$MYSQL_ROOT_PASSWORD" exec mysql --user=root "$@"`
)

func (p *plugin) mysqlCommand() *cobra.Command {
	var root bool
	cmd := &cobra.Command{
		Use:   "mysql NAME [-- ARGUMENTS]",
		Short: "Open a MySQL client in the database's pod",
		Long: "Open a MySQL client in the database's pod, with the account of the services, or as root. It needs the right to create\n" +
			"pods/exec. Whatever follows -- is given to the client.",
		Example: "  kubectl dataservice mysql platform\n  kubectl dataservice mysql platform -- --execute 'show databases'",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ds, err := p.dataService(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			pods, err := c.Pods(cmd.Context(), foresee.Selector(ds.Name, "mysql"))
			if err != nil {
				return err
			}
			pod, err := databasePod(ds, pods)
			if err != nil {
				return err
			}
			script := asService
			if root {
				script = asRoot
			}
			return p.exec(cmd.Context(), c, pod, databaseContainer(pod), append([]string{"/bin/sh", "-c", script, "mysql"}, args[1:]...))
		},
	}
	cmd.Flags().BoolVar(&root, "root", false, "as root")
	return cmd
}

// databasePod is the pod that the database runs in.
func databasePod(ds *dsv1.DataService, pods []*corev1.Pod) (*corev1.Pod, error) {
	i := slices.IndexFunc(ds.Status.Components, func(c dsv1.ComponentStatus) bool { return c.Name == "mysql" })
	switch {
	case ds.Spec.MySQL == nil:
		return nil, fmt.Errorf("%s declares no mysql", ds.Name)
	case i >= 0 && ds.Status.Components[i].Kind == "ThirdParty":
		return nil, fmt.Errorf("mysql of %s runs elsewhere (kind ThirdParty): use a client of your own", ds.Name)
	}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			return pod, nil
		}
	}
	return nil, fmt.Errorf("no pod of mysql runs: 'kubectl dataservice why %s mysql' says why", ds.Name)
}

// databaseContainer returns the name of the database's container, which is that of the workload and so begins the pod's. A mesh may
// have put its own container first.
func databaseContainer(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; strings.HasPrefix(pod.Name, c.Name+"-") {
			return c.Name
		}
	}
	return pod.Spec.Containers[0].Name
}

// exec runs a command in a container of a pod.
func (p *plugin) exec(ctx context.Context, c *cluster, pod *corev1.Pod, container string, command []string) error {
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
	_ = ctx // the terminal's own interrupt ends the client
	return options.Run()
}
