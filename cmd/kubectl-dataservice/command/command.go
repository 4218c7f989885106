// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command implements the commands of the kubectl plugin. A command reads data with the user's rights, formats them with
// internal/plugin, and prints them. The package imports the API of DataServices, because its commands read and change DataServices.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/version"
)

// The exit codes. For status and why, exitYes means ready, and exitNo not ready. For diff, as for `kubectl diff`,
// exitYes means no difference, and exitNo a difference.
const (
	exitYes   = 0
	exitNo    = 1
	exitError = 2
)

// answerError ends a command with exit code 1 and without a message.
type answerError struct{}

func (answerError) Error() string { return "no" }

// errNo is the answerError of a command whose answer is no.
var errNo error = answerError{}

// cli holds the state that commands share.
type cli struct {
	genericiooptions.IOStreams

	flags   *genericclioptions.ConfigFlags
	now     func() time.Time
	verbose bool
	output  string
}

// Run runs the command in the arguments, and returns the exit code.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	return run(ctx, streams, genericclioptions.NewConfigFlags(true), args)
}

func run(ctx context.Context, streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, args []string) int {
	root := New(streams, flags, time.Now) //nolint:contextcheck // a completion uses the context of its command
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitYes
	case errors.Is(err, errNo):
		return exitNo
	case ctx.Err() != nil:
		return exitYes // the user has interrupted the command
	}
	_, _ = fmt.Fprintln(streams.ErrOut, "error:", plugin.Printable(err.Error()))
	return exitError
}

// New returns the command `kubectl dataservice`.
func New(streams genericiooptions.IOStreams, flags *genericclioptions.ConfigFlags, now func() time.Time) *cobra.Command {
	p := &cli{IOStreams: streams, flags: flags, now: now}
	root := &cobra.Command{
		Use:   "kubectl-dataservice",
		Short: "See, understand and steer DataServices",
		Long: "See, understand and steer DataServices, with your own rights.\n\n" +
			"Exit codes: 0: ready, no problem or no difference; 1: not ready, a problem or a difference; 2: an error.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl dataservice"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Version,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	flags.AddFlags(root.PersistentFlags())
	root.AddCommand(
		p.statusCommand(), p.whyCommand(), p.diffCommand(), p.renderCommand(), p.convertCommand(), p.adoptCommand(), p.eventsCommand(), p.logsCommand(),
		p.pauseCommand(true), p.pauseCommand(false), p.restartCommand(), p.mysqlCommand(), p.redisCommand(), p.etcdCommand(), p.backupCommand(), p.restoreCommand(), p.historyCommand(), p.rollbackCommand(), p.upgradeCheckCommand(),
		p.reportCommand(), p.versionCommand(),
	)
	return root
}

// style returns the style of this output: with colours on a terminal, unless NO_COLOR is set.
func (p *cli) style() plugin.Style {
	style := plugin.Style{Verbose: p.verbose}
	if file, ok := p.Out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		style.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		style.Width = 80
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			style.Width = width
		}
	}
	return style
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (p *cli) print(text string) error {
	_, err := io.WriteString(p.Out, plugin.Printable(text))
	return err
}

// outputFlag adds the flag -o. An unknown value is refused before the command runs.
func (p *cli) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&p.output, "output", "o", "", "json: for programs")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"json"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if p.output != "" && p.output != "json" {
			return fmt.Errorf("there is no output %q: it must be 'json', or not given", p.output)
		}
		return nil
	}
}
