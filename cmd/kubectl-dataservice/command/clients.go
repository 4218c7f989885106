// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
)

var (
	redisKind = schema.GroupVersionKind{Group: "redis.middleware.hc.cn", Version: "v1alpha1", Kind: "RedisCluster"}
	etcdKind  = schema.GroupVersionKind{Group: "etcd.database.coreos.com", Version: "v1alpha1", Kind: "EtcdCluster"}
)

// asRedis is the shell command of redis-cli. It reads the password from a file in the container, so that no argument contains the password
// and the user need not read a Secret.
const asRedis = `[ ! -r /credentials/password ] || REDISCLI_AUTH=$(cat /credentials/password); export REDISCLI_AUTH; exec redis-cli -c --no-auth-warning "$@"`

func (p *cli) redisCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "redis NAME [-- ARGUMENTS]",
		Short: "Open a Redis client in a pod of the Redis Cluster",
		Long: "Open a Redis client in a pod of a DataService's Redis Cluster, or of the RedisCluster of that name. The client follows\n" +
			"redirections to other nodes. You need the right to create pods/exec. Arguments after -- are passed to redis-cli.",
		Example: "  kubectl dataservice redis platform\n  kubectl dataservice redis platform -- CLUSTER INFO",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			of, err := c.redisOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			pod, err := c.runningPod(cmd.Context(), of, "redis")
			if err != nil {
				return err
			}
			return p.exec(cmd.Context(), c, pod, "redis", append([]string{"/bin/sh", "-c", asRedis, "redis"}, args[1:]...))
		},
	}
}

// redisOf returns the RedisCluster of a DataService. If no DataService has that name, it returns the RedisCluster with that name.
func (c *cluster) redisOf(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	ds, err := c.get(ctx, name)
	if apierrors.IsNotFound(err) {
		return c.resource(ctx, redisKind, name)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case ds.Spec.Redis == nil:
		return nil, fmt.Errorf("DataService %s declares no redis", name)
	case ds.Spec.Redis.Kind == "ThirdParty":
		return nil, fmt.Errorf("redis of %s runs elsewhere (thirdParty): use your own client", name)
	}
	return c.resourceOf(ctx, name, "redis", redisKind)
}

// resourceOf returns the resource of a component of a DataService.
func (c *cluster) resourceOf(ctx context.Context, name, component string, gvk schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	found, refused, err := c.Objects(ctx, plugin.Selector(name, component), []schema.GroupVersionKind{gvk})
	switch {
	case err != nil:
		return nil, err
	case len(refused) > 0:
		return nil, fmt.Errorf("you may not list %ss in namespace %s", gvk.Kind, c.Namespace)
	case len(found) == 0:
		return nil, fmt.Errorf("the %s of %s does not exist yet: run 'kubectl dataservice why %s %s' for the reason", gvk.Kind, name, name, component)
	}
	return found[0], nil
}

func (p *cli) etcdCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "etcd NAME [-- ARGUMENTS]",
		Short: "Run etcdctl in a pod of an EtcdCluster",
		Long: "Run etcdctl in a pod of the EtcdCluster of that name. If the pod has certificates, etcdctl uses them. You need the right to\n" +
			"create pods/exec. Arguments after -- are passed to etcdctl; without arguments, the state of all members is shown.",
		Example: "  kubectl dataservice etcd my-etcd-cluster\n  kubectl dataservice etcd my-etcd-cluster -- get --prefix /registry --keys-only",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			of, err := c.resource(cmd.Context(), etcdKind, args[0])
			if err != nil {
				return err
			}
			pod, err := c.runningPod(cmd.Context(), of, "etcd")
			if err != nil {
				return err
			}
			return p.exec(cmd.Context(), c, pod, "etcd", etcdctl(pod, args[1:]))
		},
	}
}

// etcdctl returns the command of etcdctl. (The images have no shell.)
func etcdctl(pod *corev1.Pod, arguments []string) []string {
	command := []string{"etcdctl", "--endpoints=http://localhost:2379"}
	if i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "etcd" }); i >= 0 {
		for _, mount := range pod.Spec.Containers[i].VolumeMounts {
			if mount.Name == "tls-server" { // the certificate is valid for servers and clients
				at := mount.MountPath
				command = []string{"etcdctl", "--endpoints=https://localhost:2379", "--cacert=" + at + "/ca.crt", "--cert=" + at + "/tls.crt", "--key=" + at + "/tls.key"}
			}
		}
	}
	if len(arguments) == 0 {
		arguments = []string{"endpoint", "status", "--cluster", "--write-out=table"}
	}
	return append(command, arguments...)
}

// resource reads a resource of any kind that the operator reconciles.
func (c *cluster) resource(ctx context.Context, gvk schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	live, err := c.Dynamic.Resource(object.ResourceOf(gvk)).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s %s in namespace %s: %w", gvk.Kind, name, c.Namespace, err)
	}
	return live, nil
}

// runningPod returns a running pod of a resource, preferably a ready one.
func (c *cluster) runningPod(ctx context.Context, of *unstructured.Unstructured, container string) (*corev1.Pod, error) {
	pods, err := c.Pods(ctx, plugin.SelectorOf(of))
	if err != nil {
		return nil, err
	}
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || pod.Labels[object.LabelManagedBy] != object.ManagedBy ||
			!slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	})
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod of %s %s runs: run 'kubectl dataservice -n %s why %s/%s' for the reason", of.GetKind(), of.GetName(), of.GetNamespace(),
			container, of.GetName())
	}
	return slices.MaxFunc(pods, func(a, b *corev1.Pod) int { return cmp.Or(ready(a)-ready(b), cmp.Compare(b.Name, a.Name)) }), nil
}

// ready returns 1 for a ready pod, else 0.
func ready(pod *corev1.Pod) int {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return 1
		}
	}
	return 0
}
