// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
)

// annotationRestarted is the annotation with the time at which a user restarted a component. kubectl rollout restart sets the same
// annotation on pods.
const annotationRestarted = "kubectl.kubernetes.io/restartedAt"

func (p *cli) pauseCommand(pause bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Stop the operator from changing a DataService (spec.paused)",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
	}
	done := "paused: the operator heals and updates nothing until 'kubectl dataservice resume %s'"
	if !pause {
		cmd.Use, cmd.Short = "resume NAME", "Resume a paused DataService"
		done = "resumed: the operator carries out the spec of %s again"
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, ds, err := p.dataService(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if ds.Spec.Paused == pause {
			return p.print(fmt.Sprintf("nothing to do: paused is %t already\n", pause))
		}
		patch := map[string]any{"spec": map[string]any{"paused": pause}}
		if err := c.patch(cmd.Context(), ds, types.MergePatchType, patch); err != nil {
			return err
		}
		return p.print(fmt.Sprintf(done+"\n", ds.Name) + p.managed(ds))
	}
	return cmd
}

func (p *cli) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart NAME COMPONENT",
		Short: "Restart the pods of one component, as an update does",
		Long: "Restart the pods of one component: the command changes an annotation on its pods in the spec, and the operator rolls out the\n" +
			"change like any other, one pod after the other.",
		Args: cobra.ExactArgs(2), ValidArgsFunction: p.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ds, err := p.dataService(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			patch, err := restartPatch(ds, args[1], p.now())
			if err != nil {
				return err
			}
			if err := c.patch(cmd.Context(), ds, types.JSONPatchType, patch); err != nil {
				return err
			}
			return p.print(fmt.Sprintf("%s restarts; 'kubectl dataservice status %s -w' shows the progress\n", args[1], ds.Name) + p.managed(ds))
		},
	}
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// restartPatch returns the patch that changes the annotation on a component's pods.
func restartPatch(ds *dsv1.DataService, component string, now time.Time) ([]operation, error) {
	spec := map[string]any{}
	data, err := json.Marshal(&ds.Spec)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, err
	}
	path, fields := "/spec/"+component, spec[component]
	test := operation{Op: "test", Path: "/metadata/resourceVersion", Value: ds.ResourceVersion}
	if list, _ := spec["additionalServices"].([]any); fields == nil {
		for i, item := range list {
			if item, _ := item.(map[string]any); item["name"] == component {
				path, fields = fmt.Sprintf("/spec/additionalServices/%d", i), item
			}
		}
	}
	declared, isComponent := fields.(map[string]any)
	notOne := map[string]bool{"defaults": true, "networkPolicy": true, "rollout": true}
	if !isComponent || notOne[component] {
		return nil, fmt.Errorf("%s declares no component %s with pods", ds.Name, component)
	}
	stamp := now.UTC().Format(time.RFC3339)
	if annotations, _ := declared["annotations"].(map[string]any); annotations == nil {
		return []operation{test, {Op: "add", Path: path + "/annotations", Value: map[string]string{annotationRestarted: stamp}}}, nil
	}
	key := strings.ReplaceAll(annotationRestarted, "/", "~1")
	return []operation{test, {Op: "add", Path: path + "/annotations/" + key, Value: stamp}}, nil
}

func (c *cluster) patch(ctx context.Context, ds *dsv1.DataService, kind types.PatchType, patch any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.Dynamic.Resource(resource).Namespace(ds.Namespace).Patch(ctx, ds.Name, kind, body, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("change DataService %s/%s: %w", ds.Namespace, ds.Name, err)
	}
	return nil
}

// managed returns a warning if a GitOps tool will revert the change.
func (p *cli) managed(ds *dsv1.DataService) string {
	if tool := managedBy(ds); tool != nil {
		return fmt.Sprintf("warning: %s manages this DataService and will revert the change: make it in the source, or suspend it first: %s\n", tool.Name, tool.Suspend)
	}
	return ""
}
