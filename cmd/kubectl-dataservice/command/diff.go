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
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/cli/diff"
	"d3os.com/d3os-operator/internal/engine"
	"d3os.com/d3os-operator/internal/kinds"
	"d3os.com/d3os-operator/internal/kinds/dataservice"
	"d3os.com/d3os-operator/internal/kinds/dataservice/credentials"
	"d3os.com/d3os-operator/internal/kinds/dataservice/plan"
	"d3os.com/d3os-operator/internal/kinds/dataservice/preview"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/render"
	"d3os.com/d3os-operator/internal/version"
)

func (p *plugin) diffCommand() *cobra.Command {
	var file string
	var summary bool
	cmd := &cobra.Command{
		Use:   "diff [NAME] [-f FILE]",
		Short: "Show what the operator would do, before it does",
		Long: "Show what the operator would do: for the DataService in a file, or for the one in the cluster (drift). Objects that it would\n" +
			"create, update, replace and delete, and the pods that would restart. The plugin decides as the operator does; it does not\n" +
			"know what quotas and admission policies will say. Reading is all that it does; who may read Secrets sees theirs compared,\n" +
			"by the names of their keys.\n\n" +
			"Exit codes: 0 no difference, 1 there is one, 2 an error.",
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
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the DataService as it is to be; - is standard input")
	cmd.Flags().BoolVar(&summary, "summary", false, "a line for each object and changed field, no text of objects")
	p.outputFlag(cmd)
	return cmd
}

func (p *plugin) printDiff(d *diff.Diff, summary bool) error {
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

func (p *plugin) diff(ctx context.Context, c *cluster, name, file string) (*diff.Diff, error) {
	var wanted *dsv1.DataService
	var notes []string
	if file != "" {
		data, err := p.readFile(file)
		if err != nil {
			return nil, err
		}
		if wanted, err = preview.Parse(data); err != nil {
			return nil, fmt.Errorf("read the DataService in %s: %w", file, err)
		}
		if name != "" && wanted.Name != name {
			return nil, fmt.Errorf("%s has DataService %s, not %s", file, wanted.Name, name)
		}
		if wanted.Namespace != "" {
			c.namespace = wanted.Namespace
		}
		wanted.Namespace = c.namespace
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
		notes = append(notes, "the DataService is paused: nothing of this is done until it is resumed")
	}
	d, err := c.compute(ctx, wanted)
	if err != nil {
		return nil, err
	}
	d.Notes = append(notes, d.Notes...)
	return d, nil
}

func (p *plugin) readFile(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(p.In)
	}
	return os.ReadFile(file) //nolint:gosec // reading the file that the user names is the purpose
}

// tryOut asks the API server whether it would take the DataService, without a change, with the user's rights.
func (c *cluster) tryOut(ctx context.Context, data []byte) (notes []string, err error) {
	wanted := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &wanted.Object); err != nil {
		return nil, err
	}
	wanted.SetNamespace(c.namespace)
	body, err := json.Marshal(wanted.Object)
	if err != nil {
		return nil, err
	}
	_, err = c.dynamic.Resource(resource).Namespace(c.namespace).Patch(ctx, wanted.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager, Force: ptr.To(true), FieldValidation: metav1.FieldValidationStrict,
	})
	if apierrors.IsForbidden(err) {
		return []string{"whether the API server would take this DataService was not asked: " + err.Error()}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the API server would refuse this DataService: %w", err)
	}
	return nil, nil
}

// compute plans a DataService as the operator does, and holds that against the cluster.
func (c *cluster) compute(ctx context.Context, ds *dsv1.DataService) (*diff.Diff, error) {
	there, err := c.there(ctx, ds.Name)
	if err != nil {
		return nil, err
	}
	running := c.operator(ctx)
	d, err := c.judge(ctx, ds, there, running.Images)
	if err != nil {
		return nil, err
	}
	if !running.Found {
		d.Notes = append(d.Notes, "the operator's Deployment cannot be read: it is taken for one of this plugin's version with the default images")
	}
	v := versions{Plugin: version.Version, Operator: tag(running.Image), Writer: writer(there.Objects)}
	if skew := v.skew(); skew != "" {
		d.Notes = append(d.Notes, skew)
	}
	return d, nil
}

// computeWith does so for an operator of the plugin's version with these images, whichever runs.
func (c *cluster) computeWith(ctx context.Context, ds *dsv1.DataService, images map[string]string) (*diff.Diff, error) {
	there, err := c.there(ctx, ds.Name)
	if err != nil {
		return nil, err
	}
	return c.judge(ctx, ds, there, images)
}

func (c *cluster) judge(ctx context.Context, ds *dsv1.DataService, there *diff.Cluster, images map[string]string) (*diff.Diff, error) {
	planned, err := c.plan(ctx, ds, there, images)
	if err != nil {
		return nil, err
	}
	if err := c.complete(ctx, there, planned); err != nil {
		return nil, err
	}
	types, err := apply.NewTypes(crd.Files)
	if err != nil {
		return nil, err
	}
	d := diff.Compute(plan.OwnerOf(ds), planned, *there, apply.NewJudge(types, version.Version))
	if m := ds.Spec.MySQL; there.SecretsUnread && m != nil && m.ThirdParty != nil && m.ThirdParty.Password != "" {
		d.Notes = append(d.Notes, "mysql's password is in the spec: without the right to read Secrets, restarts of its users may be shown that do not come")
	}
	return d, nil
}

// there is what belongs to a DataService.
func (c *cluster) there(ctx context.Context, name string) (*diff.Cluster, error) {
	objects, refused, err := c.objects(ctx, selector(name, ""), slices.Concat(object.Kinds, object.Resources))
	if err != nil {
		return nil, err
	}
	there := &diff.Cluster{Objects: objects}
	for _, kind := range refused {
		if slices.ContainsFunc(object.Resources, func(gvk schema.GroupVersionKind) bool { return gvk.Kind == kind }) {
			continue // one that is planned is read by its name
		}
		if kind != "Secret" {
			return nil, fmt.Errorf("you may not list %s in namespace %s", kind, c.namespace)
		}
		there.SecretsUnread = true
	}
	return there, nil
}

// complete adds what stands in the place of planned objects without belonging to the DataService.
func (c *cluster) complete(ctx context.Context, there *diff.Cluster, planned *engine.Plan) error {
	known := map[object.ID]bool{}
	for _, o := range there.Objects {
		known[object.IDOf(o)] = true
	}
	var wanted []*unstructured.Unstructured
	if !there.SecretsUnread {
		wanted = append(wanted, planned.Secrets...)
	}
	wanted = append(wanted, planned.Records...)
	for i := range planned.Parts {
		wanted = append(wanted, planned.Parts[i].Objects...)
	}
	var all errgroup.Group
	all.SetLimit(10)
	found := make([]*unstructured.Unstructured, len(wanted))
	for i, o := range wanted {
		if known[object.IDOf(o)] {
			continue
		}
		all.Go(func() error {
			live, err := c.dynamic.Resource(resourceOf(o.GroupVersionKind())).Namespace(c.namespace).Get(ctx, o.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			found[i] = live
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, o := range found {
		if o != nil {
			there.Objects = append(there.Objects, o)
		}
	}
	return nil
}

// plan plans as the operator does, with the version of Kubernetes and the Secrets of the cluster.
func (c *cluster) plan(ctx context.Context, ds *dsv1.DataService, there *diff.Cluster, images map[string]string) (*engine.Plan, error) {
	server, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	renderer, err := render.New(server.GitVersion)
	if err != nil {
		return nil, err
	}
	lookup := func(kind, name string) (*unstructured.Unstructured, error) {
		for _, o := range there.Objects {
			if o.GetKind() == kind && o.GetName() == name {
				return o, nil
			}
		}
		if kind == "Secret" && there.SecretsUnread { // it may be there, and its values are not looked at
			return &unstructured.Unstructured{Object: map[string]any{}}, nil
		}
		return nil, nil
	}
	kind := dataservice.New(plan.NewPlanner(renderer, images), credentials.NewPreview(), nil)
	return kind.Plan(ds, kinds.Inputs{
		Lookup: lookup,
		LookupLive: func(kind, name string) (*unstructured.Unstructured, error) {
			for _, gvk := range object.Kinds {
				if gvk.Kind == kind {
					live, err := c.dynamic.Resource(resourceOf(gvk)).Namespace(c.namespace).Get(ctx, name, metav1.GetOptions{})
					if apierrors.IsNotFound(err) {
						return nil, nil
					}
					return live, err
				}
			}
			return nil, fmt.Errorf("there is no kind %s", kind)
		},
		Pods: func(part string) ([]*corev1.Pod, error) { return c.pods(ctx, selector(ds.Name, part)) },
	})
}
