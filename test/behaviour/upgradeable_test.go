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

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
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
	readNamespace = func() (string, error) { return e.Namespace, nil }
	e.Cleanup(func() { readNamespace = was })

	scheme := runtime.NewScheme()
	e.Must(errors.Join(apiv2.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	c, err := client.New(config, client.Options{Scheme: scheme})
	e.Must(err)
	return &olm{env: e, client: c, token: e.account("operator", append(append(e.role("role.yaml"), e.role("leader_election_role.yaml")...),
		rbacv1.PolicyRule{
			APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"},
			ResourceNames: []string{installed}, Verbs: []string{"get", "update", "patch"},
		})...)}
}

// install installs the definition of OperatorConditions.
func (o *olm) install() {
	o.Helper()
	crd := crds.OperatorCondition()
	o.Must(o.client.Create(o.Ctx, crd))
	o.Cleanup(func() {
		o.Must(o.client.Delete(o.Ctx, crd))
		o.Until("OperatorConditions are gone", func() error { // until then there can be no new ones
			err := o.client.Get(o.Ctx, client.ObjectKeyFromObject(crd), crd)
			return stage.Unless(apierrors.IsNotFound(err), "they are not")
		})
	})
	o.Until("OperatorConditions are served", func() error {
		return o.client.List(o.Ctx, &apiv2.OperatorConditionList{}, client.InNamespace(o.Namespace))
	})
}

func (o *olm) createCondition() {
	o.Helper()
	o.Must(o.client.Create(o.Ctx, &apiv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: installed}}))
}

// run starts an operator with the rights that it has when OLM runs it.
func (o *olm) run() *stage.Operator {
	o.Helper()
	return o.Start(func(cfg *rest.Config, _ *manager.Options) { as(cfg, o.token) })
}

// says waits until the condition is as asked for.
func (o *olm) says(status metav1.ConditionStatus, reason string, parts ...string) {
	o.Helper()
	o.Until("Upgradeable is "+string(status), func() error {
		live := &apiv2.OperatorCondition{}
		if err := o.client.Get(o.Ctx, client.ObjectKey{Namespace: o.Namespace, Name: installed}, live); err != nil {
			return err
		}
		c := meta.FindStatusCondition(live.Spec.Conditions, apiv2.Upgradeable)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("the condition is %v", c)
		}
		return harness.Mentions(c.Message, parts...)
	})
}

func aboutUpgrades(r harness.Sent) bool { return r.Resource == "operatorconditions" }

// Without the OperatorCondition, and without the API, the operator works. Once it can it tells OLM not to upgrade it while a
// DataService is being rolled out, in a few writes. When a rollout stands in the way is the concern of internal/upgradeable.
func TestUpgradesWaitForRollouts(t *testing.T) {
	o := underOLM(alone(t))
	op := o.run()
	name := o.CreateReady(small())
	o.install()
	o.Until("it has asked for the OperatorCondition", func() error {
		return stage.Unless(len(op.Since(0, func(r harness.Sent) bool { return aboutUpgrades(r) && r.Code == http.StatusNotFound })) > 0, "it has not")
	})
	o.ChangeReady(name, fields{"auth": fields{"replica": 2}})
	o.createCondition()
	o.says(metav1.ConditionTrue, "NoRollout")

	mark := op.Mark()
	other := o.Create(second("b-"))
	o.says(metav1.ConditionFalse, "RolloutInProgress", "1 DataService", o.Namespace+"/"+other)
	o.Ready(other)
	o.says(metav1.ConditionTrue, "NoRollout")
	if writes := op.Since(mark, func(r harness.Sent) bool { return aboutUpgrades(r) && r.Writes() }); len(writes) != 2 {
		t.Errorf("a rollout made %d writes: %v", len(writes), writes)
	}
	mark = op.Mark()
	o.never("it goes on asking", func() bool { return len(op.Since(mark, aboutUpgrades)) > 0 })
	o.equal("refused", asText(op.Since(0, func(r harness.Sent) bool { return r.Code == http.StatusForbidden })), nil)
}

// Where OLM does not run the operator it asks for no OperatorCondition.
func TestWithoutOLM(t *testing.T) {
	o := underOLM(alone(t))
	o.install()
	o.createCondition()
	o.Setenv("OPERATOR_CONDITION_NAME", "")
	op := o.run()
	o.CreateReady(small())
	o.equal("requests", asText(op.Since(0, aboutUpgrades)), nil)
}
