// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/kinds/dataservice/values"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
	"d3os.com/d3os-operator/test/why"
)

const (
	// short is how many rows the short form runs.
	short = 20
	// promised is how soon the cause is named.
	promised = 10 * time.Second
	// creates is how long a platform may take until the last of its components is created, before which the API server knows of no fault.
	creates = 20 * time.Second
	// theOne is the name of the DataService of a row.
	theOne = "platform"
	// still is a node without a kubelet: rows write the statuses of its pods.
	still = "still"
	// firstCharacters are those that a terminal shows of a line.
	firstCharacters = 120
)

// Each fault of the corpus is named: the cause in line 1 of why, an object that exists in line 2, and the same cause in MESSAGE, to a
// user who may only view.
func TestFaults(t *testing.T) {
	t.Parallel()
	rows, err := why.Read()
	assert.NilError(t, err)
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("SEED"); given != "" {
		seed, err = strconv.ParseUint(given, 10, 64)
		assert.NilError(t, err)
	}
	if testing.Short() {
		t.Logf("SEED=%d", seed)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		rows = rows[:short]
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			(&scene{env: newEnv(t, "view"), Fault: row}).play()
		})
	}
}

// scene is one row as it is played.
type scene struct {
	*env
	why.Fault

	op      *stage.Operator
	asked   string // the name of what is asked about
	last    time.Time
	created bool
}

func (s *scene) play() {
	for _, o := range s.Before {
		s.create(o)
	}
	s.op = s.Start(func(_ *rest.Config, o *manager.Options) {
		if len(s.Ask) > 0 && strings.Contains(s.Ask[0], "/") { // no etcd and no backup without the agent
			o.Images = map[string]string{values.AgentImage: "registry.example/agent:v1"}
		}
	})
	s.asked = theOne
	if len(s.Ask) > 0 && strings.Contains(s.Ask[0], "/") {
		_, s.asked, _ = strings.Cut(s.Ask[0], "/")
	}
	if len(s.Ask) == 0 || !strings.Contains(s.Ask[0], "/") || s.Spec != nil {
		ds := harness.Small(s.fill(s.Spec))
		ds.SetName(theOne)
		s.Create(ds)
		s.created = true
	}
	if s.Ready {
		s.Stage.Ready(theOne)
	}
	for i := range s.Then {
		s.step(&s.Then[i])
	}
	s.last = time.Now()
	if s.Well {
		s.staysWell()
		return
	}
	s.isNamed()
}

// fill replaces the placeholders of a row.
func (s *scene) fill(in harness.Fields) harness.Fields {
	data, err := json.Marshal(in)
	s.Must(err)
	text := strings.NewReplacer("NAMESPACE", s.Namespace, "NOW", time.Now().UTC().Format(time.RFC3339)).Replace(string(data))
	out := harness.Fields{}
	s.Must(json.Unmarshal([]byte(text), &out))
	return out
}

func (s *scene) object(of *why.Object) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(of.APIVersion)
	o.SetKind(of.Kind)
	o.SetName(strings.ReplaceAll(of.Name, "NAMESPACE", s.Namespace))
	s.place(o)
	return o
}

// place gives an object the namespace of the row, unless it is one of the cluster.
func (s *scene) place(o *unstructured.Unstructured) {
	mapping, err := suite.API.RESTMapper().RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	s.Must(err)
	if mapping.Scope.Name() == "namespace" {
		o.SetNamespace(s.Namespace)
	}
}

func (s *scene) create(fields harness.Fields) {
	o := &unstructured.Unstructured{Object: s.fill(fields)}
	s.place(o)
	status, hasStatus := o.Object["status"]
	s.Must(suite.API.Create(s.Ctx, o))
	if o.GetNamespace() == "" {
		s.Cleanup(func() { s.Must(client.IgnoreNotFound(suite.API.Delete(s.Ctx, o))) })
	}
	if hasStatus {
		o.Object["status"] = status
		s.Must(suite.API.Status().Update(s.Ctx, o))
	}
}

func (s *scene) step(step *why.Step) {
	switch {
	case step.Change != nil:
		s.Change(theOne, s.fill(step.Change))
	case step.Create != nil:
		s.create(step.Create)
	case step.Delete != nil:
		s.Must(suite.API.Delete(s.Ctx, s.object(step.Delete)))
	case step.Patch != nil:
		s.patch(s.object(&step.Patch.Object), step.Patch.With, step.Patch.Status)
	case step.Pod != nil:
		s.pod(step.Pod)
	case step.Event != nil:
		s.event(*step.Event)
	case step.Ready:
		s.Stage.Ready(theOne)
	case step.Stop != "":
		s.op.Stop()
	}
}

func (s *scene) patch(o *unstructured.Unstructured, with harness.Fields, status bool) {
	data, err := json.Marshal(s.fill(with))
	s.Must(err)
	if patch := client.RawPatch(types.MergePatchType, data); status {
		s.Must(suite.API.Status().Patch(s.Ctx, o, patch))
	} else {
		s.Must(suite.API.Patch(s.Ctx, o, patch))
	}
}

// podOf waits for the pod of a component on the node without a kubelet.
func (s *scene) podOn(component string) *corev1.Pod {
	pods := &corev1.PodList{}
	s.Until("a pod of "+component+" is on node "+still, func() error {
		s.Must(suite.API.List(s.Ctx, pods, client.InNamespace(s.Namespace), client.MatchingLabels{object.LabelComponent: component}))
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == still {
				pods.Items[0] = pods.Items[i]
				return nil
			}
		}
		return fmt.Errorf("%d pods, none there", len(pods.Items))
	})
	return &pods.Items[0]
}

func (s *scene) pod(of *why.Pod) {
	pod := s.podOn(of.Component)
	with := harness.Fields{"startTime": "NOW"}
	harness.Merge(with, of.Status)
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Pod")
	o.SetNamespace(pod.Namespace)
	o.SetName(pod.Name)
	s.patch(o, harness.Fields{"status": with}, true)
}

// event records an event about an object; a pod is named by its component.
func (s *scene) event(fields harness.Fields) {
	fields = s.fill(fields)
	if about := fields["involvedObject"].(map[string]any); about["component"] != nil {
		about["name"] = s.podOn(about["component"].(string)).Name
		delete(about, "component")
	}
	harness.Merge(fields, harness.Fields{
		"apiVersion": "v1", "kind": "Event", "metadata": harness.Fields{"generateName": "it-"}, "type": "Warning", "count": 1,
		"firstTimestamp": time.Now().UTC().Format(time.RFC3339), "lastTimestamp": time.Now().UTC().Format(time.RFC3339),
		"involvedObject": harness.Fields{"namespace": s.Namespace},
	})
	s.create(fields)
}

func (s *scene) why() (code int, lines []string, out string) {
	args := s.Ask
	if len(args) == 0 {
		args = []string{theOne}
	}
	code, out, errOut := s.run(append([]string{"why"}, args...)...)
	return code, strings.SplitN(out+errOut+"\n\n", "\n", 3), out + errOut
}

// staysWell expects that nothing is wrong until the platform is ready, and after that.
func (s *scene) staysWell() {
	isReady := func() error {
		code, _, out := s.why()
		if strings.Contains(out, "the operator has not reported on generation") {
			return errors.New("the machine is busy: the operator takes more than ten seconds")
		}
		if code != exitYes {
			s.Fatalf("why says that something is wrong:\n%s", out)
		}
		if err := harness.Mentions(out, s.Names...); err != nil {
			return err
		}
		if ds := s.DataService(theOne); s.created && ds == nil {
			return errors.New("the journal does not have it yet")
		} else if s.created {
			return s.IsReady(theOne, ds.Generation)
		}
		return nil
	}
	s.Until("it is ready", isReady)
	time.Sleep(time.Second)
	s.Must(isReady())
}

func (s *scene) isNamed() {
	var lines []string
	var out string
	err := s.Within(patience, func() error {
		var code int
		if code, lines, out = s.why(); code != exitNo {
			return fmt.Errorf("exit code %d:\n%s", code, out)
		}
		return s.says(lines)
	})
	took := time.Since(s.last).Round(time.Millisecond)
	if err != nil {
		s.Fatalf("%v in\n%s", err, out)
	}
	limit := harness.Bound(promised, false) + time.Duration(s.After)*time.Second
	if s.created && !s.Ready {
		limit += creates
	}
	if took > limit {
		s.Errorf("it is named after %s, not within %s", took, limit)
	}
	s.Logf("after %s: %s", took, lines[0])
	s.onPage(lines[0])
	if s.Do != "" {
		s.Check(harness.Mentions(out, s.Do), out)
	}
	s.runs(lines[1])
	time.Sleep(time.Second)
	if _, again, text := s.why(); s.says(again) != nil {
		s.Errorf("a second later it is\n%s", text)
	}
	s.messageSays()
}

func (s *scene) Check(err error, text string) {
	if err != nil {
		s.Errorf("%v in\n%s", err, text)
	}
}

// onPage expects a row of the page about trouble for a cause.
func (s *scene) onPage(cause string) {
	causes, err := why.Page()
	s.Must(err)
	if !slices.ContainsFunc(causes, func(c why.Cause) bool { return c.Pattern().MatchString(cause) }) {
		s.Errorf("test/why/page.yaml has no row for %s", cause)
	}
	for _, c := range causes {
		if c.Row == s.Name && !c.Pattern().MatchString(cause) {
			s.Errorf("test/why/page.yaml expects %s, not %s", c.Says, cause)
		}
	}
}

// named replaces the placeholder in words.
func (s *scene) named(words []string) []string {
	var all []string
	for _, word := range words {
		all = append(all, strings.ReplaceAll(word, "NAMESPACE", s.Namespace))
	}
	return all
}

// says reports what is missing in the first two lines.
func (s *scene) says(lines []string) error {
	if n := utf8.RuneCountInString(lines[0]); n > firstCharacters {
		return fmt.Errorf("line 1 has %d characters", n)
	}
	return errors.Join(harness.Mentions(lines[0], s.named(s.Names)...), harness.Mentions(lines[1], "look at "+strings.ReplaceAll(s.Look, "NAMESPACE", s.Namespace)))
}

// runs executes the command of line 2 as the user, which must find its object.
func (s *scene) runs(line string) {
	_, command, found := strings.Cut(line, ": kubectl ")
	if !found {
		s.Errorf("line 2 has no command: %s", line)
		return
	}
	if strings.Contains(command, "--all-namespaces") {
		return // no operator is installed in this cluster
	}
	kubectl := exec.CommandContext(s.Ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append(strings.Fields(command), "--as", s.user, "--as-group", "system:authenticated")...)
	kubectl.Env = append(os.Environ(), "KUBECONFIG="+suite.Kubeconfig)
	if out, err := kubectl.CombinedOutput(); err != nil {
		s.Errorf("%s: %v: %s", command, err, out)
	}
}

// messageSays compares MESSAGE of kubectl get with line 1.
func (s *scene) messageSays() {
	want := s.Names
	if s.Message != nil {
		want = *s.Message
	}
	want = s.named(want)
	if len(want) == 0 {
		return
	}
	kind := "DataService"
	group := "d3os-product.com.d3os/v1"
	if !s.created || len(s.Ask) > 0 && strings.Contains(s.Ask[0], "/") {
		before, _, _ := strings.Cut(s.Ask[0], "/")
		gvk := clusters[before]
		kind, group = gvk.Kind, gvk.GroupVersion().String()
	}
	s.Until("MESSAGE names the cause", func() error {
		o := s.object(&why.Object{APIVersion: group, Kind: kind, Name: s.asked})
		if err := suite.API.Get(s.Ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		message, _, _ := unstructured.NestedString(o.Object, "status", "message")
		return harness.Mentions(health.Clip(message, firstCharacters), want...)
	})
}

// keepNode adds a node that no kubelet reports on but this process, until the context ends.
func keepNode(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: still, Labels: map[string]string{still: "yes"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: still, Effect: corev1.TaintEffectNoSchedule}}}}
	if err := client.IgnoreAlreadyExists(suite.API.Create(ctx, node)); err != nil {
		return err
	}
	room := `{"cpu":"100","memory":"100Gi","pods":"500"}`
	beat := func() error {
		patch := fmt.Sprintf(`{"status":{"capacity":%s,"allocatable":%s,"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q}]}}`,
			room, room, time.Now().UTC().Format(time.RFC3339))
		return suite.API.Status().Patch(context.WithoutCancel(ctx), node, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	if err := beat(); err != nil {
		return err
	}
	go func() {
		for range time.Tick(10 * time.Second) {
			_ = beat() // the next one follows
		}
	}()
	return nil
}
