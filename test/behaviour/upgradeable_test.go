// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	_ "unsafe" // for the link to the library's variable

	"github.com/operator-framework/api/crds"
	apiv2 "github.com/operator-framework/api/pkg/operators/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
)

// readNamespace is how operator-lib learns the operator's namespace: from a file that only pods have.
//
//go:linkname readNamespace github.com/operator-framework/operator-lib/conditions.readNamespace
var readNamespace func() (string, error)

// installed is the name of the OperatorCondition: that of the installed ClusterServiceVersion.
const installed = "d3os-operator.v0.1.0"

// olm is what the Operator Lifecycle Manager does for an operator: an OperatorCondition, and the
// right to read and write that one.
type olm struct {
	*env
	client client.Client
	token  string
}

// underOLM makes the operators of a test such that OLM runs.
func underOLM(e *env) *olm {
	e.Helper()
	e.Setenv("OPERATOR_CONDITION_NAME", installed)
	was := readNamespace
	readNamespace = func() (string, error) { return e.namespace, nil }
	e.Cleanup(func() { readNamespace = was })

	scheme := runtime.NewScheme()
	e.must(errors.Join(apiv2.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	c, err := client.New(config, client.Options{Scheme: scheme})
	e.must(err)
	return &olm{env: e, client: c, token: e.account("operator", append(append(e.role("role.yaml"), e.role("leader_election_role.yaml")...),
		rbacv1.PolicyRule{
			APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"},
			ResourceNames: []string{installed}, Verbs: []string{"get", "update", "patch"},
		})...)}
}

// install installs the definition of OperatorConditions unless OLM has.
func (o *olm) install() {
	o.Helper()
	crd := crds.OperatorCondition()
	switch err := o.client.Create(o.ctx, crd); {
	case err == nil:
		o.Cleanup(func() {
			o.must(o.client.Delete(o.ctx, crd))
			o.until("OperatorConditions are gone", func() error { // until then there can be no new ones
				err := o.client.Get(o.ctx, client.ObjectKeyFromObject(crd), crd)
				return unless(apierrors.IsNotFound(err), "they are not")
			})
		})
	case !apierrors.IsAlreadyExists(err):
		o.Fatal(err)
	}
	o.until("OperatorConditions are served", func() error {
		return o.client.List(o.ctx, &apiv2.OperatorConditionList{}, client.InNamespace(o.namespace))
	})
}

func (o *olm) createCondition() {
	o.Helper()
	o.must(o.client.Create(o.ctx, &apiv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: installed}}))
}

// run starts an operator with the rights that it has when OLM runs it.
func (o *olm) run() *operator {
	o.Helper()
	return o.startOperator(func(cfg *rest.Config, _ *manager.Options) {
		*cfg = *rest.AnonymousClientConfig(cfg)
		cfg.BearerToken = o.token
	})
}

// says waits until the condition is as asked for.
func (o *olm) says(status metav1.ConditionStatus, reason string, parts ...string) {
	o.Helper()
	o.until("Upgradeable is "+string(status), func() error {
		live := &apiv2.OperatorCondition{}
		if err := o.client.Get(o.ctx, client.ObjectKey{Namespace: o.namespace, Name: installed}, live); err != nil {
			return err
		}
		c := meta.FindStatusCondition(live.Spec.Conditions, apiv2.Upgradeable)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("the condition is %v", c)
		}
		return mentions(c.Message, parts...)
	})
}

func aboutUpgrades(r request) bool { return r.Resource == "operatorconditions" }

func aboutUpgradesWritten(r request) bool { return aboutUpgrades(r) && r.Writes() }

// OLM is told not to upgrade the operator while a DataService is being rolled out, in a few writes.
func TestUpgradesWaitForRollouts(t *testing.T) {
	o := underOLM(alone(t))
	o.install()
	o.createCondition()
	op := o.run()
	o.says(metav1.ConditionTrue, "NoRollout")
	mark := op.mark()
	name := o.create(small())
	o.says(metav1.ConditionFalse, "RolloutInProgress", "1 DataService", o.namespace+"/"+name)
	o.ready(name)
	o.says(metav1.ConditionTrue, "NoRollout")
	o.changeReady(name, fields{"auth": fields{"image": "registry.example/auth:v2"}})
	o.says(metav1.ConditionTrue, "NoRollout")
	if writes := op.since(mark, aboutUpgradesWritten); len(writes) < 2 || len(writes) > 4 {
		t.Errorf("two rollouts made %d writes: %v", len(writes), writes)
	}

	// What does not come up holds nothing back: a newer operator may be the cure.
	o.change(name, fields{
		"mysql": fields{"image": "registry.example/mysql:does-not-exist"}, "auth": fields{"image": "registry.example/auth:v3"},
	})
	o.condition(name, dsv1.ConditionDegraded, metav1.ConditionTrue, dsv1.ReasonComponentFailing, "mysql")
	o.condition(name, dsv1.ConditionProgressing, metav1.ConditionTrue, "")
	o.says(metav1.ConditionTrue, "NoRollout")

	// Nor does a change that is not to be carried out yet.
	mark = op.mark()
	o.change(name, fields{"paused": true, "mysql": fields{"image": nil}})
	o.condition(name, dsv1.ConditionPaused, metav1.ConditionTrue, "")
	o.never("a paused DataService holds back an upgrade", func() bool { return len(op.since(mark, aboutUpgradesWritten)) > 0 })

	// Nor does one that is deleted in the middle of it.
	other := o.create(second("b-"))
	o.says(metav1.ConditionFalse, "RolloutInProgress", o.namespace+"/"+other)
	o.remove(other)
	o.says(metav1.ConditionTrue, "NoRollout")

	// At rest and after a restart there is nothing to write.
	mark = op.mark()
	o.never("it goes on writing", func() bool { return len(op.since(mark, aboutUpgrades)) > 0 })
	op.stop()
	op = o.run()
	o.until("it has looked", func() error { return unless(len(op.since(0, aboutUpgrades)) > 0, "it has not") })
	o.never("it writes after a restart", func() bool { return len(op.since(0, aboutUpgradesWritten)) > 0 })
	o.equal("refused", asText(op.since(0, func(r request) bool { return r.code == http.StatusForbidden })), nil)
}

// Without the OperatorCondition, and without the API, the operator works; it tells OLM when it can.
func TestOLMIsNotThereYet(t *testing.T) {
	o := underOLM(alone(t))
	op := o.run()
	name := o.createReady(small())
	o.install()
	o.until("it has asked for the OperatorCondition", func() error {
		return unless(len(op.since(0, func(r request) bool { return aboutUpgrades(r) && r.code == http.StatusNotFound })) > 0, "it has not")
	})
	o.changeReady(name, fields{"auth": fields{"replica": 2}})
	o.createCondition()
	o.says(metav1.ConditionTrue, "NoRollout")
}

// Where OLM does not run the operator it asks for no OperatorCondition.
func TestWithoutOLM(t *testing.T) {
	o := underOLM(alone(t))
	o.install()
	o.createCondition()
	o.Setenv("OPERATOR_CONDITION_NAME", "")
	op := o.run()
	o.createReady(small())
	o.equal("requests", asText(op.since(0, aboutUpgrades)), nil)
}
