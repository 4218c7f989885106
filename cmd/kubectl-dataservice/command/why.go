// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/internal/cli/foresee"
	"d3os.com/d3os-operator/internal/cli/why"
	"d3os.com/d3os-operator/internal/object"
)

// logLines is how many last lines of a log are searched for an error.
const logLines = 30

func (p *plugin) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why NAME [COMPONENT]",
		Short: "Say why a DataService is not ready, and what to do",
		Long: "Say why a DataService, or one component of it, is not ready: from what waits to the root cause, its pod, the end of its\n" +
			"log and its events. The first line is the cause, the second the object to look at.\n\n" +
			"Exit codes: 0 nothing is wrong, 1 something is, 2 an error.",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: p.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			facts, err := c.facts(cmd.Context(), args)
			if err != nil {
				return err
			}
			facts.Now = p.now()
			diagnosis := why.Explain(facts)
			text := diagnosis.Print(p.style(), p.now())
			if p.output == "json" {
				if text, err = toJSON(diagnosis); err != nil {
					return err
				}
			}
			if err := p.print(text); err != nil {
				return err
			}
			if !diagnosis.Ready {
				return errNo
			}
			return nil
		},
	}
	p.outputFlag(cmd)
	return cmd
}

// facts reads what why needs to know: the DataService, and of the component that is to blame the objects, the pods, the
// events and the end of a log.
func (c *cluster) facts(ctx context.Context, args []string) (*why.Facts, error) {
	ds, err := c.get(ctx, args[0])
	if err != nil {
		return nil, err
	}
	f := &why.Facts{DataService: ds}
	if len(args) == 2 {
		f.Component = args[1]
		var names []string
		for _, component := range ds.Status.Components {
			names = append(names, component.Name)
		}
		if !slices.Contains(names, f.Component) {
			return nil, fmt.Errorf("%s has no component %s; it has %s", ds.Name, f.Component, strings.Join(names, ", "))
		}
	}
	if f.Events, err = c.events(ctx); err != nil {
		return nil, err
	}
	blamed, _ := why.Blamed(ds, f.Component)
	if blamed == nil {
		return f, nil
	}
	kinds := slices.DeleteFunc(slices.Concat(object.Kinds, object.Resources), func(gvk schema.GroupVersionKind) bool { return gvk.Kind == "Secret" || gvk.Kind == "ConfigMap" })
	if f.Objects, _, err = c.Objects(ctx, foresee.Selector(ds.Name, blamed.Name), kinds); err != nil {
		return nil, err
	}
	if f.Pods, err = c.Pods(ctx, foresee.Selector(ds.Name, blamed.Name)); err != nil {
		return nil, err
	}
	for _, o := range f.Objects {
		if !object.IsResource(o) {
			continue
		}
		inside, err := c.Pods(ctx, foresee.SelectorOf(o))
		if err != nil {
			return nil, err
		}
		f.Pods = append(f.Pods, inside...)
	}
	if source := why.Source(f); source != nil {
		f.Log, err = c.lastLines(ctx, source)
		if err != nil {
			f.LogError = "the log cannot be read: " + err.Error()
			if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) {
				f.LogError = "there is no log: " + err.Error()
			}
		}
	}
	return f, nil
}

func (c *cluster) lastLines(ctx context.Context, from *why.Container) ([]string, error) {
	stream, err := c.Client.CoreV1().Pods(c.Namespace).GetLogs(from.Pod, &corev1.PodLogOptions{
		Container: from.Name, Previous: from.Previous, TailLines: ptr.To(int64(logLines)), LimitBytes: ptr.To(int64(64 << 10)),
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(stream)
	_ = stream.Close()
	if err != nil {
		return nil, err
	}
	text := strings.TrimRight(string(data), "\n")
	if text == "" {
		return nil, nil
	}
	return strings.Split(text, "\n"), nil
}
