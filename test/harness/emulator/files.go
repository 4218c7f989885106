// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// emulated returns an error that names an unsupported feature of a container, or nil. No chart uses such a feature.
func (p *pod) emulated(c *corev1.Container) error {
	hooks := ptr.Deref(c.Lifecycle, corev1.Lifecycle{})
	probes := []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe}
	unknown := func(probe *corev1.Probe) bool { return probe != nil && !canCheck(probe) }
	computed := func(mount corev1.VolumeMount) bool { return mount.SubPathExpr != "" }
	for what, asked := range map[string]bool{
		"probes but by exec, TCP and HTTP":        slices.ContainsFunc(probes, unknown),
		"hooks but preStop by exec and sleep":     hooks.PostStart != nil || hooks.PreStop != nil && hooks.PreStop.Exec == nil && hooks.PreStop.Sleep == nil,
		"readiness gates":                         len(p.spec.ReadinessGates) > 0,
		"restart policies of containers":          c.RestartPolicy != nil,
		"variables by envFrom":                    len(c.EnvFrom) > 0,
		"working directories":                     c.WorkingDir != "",
		"other files for a termination message":   c.TerminationMessagePath != corev1.TerminationMessagePathDefault,
		"parts of volumes named by an expression": slices.ContainsFunc(c.VolumeMounts, computed),
	} {
		if asked {
			return fmt.Errorf("%s are not emulated", what)
		}
	}
	return nil
}

// see creates the folders and the environment of a container's process.
func (p *pod) see(ctx context.Context, c *corev1.Container, image Image) (*view, error) {
	if err := p.emulated(c); err != nil {
		return nil, err
	}
	v := &view{image: image, pod: p.addressed(), dir: filepath.Join(p.dir, "containers", c.Name), names: p.emulator.names}
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return nil, err
	}
	v.lastWords = filepath.Join(p.dir, "termination-"+c.Name)
	v.paths.Add(corev1.TerminationMessagePathDefault, v.lastWords)
	for inside := range image.Executables {
		if filepath.IsAbs(inside) {
			v.paths.Add(inside, filepath.Join(image.bin, filepath.Base(inside)))
		}
	}
	for _, mount := range c.VolumeMounts {
		folder, err := p.folder(ctx, c, mount)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", mount.Name, err)
		}
		v.paths.Add(strings.TrimSuffix(mount.MountPath, "/"), folder)
	}
	var err error
	if v.env, err = p.emulator.variables(ctx, v, c); err != nil {
		return nil, err
	}
	if err := p.render(ctx, c, v); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.views[c.Name] = v
	p.mu.Unlock()
	return v, nil
}

// folder creates the folder for a mount of a container, and returns its path on this machine.
func (p *pod) folder(ctx context.Context, c *corev1.Container, mount corev1.VolumeMount) (string, error) {
	i := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	var folder string
	var err error
	switch v := p.spec.Volumes[i]; {
	case v.PersistentVolumeClaim != nil:
		folder, err = p.emulator.claim(ctx, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		folder, err = p.emulator.claim(ctx, p.name+"-"+v.Name)
	case v.EmptyDir != nil:
		folder = filepath.Join(p.dir, "volumes", v.Name)
	case sources(v) != nil: // writeFiles creates the folders
		return filepath.Join(p.dir, "rendered", c.Name, v.Name, mount.SubPath), nil
	default:
		err = fmt.Errorf("its type is not emulated")
	}
	if err != nil {
		return "", err
	}
	folder = filepath.Join(folder, mount.SubPath)
	return folder, os.MkdirAll(folder, 0o755)
}

// render writes the present content of a container's Secrets, ConfigMaps and downward API into files.
func (p *pod) render(ctx context.Context, c *corev1.Container, v *view) error {
	for _, volume := range p.spec.Volumes {
		from := sources(volume)
		if from == nil || !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume.Name }) {
			continue
		}
		files, err := p.files(ctx, v, from)
		if err == nil {
			err = writeFiles(filepath.Join(p.dir, "rendered", c.Name, volume.Name), files)
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
	}
	return nil
}

// refresh renders the files of all running containers again. The files of a source that cannot be read stay unchanged.
func (p *pod) refresh(ctx context.Context) {
	p.mu.Lock()
	views := maps.Clone(p.views)
	p.mu.Unlock()
	for _, c := range slices.Concat(p.spec.InitContainers, p.spec.Containers) {
		if v := views[c.Name]; v != nil {
			now := *v
			now.pod = p.addressed()
			_ = p.render(ctx, &c, &now)
		}
	}
}

// sources returns the volume's sources as sources of a projected volume, or nil if the emulator renders no files for the volume.
func sources(v corev1.Volume) []corev1.VolumeProjection {
	switch {
	case v.Secret != nil:
		return []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName}, Items: v.Secret.Items, Optional: v.Secret.Optional}}}
	case v.ConfigMap != nil:
		return []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference, Items: v.ConfigMap.Items, Optional: v.ConfigMap.Optional}}}
	case v.DownwardAPI != nil:
		return []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: v.DownwardAPI.Items}}}
	case v.Projected != nil:
		return v.Projected.Sources
	default:
		return nil
	}
}

// files returns the content of a volume, by path.
func (p *pod) files(ctx context.Context, v *view, sources []corev1.VolumeProjection) (map[string]string, error) {
	files := map[string]string{}
	for _, s := range sources {
		var data map[string]string
		var err error
		switch {
		case s.Secret != nil:
			data, err = p.emulator.secret(ctx, s.Secret.Name, s.Secret.Optional)
			err = pick(files, data, err, s.Secret.Items, s.Secret.Optional, func(text string) string { return text })
		case s.ConfigMap != nil:
			data, err = p.emulator.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional)
			err = pick(files, data, err, s.ConfigMap.Items, s.ConfigMap.Optional, v.translate)
		case s.DownwardAPI != nil:
			for _, item := range s.DownwardAPI.Items {
				if item.FieldRef == nil {
					return nil, fmt.Errorf("resources in files are not emulated")
				}
				if files[item.Path], err = field(v.pod, item.FieldRef.FieldPath); err != nil {
					return nil, err
				}
			}
		default:
			err = fmt.Errorf("a source of the volume is not emulated")
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// pick adds keys of an object to files: the keys in items, or all keys if items is empty.
func pick(
	files, data map[string]string, err error, items []corev1.KeyToPath, optional *bool, change func(string) string,
) error {
	if err != nil {
		return err
	}
	if len(items) == 0 {
		for key, value := range data {
			files[key] = change(value)
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if ok {
			files[item.Path] = change(value)
		} else if !ptr.Deref(optional, false) {
			return fmt.Errorf("references non-existent key: %s", item.Key)
		}
	}
	return nil
}

// writeFiles replaces all files of a folder by the given files. A program that reads a file gets either its old or its new content.
func writeFiles(folder string, files map[string]string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for path, text := range files {
		full := filepath.Join(folder, path)
		if old, err := os.ReadFile(full); err == nil && string(old) == text {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		fresh := filepath.Join(filepath.Dir(folder), "..new-"+filepath.Base(folder))
		if err := os.WriteFile(fresh, []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(fresh, full); err != nil {
			return err
		}
	}
	return filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		name, _ := filepath.Rel(folder, path)
		if _, wanted := files[name]; err == nil && !wanted && !entry.IsDir() {
			return os.Remove(path)
		}
		return err
	})
}
