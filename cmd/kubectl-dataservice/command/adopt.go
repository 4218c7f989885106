// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"d3os.com/d3os-operator/cmd/kubectl-dataservice/adopt"
	"d3os.com/d3os-operator/config/crd"
	"d3os.com/d3os-operator/internal/apply"
	"d3os.com/d3os-operator/internal/kube"
	"d3os.com/d3os-operator/internal/platform/values"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/version"
)

// adoption holds the flags of adopt.
type adoption struct {
	name                      string
	apply, copy, finish, undo bool
	yes, originalStopped      bool
	agentImage                string
	timeout                   time.Duration
}

func (p *cli) adoptCommand() *cobra.Command {
	var a adoption
	cmd := &cobra.Command{
		Use:   "adopt NAME",
		Short: "Report or do the adoption of the objects of the original operator",
		Long: "Adopt the objects that the original operator made for a DataService.\n\n" +
			"Without a flag the command prints a report: each object, the pods that restart, the fields and settings with another effect, and the\n" +
			"reasons that prevent the adoption. The report only reads, and needs the right to read the Secrets of the namespace.\n\n" +
			"--apply adopts one component after the other, and stops at the first component that does not become ready. --copy copies the\n" +
			"original database into a new database, and --finish moves the services to the new database. The report lists their steps, and when\n" +
			"writes stop. Until --finish has requested the cut-over, --undo restores all objects and the spec. Each flag can be interrupted and\n" +
			"repeated. The command has your rights: it needs the role edit and the right to patch DataServices.\n\n" +
			"Exit codes: 0: nothing prevents the action, or it is complete; 1: something prevents the action; 2: an error.",
		Example: "  kubectl dataservice adopt platform\n  kubectl dataservice adopt platform --apply\n  kubectl dataservice adopt platform --copy\n" +
			"  kubectl dataservice adopt platform --finish\n  kubectl dataservice adopt platform --undo",
		Args: cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.name = args[0]
			switch {
			case a.given() > 1:
				return errors.New("give only one of the flags --apply, --copy, --finish and --undo")
			case a.timeout <= 0:
				return fmt.Errorf("--timeout %s must be above 0", a.timeout)
			}
			return p.adopt(cmd.Context(), a)
		},
	}
	cmd.Flags().BoolVar(&a.apply, "apply", false, "adopt the objects")
	cmd.Flags().BoolVar(&a.copy, "copy", false, "copy the original database into a new one, up to the cut-over")
	cmd.Flags().BoolVar(&a.finish, "finish", false, "cut over to the copy of the database; this cannot be undone")
	cmd.Flags().StringVar(&a.agentImage, "agent-image", "", "image of the operator, for the Job that logs in to the original database; needed if you may not read the operator's Deployment")
	cmd.Flags().BoolVar(&a.undo, "undo", false, "restore the objects and the spec from before the adoption")
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&a.originalStopped, "original-stopped", false, "you have stopped the original operator; needed if you may not list Deployments of all namespaces")
	cmd.Flags().DurationVar(&a.timeout, "timeout", 10*time.Minute, "the time limit for one step")
	p.outputFlag(cmd)
	return cmd
}

func (p *cli) adopt(ctx context.Context, a adoption) error {
	c, err := p.cluster()
	if err != nil {
		return err
	}
	if a.undo {
		if err := p.consent(a, "Restore the objects of the original operator?"); err != nil {
			return err
		}
		return p.act(ctx, c, a, (*adopt.Adopter).Undo)
	}
	seen, err := c.lookForAdoption(ctx, a)
	if err != nil {
		return err
	}
	report := adopt.Judge(seen)
	if a.copy || a.finish { // Copy and Finish check for other reasons (observeData)
		report.Refused = nil
	}
	if err := p.printAdoption(report); err != nil || a.given() == 0 {
		return err
	}
	question, do := "Adopt these objects?", (*adopt.Adopter).Apply
	switch {
	case a.copy:
		question, do = "Copy the database, with the steps of --copy above?", (*adopt.Adopter).Copy
	case a.finish:
		question, do = "Move the services to the copy of the database, with all steps above? This cannot be undone.", (*adopt.Adopter).Finish
	}
	if err := p.consent(a, question); err != nil {
		return err
	}
	return p.act(ctx, c, a, do)
}

// given returns the number of actions that the flags request.
func (a adoption) given() (n int) {
	for _, given := range []bool{a.apply, a.copy, a.finish, a.undo} {
		if given {
			n++
		}
	}
	return n
}

// consent returns an error unless the user has confirmed the action.
func (p *cli) consent(a adoption, question string) error {
	if a.yes {
		return nil
	}
	return p.ask(question)
}

// act runs an adoption or an undo.
func (p *cli) act(ctx context.Context, c *cluster, a adoption, do func(*adopt.Adopter, context.Context) error) error {
	config := rest.CopyConfig(c.config)
	config.Wrap(kube.Escape)
	live, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	types, err := apply.NewTypes(crd.Files)
	if err != nil {
		return err
	}
	adopter := &adopt.Adopter{
		Client: live, Applier: apply.New(live, live, types, version.Version), Timeout: a.timeout,
		Observe: func(ctx context.Context) (*adopt.Observation, error) { return c.lookForAdoption(ctx, a) },
		Say: func(text string) {
			out := p.Out
			if p.output != "" {
				out = p.ErrOut // standard output contains the report
			}
			_, _ = fmt.Fprintln(out, plugin.Printable(text))
		},
	}
	err = do(adopter, ctx)
	var refused *adopt.RefusedError
	if errors.As(err, &refused) {
		_, _ = fmt.Fprintln(p.ErrOut, plugin.Printable(err.Error()))
		return errNo
	}
	return err
}

// printAdoption prints a report.
func (p *cli) printAdoption(report *adopt.Report) error {
	text := report.Text(p.style())
	if p.output == "json" {
		var err error
		if text, err = toJSON(report); err != nil {
			return err
		}
	}
	if err := p.print(text); err != nil {
		return err
	}
	if len(report.Refused) > 0 {
		return errNo
	}
	return nil
}

// lookForAdoption observes a DataService and the original operator's objects.
func (c *cluster) lookForAdoption(ctx context.Context, a adoption) (*adopt.Observation, error) {
	ds, err := c.Dynamic.Resource(resource).Namespace(c.Namespace).Get(ctx, a.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read DataService %s in namespace %s: %w", a.name, c.Namespace, err)
	}
	images := c.operator(ctx).Images
	if a.agentImage != "" {
		images[values.AgentImage] = a.agentImage
	}
	with, err := c.with(images)
	if err != nil {
		return nil, err
	}
	seen, err := adopt.Look(ctx, &c.Reader, with, ds)
	if err != nil {
		return nil, err
	}
	seen.AgentImage = images[values.AgentImage]
	c.seeSurroundings(ctx, seen, ds, a)
	return seen, nil
}

// seeSurroundings observes the original operator, and the tools that manage the DataService.
func (c *cluster) seeSurroundings(ctx context.Context, seen *adopt.Observation, ds *unstructured.Unstructured, a adoption) {
	list, err := c.Client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "control-plane=controller-manager"})
	if err == nil {
		seen.Original = adopt.FindOriginal(list.Items)
	}
	seen.Original.Known = seen.Original.Known || a.originalStopped
	if tool := managedBy(ds); tool != nil {
		seen.GitOps, seen.Suspend = tool.Name, tool.Suspend
	}
}
