// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"
)

// completeNames completes the name of a DataService. If components is true, it also completes a second argument: the
// name of one of the components.
func (p *cli) completeNames(components bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := p.cluster()
		if err != nil || len(args) > 1 || len(args) == 1 && !components {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []cobra.Completion
		if len(args) == 1 {
			ds, err := c.get(cmd.Context(), args[0])
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			for _, component := range ds.Status.Components {
				found = append(found, component.Name)
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		}
		all, _, err := c.list(cmd.Context(), false)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for i := range all {
			found = append(found, all[i].Name)
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
