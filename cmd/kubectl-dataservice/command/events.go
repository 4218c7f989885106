// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
)

func (p *cli) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events NAME [COMPONENT]",
		Short: "Show the events of a DataService, its objects and its pods",
		Long: "Show the events of a DataService, its objects and its pods.\n\n" +
			"Exit codes: 0: all events are shown; 1: events may be missing, because you may not list some kinds; 2: an error.",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: p.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			component := ""
			if len(args) == 2 {
				component = args[1]
			}
			if _, err := c.get(cmd.Context(), args[0]); err != nil {
				return err
			}
			kinds := slices.DeleteFunc(slices.Concat(object.Kinds, object.Optional), func(gvk schema.GroupVersionKind) bool { return gvk.Kind == "Secret" })
			objects, refused, err := c.Objects(cmd.Context(), plugin.Selector(args[0], component), kinds)
			if err != nil {
				return err
			}
			pods, err := c.Pods(cmd.Context(), plugin.Selector(args[0], component))
			refused = plugin.WithoutOptional(refused)
			if apierrors.IsForbidden(err) {
				refused = append(refused, "pods")
			} else if err != nil {
				return err
			}
			all, err := c.events(cmd.Context())
			if err != nil {
				return err
			}
			found := slices.DeleteFunc(all, func(e corev1.Event) bool { return !concerns(&e, args[0], component, objects, pods) })
			health.SortEvents(found)
			text := p.style().Events(found, p.now())
			if p.output == "json" {
				list := &corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: found}
				if text, err = toJSON(list); err != nil {
					return err
				}
			}
			if err := p.print(text); err != nil || len(refused) == 0 {
				return err
			}
			slices.Sort(refused)
			if _, err := fmt.Fprintf(p.ErrOut, "note: you may not list %s: their events may be missing\n", strings.Join(refused, ", ")); err != nil {
				return err
			}
			return errNo
		},
	}
	p.outputFlag(cmd)
	return cmd
}

// concerns reports whether an event is about a DataService, its objects, their ReplicaSets and Jobs, or its pods. Events outlive their
// objects: it finds events of deleted pods by the names of the pods' workloads.
func concerns(e *corev1.Event, name, component string, objects []*unstructured.Unstructured, pods []*corev1.Pod) bool {
	about := e.InvolvedObject
	if about.Kind == dsv1.Kind && about.Name == name {
		whole := e.Related == nil || strings.HasPrefix(e.Related.FieldPath, "status.conditions")
		return component == "" || whole || strings.Contains(e.Message, component)
	}
	if about.Kind == "Pod" && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == about.Name }) {
		return true
	}
	between := about.Kind == "Pod" || about.Kind == "ReplicaSet" || about.Kind == "Job"
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		if o.GetKind() == about.Kind && o.GetName() == about.Name {
			return true
		}
		workload := o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet" || o.GetKind() == "DaemonSet" || o.GetKind() == "CronJob"
		return between && workload && strings.HasPrefix(about.Name, o.GetName()+"-")
	})
}
