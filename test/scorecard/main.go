// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command scorecard runs the operator's own scorecard tests, in a separate image. On a cluster where the
// operator runs, it creates the named examples of the bundle, or all of them, and tests each example.
//
//	scorecard [--bundle DIR] [--timeout DURATION] apply|heal|delete [EXAMPLE...]
//
// The scorecard of operator-sdk reads the results from the pod's log. So the command prints the results as
// JSON, and nothing else.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// tests contains the tests of a trial, by their names in scorecard's configuration.
var tests = map[string]func(context.Context, *trial) error{
	"apply":  apply,
	"heal":   heal,
	"delete": remove,
}

func main() {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	bundle := flag.String("bundle", "/bundle", "folder of the bundle")
	timeout := flag.Duration("timeout", 150*time.Second, "how long an example may take to become ready")
	flag.Parse()
	// The kubelet and scorecard end a test with these signals. The test then still cleans up.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	results, err := run(ctx, *bundle, *timeout, flag.Args())
	if err != nil {
		results = []v1alpha3.TestResult{{State: v1alpha3.ErrorState, Errors: []string{err.Error()}}}
	}
	out, err := json.MarshalIndent(v1alpha3.TestStatus{Results: results}, "", "  ")
	if err != nil {
		panic(err) // the object has only strings
	}
	fmt.Println(string(out))
	if slices.ContainsFunc(results, func(r v1alpha3.TestResult) bool { return r.State != v1alpha3.PassState }) {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, bundle string, timeout time.Duration, args []string) ([]v1alpha3.TestResult, error) {
	if len(args) == 0 || tests[args[0]] == nil {
		return nil, fmt.Errorf("tests are apply, heal and delete, not %q", strings.Join(args, " "))
	}
	examples, err := examplesOf(bundle, args[1:])
	if err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{} // otherwise the log would contain the warnings
	config.QPS = -1                           // the API server limits the rate
	if err := dsv1.AddToScheme(scheme.Scheme); err != nil {
		return nil, err
	}
	api, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, err
	}
	return all(examples, func(example *unstructured.Unstructured) v1alpha3.TestResult {
		t := &trial{Client: api, test: args[0], example: example, timeout: timeout, start: time.Now()}
		return t.run(ctx, os.Getenv("SCORECARD_NAMESPACE"), tests[args[0]])
	}), nil
}

// all tests the examples in parallel. The results keep the order of the examples.
func all(examples []*unstructured.Unstructured, try func(*unstructured.Unstructured) v1alpha3.TestResult) []v1alpha3.TestResult {
	results := make([]v1alpha3.TestResult, len(examples))
	done := make(chan struct{})
	for i, example := range examples {
		go func() {
			results[i] = try(example)
			done <- struct{}{}
		}()
	}
	for range examples {
		<-done
	}
	return results
}

// apply expects that the platform becomes ready, according to its status and its pods.
func apply(ctx context.Context, t *trial) error {
	return t.bringUp(ctx)
}

// remove expects that a deleted platform leaves only its data and the credentials of the data.
func remove(ctx context.Context, t *trial) error {
	if err := t.bringUp(ctx); err != nil {
		return err
	}
	before, err := t.objects(ctx)
	if err != nil {
		return err
	}
	ds, err := t.dataService(ctx)
	if err != nil {
		return err
	}
	keep := retained(&ds.Spec)
	if err := t.Delete(ctx, ds); err != nil {
		return err
	}
	var left map[string]*meta
	err = t.until(ctx, gone, func() (problem error, err error) {
		left, err = t.objects(ctx)
		return difference(left, keep), err
	})
	if err != nil {
		return err
	}
	for _, id := range keep {
		switch object := left[id]; {
		case object.GetUID() != before[id].GetUID():
			return fmt.Errorf("%s must be retained, but was replaced", id)
		case object.GetDeletionTimestamp() != nil || len(object.GetOwnerReferences()) > 0:
			return fmt.Errorf("%s must be retained, but is being deleted or has owners: %v", id, object.GetOwnerReferences())
		}
	}
	t.logf("only retained objects are left: %s", orNothing(keep))
	return nil
}

// retained returns the objects that outlive a DataService (docs/operations.md): the database's claim, the record of its data, and the
// Secrets with generated credentials.
func retained(spec *dsv1.DataServiceSpec) []string {
	keep := retainedOfMySQL(spec)
	if m := spec.MongoDB; m != nil && m.Kind != "ThirdParty" && m.CredentialsSecret == "" {
		keep = append(keep, "Secret/"+cmp.Or(m.Name, "mongodb")+"-credentials")
	}
	return keep
}

func retainedOfMySQL(spec *dsv1.DataServiceSpec) []string {
	if spec.MySQL == nil || elsewhere(spec.MySQL.Kind) || spec.MySQL.Storage.Retention == dsv1.RetentionDelete {
		return nil
	}
	name := cmp.Or(spec.MySQL.Name, "mysql-dataservice")
	keep := []string{"ConfigMap/" + name + "-data", "PersistentVolumeClaim/data-" + name + "-0"}
	if spec.MySQL.CredentialsSecret == "" {
		keep = append(keep, "Secret/"+name+"-credentials")
	}
	if len(spec.MySQL.Users) > 0 || spec.MySQL.Backup != nil {
		keep = append(keep, "Secret/"+name+"-users")
	}
	return keep
}

func elsewhere(kind *intstr.IntOrString) bool {
	return kind != nil && (kind.IntValue() == 3 || kind.String() == "ThirdParty")
}

// difference reports objects that should not exist, and missing ones.
func difference(left map[string]*meta, keep []string) error {
	var lost, over []string
	for _, id := range keep {
		if _, ok := left[id]; !ok {
			lost = append(lost, id)
		}
	}
	for id := range left {
		if !slices.Contains(keep, id) {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	switch {
	case len(lost) > 0:
		return fmt.Errorf("objects that must be retained were deleted: %s", strings.Join(lost, ", "))
	case len(over) > 0:
		return fmt.Errorf("the DataService is deleted, but its objects are not: %s", strings.Join(over, ", "))
	}
	return nil
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// examplesOf returns the named DataServices in the alm-examples of the bundle's CSV; without names, all of them.
func examplesOf(bundle string, names []string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("%s is no bundle: it has %d CSVs", bundle, len(files))
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	var csv metav1.PartialObjectMetadata
	if err := yaml.Unmarshal(data, &csv); err != nil {
		return nil, fmt.Errorf("%s: %w", files[0], err)
	}
	var objects []map[string]any
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &objects); err != nil {
		return nil, fmt.Errorf("%s: alm-examples: %w", files[0], err)
	}
	var examples []*unstructured.Unstructured
	var known []string
	for _, object := range objects {
		example := &unstructured.Unstructured{Object: object}
		if example.GetKind() != dsv1.Kind {
			continue
		}
		known = append(known, example.GetName())
		if len(names) == 0 || slices.Contains(names, example.GetName()) {
			examples = append(examples, example)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("the bundle has no example %q, but %q", name, known)
		}
	}
	if len(examples) == 0 {
		return nil, fmt.Errorf("%s: alm-examples holds no %s", files[0], dsv1.Kind)
	}
	return examples, nil
}
