// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/test/harness"
)

// input is a change of the base and what is to become of it.
type input struct {
	what string
	set  fieldsOf
	verdict
	words []string // of the API server or the condition
}

func url(component, value string) fieldsOf {
	return fieldsOf{component: fieldsOf{"kind": "ThirdParty", "thirdParty": fieldsOf{"url": value}}}
}

// wrongInputs are what is wrong in itself.
func wrongInputs() []input {
	variables := make([]any, 10_000)
	named := fieldsOf{}
	for i := range variables {
		variables[i] = fieldsOf{"name": fmt.Sprintf("A%d", i), "value": "b"}
		named[fmt.Sprintf("A%d", i)] = "b"
	}
	large := strings.Repeat("0123456789abcdef", 1<<16+1) // 1 MiB and 16 bytes
	port := func(ports ...any) fieldsOf { return on(fieldsOf{"ports": ports}) }
	return []input{
		{"replica -1", on(fieldsOf{"replica": -1}), refused, []string{"replica"}},
		{"replica 2147483647", on(fieldsOf{"replica": 2147483647}), refused, []string{"replica"}},
		{"replica beyond 64 bits", on(fieldsOf{"replica": 1e30}), refused, []string{"replica"}},
		{"port 0", on(fieldsOf{"port": 0}), refused, []string{"port"}},
		{"port 65536", on(fieldsOf{"port": 65536}), refused, []string{"port"}},
		{"another port 0", port(fieldsOf{"name": "a", "port": 0}), reported, []string{"spec.additionalServices[reports].ports[0].port"}},
		{"another port 65536", port(fieldsOf{"name": "a", "port": 65536}), reported, []string{"spec.additionalServices[reports].ports[0].port"}},
		{"a port twice", port(fieldsOf{"name": "a", "port": 90}, fieldsOf{"name": "b", "port": 90}), reported, []string{"spec.additionalServices[reports].ports"}},
		{"the main port twice", port(fieldsOf{"name": "a", "port": 8080}, fieldsOf{"name": "b", "port": 8080}), reported, []string{"spec.additionalServices[reports].ports"}},
		{"a port's name twice", port(fieldsOf{"name": "a", "port": 90}, fieldsOf{"name": "a", "port": 91}), reported, []string{"spec.additionalServices[reports].ports"}},
		{"the main port's name", port(fieldsOf{"name": "http", "port": 90}), reported, []string{"spec.additionalServices[reports].ports"}},
		{"nodePort 65536", on(fieldsOf{"nodePort": 65536}), refused, []string{"nodePort"}},
		{"nodePort outside of the range", on(fieldsOf{"nodePort": 80}), troubled, []string{"reports", "nodePort"}},
		{"a value of more than 1 MiB in config", on(fieldsOf{"config": fieldsOf{"a": large}}), reported, []string{"spec.additionalServices[reports].config"}},
		{"a file of more than 1 MiB", on(fieldsOf{"configFiles": []any{fieldsOf{"path": "/a", "content": large}}}), reported, []string{"spec.additionalServices[reports].configFiles"}},
		{"an annotation of more than 256 KiB", on(fieldsOf{"annotations": fieldsOf{"a": large[:300_000]}}), reported, []string{"spec.additionalServices[reports].annotations"}},
		{"an annotation of the Service of more than 256 KiB", on(fieldsOf{"serviceAnnotations": fieldsOf{"a": large[:300_000]}}), reported, []string{"spec.additionalServices[reports].serviceAnnotations"}},
		{"10,000 variables in env", on(fieldsOf{"env": named}), refused, []string{"env"}},
		{"10,000 variables in envs", on(fieldsOf{"replica": 0, "envs": variables}), carriedOut, nil},
		{"a variable of more than 1 MiB", on(fieldsOf{"replica": 0, "env": fieldsOf{"A": large}}), carriedOut, nil},
		{"url file://", url("uuc", "file:///etc/passwd"), refused, []string{"url"}},
		{"url with credentials", url("uuc", "http://user:password@example.com"), refused, []string{"url"}},
		{"url of mysql with credentials", url("mysql", "mysql://user:password@example.com"), refused, []string{"url"}},
		{"url with a query", url("uuc", "http://example.com/?a=b"), refused, []string{"url"}},
		{"url with a line break", url("uuc", "http://example.com\nkind: Secret"), refused, []string{"url"}},
		{"url with a command", url("uuc", "http://$(id).example.com"), refused, []string{"url"}},
		{"url javascript:", url("uuc", "javascript:alert(1)"), refused, []string{"url"}},
		{"url gopher://", url("uuc", "gopher://example.com"), refused, []string{"url"}},
		{"url data:", url("uuc", "data:text/plain,a"), refused, []string{"url"}},
		{"url without a host", url("uuc", "http://"), refused, []string{"url"}},
		{"url of a port beyond 65535", url("uuc", "http://example.com:99999"), reported, []string{"spec.uuc.thirdParty.url"}},
		// The check runs in the author's own pod, which can go there without the operator.
		{"url link-local", url("uuc", "http://169.254.169.254/latest/meta-data"), carriedOut, nil},
		{"url link-local, IPv6", url("uuc", "http://[fe80::1]/"), carriedOut, nil},
		{"url of the API server", url("uuc", "https://kubernetes.default.svc"), carriedOut, nil},
		{"url of the API server's address", url("uuc", "https://10.96.0.1:443"), carriedOut, nil},
		{"url loopback", url("uuc", "http://127.0.0.1:8080"), carriedOut, nil},
		{"a Secret that does not exist", fieldsOf{"mysql": fieldsOf{"credentialsSecret": "no-such-secret"}}, carriedOut, nil},
		{"two components of one name", fieldsOf{"eureka": fieldsOf{"name": "uuc"}}, reported, []string{"name"}},
		{"a component of a service's name", fieldsOf{"eureka": fieldsOf{"name": "reports"}}, reported, []string{"name"}},
		{"a component with the name of another's object", fieldsOf{"eureka": fieldsOf{"name": "uuc-probe", "kind": "Deployment"}}, reported, []string{"uuc-probe"}},
		{"a cycle", fieldsOf{"uuc": fieldsOf{"dependsOn": []any{"eureka"}}, "eureka": fieldsOf{"dependsOn": []any{"uuc"}}}, reported, []string{"dependsOn"}},
		{"dependsOn itself", on(fieldsOf{"dependsOn": []any{"reports"}}), reported, []string{"spec.additionalServices[reports].dependsOn"}},
		{"a name of 253 characters", fieldsOf{"eureka": fieldsOf{"name": strings.Repeat("a", 253)}}, refused, []string{"name"}},
		{"a dotted name", fieldsOf{"eureka": fieldsOf{"name": "a.b"}}, refused, []string{"name"}},
		{"a name starting with a digit", fieldsOf{"eureka": fieldsOf{"name": "1a"}}, refused, []string{"name"}},
		{"a name in capitals", fieldsOf{"eureka": fieldsOf{"name": "Eureka"}}, refused, []string{"name"}},
		{"a name with a slash", fieldsOf{"eureka": fieldsOf{"name": "../a"}}, refused, []string{"name"}},
	}
}

// inputs tries each, and expects what ran to run on.
func inputs(ctx context.Context, w *walker) error {
	for _, in := range wrongInputs() {
		err := w.input(ctx, in)
		if err == nil && in.verdict == reported {
			err = w.asBefore(ctx)
		}
		if in.verdict != refused || err != nil {
			err = errors.Join(err, w.recovered(ctx))
		}
		w.report.add(result{kind: "input", what: in.what, verdict: in.verdict, err: err})
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (w *walker) input(ctx context.Context, in input) error {
	spec := changed(w.spec, in.set)
	switch in.verdict {
	case refused:
		_, err := w.change(ctx, spec, client.DryRunAll)
		if err == nil {
			return errors.New("it is accepted")
		}
		return harness.Mentions(err.Error(), in.words...)
	case reported:
		return w.mistake(ctx, spec, func(message string) error { return harness.Mentions(message, in.words...) })
	case troubled: // only the API server knows
		generation, err := w.change(ctx, spec)
		if err != nil {
			return err
		}
		return w.until(func() error {
			return w.says(w.name, generation, dsv1.ConditionDegraded, dsv1.ReasonApplyFailed, in.words...)
		})
	default:
		_, err := w.carryOut(ctx, spec)
		return err
	}
}

// names tries names of DataServices, and several in one namespace.
func names(ctx context.Context, w *walker) error {
	spec := fieldsOf{"web": fieldsOf{"name": "one", "replica": 0}}
	for what, name := range map[string]string{
		"253 characters": strings.Repeat("a", 253), "51 characters": strings.Repeat("a", 51), "254 characters": strings.Repeat("a", 254),
		"capitals": "Platform", "a slash": "a/b", "a template": "{{ .Values }}", "a line break": "a\nb", "right-to-left": "a\u202eb", "NUL": "a\x00b", "none": "",
	} {
		_, err := w.create(ctx, name, spec)
		c := result{kind: "name of a DataService", what: what, verdict: refused}
		if err == nil {
			c.err = errors.New("it is accepted")
		} else if !apierrors.IsInvalid(err) && name != "" && !strings.ContainsAny(name, "/\x00\n") {
			c.err = err
		}
		w.report.add(c)
	}
	for what, name := range map[string]string{"dotted": "a.b", "a digit first": "1st", "digits alone": "2024", "true": "true", "null": "null", "50 characters": strings.Repeat("b", 50)} {
		generation, err := w.create(ctx, name, spec)
		if err == nil {
			err = w.until(func() error { return w.isReady(name, generation) })
		}
		if err == nil {
			err = w.deleted(ctx, name)
		}
		w.report.add(result{kind: "name of a DataService", what: what, verdict: carriedOut, err: err})
	}
	return errors.Join(w.namesThatMeet(ctx), ctx.Err())
}

// namesThatMeet: the names of two DataServices and of their components give different objects, also where they run together.
func (w *walker) namesThatMeet(ctx context.Context) error {
	first, err := w.create(ctx, "a-b", fieldsOf{"mysql": fieldsOf{"name": "c", "replica": 0}})
	if err != nil {
		return err
	}
	if err := w.until(func() error { return w.isReady("a-b", first) }); err != nil {
		return err
	}
	second, err := w.create(ctx, "a", fieldsOf{"mysql": fieldsOf{"name": "b-c", "replica": 0}})
	if err == nil {
		err = w.until(func() error { return w.isReady("a", second) })
	}
	w.report.add(result{kind: "two in one namespace", what: "a-b with c, a with b-c", verdict: carriedOut, err: err})
	gone := w.api.Delete(ctx, w.resource("a", map[string]any{}))
	return errors.Join(gone, w.deleted(ctx, "a-b")) // which waits for the objects of both
}
