// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"d3os.com/d3os-operator/test/harness"
)

// large is 1 MiB and 16 bytes.
var large = strings.Repeat("0123456789abcdef", 1<<16+1)

// wrongInput is a change that the API server takes and the operator names as wrong. What the API server refuses by the CRD's
// limits and patterns is tried in api/v1.
type wrongInput struct {
	what   string
	change fieldsOf
	named  string // in the condition
}

func wrongInputs() []wrongInput {
	const reports = "spec.additionalServices[reports]."
	port := func(ports ...any) fieldsOf { return on(fieldsOf{"ports": ports}) }
	eureka := func(name string) fieldsOf { return fieldsOf{"eureka": fieldsOf{"name": name, "kind": "Deployment"}} }
	return []wrongInput{
		{"another port 0", port(fieldsOf{"name": "a", "port": 0}), reports + "ports[0].port"},
		{"another port 65536", port(fieldsOf{"name": "a", "port": 65536}), reports + "ports[0].port"},
		{"a port twice", port(fieldsOf{"name": "a", "port": 90}, fieldsOf{"name": "b", "port": 90}), reports + "ports"},
		{"the main port twice", port(fieldsOf{"name": "a", "port": 8080}, fieldsOf{"name": "b", "port": 8080}), reports + "ports"},
		{"a port's name twice", port(fieldsOf{"name": "a", "port": 90}, fieldsOf{"name": "a", "port": 91}), reports + "ports"},
		{"the main port's name", port(fieldsOf{"name": "http", "port": 90}), reports + "ports"},
		{"values of more than 1 MiB in config", on(fieldsOf{"config": fieldsOf{"a": large[:600_000], "b": large[:600_000]}}), reports + "config"},
		{"a file of more than 1 MiB", on(fieldsOf{"configFiles": []any{fieldsOf{"path": "/a", "content": large}}}), reports + "configFiles"},
		{"annotations of more than 256 KiB", on(fieldsOf{"annotations": fieldsOf{"a": large[:150_000], "b": large[:150_000]}}), reports + "annotations"},
		{"the same of the Service", on(fieldsOf{"serviceAnnotations": fieldsOf{"a": large[:150_000], "b": large[:150_000]}}), reports + "serviceAnnotations"},
		{"url of a port beyond 65535", fieldsOf{"uuc": fieldsOf{"thirdParty": fieldsOf{"url": "http://example.com:99999"}}}, "spec.uuc.thirdParty.url"},
		{"two components of one name", eureka("uuc"), "name"},
		{"a component of a service's name", eureka("reports"), "name"},
		{"a component with the name of another's object", eureka("uuc-probe"), "uuc-probe"},
		{"a cycle", fieldsOf{"uuc": fieldsOf{"dependsOn": []any{"eureka"}}, "eureka": fieldsOf{"dependsOn": []any{"uuc"}}}, "dependsOn"},
		{"dependsOn itself", on(fieldsOf{"dependsOn": []any{"reports"}}), reports + "dependsOn"},
	}
}

// oddInputs are what the API server and the operator take, however odd it is.
func oddInputs() map[string]fieldsOf {
	variables := make([]any, 500) // the most that the API server takes
	for i := range variables {
		variables[i] = fieldsOf{"name": fmt.Sprintf("A%d", i), "value": "b"}
	}
	url := func(value string) fieldsOf { return fieldsOf{"uuc": fieldsOf{"thirdParty": fieldsOf{"url": value}}} }
	return map[string]fieldsOf{
		"500 variables in envs":        on(fieldsOf{"replica": 0, "envs": variables}),
		"a variable of 128 KiB":        on(fieldsOf{"replica": 0, "env": fieldsOf{"A": large[:128<<10]}}),
		"a Secret that does not exist": {"mysql": fieldsOf{"credentialsSecret": "no-such-secret"}},
		// The check runs in the author's own pod, which can go there without the operator.
		"url link-local":                  url("http://169.254.169.254/latest/meta-data"),
		"url link-local, IPv6":            url("http://[fe80::1]/"),
		"url of the API server":           url("https://kubernetes.default.svc"),
		"url of the API server's address": url("https://10.96.0.1:443"),
		"url loopback":                    url("http://127.0.0.1:8080"),
	}
}

// inputs tries each and takes it back. What ran before a wrong one runs on as it was.
func inputs(ctx context.Context, w *walker) error {
	for _, in := range wrongInputs() {
		err := w.mistake(ctx, changed(w.spec, in.change), func(message string) error { return harness.Mentions(message, in.named) })
		if err == nil {
			err = w.eventually(ctx, w.asBefore)
		}
		if err := w.record(ctx, "input", in.what, reported, errors.Join(err, w.recovered(ctx))); err != nil {
			return err
		}
	}
	for what, change := range oddInputs() {
		_, err := w.carryOut(ctx, changed(w.spec, change))
		if err := w.record(ctx, "input", what, carriedOut, errors.Join(err, w.recovered(ctx))); err != nil {
			return err
		}
	}
	return nil
}

// names tries names of DataServices that could be taken for something else than text, and the longest.
func names(ctx context.Context, w *walker) error {
	spec := fieldsOf{"web": fieldsOf{"name": "one", "replica": 0}}
	for _, name := range []string{"a.b", "1st", "2024", "true", "null", strings.Repeat("b", 50)} {
		err := w.createReady(ctx, name, spec)
		if err == nil {
			err = w.deleted(ctx, name)
		}
		w.report.add(result{kind: "name of a DataService", what: name, verdict: carriedOut, err: err})
	}
	return errors.Join(w.namesThatMeet(ctx), ctx.Err())
}

// namesThatMeet: the names of two DataServices and of their components give different objects, also where they run together.
func (w *walker) namesThatMeet(ctx context.Context) error {
	err := w.createReady(ctx, "a-b", fieldsOf{"mysql": fieldsOf{"name": "c", "replica": 0}})
	if err == nil {
		err = w.createReady(ctx, "a", fieldsOf{"mysql": fieldsOf{"name": "b-c", "replica": 0}})
	}
	w.report.add(result{kind: "two in one namespace", what: "a-b with c, a with b-c", verdict: carriedOut, err: err})
	gone := w.api.Delete(ctx, w.resource("a", map[string]any{}))
	return errors.Join(gone, w.deleted(ctx, "a-b")) // which waits for the objects of both
}
