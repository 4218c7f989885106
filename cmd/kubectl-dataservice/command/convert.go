// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"d3os.com/d3os-operator/cmd/kubectl-dataservice/convert"
	"d3os.com/d3os-operator/internal/platform/plan"
	"d3os.com/d3os-operator/internal/plugin"
)

func (p *cli) convertCommand() *cobra.Command {
	var file string
	var o convert.Options
	cmd := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Print the DataService that replaces AppServices, ModelBoxes, CronTabs and a MongoDB",
		Long: "Print one DataService that replaces the AppServices (app.example.com), ModelBoxes (model.github.com), CronTabs\n" +
			"(stable.example.com) and the MongoDB (mongodb.com, mongodbcommunity.mongodb.com) in a file. Fields without a counterpart are listed on standard error.\n" +
			"The command sends no request to a cluster.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			data, err := p.readFile(file)
			if err != nil {
				return err
			}
			result, err := convert.Convert(data, o)
			if err != nil {
				return fmt.Errorf("convert %s: %w", file, err)
			}
			text, err := yaml.Marshal(result.DataService.Object)
			if err != nil {
				return fmt.Errorf("print the DataService: %w", err)
			}
			if err := plans(text); err != nil {
				return fmt.Errorf("convert %s: the operator would refuse the DataService: %w", file, err)
			}
			for _, note := range result.Notes {
				_, _ = fmt.Fprintln(p.ErrOut, "no counterpart:", plugin.Printable(note))
			}
			return p.print(string(text))
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the resources; - is standard input")
	cmd.Flags().StringVar(&o.Name, "name", "", "name of the DataService; default: that of the first resource")
	cmd.Flags().StringSliceVar(&o.Command, "command", nil, "command for CronTabs that have none, as words separated by commas; default: the command of the image")
	return cmd
}

// plans returns the reason why the operator cannot plan a DataService, or nil.
func plans(text []byte) error {
	ds, err := plan.Parse(text)
	if err != nil {
		return err
	}
	if ds.Namespace == "" {
		ds.Namespace = "default"
	}
	_, err = plan.Objects(ds, plan.KubeVersion)
	return err
}
