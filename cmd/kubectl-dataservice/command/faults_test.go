// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
	"d3os.com/d3os-operator/test/why"
)

const (
	// promised limits the time until why names the cause. It applies to each fault of the corpus.
	promised = 10 * time.Second
	// findings is the number of findings of issue 36, W1 to W15. Each finding must have a row in the corpus.
	findings = 15
	// theOne is the name of the DataService in all rows.
	theOne = "platform"
	// still is the name of a node without a kubelet. So the rows themselves write the statuses of its pods.
	still = "still"
	// firstCharacters is the number of characters of a line that a terminal shows.
	firstCharacters = 120
)

// short lists the rows that run with -short: one row for each source from which why takes a cause (see the comments).
// No row depends on a time limit or on the order of events.
var short = []string{
	"an image that there is not",               // the state of a container
	"out of memory",                            // the last termination of a container
	"a node selector that no node has",         // a condition of a pod
	"a Secret of a volume that there is not",   // an event of a pod
	"a quota of storage",                       // an event of a workload
	"a storage class that there is not",        // an event of a claim
	"an object of another owner",               // an error of a component
	"a wrong value in a podTemplate",           // an error of the spec
	"a claim that is being deleted",            // a claim of a running component
	"a user without rights on pods",            // only the status
	"a finalizer",                              // the DataService
	"paused and broken",                        // a component that the paused operator does not repair
	"a cron job whose last run failed",         // the runs of a cron job
	"a backup of nothing",                      // a resource without objects
	"a version of Redis that is not supported", // the status of a cluster
	"an image of Redis that there is not",      // a pod of a cluster
}

// why names each fault of the corpus: the cause in line 1, and an existing object in line 2. MESSAGE of kubectl get names the same cause.
// The user has only the role view. SEED changes the order of the rows. With -short, only the rows of short run.
func TestFaults(t *testing.T) {
	t.Parallel()
	rows, err := why.Read()
	assert.NilError(t, err)
	for n := 1; n <= findings; n++ {
		w := fmt.Sprintf("W%d", n)
		assert.Check(t, slices.ContainsFunc(rows, func(f why.Fault) bool { return slices.Contains(f.Shows, w) }), "no row shows %s", w)
	}
	if testing.Short() {
		rows = slices.DeleteFunc(rows, func(f why.Fault) bool { return !slices.Contains(short, f.Name) })
		assert.Equal(t, len(rows), len(short), "a row of the short form is not in the corpus")
	} else if given := os.Getenv("SEED"); given != "" {
		seed, err := strconv.ParseUint(given, 10, 64)
		assert.NilError(t, err)
		t.Logf("replay this order: SEED=%d go test -C cmd/kubectl-dataservice -run TestFaults ./command", seed)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			(&scene{env: newEnv(t, cmp.Or(row.Role, "view")), Fault: row}).play()
		})
	}
}

// scene is a running test of one row.
type scene struct {
	*env
	why.Fault

	op      *stage.Operator
	asked   string // name of the resource to diagnose
	last    time.Time
	created bool
}

// start starts an operator.
func (s *scene) start() {
	s.op = s.Start(func(_ *rest.Config, o *manager.Options) {
		agent := s.Agent
		if len(s.Ask) > 0 && strings.Contains(s.Ask[0], "/") { // etcd and backups need the agent
			agent = "registry.example/agent:v1"
		}
		if agent != "" {
			o.Images = map[string]string{values.AgentImage: agent}
		}
	})
}

func (s *scene) play() {
	for _, o := range s.Before {
		s.create(o)
		switch o["kind"] {
		case "ValidatingAdmissionPolicyBinding":
			s.awaitPolicies()
		case "MutatingAdmissionPolicyBinding":
			s.awaitMutations()
		}
	}
	if !s.Down {
		s.start()
	}
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

// place sets the namespace of the row, unless the object is cluster-scoped.
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
		generation := s.Change(theOne, s.fill(step.Change))
		if step.Change["paused"] == true { // an operator that has not paused yet would revert the next step
			s.Until("the operator pauses", func() error { return harness.Observed(s.DataService(theOne), generation) })
		}
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
	case step.Well:
		if code, _, out := s.why(); code != exitYes {
			s.Fatalf("why reports a problem of a healthy platform:\n%s", out)
		}
	case step.Stop != "":
		s.op.Stop()
	case step.Start != "":
		s.start()
	case step.Lose != "":
		s.lose(step.Lose)
	case step.End != "":
		s.Must(suite.API.Delete(s.Ctx, s.podOn(step.End), client.GracePeriodSeconds(1)))
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

// podOn waits for the pod of a component on the node without a kubelet.
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
		return fmt.Errorf("%d pods, but none on that node", len(pods.Items))
	})
	return &pods.Items[0]
}

func (s *scene) pod(of *why.Pod) {
	pod := s.podOn(of.Component)
	with := harness.Fields{"startTime": "NOW"}
	harness.Merge(with, of.Status)
	if of.Volume != nil {
		s.report(with, of.Volume)
	}
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("Pod")
	o.SetNamespace(pod.Namespace)
	o.SetName(pod.Name)
	s.patch(o, harness.Fields{"status": with}, true)
}

// event records an event about an object. A pod is given by its component.
func (s *scene) event(fields harness.Fields) {
	fields = s.fill(fields)
	if about := fields["involvedObject"].(map[string]any); about["component"] != nil {
		pod := s.podOn(about["component"].(string))
		about["name"], about["uid"] = pod.Name, string(pod.UID)
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

// staysWell checks that why reports no problem until the platform is ready, and after that.
func (s *scene) staysWell() {
	isReady := func() error {
		code, _, out := s.why()
		if strings.Contains(out, "the operator has not reported on generation") {
			return errors.New("the machine is busy: the operator takes more than ten seconds")
		}
		if code != exitYes {
			s.Fatalf("why reports a problem of a healthy platform:\n%s", out)
		}
		if err := harness.Mentions(out, s.Names...); err != nil {
			return err
		}
		if ds := s.DataService(theOne); s.created && ds == nil {
			return errors.New("the journal does not have the state of the API server yet")
		} else if s.created {
			return s.IsReady(theOne, ds.Generation)
		}
		return nil
	}
	s.Until("it is ready", isReady) // isReady also waits until the journal has the state of the API server
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
	named := time.Now()
	if err != nil {
		s.Fatalf("%v in\n%s", err, out)
	}
	took := named.Sub(s.known(lines)).Round(time.Millisecond)
	if limit := promised + time.Duration(s.After)*time.Second; !testing.Short() && took > limit {
		s.Errorf("why named the cause after %s, limit %s", took, limit)
	}
	s.Logf("after %s: %s", took, lines[0])
	s.onPage(lines[0])
	if s.Do != "" {
		s.Check(harness.Mentions(out, s.Do), out)
	}
	s.runs(lines[1])
	s.messageSays(lines[0])
	if _, again, text := s.why(); s.says(again) != nil {
		s.Errorf("later, why prints\n%s", text)
	}
}

// shown matches the objects in a line.
var shown = regexp.MustCompile(`\b([A-Z][A-Za-z]+|pod) ([a-z0-9][a-z0-9.-]*[a-z0-9])`)

// known returns the time at which the API server first showed the fault, but never a time before the last step. It is
// the creation of the newest object in the first two lines, or the time at which the deletion of the namespace's
// content failed.
func (s *scene) known(lines []string) time.Time {
	at := s.last
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	kinds := slices.Concat(object.Kinds, object.Optional, []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod"), object.JobKind})
	for _, found := range shown.FindAllStringSubmatch(lines[0]+"\n"+lines[1], -1) {
		for _, gvk := range kinds {
			if !strings.EqualFold(gvk.Kind, found[1]) {
				continue
			}
			o := object.Empty(gvk)
			if err := suite.API.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: found[2]}, o); err == nil {
				later(o.GetCreationTimestamp().Time)
			}
		}
	}
	namespace := &corev1.Namespace{}
	s.Must(suite.API.Get(s.Ctx, client.ObjectKey{Name: s.Namespace}, namespace))
	for _, c := range namespace.Status.Conditions {
		if c.Type == corev1.NamespaceFinalizersRemaining {
			later(c.LastTransitionTime.Time)
		}
	}
	return at
}

func (s *scene) Check(err error, text string) {
	if err != nil {
		s.Errorf("%v in\n%s", err, text)
	}
}

// onPage checks that the troubleshooting page has a row for a cause.
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

// named replaces the placeholder NAMESPACE in words.
func (s *scene) named(words []string) []string {
	var all []string
	for _, word := range words {
		all = append(all, strings.ReplaceAll(word, "NAMESPACE", s.Namespace))
	}
	return all
}

// says returns an error if line 1 is too long, or if one of the first two lines lacks an expected word.
func (s *scene) says(lines []string) error {
	if n := utf8.RuneCountInString(lines[0]); n > firstCharacters {
		return fmt.Errorf("line 1 has %d characters", n)
	}
	return errors.Join(harness.Mentions(lines[0], s.named(s.Names)...), harness.Mentions(lines[1], "look at "+strings.ReplaceAll(s.Look, "NAMESPACE", s.Namespace)))
}

// runs executes the command in line 2 as the user. The command must find the object that it names.
func (s *scene) runs(line string) {
	_, command, found := strings.Cut(line, ": kubectl ")
	if !found {
		s.Errorf("line 2 has no command: %s", line)
		return
	}
	kubectl := exec.CommandContext(s.Ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append(strings.Fields(command), "--as", s.user, "--as-group", "system:authenticated")...)
	kubectl.Env = append(os.Environ(), "KUBECONFIG="+suite.Kubeconfig)
	if out, err := kubectl.CombinedOutput(); err != nil {
		s.Errorf("%s: %v: %s", command, err, out)
	}
}

// messageSays checks that MESSAGE of kubectl get names the cause that the row expects, and begins like line 1 of why. In the status of a
// single resource, the message does not repeat the resource's name.
func (s *scene) messageSays(line string) {
	if s.Silent != "" {
		if len(s.Message) > 0 || !s.IsWithoutOperator() {
			s.Fatal("a row is silent only if no operator can write the status")
		}
		return
	}
	words := s.named(s.Names)
	begin := words[0]
	if at := strings.Index(line, begin); len(s.Message) == 0 && at >= 0 {
		begin = line[:at+len(begin)]
	}
	if len(s.Message) > 0 {
		words = s.named(s.Message)
		begin = words[0]
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
		if !strings.HasPrefix(message, strings.TrimPrefix(begin, s.asked+": ")) {
			return fmt.Errorf("%q does not begin with %q", message, begin)
		}
		return harness.Mentions(health.Clip(message, firstCharacters), words...)
	})
}
