// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/reconcile"
	"d3os.com/d3os-operator/internal/render"
)

func (p *cli) historyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the specs that a DataService had",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			ds, entries, err := c.history(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			text := plugin.Print(entries, p.now())
			if len(entries) == 0 {
				text = ds.Name + " has no history yet: it begins with the first change under an operator of version 0.3.0 or newer\n"
			}
			if p.output == "json" {
				if text, err = toJSON(entries); err != nil {
					return err
				}
			}
			return p.print(text)
		},
	}
	p.outputFlag(cmd)
	return cmd
}

func (c *cluster) history(ctx context.Context, name string) (*dsv1.DataService, []plugin.Entry, error) {
	ds, err := c.get(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	list, err := c.Client.AppsV1().ControllerRevisions(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: reconcile.Label + "=" + string(ds.UID)})
	if err != nil {
		return nil, nil, fmt.Errorf("list the history of %s: %w", name, err)
	}
	var revisions []*reconcile.Revision
	for i := range list.Items {
		revision, err := reconcile.Read(&list.Items[i])
		if err != nil {
			return nil, nil, err
		}
		revisions = append(revisions, revision)
	}
	return ds, plugin.Entries(ds, revisions), nil
}

// rollback holds the flags of the command rollback.
type rollback struct {
	to             int64
	yes, dryRun    bool
	evenIfManaged  bool
	allowDowngrade bool
}

func (p *cli) rollbackCommand() *cobra.Command {
	r := rollback{}
	cmd := &cobra.Command{
		Use:   "rollback NAME [--to REVISION]",
		Short: "Go back to a spec that a DataService had",
		Long: "Go back to a spec that a DataService had; without --to, to the last one that was ready. The command first shows what the operator would do,\n" +
			"and asks for consent. Then the spec is written, and the operator rolls it out like any other change. The number of pods, autoscaling,\n" +
			"pausing, the order of rollouts, the size and class of storage, and passwords stay as they are now.\n\n" +
			"If Flux or Argo CD manages the DataService, the command writes nothing. It prints the change to commit, and the command that\n" +
			"suspends the tool.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			return p.rollback(cmd.Context(), c, args[0], r)
		},
	}
	cmd.Flags().Int64Var(&r.to, "to", 0, "number of the revision, as the command history lists it")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "show the changes without making them")
	cmd.Flags().BoolVar(&r.evenIfManaged, "even-if-managed", false, "write the spec although a tool manages the DataService and will revert it")
	cmd.Flags().BoolVar(&r.allowDowngrade, "allow-database-downgrade", false, "run an older version of MySQL over the data of a newer one")
	return cmd
}

func (p *cli) rollback(ctx context.Context, c *cluster, name string, r rollback) error {
	ds, entries, err := c.history(ctx, name)
	if err != nil {
		return err
	}
	entry, err := plugin.Pick(ds, entries, r.to)
	if err != nil {
		return err
	}
	spec, kept, err := plugin.Spec(ds, entry)
	if err != nil {
		return err
	}
	if from, to := plugin.Downgrade(ds, spec); from != "" && !r.allowDowngrade {
		return fmt.Errorf("revision %d has MySQL %s, but MySQL %s wrote the data, and an older MySQL may be unable to open it: choose another revision, or give --allow-database-downgrade",
			entry.Number, to, from)
	}
	if err := p.foreseeRollback(ctx, c, ds, entry, spec, kept); err != nil {
		return err
	}
	tool := managedBy(ds)
	switch {
	case tool != nil && !r.evenIfManaged:
		return p.toCommit(ds, spec, tool)
	case r.dryRun:
		return nil
	case !r.yes:
		if err := p.ask(fmt.Sprintf("Go back to revision %d?", entry.Number)); err != nil {
			return err
		}
	}
	patch := []operation{{Op: "test", Path: "/metadata/resourceVersion", Value: ds.ResourceVersion}, {Op: "replace", Path: "/spec", Value: spec}}
	if err := c.patch(ctx, ds, types.JSONPatchType, patch); err != nil {
		return err
	}
	return p.print(fmt.Sprintf("%s goes back to revision %d; 'kubectl dataservice status %s -w' shows the progress.\n"+
		"Your file still has the later spec: change the file too, or the next apply of the file restores the later spec.\n", name, entry.Number, name) + p.managed(ds))
}

// foreseeRollback prints the changes that the operator would make.
func (p *cli) foreseeRollback(ctx context.Context, c *cluster, ds *dsv1.DataService, entry *plugin.Entry, spec map[string]any, kept []string) error {
	wanted := ds.DeepCopy()
	wanted.Spec = dsv1.DataServiceSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &wanted.Spec); err != nil {
		return fmt.Errorf("read revision %d: %w", entry.Number, err)
	}
	d, err := c.compute(ctx, wanted)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("revision %d (%s)\n%s", entry.Number, entry.State, d.Summary(p.style()))
	if len(kept) > 0 {
		text += "stays as it is now: " + strings.Join(kept, ", ") + "\n"
	}
	return p.print(text)
}

// toCommit prints the change to commit to the repository from which a tool manages the DataService.
func (p *cli) toCommit(ds *dsv1.DataService, spec map[string]any, tool *gitOpsTool) error {
	data, err := render.YAML(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": dsv1.GroupVersion.String(), "kind": dsv1.Kind,
		"metadata": map[string]any{"name": ds.Name, "namespace": ds.Namespace}, "spec": spec,
	}})
	if err != nil {
		return err
	}
	return p.print(fmt.Sprintf("%s manages this DataService, so nothing was written. Commit this to its source (the passwords in it are those of the cluster):\n\n%s\n"+
		"In an emergency, suspend the tool (%s) and run this again with --even-if-managed.\n", tool.Name, data, tool.Suspend))
}

// ask returns an error unless the user answers yes.
func (p *cli) ask(question string) error {
	if err := p.print(question + " [y/N] "); err != nil {
		return err
	}
	answer, _ := bufio.NewReader(p.In).ReadString('\n') // no answer means no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed: answer yes, or give --yes")
	}
	return nil
}
