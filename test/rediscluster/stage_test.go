// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rediscluster_test runs the operator with RedisClusters on a real API server, with real redis-server processes that run the
// chart's scripts.
package rediscluster_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/databasetest/redistest"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/slowdisk"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience is the time limit of all waits without a promised time. It is long, because the machine may be busy.
const patience = 4 * time.Minute

// full selects the full form: all tests run, the operator is killed at every step, and TestAtRest takes ten minutes.
var full = os.Getenv("REDIS_TESTS") == "full"

var suite = &stage.Suite{
	Patience: func() time.Duration { return patience }, Parallel: 2,
	Lists: append([]client.ObjectList{
		&dsv1.DataServiceList{}, &redisv1.RedisClusterList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
		&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &corev1.PodList{},
	}, stage.Backups...),
}

// agent is the path of the agent's program.
var agent string

func TestMain(m *testing.M) {
	slowdisk.Main()
	os.Exit(suite.MainWithAgent(m, cluster.Options{Name: "rediscluster"}, &agent))
}

// scene is a namespace whose pods run real programs.
type scene struct {
	*stage.Stage
	*emulator.Emulator

	operator *stage.Operator // the operator that a test crashes or stops
	orders   scribe          // the commands that operators have sent to servers
	secret   string          // the Secret with the password; by default the operator's Secret
	password string          // the servers' password, if it differs from the password in the Secret
	rounds   int             // number of writes of the keys
	back     func()          // reverts the fault of a row
}

const name = "cache"

func newScene(t *testing.T, settings ...func(*emulator.Options)) *scene {
	t.Helper()
	t.Parallel()
	s := &scene{Stage: suite.New(t)}
	server, err := redistest.Program("redis-server")
	s.Must(err)
	cli, err := redistest.Program("redis-cli")
	s.Must(err)
	check, err := redistest.Program("redis-check-aof")
	s.Must(err)
	image := emulator.Image{Executables: map[string]string{"redis-server": server, "redis-cli": cli, "redis-check-aof": check}, Rewrite: s.resolve}
	options := emulator.Options{
		Namespace: s.Namespace, Nodes: 4,
		Images: map[string]emulator.Image{
			// The sample uses the second name. The container with the agent for the volume has the image of the container redis.
			"redis": image, "library/redis": image, "d3os-volume": image,
			"example/agent":                {Executables: map[string]string{"/agent": agent}},
			"registry.example.com/no/such": {Missing: true},
			// An additional service, and the probe of third parties.
			"work": {}, "docker.io/curlimages/curl": {},
			"init": {}, "exporter": {Entrypoint: []string{"/bin/sleep", "infinity"}},
		},
	}
	for _, set := range settings {
		set(&options)
	}
	s.Emulator, err = emulator.Start(s.Ctx, suite.Config, options)
	s.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			s.describe()
		}
		s.Must(s.Stop())
	})
	for _, node := range s.Nodes() { // the sample's node selector requires the label
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"HC_Status":"C"}}}`))
		s.Must(suite.API.Patch(s.Ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch))
	}
	return s
}

// Start starts an operator that has the agent's image.
func (s *scene) Start(settings ...func(*rest.Config, *manager.Options)) *stage.Operator {
	s.Helper()
	return s.Stage.Start(append([]func(*rest.Config, *manager.Options){func(_ *rest.Config, o *manager.Options) {
		o.Images = map[string]string{"agent": "example/agent:v1"}
		o.Redis.Tap = &s.orders
	}}, settings...)...)
}

// describe logs the state after a failed test.
func (s *scene) describe() {
	for _, rc := range harness.Every[*redisv1.RedisCluster](s.Journal) {
		text, _ := yaml.Marshal(rc.Status)
		s.Logf("%s:\n%s", rc.Name, text)
	}
	s.LastWords(s.Log)
}

func named() *redisv1.RedisCluster {
	return &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// create creates a RedisCluster with a spec in YAML.
func (s *scene) create(spec string) *redisv1.RedisCluster {
	s.Helper()
	rc := named()
	s.CreateWith(rc, &rc.Spec, spec)
	return rc
}

// change patches the spec (JSON merge patch in YAML).
func (s *scene) change(spec string) {
	s.Helper()
	s.Patch(named(), spec)
}

// get returns the present RedisCluster.
func (s *scene) get() *redisv1.RedisCluster {
	s.Helper()
	rc := named()
	s.Read(rc)
	return rc
}

// isReady returns the reason why the cluster is not ready with a number of pods, or nil.
func (s *scene) isReady(pods int) error {
	rc := s.get()
	if rc.Status.ObservedGeneration != rc.Generation || !meta.IsStatusConditionTrue(rc.Status.Conditions, redisv1.ConditionReady) {
		return fmt.Errorf("generation %d of %d: %s, %s, %d slots: %s: %s", rc.Status.ObservedGeneration, rc.Generation, rc.Status.Phase, rc.Status.Ready,
			rc.Status.Slots, rc.Status.Reason, rc.Status.Message)
	}
	if want := fmt.Sprintf("%d/%d", pods, pods); rc.Status.Ready != want || rc.Status.Slots != redisv1.Slots || rc.Status.Phase != redisv1.PhaseRunning {
		return fmt.Errorf("ready is %s, slots are %d, phase is %s", rc.Status.Ready, rc.Status.Slots, rc.Status.Phase)
	}
	return nil
}

// ready waits until the cluster is ready, compares the status with the state of its nodes, and returns the time that it took.
func (s *scene) ready(pods int) time.Duration {
	s.Helper()
	began := time.Now()
	s.Until("ready", func() error { return s.isReady(pods) })
	took := time.Since(began)
	s.agree(pods)
	return took
}

// agree waits until all nodes have one view of the cluster.
func (s *scene) agree(pods int) {
	s.Helper()
	s.Until("the nodes agree", func() error { return s.check(pods) })
}

// standing creates a cluster of six pods with data, and returns its operator.
func (s *scene) standing(spec string) *stage.Operator {
	s.Helper()
	op := s.Start()
	s.create(spec)
	s.ready(6)
	s.write()
	return op
}

// six is the spec of most tests.
const six = "{replicas: 6, repository: redis}"

// taken returns the password that servers accept.
func (s *scene) taken() string {
	s.Helper()
	if s.password != "" {
		return s.password
	}
	secret := harness.Lookup[*corev1.Secret](s.Journal, cmp.Or(s.secret, name+"-credentials"))
	if secret == nil {
		s.Fatal("the Secret with the password does not exist")
	}
	return string(secret.Data["password"])
}

// node connects to the Redis of a pod.
func (s *scene) node(pod *corev1.Pod) *redis.Client {
	s.Helper()
	return redis.NewClient(&redis.Options{Addr: net.JoinHostPort(pod.Status.PodIP, "6379"), Password: s.taken(), Protocol: 2, DisableIdentity: true, MaxRetries: -1})
}

// pods returns the pods with a server. It does not select by the cluster's labels, because pods of the pruning CronJob also have them.
func (s *scene) pods() []*corev1.Pod { return s.serversOf(name) }

// serversOf returns those pods of a cluster that run a server.
func (s *scene) serversOf(cluster string) []*corev1.Pod {
	return slices.DeleteFunc(harness.Every[*corev1.Pod](s.Journal), func(pod *corev1.Pod) bool {
		var shard, index int
		n, _ := fmt.Sscanf(pod.Name, cluster+"-%d-%d", &shard, &index)
		return n != 2 || pod.Labels["d3os-product.com.d3os/kind"] == ""
	})
}

// check returns an error unless this number of pods exists and redistest.Check accepts their nodes' views.
func (s *scene) check(pods int) error {
	var nodes []redistest.Node
	for _, pod := range s.pods() {
		c := s.node(pod)
		defer c.Close()
		n := redistest.Node{Name: pod.Name, IP: pod.Status.PodIP, Client: c}
		if _, err := fmt.Sscanf(pod.Name, name+"-%d-", &n.Shard); err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	if len(nodes) != pods {
		return fmt.Errorf("%d pods", len(nodes))
	}
	ctx, cancel := context.WithTimeout(s.Ctx, 5*time.Second)
	defer cancel()
	return redistest.Check(ctx, nodes)
}

// clients returns a client of the cluster.
func (s *scene) clients() *redis.ClusterClient { return s.clientsOf(name) }

// clientsOf returns a client of a cluster. All clusters of a test have the same password.
func (s *scene) clientsOf(cluster string) *redis.ClusterClient {
	s.Helper()
	return redistest.NewClusterClient(s.taken(), func(ctx context.Context) ([]redis.ClusterSlot, error) {
		var errs []error
		for _, pod := range s.serversOf(cluster) {
			c := s.node(pod)
			slots, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // the client's interface requires it
			if err = errors.Join(err, c.Close()); err == nil && len(slots) > 0 {
				return slots, nil
			}
			errs = append(errs, err)
		}
		return nil, fmt.Errorf("no pod answers: %w", errors.Join(errs...))
	})
}

// keep starts writers and readers that record all results.
func (s *scene) keep(ledger string) *redistest.Ledger {
	return redistest.NewLedger(s.T, s.clients(), ledger, false)
}

// uids returns the UIDs of the existing pods.
func (s *scene) uids() (found []types.UID) {
	for _, pod := range s.pods() {
		found = append(found, pod.UID)
	}
	return found
}

// remain returns the number of pods in before that still exist.
func (s *scene) remain(before []types.UID) int {
	n := 0
	for _, uid := range s.uids() {
		if slices.Contains(before, uid) {
			n++
		}
	}
	return n
}
