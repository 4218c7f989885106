// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/version"
)

// versions are the versions of the plugin and the operator.
type versions struct {
	Plugin string `json:"plugin"`
	// Operator is the tag of the running operator's image; empty if its Deployment cannot be read.
	Operator string `json:"operator,omitempty"`
	// Writer is the newest operator version that wrote an object of the namespace; empty if there is no such object.
	Writer string `json:"writer,omitempty"`
	// Refused are the kinds of objects that the user may not list. If there are any, Writer may be wrong.
	Refused []string `json:"refused,omitempty"`
}

func (p *cli) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Compare the plugin's version with the operator's",
		Long: "Compare the plugin's version with the operator's.\n\n" +
			"Exit codes: 0: the versions are equal or not known; 1: the versions differ; 2: an error.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			v, err := c.versions(cmd.Context())
			if err != nil {
				return err
			}
			text := v.text()
			if p.output == "json" {
				if text, err = toJSON(v); err != nil {
					return err
				}
			}
			if err := p.print(text); err != nil {
				return err
			}
			if v.skew() != "" {
				return errNo
			}
			return nil
		},
	}
	p.outputFlag(cmd)
	return cmd
}

func (c *cluster) versions(ctx context.Context) (versions, error) {
	v := versions{Plugin: version.Version, Operator: tag(c.operator(ctx).Image)}
	kinds := []schema.GroupVersionKind{object.StatefulSetKind, {Group: "apps", Version: "v1", Kind: "Deployment"}}
	objects, refused, err := c.Objects(ctx, object.LabelManagedBy+"="+object.ManagedBy, kinds)
	v.Writer, v.Refused = writer(objects), slices.Sorted(slices.Values(refused))
	return v, err
}

func (v versions) text() string {
	writer := cmp.Or(v.Writer, "none: this namespace has no Deployment or StatefulSet of the operator")
	if refused := "you may not list " + strings.Join(v.Refused, ", "); len(v.Refused) > 0 && v.Writer != "" {
		writer += "; " + refused
	} else if len(v.Refused) > 0 {
		writer = "unknown: " + refused
	}
	text := fmt.Sprintf("plugin    %s\noperator  %s\nwriter    %s\n", v.Plugin, cmp.Or(v.Operator, "unknown: its Deployment cannot be read"), writer)
	if skew := v.skew(); skew != "" {
		text += skew + "\n"
	}
	return text
}

// skew describes the difference between the versions of the plugin and the operator; "" if there is none.
func (v versions) skew() string {
	is := cmp.Or(v.Operator, v.Writer)
	switch {
	case version.Newer(v.Plugin, is):
		return fmt.Sprintf("this plugin, %s, is newer than the operator, %s: diff and render show what %s would do", v.Plugin, is, v.Plugin)
	case version.Newer(is, v.Plugin):
		return fmt.Sprintf("this plugin, %s, is older than the operator, %s: install plugin %s, or diff and render are wrong", v.Plugin, is, is)
	}
	return ""
}
