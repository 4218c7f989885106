// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// oddInputs are what the API server and the operator take, however odd it is. What they refuse: api/v1 has every limit and
// pattern of the CRD, internal/kinds/dataservice/values and plan what the operator names, the job wrong how it does that.
func oddInputs() map[string]fieldsOf {
	variables := make([]any, 10_000)
	for i := range variables {
		variables[i] = fieldsOf{"name": fmt.Sprintf("A%d", i), "value": "b"}
	}
	url := func(value string) fieldsOf { return fieldsOf{"uuc": fieldsOf{"thirdParty": fieldsOf{"url": value}}} }
	return map[string]fieldsOf{
		"10,000 variables in envs":      on(fieldsOf{"replica": 0, "envs": variables}),
		"a variable of more than 1 MiB": on(fieldsOf{"replica": 0, "env": fieldsOf{"A": strings.Repeat("0123456789abcdef", 1<<16+1)}}),
		"a Secret that does not exist":  {"mysql": fieldsOf{"credentialsSecret": "no-such-secret"}},
		// The check runs in the author's own pod, which can go there without the operator.
		"url link-local":                  url("http://169.254.169.254/latest/meta-data"),
		"url link-local, IPv6":            url("http://[fe80::1]/"),
		"url of the API server":           url("https://kubernetes.default.svc"),
		"url of the API server's address": url("https://10.96.0.1:443"),
		"url loopback":                    url("http://127.0.0.1:8080"),
	}
}

// inputs carries each out and takes it back.
func inputs(ctx context.Context, w *walker) error {
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
