// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/plugin"
)

func (p *cli) statusCommand() *cobra.Command {
	var all, follow bool
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show one DataService, or all of a namespace",
		Long: "Show one DataService: first its whole problem, then its components. Without a name, show a line for each DataService.\n\n" +
			"Exit codes: 0: ready; 1: not ready; 2: an error.",
		Example: "  kubectl dataservice status platform -w\n  kubectl dataservice status -A",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			s := &statusView{cli: p, cluster: c, all: all}
			if len(args) == 1 {
				if all {
					return fmt.Errorf("give a name or --all-namespaces, not both")
				}
				s.name = args[0]
			}
			if follow {
				return s.follow(cmd.Context())
			}
			return s.once(cmd.Context())
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "all namespaces")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "follow changes; into a pipe, a line for each change")
	cmd.Flags().BoolVarP(&p.verbose, "verbose", "v", false, "list every component, cut nothing")
	p.outputFlag(cmd)
	return cmd
}

type statusView struct {
	*cli

	cluster *cluster
	name    string // empty: all DataServices
	all     bool
}

func (s *statusView) once(ctx context.Context) error {
	items, _, err := s.read(ctx)
	if err != nil {
		return err
	}
	text, err := s.text(items)
	if err != nil {
		return err
	}
	if err := s.print(text); err != nil {
		return err
	}
	if slices.ContainsFunc(items, func(ds dsv1.DataService) bool { return !plugin.Ready(&ds) }) {
		return errNo
	}
	return nil
}

// read returns the named DataService, or all of them if there is no name.
func (s *statusView) read(ctx context.Context) ([]dsv1.DataService, string, error) {
	if s.name == "" {
		return s.cluster.list(ctx, s.all)
	}
	ds, err := s.cluster.get(ctx, s.name)
	if err != nil {
		return nil, "", err
	}
	return []dsv1.DataService{*ds}, ds.ResourceVersion, nil
}

func (s *statusView) text(items []dsv1.DataService) (string, error) {
	switch {
	case s.output == "json" && s.name != "":
		return toJSON(&items[0])
	case s.output == "json":
		return toJSON(&dsv1.DataServiceList{TypeMeta: metav1.TypeMeta{APIVersion: dsv1.GroupVersion.String(), Kind: dsv1.Kind + "List"}, Items: items})
	case s.name != "":
		return s.style().Platform(&items[0], s.now()), nil
	case len(items) == 0 && s.all:
		return "there are no DataServices\n", nil
	case len(items) == 0:
		return fmt.Sprintf("there are no DataServices in namespace %s\n", s.cluster.Namespace), nil
	}
	return s.style().Fleet(items, s.all, s.now()), nil
}

// erase clears the terminal and moves the cursor to the upper left corner.
const erase = "\x1b[H\x1b[2J"

// follow prints the status after each change, until the context ends. On a terminal, it redraws the screen. Otherwise it adds a line for
// each DataService that has changed.
func (s *statusView) follow(ctx context.Context) error {
	lines := map[string]string{}
	for {
		items, version, err := s.read(ctx)
		if err != nil {
			return err
		}
		known := map[string]dsv1.DataService{}
		for _, ds := range items {
			known[ds.Namespace+"/"+ds.Name] = ds
		}
		if err := s.show(known, lines); err != nil {
			return err
		}
		if err := s.watch(ctx, version, known, lines); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// watch prints changes until the API server ends the watch.
func (s *statusView) watch(ctx context.Context, version string, known map[string]dsv1.DataService, lines map[string]string) error {
	namespace, options := s.cluster.Namespace, metav1.ListOptions{ResourceVersion: version}
	if s.all {
		namespace = metav1.NamespaceAll
	}
	if s.name != "" {
		options.FieldSelector = "metadata.name=" + s.name
	}
	w, err := s.cluster.Dynamic.Resource(resource).Namespace(namespace).Watch(ctx, options)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil // the caller lists again
	}
	if err != nil {
		return fmt.Errorf("watch DataServices: %w", err)
	}
	defer w.Stop()
	again := time.NewTicker(5 * time.Second) // redraws the ages on the screen
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.ResultChan():
			if !ok || event.Type == watch.Error {
				return nil
			}
			if err := note(known, event); err != nil {
				return err
			}
		case <-again.C:
		}
		if err := s.show(known, lines); err != nil {
			return err
		}
	}
}

func note(known map[string]dsv1.DataService, event watch.Event) error {
	live, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	key := live.GetNamespace() + "/" + live.GetName()
	if event.Type == watch.Deleted {
		delete(known, key)
		return nil
	}
	ds, err := decode(live)
	if err != nil {
		return err
	}
	known[key] = *ds
	return nil
}

func (s *statusView) show(known map[string]dsv1.DataService, lines map[string]string) error {
	keys := slices.Sorted(maps.Keys(known))
	if terminal(s.Out) && s.output == "" {
		var items []dsv1.DataService
		for _, key := range keys {
			items = append(items, known[key])
		}
		if s.name != "" && len(items) == 0 {
			return s.print(erase + s.name + " was deleted\n")
		}
		text, err := s.text(items)
		if err != nil {
			return err
		}
		return s.print(erase + text)
	}
	for key := range lines {
		if _, there := known[key]; !there {
			delete(lines, key)
			if err := s.print(key + " was deleted\n"); err != nil {
				return err
			}
		}
	}
	for _, key := range keys {
		ds := known[key]
		line := s.style().Line(&ds)
		if lines[key] == line {
			continue
		}
		lines[key] = line
		if err := s.print(line); err != nil {
			return err
		}
	}
	return nil
}
