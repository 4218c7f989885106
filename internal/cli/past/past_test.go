// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package past

import (
	"encoding/json"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/history"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func of(t *testing.T, text string) (spec map[string]any) {
	t.Helper()
	assert.NilError(t, yaml.Unmarshal([]byte(text), &spec))
	return spec
}

func platform(t *testing.T, spec string) *dsv1.DataService {
	t.Helper()
	ds := &dsv1.DataService{ObjectMeta: metav1.ObjectMeta{Name: "platform", Generation: 9}}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(spec), &ds.Spec))
	return ds
}

func revisions(t *testing.T) []*history.Revision {
	t.Helper()
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
	return []*history.Revision{
		{Number: 9, Ready: 6, Time: at(time.Minute), Version: "0.3.0", Spec: of(t, "{auth: {image: 'a:3', replica: 2}, web: {}}")},
		{Number: 6, Ready: 5, Time: at(time.Hour), Version: "0.3.0", Spec: of(t, "{auth: {image: 'a:2', replica: 2}, web: {}}")},
		{Number: 5, Ready: 4, Time: at(48 * time.Hour), Spec: of(t, "{auth: {image: 'a:1', replica: 2}, web: {config: {a: {b: c}}}, proxy: {}}")},
		{Number: 7, Ready: 6, Time: at(30 * time.Minute), Version: "0.3.0", Spec: of(t, "{auth: {image: 'a:bad', replica: 2}, web: {}, paused: true}")},
	}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	ds := platform(t, "{}")
	ds.Status.History = &dsv1.History{Generation: 9, ReadyGeneration: 6}
	entries := Entries(ds, revisions(t))
	golden.Assert(t, Print(entries, now), "history.txt")
	e, err := Pick(ds, entries, 0)
	assert.NilError(t, err)
	assert.Equal(t, e.Number, int64(6), "the last good one")
	e, err = Pick(ds, entries, 7)
	assert.NilError(t, err)
	assert.Equal(t, e.State, Unknown)
	_, err = Pick(ds, entries, 3)
	assert.ErrorContains(t, err, "has no revision 3")
	_, err = Pick(ds, nil, 0)
	assert.ErrorContains(t, err, "has no history yet")
	_, err = Pick(ds, entries[:1], 0)
	assert.ErrorContains(t, err, "known to have been ready")
}

// What is about the present stays, data is never asked to shrink, and a password that nobody has is not written.
func TestSpec(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		present, past, want string
		kept                []string
		err                 string
	}{
		"image":             {"{auth: {image: 'a:2'}}", "{auth: {image: 'a:1'}}", "{auth: {image: 'a:1'}}", nil, ""},
		"a component comes": {"{auth: {}}", "{auth: {}, web: {}}", "{auth: {}, web: {}}", nil, ""},
		"a component goes":  {"{auth: {}, web: {}}", "{auth: {}}", "{auth: {}}", nil, ""},
		"pods and pauses": {"{paused: true, auth: {replica: 5, image: 'a:2'}, rollout: {order: Sequential}}", "{auth: {replica: 2, image: 'a:1'}, rollout: {order: Dependency}}",
			"{paused: true, auth: {replica: 5, image: 'a:1'}, rollout: {order: Sequential}}", []string{"paused", "rollout", "auth.replica"}, ""},
		"autoscaling": {"{auth: {autoscaling: {max: 3}}}", "{auth: {replica: 2}}", "{auth: {autoscaling: {max: 3}}}", []string{"auth.replica", "auth.autoscaling"}, ""},
		"storage": {"{mysql: {storage: {size: 50Gi, storageClassName: fast}}}", "{mysql: {storage: {size: 10Gi}, databases: [a]}}",
			"{mysql: {storage: {size: 50Gi, storageClassName: fast}, databases: [a]}}", []string{"mysql.storage.size", "mysql.storage.storageClassName"}, ""},
		"a password": {"{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://b', username: u, password: now}}}", "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: (masked)}}}",
			"{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: now}}}", []string{"mysql.thirdParty.password"}, ""},
		"a password that nobody has":  {"{mysql: {}}", "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: (masked)}}}", "", nil, "does not keep the password of mysql"},
		"a component with a password": {"{auth: {}}", "{mysql: {kind: ThirdParty, thirdParty: {url: 'mysql://a', username: u, password: (masked)}}}", "", nil, "does not keep the password of mysql"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ds := platform(t, test.present)
			spec, kept, err := Spec(ds, &Entry{spec: normal(t, test.past)})
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				return
			}
			assert.NilError(t, err)
			assert.DeepEqual(t, spec, normal(t, test.want))
			assert.DeepEqual(t, kept, test.kept)
		})
	}
}

// normal is a spec as the API's Go types write it.
func normal(t *testing.T, text string) (spec map[string]any) {
	t.Helper()
	data, err := json.Marshal(&platform(t, text).Spec)
	assert.NilError(t, err)
	assert.NilError(t, json.Unmarshal(data, &spec))
	return spec
}

func TestDowngrade(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ from, to, want string }{
		{"8.4.0", "8.0.36", "8.4.0 8.0.36"}, {"8.0.36", "8.4.0", " "}, {"8.4", "8.4.0", " "}, {"", "8.0", " "}, {"8.10", "8.9", "8.10 8.9"},
	} {
		ds := &dsv1.DataService{Spec: dsv1.DataServiceSpec{MySQL: &dsv1.MySQL{}}}
		ds.Spec.MySQL.Version = test.from
		from, to := Downgrade(ds, map[string]any{"mysql": map[string]any{"version": test.to}})
		assert.Equal(t, from+" "+to, test.want)
	}
	from, _ := Downgrade(&dsv1.DataService{}, map[string]any{})
	assert.Equal(t, from, "")
}
