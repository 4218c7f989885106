// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	backupv1 "d3os.com/d3os-operator/api/backup/v1alpha1"
	etcdv1 "d3os.com/d3os-operator/api/etcd/v1alpha1"
	mysqlv1 "d3os.com/d3os-operator/api/mysql/v1alpha1"
	redisv1 "d3os.com/d3os-operator/api/redis/v1alpha1"
	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// T8. With the policy of config/admission, a user may write DataServices only with the right to create pods and the
// other objects of a DataService. Changes of metadata, and the operator's writes, need no such right.
func TestThreatAuthorWithoutRights(t *testing.T) {
	e := alone(t) // the policy applies to the whole cluster
	policy, err := os.ReadFile(filepath.Join(cluster.Root(), "config/admission/authors.yaml"))
	e.Must(err)
	// In this test, the operator has another account than in config/default.
	text := string(policy)
	const operator = "system:serviceaccount:d3os-operator-system:d3os-operator-controller-manager"
	if strings.Count(text, operator) != 1 {
		t.Fatalf("the policy names %s %d times", operator, strings.Count(text, operator))
	}
	for _, object := range objectsOf(e, strings.Replace(text, operator, "system:serviceaccount:"+e.Namespace+":operator", 1)) {
		e.Must(api.Create(e.Ctx, object))
		e.Cleanup(func() { e.Must(client.IgnoreNotFound(api.Delete(e.Ctx, object))) })
	}
	editor := slices.Concat(e.role("dataservice_editor_role.yaml"), e.role("databackup_editor_role.yaml"), e.role("datarestore_editor_role.yaml"))
	editor = append(editor, rbacv1.PolicyRule{
		APIGroups: []string{redisv1.GroupVersion.Group, etcdv1.GroupVersion.Group}, Resources: []string{"redisclusters/scale", "etcdclusters/scale"}, Verbs: []string{"update"},
	})
	create := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"create"}}
	}
	makes := []rbacv1.PolicyRule{
		create("", "pods", "secrets", "services", "persistentvolumeclaims"),
		create("networking.k8s.io", "ingresses", "networkpolicies"),
	}
	someone := e.client("someone", slices.Concat(editor, makes)...)
	nobody := e.client("nobody", editor...)
	escape := func() *unstructured.Unstructured {
		ds := small(fields{"auth": fields{"serviceAccountName": "admin", "podTemplate": fields{"spec": fields{"hostPID": true}}}})
		ds.SetNamespace(e.Namespace)
		return ds
	}
	e.Until("the policy is in force", func() error {
		err := nobody.Create(e.Ctx, escape(), client.DryRunAll)
		return stage.Unless(apierrors.IsForbidden(err) && strings.Contains(err.Error(), "create pods"), fmt.Sprint(err))
	})
	// The policy refuses a user who lacks one of the rights.
	for i, rule := range makes {
		for j, resource := range rule.Resources {
			less := slices.Clone(makes)
			less[i] = create(rule.APIGroups[0], slices.Delete(slices.Clone(rule.Resources), j, j+1)...)
			err := e.client(fmt.Sprintf("without-%d-%d", i, j), slices.Concat(editor, less)...).Create(e.Ctx, escape(), client.DryRunAll)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "create "+resource) {
				t.Errorf("without the right to create %s: %v", resource, err)
			}
		}
	}
	ds := escape()
	e.Must(api.Create(e.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "admin"}}))
	e.Must(someone.Create(e.Ctx, ds))
	e.refusesRoles(escape())
	e.Start(func(cfg *rest.Config, _ *manager.Options) { // the policy does not judge writes of the status
		as(cfg, e.account("operator", e.role("role.yaml")...))
	})
	e.Ready(ds.GetName())
	change := func(c client.Client, patch string) error {
		return c.Patch(e.Ctx, ds.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	if err := change(nobody, `{"spec":{"auth":{"podTemplate":null}}}`); !apierrors.IsForbidden(err) {
		t.Errorf("the spec was changed: %v", err)
	}
	// The operator creates these resources without the rights of an author: the policy has already judged the author of
	// the DataService. Other accounts need the rights.
	for component, made := range map[string]client.Object{"redis": &redisv1.RedisCluster{}, "etcd": &etcdv1.EtcdCluster{}} {
		made.SetNamespace(e.Namespace)
		made.SetName(component)
		if err := nobody.Create(e.Ctx, made.DeepCopyObject().(client.Object), client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("a resource of the kind for %s was created: %v", component, err)
		}
		e.Must(change(someone, `{"spec":{"`+component+`":{}}}`))
		e.Until("the operator makes it for "+component, func() error { return api.Get(e.Ctx, client.ObjectKeyFromObject(made), made) })
		e.mayScale(made, map[client.Client]bool{nobody: false, someone: true, e.autoscaler(): true})
		e.Must(change(someone, `{"spec":{"`+component+`":null}}`))
		e.Until("the operator removes it", func() error {
			return stage.Unless(apierrors.IsNotFound(api.Get(e.Ctx, client.ObjectKeyFromObject(made), made)), "it is there")
		})
	}
	// The policy also covers a DataRestore, which runs an image of its author with Secrets of the namespace, and a
	// DataBackup, which has a pod.
	for _, made := range []client.Object{
		&backupv1.DataBackup{Spec: backupv1.DataBackupSpec{Of: backupv1.BackupSource{Name: ds.GetName()}}},
		&backupv1.DataRestore{Spec: backupv1.DataRestoreSpec{
			Of: backupv1.Source{Name: ds.GetName()}, Image: "example.com/mine", IdentitySecret: &backupv1.SecretName{Name: "theirs"},
		}},
	} {
		made.SetNamespace(e.Namespace)
		made.SetName("once")
		if err := nobody.Create(e.Ctx, made.DeepCopyObject().(client.Object), client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "create pods") {
			t.Errorf("%T was created: %v", made, err)
		}
		e.Must(someone.Create(e.Ctx, made, client.DryRunAll))
	}
	e.Must(change(nobody, `{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/mine"]}}`))
	e.Must(change(someone, `{"spec":{"auth":{"podTemplate":null}}}`))
	e.Must(nobody.Delete(e.Ctx, ds.DeepCopy()))
	e.Must(change(nobody, `{"metadata":{"finalizers":null}}`))
	e.Until("it goes", func() error { return stage.Unless(e.DataService(ds.GetName()) == nil, "it does not") })
}

// refusesRoles expects that an account with rights only in the project's API groups cannot write a spec, whatever
// rules give these rights. The DataService ds must exist.
func (e *env) refusesRoles(ds client.Object) {
	e.Helper()
	groups := []string{dsv1.GroupVersion.Group, redisv1.GroupVersion.Group, etcdv1.GroupVersion.Group}
	ours := func(resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs}
	}
	kinds := []string{"dataservices", "databackups", "datarestores", "redisclusters", "etcdclusters", "mysqlclusters"}
	statuses := make([]string, len(kinds))
	for i, kind := range kinds {
		statuses[i] = kind + "/status"
	}
	everything := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-everything"}, Rules: []rbacv1.PolicyRule{ours([]string{"*"}, "*")},
	}
	e.Must(api.Create(e.Ctx, everything))
	reads := ours(kinds, "get", "list")

	theirs := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "theirs"}}
	e.Must(api.Create(e.Ctx, theirs))
	named := metav1.ObjectMeta{Namespace: e.Namespace, Name: "mine"}
	created := []client.Object{
		small(), &redisv1.RedisCluster{ObjectMeta: named}, &etcdv1.EtcdCluster{ObjectMeta: named}, &mysqlv1.MySQLCluster{ObjectMeta: named},
		&backupv1.DataBackup{ObjectMeta: named, Spec: backupv1.DataBackupSpec{Of: backupv1.BackupSource{Name: ds.GetName()}}},
		&backupv1.DataRestore{ObjectMeta: named, Spec: backupv1.DataRestoreSpec{Of: backupv1.Source{Name: ds.GetName()}, Image: "example.com/mine"}},
	}
	created[0].SetNamespace(e.Namespace)
	created[0].SetName("mine")
	// attempts returns the errors of every write that could cause a pod.
	attempts := func(c client.Client) map[string]error {
		errs := map[string]error{}
		for _, object := range created {
			errs[fmt.Sprintf("create %T", object)] = c.Create(e.Ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		}
		change := func(object client.Object, patch string) error {
			return c.Patch(e.Ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		}
		errs["change a DataService"] = change(ds, `{"spec":{"auth":{"image":"example.com/mine"}}}`)
		errs["change a RedisCluster"] = change(theirs, `{"spec":{"repository":"example.com/mine"}}`)
		errs["scale a RedisCluster"] = c.SubResource("scale").Update(e.Ctx, theirs.DeepCopy(), &client.SubResourceUpdateOptions{
			UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}},
			SubResourceBody: &autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Namespace: theirs.Namespace, Name: theirs.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: 9},
			},
		})
		return errs
	}
	byPolicy := func(err error) bool {
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "must be allowed to create pods")
	}
	for shape, c := range map[string]struct {
		rules  []rbacv1.PolicyRule
		judged int // number of writes that RBAC allows and the policy refuses
	}{
		"all":           {everything.Rules, 9},
		"status":        {[]rbacv1.PolicyRule{ours(statuses, "get", "update", "patch")}, 0},
		"create":        {[]rbacv1.PolicyRule{ours([]string{"redisclusters"}, "create")}, 1},
		"create-status": {[]rbacv1.PolicyRule{ours([]string{"redisclusters"}, "create"), ours(statuses, "get", "update", "patch")}, 1},
		"update":        {[]rbacv1.PolicyRule{ours(kinds, "update", "patch")}, 2},
		"bind": {[]rbacv1.PolicyRule{
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"create"}},
			{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"bind"}, ResourceNames: []string{everything.Name}},
		}, 9},
	} {
		account := e.client("shape-"+shape, append(c.rules, reads)...)
		if shape == "bind" {
			e.Must(account.Create(e.Ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "bound"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: everything.Name},
				Subjects:   e.subject("shape-" + shape),
			}))
		}
		// RBAC applies a new role a moment later. Until then it refuses the requests that the policy would judge.
		e.Until("the policy judges "+shape, func() error {
			judged := 0
			for write, err := range attempts(account) {
				if !apierrors.IsForbidden(err) {
					e.Errorf("%s: %s: %v", shape, write, err)
				} else if byPolicy(err) {
					judged++
				}
			}
			return stage.Unless(judged == c.judged, fmt.Sprintf("%d of %d writes", judged, c.judged))
		})
	}
	e.Must(api.Delete(e.Ctx, theirs))
}

// mayScale checks which accounts may change the number of pods through the subresource scale. It changes nothing.
func (e *env) mayScale(made client.Object, by map[client.Client]bool) {
	e.Helper()
	for c, may := range by {
		scale := &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Namespace: made.GetNamespace(), Name: made.GetName()}, Spec: autoscalingv1.ScaleSpec{Replicas: 9},
		}
		options := &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, SubResourceBody: scale}
		err := c.SubResource("scale").Update(e.Ctx, made, options)
		if refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "create pods"); refused == may || err != nil && !refused {
			e.Errorf("scale of %T: %v", made, err)
		}
	}
}

// autoscaler returns a client with the account of the controller of HorizontalPodAutoscalers.
func (e *env) autoscaler() client.Client {
	e.Helper()
	cfg := rest.CopyConfig(config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
	c, err := client.New(cfg, client.Options{Scheme: api.Scheme()})
	e.Must(err)
	return c
}

// client returns a client of the API with an account that has these rights. It waits until the rights are in effect.
func (e *env) client(account string, rules ...rbacv1.PolicyRule) client.Client {
	e.Helper()
	cfg := rest.CopyConfig(config)
	as(cfg, e.account(account, rules...))
	c, err := client.New(cfg, client.Options{Scheme: api.Scheme()})
	e.Must(err)
	e.Until(account+" has its rights", func() error { return c.List(e.Ctx, &dsv1.DataServiceList{}, client.InNamespace(e.Namespace)) })
	return c
}

// objectsOf reads the objects of a YAML text.
func objectsOf(e *env, text string) []*unstructured.Unstructured {
	e.Helper()
	var found []*unstructured.Unstructured
	for part := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		e.Must(yaml.Unmarshal([]byte(part), &object.Object))
		found = append(found, object)
	}
	return found
}

// right is one verb on one resource.
type right struct{ group, resource, verb string }

func texts(rights map[right]bool) []string {
	var found []string
	for r := range rights {
		found = append(found, fmt.Sprintf("%s %s.%s", r.verb, r.resource, r.group))
	}
	return found
}

func rightsOf(rule rbacv1.PolicyRule) []right {
	var found []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				found = append(found, right{group, resource, verb})
			}
		}
	}
	return found
}

// used returns the rights that the requests of an account of the namespace needed, and the requests that were refused.
func (e *env) used(account string) (used map[right]bool, refused []string) {
	e.Helper()
	used = map[right]bool{}
	for _, r := range e.audited(account) {
		used[right{r.Group, r.Resource, r.Verb}] = true
		if r.Verb == "patch" && r.Code == http.StatusCreated { // the API server checks the rights to patch and to create
			used[right{r.Group, r.Resource, "create"}] = true
		}
		if r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized {
			refused = append(refused, r.String())
		}
	}
	return used, refused
}

// audited returns the requests of an account of the namespace from the API server's audit log.
func (e *env) audited(account string) []harness.Sent {
	e.Helper()
	file, err := os.Open(audit)
	e.Must(err)
	defer func() { _ = file.Close() }()
	var found []harness.Sent
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event auditv1.Event
		e.Must(json.Unmarshal(lines.Bytes(), &event))
		o := event.ObjectRef
		if event.User.Username != "system:serviceaccount:"+e.Namespace+":"+account || o == nil {
			continue // requests of other users, or discovery, which is open to all users
		}
		sent := harness.Sent{Request: harness.Request{
			Verb: event.Verb, Group: o.APIGroup, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name,
		}}
		if o.Subresource != "" {
			sent.Resource += "/" + o.Subresource
		}
		if event.ResponseStatus != nil {
			sent.Code = int(event.ResponseStatus.Code)
		}
		found = append(found, sent)
	}
	e.Must(lines.Err())
	if len(found) == 0 {
		e.Fatalf("%s has nothing of account %s", audit, account)
	}
	return found
}
