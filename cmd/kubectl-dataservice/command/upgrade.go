// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"

	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/version"
)

// checkedAtOnce is the maximum number of DataServices that are planned in parallel.
const checkedAtOnce = 4

func (p *cli) upgradeCheckCommand() *cobra.Command {
	var all bool
	var manifest string
	cmd := &cobra.Command{
		Use:   "upgrade-check [-A]",
		Short: "List the pods that an operator of this version would restart, before it is installed",
		Long: "Show what an operator of this plugin's version would do to the existing DataServices: which pods would restart, which objects\n" +
			"would be replaced. Use the plugin of the version that you want to install. It has that version's charts and default images. If\n" +
			"your installation sets other images (RELATED_IMAGE_*), give its manifest.\n\n" +
			"Exit codes: 0: nothing changes; 1: something changes; 2: an error.",
		Example: "  kubectl dataservice upgrade-check -A\n  kubectl dataservice upgrade-check -A --manifest dist/install.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			images, err := p.imagesIn(manifest)
			if err != nil {
				return err
			}
			u, err := c.upgrade(cmd.Context(), all, images)
			if err != nil {
				return err
			}
			text := u.Text(p.style()) // Text sorts u.Platforms
			if p.output == "json" {
				if text, err = toJSON(u); err != nil {
					return err
				}
			}
			if err := p.print(text); err != nil {
				return err
			}
			if u.Changed() {
				return errNo
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "the DataServices of all namespaces")
	cmd.Flags().StringVar(&manifest, "manifest", "", "file with the operator's Deployment, or its ClusterServiceVersion, of the version to install")
	p.outputFlag(cmd)
	return cmd
}

// upgrade plans each DataService with the plugin's charts and classifies the changes.
func (c *cluster) upgrade(ctx context.Context, all bool, images map[string]string) (*plugin.Upgrade, error) {
	items, _, err := c.list(ctx, all)
	if err != nil {
		return nil, err
	}
	running := c.operator(ctx)
	if agent := running.Images[values.AgentImage]; agent != "" && images[values.AgentImage] == "" {
		images = maps.Clone(images)
		if images == nil {
			images = map[string]string{}
		}
		images[values.AgentImage] = agent
	}
	with, err := c.with(images)
	if err != nil {
		return nil, err
	}
	u := &plugin.Upgrade{Version: version.Version}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(checkedAtOnce)
	for i := range items {
		ds := &items[i]
		group.Go(func() error {
			in := c.Reader
			in.Namespace = ds.Namespace
			d, _, err := with.Diff(ctx, &in, ds)
			mu.Lock()
			defer mu.Unlock()
			u.Add(ds.Namespace, ds.Name, ds.Spec.Paused, d, err)
			return ctx.Err()
		})
	}
	return u, group.Wait()
}

// imagesIn returns the variables RELATED_IMAGE_* of the operator's container in a file with manifests.
func (p *cli) imagesIn(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	data, err := p.readFile(file)
	if err != nil {
		return nil, err
	}
	var environ []string
	decoder := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		environ = append(environ, environOf(document)...)
	}
	if images := values.RelatedImages(environ); len(images) > 0 {
		return images, nil
	}
	return nil, fmt.Errorf("%s has no container %q with variables RELATED_IMAGE_*", file, "manager")
}

// environOf finds the operator's container at any depth of a manifest, and returns its environment variables.
func environOf(node any) (environ []string) {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			environ = append(environ, environOf(item)...)
		}
	case map[string]any:
		variables, _ := node["env"].([]any)
		for _, v := range variables {
			if variable, ok := v.(map[string]any); ok && node["name"] == "manager" {
				environ = append(environ, fmt.Sprintf("%v=%v", variable["name"], variable["value"]))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(node)) {
			environ = append(environ, environOf(node[key])...)
		}
	}
	return environ
}
