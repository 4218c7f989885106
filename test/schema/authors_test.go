// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	"d3os.com/d3os-operator/internal/object"
)

// The policy of config/admission covers every kind of the project. A change of any field requires the right to create pods.
// testdata/fields.golden lists all fields: a new field fails the test. First check what the field adds to a pod (SECURITY.md, T8), then run
// the test with -update.
func TestAuthorsPolicyCoversEveryFieldOfEveryKind(t *testing.T) {
	t.Parallel()
	policy := readPolicy(t)
	known := map[string]bool{}
	for _, crd := range allCRDs(t) {
		resource := crd.Spec.Group + "/" + crd.Spec.Names.Plural
		for _, operation := range []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update} {
			assert.Assert(t, policy.matches(crd, "", operation), "%s of %s is not covered", operation, resource)
		}
		fields := map[string]any{}
		leaves(fields, "", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
		assert.Assert(t, policy.refuses(t, crd, "", "pods", nil, map[string]any{}), "an empty %s may be created", crd.Spec.Names.Kind)
		for _, path := range slices.Sorted(maps.Keys(fields)) {
			spec := map[string]any{}
			setField(spec, strings.Split(path, "."), fields[path])
			assert.Assert(t, policy.refuses(t, crd, "", "pods", nil, spec), "a %s with %s may be created", crd.Spec.Names.Kind, path)
			assert.Assert(t, policy.refuses(t, crd, "", "pods", map[string]any{}, spec), "%s of a %s may be changed", path, crd.Spec.Names.Kind)
			known[crd.Spec.Names.Kind+" "+component.ReplaceAllString(path, "<component>.")] = true
		}
	}
	golden.Assert(t, strings.Join(slices.Sorted(maps.Keys(known)), "\n")+"\n", "fields.golden")
}

// The author of a resource needs the right to create each kind of object that the operator creates for it, and no other right. A user who
// may only scale the resource needs the same rights. The controller of HorizontalPodAutoscalers needs none.
func TestAuthorsPolicyNeedsEachRight(t *testing.T) {
	t.Parallel()
	policy := readPolicy(t)
	ofCluster := []string{"networkpolicies", "persistentvolumeclaims", "pods", "secrets", "services"}
	needed := map[string][]string{
		"DataBackup": {"pods"}, "DataRestore": {"persistentvolumeclaims", "pods"}, "DataService": append([]string{"ingresses"}, ofCluster...),
		"EtcdCluster": ofCluster, "MySQLCluster": ofCluster, "RedisCluster": ofCluster,
		"AppService": {"pods", "services"}, "ModelBox": {"pods", "services"}, "CronTab": {"pods"},
	}
	for _, crd := range allCRDs(t) {
		kind := crd.Spec.Names.Kind
		was, spec := map[string]any{"replicas": int64(3)}, map[string]any{"replicas": int64(5)}
		subresources := []string{""}
		if crd.Spec.Versions[0].Subresources.Scale != nil {
			subresources = append(subresources, "scale")
		}
		for _, subresource := range subresources {
			assert.Assert(t, policy.matches(crd, subresource, admissionregistrationv1.Update), "%s/%s is not covered", kind, subresource)
			for _, right := range []string{"ingresses", "networkpolicies", "persistentvolumeclaims", "pods", "secrets", "services"} {
				refused := policy.refuses(t, crd, subresource, right, was, spec)
				assert.Equal(t, refused, slices.Contains(needed[kind], right), "%s/%s without %s", kind, subresource, right)
			}
			assert.Assert(t, !policy.refuses(t, crd, subresource, "pods", was, was), "%s/%s is refused without a change", kind, subresource)
			autoscaler := policy
			autoscaler.author = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
			assert.Equal(t, autoscaler.refuses(t, crd, subresource, "pods", was, spec), subresource == "", "%s/%s by the autoscaler", kind, subresource)
		}
	}
}

// Only the author of a DataService with an httpRoute needs the right to create HTTPRoutes. The field may be in any component.
func TestAuthorsPolicyOfRoutes(t *testing.T) {
	t.Parallel()
	policy := readPolicy(t)
	crd := readCRD(t, crdFile)
	route := map[string]any{"httpRoute": map[string]any{"gateways": []any{map[string]any{"name": "public"}}}}
	for _, spec := range []map[string]any{
		{"web": route}, {"gateway-web": route}, {"gateway-master": route}, {"additionalServices": []any{map[string]any{"name": "a"}, route}},
	} {
		assert.Check(t, policy.refuses(t, crd, "", "httproutes", nil, spec), "%v is created", spec)
		assert.Check(t, policy.refuses(t, crd, "", "httproutes", map[string]any{}, spec), "%v is added", spec)
	}
	for _, spec := range []map[string]any{{}, {"web": map[string]any{}}, {"additionalServices": []any{map[string]any{"name": "a"}}}} {
		assert.Check(t, !policy.refuses(t, crd, "", "httproutes", nil, spec), "%v requires the right", spec)
	}
}

// No role for the project's API groups replaces the right to create pods, even if the role has all verbs on all their resources. The policy
// recognizes the operator only by the name of its ServiceAccount.
func TestAuthorsPolicyJudgesEveryShapeOfRole(t *testing.T) {
	t.Parallel()
	crds := allCRDs(t)
	var groups, plurals, statuses []string
	for _, crd := range crds {
		groups, plurals = append(groups, crd.Spec.Group), append(plurals, crd.Spec.Names.Plural)
		statuses = append(statuses, crd.Spec.Names.Plural+"/status")
	}
	ours := func(resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs}
	}
	everything := ours([]string{"*"}, "*")
	policy := readPolicy(t)
	was, spec := map[string]any{"replicas": int64(3)}, map[string]any{"replicas": int64(5)}
	for _, crd := range crds {
		kind := crd.Spec.Names.Kind
		for shape, rules := range map[string][]rbacv1.PolicyRule{
			"every verb on every resource": {everything},
			"status only":                  {ours(statuses, "get", "update", "patch")},
			"create on one kind":           {ours([]string{crd.Spec.Names.Plural}, "create")},
			"create and status":            {ours([]string{crd.Spec.Names.Plural}, "create"), ours(statuses, "update", "patch")},
			"update only":                  {ours(plurals, "get", "update", "patch")},
			"binds itself to every resource": {
				{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings", "clusterroles"}, Verbs: []string{"create", "bind"}}, everything,
			},
		} {
			assert.Check(t, policy.refusesRole(t, crd, "", role(rules...), nil, spec), "%s: a %s may be created", shape, kind)
			assert.Check(t, policy.refusesRole(t, crd, "", role(rules...), was, spec), "%s: a %s may be changed", shape, kind)
			if crd.Spec.Versions[0].Subresources.Scale != nil {
				assert.Check(t, policy.refusesRole(t, crd, "scale", role(rules...), was, spec), "%s: a %s may be scaled", shape, kind)
			}
		}
	}
}

// The operator creates and changes the clusters of a DataService with its own role, which cannot create pods. The policy does not exempt an
// account of the same name in another namespace. It does not let the operator write a DataService, a backup or a restore.
func TestAuthorsPolicyExemptsTheOperatorAlone(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../config/rbac/role.yaml")
	assert.NilError(t, err)
	var own rbacv1.ClusterRole
	assert.NilError(t, yaml.UnmarshalStrict(data, &own))
	policy := readPolicy(t)
	was, spec := map[string]any{"replicas": int64(3)}, map[string]any{"replicas": int64(5)}
	for _, crd := range allCRDs(t) {
		kind := crd.Spec.Names.Kind
		isCluster := strings.HasSuffix(kind, "Cluster")
		for author, exempt := range map[string]bool{
			"system:serviceaccount:d3os-operator-system:d3os-operator-controller-manager": isCluster,
			"system:serviceaccount:other:d3os-operator-controller-manager":                false,
			"system:serviceaccount:d3os-operator-system:default":                          false,
			"d3os-operator-controller-manager":                                            false,
		} {
			policy.author = author
			assert.Equal(t, policy.refusesRole(t, crd, "", role(own.Rules...), nil, spec), !exempt, "%s creates a %s", author, kind)
			assert.Equal(t, policy.refusesRole(t, crd, "", role(own.Rules...), was, spec), !exempt, "%s changes a %s", author, kind)
		}
	}
}

// Two annotations have effects like fields of a spec: the consent to lose data of a RedisCluster, and the record that a backup or restore
// was started. Without that record, a copied backup or restore would create pods again. The operator may write the record, although it may
// not create pods.
func TestAuthorsPolicyCoversAnnotations(t *testing.T) {
	t.Parallel()
	policy := readPolicy(t)
	for _, crd := range allCRDs(t) {
		for _, test := range []struct {
			key, was, is string
			refused      bool
		}{
			{redisv1.AnnotationConsent, "", "node", true},
			{redisv1.AnnotationConsent, "node", "other", true},
			{redisv1.AnnotationConsent, "node", "node", false},
			{object.AnnotationStarted, "", "uid", false},
			{object.AnnotationStarted, "uid", "", true},
			{object.AnnotationStarted, "uid", "other", true},
			{"example.com/note", "a", "b", false},
		} {
			policy.before, policy.after = annotations(test.key, test.was), annotations(test.key, test.is)
			refused := policy.refuses(t, crd, "", "pods", map[string]any{}, map[string]any{})
			assert.Check(t, refused == test.refused, "%s: %s from %q to %q: refused %t", crd.Spec.Names.Kind, test.key, test.was, test.is, refused)
		}
	}
}

// annotations returns a map with one annotation, or nil if the value is empty.
func annotations(key, value string) map[string]string {
	if value == "" {
		return nil
	}
	return map[string]string{key: value}
}

// component matches the paths of a platform's components, which share their fields.
var component = regexp.MustCompile(`^(api-manager|auth|(ds|es|trd)-adapter|gateway-(master|web)|proxy|web|uuc|eureka|mysql|additionalServices\[\]|cronJobs\[\])\.`)

// leaves adds the path of each leaf field of a schema to found, with a value for the field.
func leaves(found map[string]any, at string, s apiextensionsv1.JSONSchemaProps) {
	switch {
	case slices.Contains([]string{"affinity", "env", "topologySpreadConstraints", "tolerations", "resources"}, last(at)),
		slices.Contains([]string{"envs", "readinessProbe", "livenessProbe"}, at):
		found[at] = map[string]any{"a": "b"} // an object of a Kubernetes type counts as one field
	case len(s.Properties) > 0:
		for name, property := range s.Properties {
			leaves(found, strings.TrimPrefix(at+"."+name, "."), property)
		}
	case s.Items != nil && s.Items.Schema != nil:
		leaves(found, at+"[]", *s.Items.Schema)
	case strings.HasSuffix(at, "[]"):
		found[at] = []any{map[string]any{"a": "b"}}
	default:
		found[at] = "a"
	}
}

func last(path string) string {
	return strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
}

// setField sets a field, and creates one item in each list on its path.
func setField(in map[string]any, path []string, value any) {
	name, isList := strings.CutSuffix(path[0], "[]")
	if len(path) == 1 {
		in[name] = value
		return
	}
	below := map[string]any{}
	setField(below, path[1:], value)
	if in[name] = below; isList {
		in[name] = []any{below}
	}
}

// policy evaluates the ValidatingAdmissionPolicy as the API server does.
type policy struct {
	rules                   []admissionregistrationv1.NamedRuleWithOperations
	conditions, validations plugincel.ConditionEvaluator
	author                  string
	before, after           map[string]string // annotations of the changed resource
}

func readPolicy(t *testing.T) policy {
	t.Helper()
	data, err := os.ReadFile("../../config/admission/authors.yaml")
	assert.NilError(t, err)
	text, _, _ := strings.Cut(string(data), "\n---\n")
	var read admissionregistrationv1.ValidatingAdmissionPolicy
	assert.NilError(t, yaml.UnmarshalStrict([]byte(text), &read))
	var conditions, validations []plugincel.ExpressionAccessor
	for _, c := range read.Spec.MatchConditions {
		conditions = append(conditions, &matchconditions.MatchCondition{Expression: c.Expression})
	}
	for _, v := range read.Spec.Validations {
		validations = append(validations, &matchconditions.MatchCondition{Expression: v.Expression})
	}
	compile := func(expressions []plugincel.ExpressionAccessor) plugincel.ConditionEvaluator {
		compiler := plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		compiled := compiler.CompileCondition(expressions, plugincel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.NewExpressions)
		assert.Equal(t, len(compiled.CompilationErrors()), 0, "%v", compiled.CompilationErrors())
		return compiled
	}
	return policy{read.Spec.MatchConstraints.ResourceRules, compile(conditions), compile(validations), "author", nil, nil}
}

func (p policy) matches(crd *apiextensionsv1.CustomResourceDefinition, subresource string, operation admissionregistrationv1.OperationType) bool {
	resource := strings.TrimSuffix(crd.Spec.Names.Plural+"/"+subresource, "/")
	return slices.ContainsFunc(p.rules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.Contains(r.APIGroups, crd.Spec.Group) && slices.Contains(r.APIVersions, "*") &&
			slices.Contains(r.Resources, resource) && slices.Contains(r.Operations, operation)
	})
}

// refuses reports whether the policy refuses an author who has all rights except to create one resource. was is nil for a create request.
func (p policy) refuses(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, subresource, right string, was, spec map[string]any) bool {
	t.Helper()
	return p.refusesRole(t, crd, subresource, allExcept(right), was, spec)
}

// refusesRole reports whether the policy refuses an author with these rights. was is nil for a create request.
func (p policy) refusesRole(
	t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, subresource string, rights authorizer.Authorizer, was, spec map[string]any,
) bool {
	t.Helper()
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind}
	resource := gvk.GroupVersion().WithResource(crd.Spec.Names.Plural)
	if subresource == "scale" {
		gvk = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	}
	resourceWith := func(spec map[string]any, annotations map[string]string) runtime.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetGroupVersionKind(gvk)
		o.SetName("a")
		o.SetNamespace("data")
		o.SetAnnotations(annotations)
		return o
	}
	operation, before := admission.Create, runtime.Object(nil)
	if was != nil {
		operation, before = admission.Update, resourceWith(was, p.before)
	}
	attributes := admission.NewAttributesRecord(resourceWith(spec, p.after), before, gvk, "data", "a", resource, subresource, operation, nil, false, &user.DefaultInfo{Name: p.author})
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(resourceWith(spec, p.after)), VersionedOldObject: admission.NewLazyObject(before)}
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(gvk))
	evaluate := func(e plugincel.ConditionEvaluator) (hold bool) {
		results, _, err := e.ForInput(context.Background(), versioned, request, plugincel.OptionalVariableBindings{Authorizer: rights}, nil, celconfig.RuntimeCELCostBudget)
		assert.NilError(t, err)
		return !slices.ContainsFunc(results, func(r plugincel.EvaluationResult) bool {
			assert.NilError(t, r.Error)
			return fmt.Sprint(r.EvalResult.Value()) != "true"
		})
	}
	return evaluate(p.conditions) && !evaluate(p.validations)
}

// allExcept allows everything except the creation of one resource.
func allExcept(resource string) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetResource() == resource && a.GetVerb() == "create" {
			return authorizer.DecisionDeny, "", nil
		}
		return authorizer.DecisionAllow, "", nil
	}
}

// role allows what its rules allow, as RBAC of the API server does.
func role(rules ...rbacv1.PolicyRule) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		resource := strings.TrimSuffix(a.GetResource()+"/"+a.GetSubresource(), "/")
		holds := func(values []string, value string) bool {
			return slices.Contains(values, "*") || slices.Contains(values, value)
		}
		for _, rule := range rules {
			if holds(rule.APIGroups, a.GetAPIGroup()) && holds(rule.Resources, resource) && holds(rule.Verbs, a.GetVerb()) {
				return authorizer.DecisionAllow, "", nil
			}
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}
