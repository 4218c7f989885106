// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"d3os.com/d3os-operator/internal/contract"
	"d3os.com/d3os-operator/internal/contract/etcdmember"
	"d3os.com/d3os-operator/internal/contract/mysqlmember"
)

// The files in testdata contain the output of earlier agents and the requests of earlier operators. The current types
// parse each file and write the same bytes again. A change of a file may only add fields.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for file, document := range map[string]any{
		"result": &contract.Result{}, "import": &contract.Import{}, "archive": &contract.Archive{}, "guarded": &contract.Guarded{}, "refusal": &contract.Refusal{},
		"mysql-answer": &mysqlmember.Answer{}, "mysql-events": &mysqlmember.Answer{}, "mysql-order": &mysqlmember.Request{}, "etcd-report": &etcdmember.Report{}, "volume": &contract.Volume{},
	} {
		want, err := os.ReadFile("testdata/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(want))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(document); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		got, err := json.Marshal(document)
		if err != nil || !bytes.Equal(got, bytes.TrimSpace(want)) {
			t.Errorf("%s: %v\n got %s\nwant %s", file, err, got, want)
		}
	}
}

// A Known keeps its text form, because earlier operators and agents have stored positions in this form.
func TestKnown(t *testing.T) {
	t.Parallel()
	want := etcdmember.Known{Cluster: "cdf818194e3a8c32", Member: "8e9e05c52164694d", Position: etcdmember.Position{Term: 2, Index: 90}}
	const text = "cdf818194e3a8c32 8e9e05c52164694d 2 90"
	if got := want.String(); got != text {
		t.Errorf("%q, want %q", got, text)
	}
	if got, err := etcdmember.ParseKnown(text + "\n"); err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
}

// Every field of a type has a value in a file of testdata. Otherwise TestDocuments would not notice that the field was
// renamed.
func TestDocumentsAreWhole(t *testing.T) {
	t.Parallel()
	for files, document := range map[[2]string]any{
		{"result"}: contract.Result{}, {"import"}: contract.Import{}, {"archive"}: contract.Archive{}, {"guarded"}: contract.Guarded{}, {"refusal"}: contract.Refusal{},
		{"mysql-answer", "mysql-events"}: mysqlmember.Answer{}, {"mysql-order"}: mysqlmember.Request{}, {"etcd-report"}: etcdmember.Report{}, {"volume"}: contract.Volume{},
	} {
		into := reflect.New(reflect.TypeOf(document))
		for _, file := range files {
			if file == "" {
				continue
			}
			text, err := os.ReadFile("testdata/" + file + ".json")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, into.Interface()); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range zeros(into.Elem()) {
			t.Errorf("no file of %T has a value for %s", document, name)
		}
	}
}

// zeros returns the fields with a zero value, of a structure and of the structures in it.
func zeros(v reflect.Value) (names []string) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.IsZero() {
			names = append(names, name)
			continue
		}
		switch f.Kind() {
		case reflect.Pointer:
			f = f.Elem()
		case reflect.Slice:
			f = f.Index(0)
		default:
		}
		if f.Kind() == reflect.Struct && f.Type().PkgPath() != "time" {
			for _, below := range zeros(f) {
				names = append(names, name+"."+below)
			}
		}
	}
	return names
}
