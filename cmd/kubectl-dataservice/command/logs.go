// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"d3os.com/d3os-operator/internal/plugin"
)

func (p *cli) logsCommand() *cobra.Command {
	l := &logView{cli: p}
	cmd := &cobra.Command{
		Use:   "logs NAME [COMPONENT]",
		Short: "Show the logs of all containers of a DataService",
		Long: "Show the logs of all containers of a DataService, or of one component, each line with its pod and container. If a\n" +
			"container waits for its next start, the log of its last run is shown.\n\n" +
			"Exit codes: 0: all logs were read; 1: at least one was not; 2: an error.",
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: p.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			component := ""
			if len(args) == 2 {
				component = args[1]
			}
			pods, err := c.Pods(cmd.Context(), plugin.Selector(args[0], component))
			if err != nil {
				return err
			}
			if len(pods) == 0 {
				return fmt.Errorf("%s has no pods in namespace %s", strings.Join(args, " "), c.Namespace)
			}
			return l.show(cmd.Context(), c, pods)
		},
	}
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "follow the log")
	cmd.Flags().Int64Var(&l.tail, "tail", 20, "last lines of each container; -1 is all")
	cmd.Flags().DurationVar(&l.since, "since", 0, "only lines that are not older than this")
	return cmd
}

type logView struct {
	*cli

	follow bool
	tail   int64
	since  time.Duration
	mu     sync.Mutex
}

// atOnce limits the number of logs that are read concurrently. With --follow, there is no limit.
const atOnce = 8

func (l *logView) show(ctx context.Context, c *cluster, pods []*corev1.Pod) error {
	var all errgroup.Group
	if !l.follow {
		all.SetLimit(atOnce)
	}
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			previous := container.State.Waiting != nil && container.LastTerminationState.Terminated != nil
			if container.State.Waiting != nil && !previous {
				continue // a container that has not started has no log
			}
			all.Go(func() error { return l.container(ctx, c, pod.Name, container.Name, previous) })
		}
	}
	return all.Wait()
}

// container prints the log of a container. If the log cannot be read, it prints the error and returns errNo.
func (l *logView) container(ctx context.Context, c *cluster, pod, name string, previous bool) error {
	options := &corev1.PodLogOptions{Container: name, Previous: previous, Follow: l.follow && !previous}
	if l.tail >= 0 {
		options.TailLines = &l.tail
	}
	if l.since > 0 {
		options.SinceSeconds = ptr.To(int64(l.since.Seconds()))
	}
	prefix := fmt.Sprintf("[%s/%s] ", pod, name)
	stream, err := c.Client.CoreV1().Pods(c.Namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return l.failed(ctx, prefix, err)
	}
	defer func() { _ = stream.Close() }()
	lines := bufio.NewReader(stream)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			if err := l.line(prefix + strings.TrimSuffix(text, "\n")); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return l.failed(ctx, prefix, err)
		}
	}
}

// failed prints the reason why a log cannot be read, unless the user has interrupted the command.
func (l *logView) failed(ctx context.Context, prefix string, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
	}
	if err := l.line(prefix + "error: " + err.Error()); err != nil {
		return err
	}
	return errNo
}

func (l *logView) line(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.print(text + "\n")
}
