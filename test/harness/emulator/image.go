// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"d3os.com/d3os-operator/test/harness/process"
)

// Image describes the program that the emulator runs instead of a container image.
type Image struct {
	// Missing makes the emulator report that the image cannot be pulled.
	Missing bool
	// Entrypoint and Cmd run if a container has no command and no args, as in a Dockerfile.
	Entrypoint, Cmd []string
	// Env contains the variables that the image sets, like ENV in a Dockerfile. A process inherits no variable of the test process.
	Env map[string]string
	// Paths are variables whose values are paths in the container. A process gets the corresponding paths on this machine.
	Paths map[string]string
	// Executables maps the programs of the image, by name with or without a folder, to their paths on this machine. Names without a folder
	// are on the PATH of the container's processes, before the machine's PATH.
	Executables map[string]string
	// Rewrite changes text that the replacement of paths (see the package comment) does not change, such as 0.0.0.0. It is called for each
	// argument, each value of env and each file of a ConfigMap. Default: no change.
	Rewrite func(pod *corev1.Pod, text string) string

	bin string // folder of links to the executables
}

// layOutImages creates a folder of executables for each image.
func (e *Emulator) layOutImages() error {
	images := map[string]Image{}
	for name, image := range e.options.Images {
		image.bin = filepath.Join(e.dir, "images", fmt.Sprint(len(images)))
		if err := os.MkdirAll(image.bin, 0o755); err != nil {
			return fmt.Errorf("lay out image %s: %w", name, err)
		}
		for inside, path := range image.Executables {
			if err := os.Symlink(path, filepath.Join(image.bin, filepath.Base(inside))); err != nil {
				return fmt.Errorf("lay out image %s: %w", name, err)
			}
		}
		images[name] = image
	}
	e.options.Images = images
	return nil
}

// image returns the program of a container.
func (e *Emulator) image(c *corev1.Container) (Image, error) {
	untagged, _, _ := strings.Cut(c.Image, "@")
	if colon := strings.LastIndex(untagged, ":"); colon > strings.LastIndex(untagged, "/") {
		untagged = untagged[:colon]
	}
	for _, key := range []string{c.Image, untagged, c.Name} {
		if image, ok := e.options.Images[key]; ok && image.Missing {
			break
		} else if ok {
			return image, nil
		}
	}
	return Image{}, fmt.Errorf("the emulator has no program for image %q", c.Image)
}

// view is the environment of a container's process.
type view struct {
	image Image
	pod   *corev1.Pod // its status contains the pod's address
	paths process.Paths
	env   []corev1.EnvVar
	dir   string // working directory
	names *names // nil if pods have no names

	lastWords string // file of the termination message
}

// translate replaces the container's paths in a text by paths on this machine.
func (v *view) translate(text string) string {
	text = v.paths.Translate(text)
	if v.image.Rewrite != nil {
		return v.image.Rewrite(v.pod, text)
	}
	return text
}

// argv returns the command line of a container.
func (v *view) argv(c *corev1.Container) []string {
	command, args := c.Command, c.Args
	if len(command) == 0 {
		command = v.image.Entrypoint
		if len(args) == 0 {
			args = v.image.Cmd
		}
	}
	var argv []string
	for _, arg := range slices.Concat(command, args) {
		argv = append(argv, v.translate(process.Expand(arg, v.env)))
	}
	return argv
}

// environ returns the environment of the container's processes.
func (v *view) environ() []string {
	values := map[string]string{"PATH": v.image.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": v.pod.Name, "HOME": v.dir}
	if v.names != nil {
		maps.Copy(values, v.names.variables(v.pod.Name))
	}
	maps.Copy(values, v.image.Env)
	for name, value := range v.image.Paths {
		values[name] = v.translate(value)
	}
	for _, variable := range v.env {
		values[variable.Name] = variable.Value
	}
	var found []string
	for name, value := range values {
		found = append(found, name+"="+value)
	}
	slices.Sort(found)
	return found
}
