// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/render"
)

func (p *cli) renderCommand() *cobra.Command {
	var file, version string
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print the manifests of a DataService, without a cluster",
		Long: "Print what the operator would apply for a DataService, with the default images. The command sends no request to a cluster.\n" +
			"Generated passwords are placeholders.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			data, err := p.readFile(file)
			if err != nil {
				return err
			}
			ds, err := plan.Parse(data)
			if err != nil {
				return fmt.Errorf("read the DataService in %s: %w", file, err)
			}
			if ds.Namespace == "" {
				ds.Namespace = "default"
				if namespace := *p.flags.Namespace; namespace != "" {
					ds.Namespace = namespace
				}
			}
			objects, err := plan.Objects(ds, version)
			if err != nil {
				return err
			}
			for _, o := range objects {
				text, err := render.YAML(o)
				if err != nil {
					return fmt.Errorf("print %s %s: %w", o.GetKind(), o.GetName(), err)
				}
				if err := p.print("---\n" + string(text)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the DataService; - is standard input")
	cmd.Flags().StringVar(&version, "kube-version", plan.KubeVersion, "version of Kubernetes to render for")
	return cmd
}
