// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/render"
	testcluster "d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/stage"
)

// patience limits every wait. The machine may be busy.
const patience = 3 * time.Minute

var suite = &stage.Suite{
	Patience: func() time.Duration { return patience },
	Lists:    []client.ObjectList{&dsv1.DataServiceList{}, &corev1.PodList{}, &corev1.ServiceList{}, &discoveryv1.EndpointSliceList{}},
}

func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "service":
		os.Exit(serve(os.Args[1:]))
	case "kubectl-dataservice": // the name that installed gives to this binary
		os.Exit(Run(context.Background(), genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, os.Args[1:]))
	}
	os.Exit(suite.Main(m, testcluster.Options{Name: "plugin", Nodes: 20}, func(ctx context.Context) error {
		for _, kind := range []string{"dataservice", "rediscluster", "etcdcluster", "databackup", "datarestore"} {
			role := &rbacv1.ClusterRole{}
			if err := harness.ReadYAML("config/rbac/"+kind+"_viewer_role.yaml", role); err != nil {
				return err
			}
			if err := client.IgnoreAlreadyExists(suite.API.Create(ctx, role)); err != nil {
				return err
			}
		}
		return keepNode(ctx)
	}))
}

// env is a namespace, and a user with a role in the namespace.
type env struct {
	*stage.Stage

	user string
	wrap func(http.RoundTripper) http.RoundTripper // nil for none
}

// newEnv creates a namespace for a test, and a user with one of Kubernetes' default roles in it: view, edit or admin.
func newEnv(t *testing.T, role string) *env {
	t.Parallel()
	e := &env{Stage: suite.New(t)}
	e.user = role + "-" + e.Namespace
	e.Must(suite.API.Create(e.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: e.user}},
	}))
	e.Until("the user may read", func() error {
		if code, _, errOut := e.run("status"); code == exitError {
			return fmt.Errorf("%s", errOut)
		}
		return nil
	})
	return e
}

// buffer is a bytes.Buffer that a test can read while a command writes to it.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// run runs a command as the user, and returns its exit code and its output.
func (e *env) run(args ...string) (code int, out, errOut string) {
	e.Helper()
	var o, eo buffer
	code = e.start(e.Ctx, &o, &eo, args...)
	return code, o.String(), eo.String()
}

func (e *env) start(ctx context.Context, out, errOut *buffer, args ...string) int {
	flags := genericclioptions.NewConfigFlags(false)
	host, namespace := suite.Config.Host, e.Namespace
	flags.APIServer, flags.Namespace = &host, &namespace
	flags.WrapConfigFn = func(*rest.Config) *rest.Config {
		config := rest.CopyConfig(suite.Config)
		if e.wrap != nil {
			config.Wrap(e.wrap)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: e.user, Groups: []string{"system:authenticated"}}
		return config
	}
	return run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut}, flags, args)
}

// says repeats a command until it has the wanted exit code and its output contains all words.
func (e *env) says(code int, words []string, args ...string) string {
	e.Helper()
	var text string
	e.Until(strings.Join(args, " "), func() error {
		got, out, errOut := e.run(args...)
		text = out
		if got != code {
			return fmt.Errorf("exit code %d, not %d: %s%s", got, code, out, errOut)
		}
		return harness.Mentions(out+errOut, words...)
	})
	return text
}

// file writes a DataService to a file.
func (e *env) file(ds *unstructured.Unstructured) string {
	e.Helper()
	data, err := render.YAML(ds)
	e.Must(err)
	path := filepath.Join(e.TempDir(), "ds.yaml")
	e.Must(os.WriteFile(path, data, 0o600))
	return path
}
