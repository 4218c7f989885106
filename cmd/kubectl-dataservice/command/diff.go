// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/version"
)

func (p *cli) diffCommand() *cobra.Command {
	var file string
	var summary bool
	cmd := &cobra.Command{
		Use:   "diff [NAME] [-f FILE]",
		Short: "Show the operator's changes before it makes them",
		Long: "Show what the operator would do for the DataService in a file, or for the one in the cluster (drift): the objects that it would\n" +
			"create, update, replace and delete, and the pods that would restart. The plugin decides as the operator does, but it cannot\n" +
			"predict the decisions of quotas and admission policies. The command only reads. If you may read Secrets, it compares them, too,\n" +
			"and prints only the names of their keys.\n\n" +
			"Exit codes: 0: no difference; 1: at least one difference; 2: an error.",
		Example: "  kubectl dataservice diff -f platform.yaml --summary\n  kubectl dataservice diff platform",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			d, err := p.diff(cmd.Context(), c, name, file)
			if err != nil {
				return err
			}
			if err := p.printDiff(d, summary); err != nil {
				return err
			}
			if d.Changed() {
				return errNo
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the wanted DataService; - is standard input")
	cmd.Flags().BoolVar(&summary, "summary", false, "a line for each object and changed field, no text of objects")
	p.outputFlag(cmd)
	return cmd
}

func (p *cli) printDiff(d *plugin.Diff, summary bool) error {
	var text string
	var err error
	switch {
	case p.output == "json":
		text, err = toJSON(d)
	case summary:
		text = d.Summary(p.style())
	default:
		text, err = d.Text(p.style())
	}
	if err != nil {
		return err
	}
	return p.print(text)
}

func (p *cli) diff(ctx context.Context, c *cluster, name, file string) (*plugin.Diff, error) {
	var wanted *dsv1.DataService
	var notes []string
	if file != "" {
		data, err := p.readFile(file)
		if err != nil {
			return nil, err
		}
		if wanted, err = plan.Parse(data); err != nil {
			return nil, fmt.Errorf("read the DataService in %s: %w", file, err)
		}
		if name != "" && wanted.Name != name {
			return nil, fmt.Errorf("%s has DataService %s, not %s", file, wanted.Name, name)
		}
		if wanted.Namespace != "" {
			c.Namespace = wanted.Namespace
		}
		wanted.Namespace = c.Namespace
		name = wanted.Name
		note, err := c.tryOut(ctx, data)
		if err != nil {
			return nil, err
		}
		notes = append(notes, note...)
	}
	if name == "" {
		return nil, errors.New("which DataService? Give its name, or a file with -f")
	}
	live, err := c.get(ctx, name)
	switch {
	case apierrors.IsNotFound(err) && wanted != nil:
		live = nil
	case err != nil:
		return nil, err
	case wanted == nil:
		wanted = live
	}
	if live != nil {
		wanted.UID, wanted.Status = live.UID, live.Status
	}
	if wanted.Spec.Paused {
		notes = append(notes, "the DataService is paused: the operator makes no change until the DataService is resumed")
	}
	d, err := c.compute(ctx, wanted)
	if err != nil {
		return nil, err
	}
	d.Notes = append(notes, d.Notes...)
	return d, nil
}

func (p *cli) readFile(file string) ([]byte, error) {
	switch file {
	case "":
		return nil, errors.New("which file? Give it with -f; - is standard input")
	case "-":
		return io.ReadAll(p.In)
	}
	return os.ReadFile(file) //nolint:gosec // reading the file that the user names is the purpose
}

// tryOut sends the DataService to the API server as a dry run with the user's rights.
func (c *cluster) tryOut(ctx context.Context, data []byte) (notes []string, err error) {
	wanted := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &wanted.Object); err != nil {
		return nil, err
	}
	wanted.SetNamespace(c.Namespace)
	body, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, err
	}
	body = []byte(render.Escape(string(body))) // the API server parses the body of an apply as YAML
	_, err = c.Dynamic.Resource(resource).Namespace(c.Namespace).Patch(ctx, wanted.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager, Force: ptr.To(true), FieldValidation: metav1.FieldValidationStrict,
	})
	if apierrors.IsForbidden(err) {
		return []string{"the API server was not asked whether it would accept this DataService: " + err.Error()}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the API server would refuse this DataService: %w", err)
	}
	return nil, nil
}

// compute returns the changes that the running operator would make.
func (c *cluster) compute(ctx context.Context, ds *dsv1.DataService) (*plugin.Diff, error) {
	running := c.operator(ctx)
	with, err := c.with(running.Images)
	if err != nil {
		return nil, err
	}
	d, live, err := with.Diff(ctx, &c.Reader, ds)
	if err != nil {
		return nil, err
	}
	if !running.Found {
		d.Notes = append(d.Notes, "the operator's Deployment cannot be read: the plugin assumes its own version with the default images")
	}
	v := versions{Plugin: version.Version, Operator: tag(running.Image), Writer: writer(live)}
	if skew := v.skew(); skew != "" {
		d.Notes = append(d.Notes, skew)
	}
	return d, nil
}

// with returns an operator with these images and with the plugin's version, which may differ from the version of the
// running operator.
func (c *cluster) with(images map[string]string) (*plugin.Operator, error) {
	server, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("read the version of the API server: %w", err)
	}
	return plugin.NewOperator(version.Version, server.GitVersion, images)
}
