// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	dsv1 "d3os.com/d3os-operator/api/v1"
	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/object"
	"d3os.com/d3os-operator/internal/plugin"
	"d3os.com/d3os-operator/internal/plugin/why"
)

func (p *cli) reportCommand() *cobra.Command {
	file, force := "", false
	cmd := &cobra.Command{
		Use:   "report NAME",
		Short: "Write an archive for a bug report",
		Long: "Write an archive for a bug report: the DataService with its objects, pods, events and backups, the answer of why, the logs of\n" +
			"containers that are not well, and versions. Secrets are not read, and other confidential values are masked. redis/NAME,\n" +
			"etcd/NAME and the other kinds of why are also accepted. Read the archive before you give it away.\n\n" +
			"Exit codes: 0: the archive is written; 1: you may read nothing of the resource; 2: an error.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: p.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.cluster()
			if err != nil {
				return err
			}
			_, name, found := strings.Cut(args[0], "/")
			if !found {
				name = args[0]
			}
			file = cmp.Or(file, name+"-report.tar.gz")
			if _, err := os.Lstat(file); err == nil && !force {
				return fmt.Errorf("%s exists: choose another file with -o, or replace it with --force", file)
			}
			r := &report{cluster: c, files: map[string]string{}, objects: map[string]*unstructured.Unstructured{}, pods: map[string]*corev1.Pod{}}
			if err := r.collect(cmd.Context(), args[0], name, p.now()); err != nil {
				return err
			}
			if len(r.objects)+len(r.pods) == 0 {
				_, _ = fmt.Fprintf(p.ErrOut, "you may read nothing of %s in namespace %s: no archive is written\n", args[0], c.Namespace)
				return errNo
			}
			data, err := r.archive(name + "-report/")
			if err != nil {
				return err
			}
			if err := write(file, data, force); err != nil {
				return err
			}
			return p.print(fmt.Sprintf("%s: %d files; %d could not be read (not-read.txt)\n", file, len(r.files), len(r.unread)))
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the file to write; default: NAME-report.tar.gz")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file if it exists")
	return cmd
}

// write writes the archive. Without force it only creates a new file, and never replaces an existing file.
func write(name string, data []byte, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(name, flags, 0o600) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// report collects the files of an archive.
type report struct {
	*cluster

	mask    plugin.Mask
	files   map[string]string
	objects map[string]*unstructured.Unstructured
	pods    map[string]*corev1.Pod
	unread  []string
}

// collect reads everything for the archive. Only a wrong name or a missing subject is an error.
func (r *report) collect(ctx context.Context, subject, name string, now time.Time) error {
	gvk := dsv1.GroupVersion.WithKind(dsv1.Kind)
	if prefix, _, found := strings.Cut(subject, "/"); found {
		gvk = clusters[prefix]
		if gvk.Kind == "" {
			_, _, err := r.subject(ctx, []string{subject}, now)
			return err
		}
	}
	live, err := r.resource(ctx, gvk, name)
	if apierrors.IsNotFound(err) {
		return err
	}
	r.failed(gvk.Kind+" "+name, err)
	selector := plugin.Selector(name, "")
	if gvk.Kind != dsv1.Kind {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		o.SetName(name)
		selector = plugin.SelectorOf(o)
	}
	if err == nil {
		r.add(live)
	}
	r.addInside(ctx, selector)
	for _, key := range slices.Sorted(maps.Keys(r.objects)) {
		if o := r.objects[key]; object.IsResource(o) && o != live {
			r.addInside(ctx, plugin.SelectorOf(o))
		}
	}
	r.addBackups(ctx)
	r.texts(ctx, subject, name, now)
	r.logs(ctx)
	return nil
}

// failed records an object that could not be read.
func (r *report) failed(what string, err error) {
	if err != nil {
		r.unread = append(r.unread, what+": "+err.Error())
	}
}

func (r *report) add(o *unstructured.Unstructured) { r.objects[o.GetKind()+"/"+o.GetName()] = o }

// addInside adds the objects and pods that a selector matches. It never reads Secrets.
func (r *report) addInside(ctx context.Context, selector string) {
	for _, gvk := range append(slices.Clone(shownKinds), object.ConfigMapKind, object.JobKind) {
		objects, refused, err := r.Objects(ctx, selector, []schema.GroupVersionKind{gvk})
		if len(refused) > 0 {
			r.unread = append(r.unread, gvk.Kind+" of "+selector+": forbidden")
		}
		r.failed(gvk.Kind+" of "+selector, err)
		for _, o := range objects {
			r.add(o)
		}
	}
	pods, err := r.Pods(ctx, selector)
	r.failed("pods of "+selector, err)
	for _, pod := range pods {
		r.pods[pod.Name] = pod
	}
}

// addBackups adds the DataBackups of the resources in the archive, and the DataRestores of the namespace.
func (r *report) addBackups(ctx context.Context) {
	for _, gvk := range []schema.GroupVersionKind{backupKind, restoreKind} {
		objects, refused, err := r.Objects(ctx, "", []schema.GroupVersionKind{gvk})
		if len(refused) > 0 {
			r.unread = append(r.unread, gvk.Kind+": forbidden")
		}
		r.failed(gvk.Kind, err)
		for _, o := range objects {
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "of", "kind")
			of, _, _ := unstructured.NestedString(o.Object, "spec", "of", "name")
			if gvk == restoreKind || r.objects[cmp.Or(kind, dsv1.Kind)+"/"+of] != nil {
				r.add(o)
			}
		}
	}
}

// texts adds the output of why, the events and the versions.
func (r *report) texts(ctx context.Context, subject, name string, now time.Time) {
	facts, err := r.facts(ctx, []string{subject}, now)
	r.failed("the answer of why", err)
	if err == nil {
		r.files["why.txt"] = why.Explain(facts).Print(plugin.Style{Verbose: true}, now)
	}
	all, err := r.events(ctx)
	r.failed("events", err)
	objects, pods := slices.Collect(maps.Values(r.objects)), slices.Collect(maps.Values(r.pods))
	found := slices.DeleteFunc(all, func(e corev1.Event) bool { return !concerns(&e, name, "", objects, pods) })
	health.SortEvents(found)
	r.files["events.txt"] = plugin.Style{Verbose: true}.Events(found, now)
	v, err := r.versions(ctx)
	r.failed("versions", err)
	server, err := r.Client.Discovery().ServerVersion()
	r.failed("the version of the API server", err)
	r.files["versions.txt"] = v.text()
	if err == nil {
		r.files["versions.txt"] += "server    " + server.GitVersion + "\n"
	}
}

// logBytes and logTail limit the log of a container in the archive.
const (
	logBytes = 1 << 20
	logTail  = 2000
)

// logs adds the logs of containers that are not healthy or were restarted. For a restarted container, it also adds the previous log.
func (r *report) logs(ctx context.Context) {
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		pod := r.pods[name]
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			ended := s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
			if (s.Ready || ended) && s.RestartCount == 0 {
				continue
			}
			if s.State.Waiting == nil {
				r.log(ctx, name, s.Name, false)
			}
			if s.LastTerminationState.Terminated != nil {
				r.log(ctx, name, s.Name, true)
			}
		}
	}
}

func (r *report) log(ctx context.Context, pod, container string, previous bool) {
	path := "logs/" + pod + "/" + container + ".log"
	if previous {
		path = "logs/" + pod + "/" + container + ".previous.log"
	}
	stream, err := r.Client.CoreV1().Pods(r.Namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: ptr.To(int64(logTail)), LimitBytes: ptr.To(int64(logBytes)),
	}).Stream(ctx)
	if err != nil {
		r.failed(path, err)
		return
	}
	data, err := io.ReadAll(stream)
	_ = stream.Close()
	r.failed(path, err)
	r.files[path] = string(data)
}

// archive returns the archive with masked values. Files are sorted by name and have no times.
func (r *report) archive(dir string) ([]byte, error) {
	for name, pod := range r.pods {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{Object: content}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		r.objects["Pod/"+name] = o
	}
	for _, o := range r.objects {
		r.mask.Object(o.Object)
	}
	for key, o := range r.objects {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		r.files["resources/"+key+".yaml"] = string(data)
	}
	slices.Sort(r.unread)
	r.files["not-read.txt"] = strings.Join(append(r.unread, ""), "\n")
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		text := r.mask.Text(r.files[name])
		if strings.HasPrefix(name, "resources/") {
			text = r.mask.Known(r.files[name])
		}
		if err := files.WriteHeader(&tar.Header{Name: dir + name, Mode: 0o600, Size: int64(len(text)), ModTime: time.Unix(0, 0)}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(files, text); err != nil {
			return nil, err
		}
	}
	if err := files.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
