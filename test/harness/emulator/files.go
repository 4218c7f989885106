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

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// see makes what a container's process sees: its folders, its environment.
func (p *pod) see(ctx context.Context, c *corev1.Container) (*view, error) {
	image, err := p.emulator.image(c)
	if err != nil {
		return nil, err
	}
	v := &view{image: image, pod: p.addressed(), dir: filepath.Join(p.dir, "containers", c.Name), names: p.emulator.names}
	if err := os.MkdirAll(v.dir, 0o755); err != nil {
		return nil, err
	}
	v.lastWords = filepath.Join(p.dir, "termination-"+c.Name)
	v.add(orElse(c.TerminationMessagePath, corev1.TerminationMessagePathDefault), v.lastWords)
	for inside := range image.Executables {
		if filepath.IsAbs(inside) {
			v.add(inside, filepath.Join(image.bin, filepath.Base(inside)))
		}
	}
	for _, mount := range c.VolumeMounts {
		folder, err := p.folder(ctx, c, mount.Name)
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", mount.Name, err)
		}
		v.add(strings.TrimSuffix(mount.MountPath, "/"), filepath.Join(folder, mount.SubPath))
	}
	if v.env, err = p.emulator.variables(ctx, v, c); err != nil {
		return nil, err
	}
	for _, mount := range c.VolumeMounts {
		if err := p.part(v, mount); err != nil {
			return nil, err
		}
	}
	if err := p.render(ctx, c, v); err != nil {
		return nil, err
	}
	if c.WorkingDir != "" {
		v.dir = v.translate(c.WorkingDir)
	}
	p.mu.Lock()
	p.views[c.Name] = v
	p.mu.Unlock()
	return v, nil
}

// part makes the folder of a mount with a subPath, whose name may come from the environment.
func (p *pod) part(v *view, mount corev1.VolumeMount) error {
	i := slices.IndexFunc(v.places, func(at place) bool { return at.inside == strings.TrimSuffix(mount.MountPath, "/") })
	if mount.SubPathExpr != "" {
		v.places[i].here = filepath.Join(v.places[i].here, expand(mount.SubPathExpr, v.env))
	}
	if slices.ContainsFunc(p.spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == mount.Name && isRendered(volume) }) {
		return nil // its files make their folders
	}
	return os.MkdirAll(v.places[i].here, 0o755)
}

// folder returns where a volume of a container is on this machine.
func (p *pod) folder(ctx context.Context, c *corev1.Container, name string) (string, error) {
	i := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		return "", fmt.Errorf("the pod has none of this name")
	}
	switch v := p.spec.Volumes[i]; {
	case v.PersistentVolumeClaim != nil:
		return p.emulator.claim(ctx, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return p.emulator.claim(ctx, p.name+"-"+v.Name)
	case v.EmptyDir != nil:
		folder := filepath.Join(p.dir, "volumes", name)
		return folder, os.MkdirAll(folder, 0o777)
	case isRendered(v):
		return filepath.Join(p.dir, "rendered", c.Name, name), nil
	default:
		return "", fmt.Errorf("its type is not emulated")
	}
}

func isRendered(v corev1.Volume) bool {
	return v.Secret != nil || v.ConfigMap != nil || v.DownwardAPI != nil || v.Projected != nil
}

// render writes the files of a container's Secrets, ConfigMaps and downward API, as they are now.
func (p *pod) render(ctx context.Context, c *corev1.Container, v *view) error {
	for _, volume := range p.spec.Volumes {
		if !isRendered(volume) || !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume.Name }) {
			continue
		}
		files, err := p.files(ctx, c, v, sources(volume))
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		if err := writeFiles(filepath.Join(p.dir, "rendered", c.Name, volume.Name), files); err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
	}
	return nil
}

// refresh renders the files of all containers that run as they are now. What cannot be read now stays as it was.
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

// sources has all rendered volumes in the form of a projected one.
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
	default:
		return v.Projected.Sources
	}
}

// files returns what a volume holds, by path.
func (p *pod) files(ctx context.Context, c *corev1.Container, v *view, sources []corev1.VolumeProjection) (map[string]string, error) {
	files := map[string]string{}
	for _, s := range sources {
		var err error
		switch {
		case s.Secret != nil:
			var data map[string]string
			data, err = p.emulator.secret(ctx, s.Secret.Name, s.Secret.Optional)
			err = pick(files, data, err, s.Secret.Items, isTrue(s.Secret.Optional), func(text string) string { return text })
		case s.ConfigMap != nil:
			var data map[string]string
			data, err = p.emulator.configMap(ctx, s.ConfigMap.Name, s.ConfigMap.Optional)
			err = pick(files, data, err, s.ConfigMap.Items, isTrue(s.ConfigMap.Optional), v.translate)
		case s.ServiceAccountToken != nil:
			files[s.ServiceAccountToken.Path], err = p.token(ctx, s.ServiceAccountToken)
		case s.DownwardAPI != nil:
			for _, item := range s.DownwardAPI.Items {
				if item.ResourceFieldRef != nil {
					files[item.Path], err = quantity(v.pod, c, item.ResourceFieldRef)
				} else {
					files[item.Path], err = field(v.pod, item.FieldRef.FieldPath)
				}
				if err != nil {
					return nil, err
				}
			}
		default:
			err = fmt.Errorf("a source of it is not emulated")
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// pick adds keys of an object to files: all, or those that items name.
func pick(files, data map[string]string, err error, items []corev1.KeyToPath, optional bool, change func(string) string) error {
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
		} else if !optional {
			return fmt.Errorf("references non-existent key: %s", item.Key)
		}
	}
	return nil
}

// token returns a token of the pod's service account. The first one lasts as long as a test.
func (p *pod) token(ctx context.Context, s *corev1.ServiceAccountTokenProjection) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tokens[s.Audience] == "" {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: s.ExpirationSeconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.name, UID: p.uid}}}
		if s.Audience != "" {
			request.Spec.Audiences = []string{s.Audience}
		}
		answer, err := p.emulator.api.CoreV1().ServiceAccounts(p.emulator.options.Namespace).CreateToken(ctx, p.spec.ServiceAccountName, request, metav1.CreateOptions{})
		if err != nil {
			return "", fmt.Errorf("request a token of service account %s: %w", p.spec.ServiceAccountName, err)
		}
		p.tokens[s.Audience] = answer.Status.Token
	}
	return p.tokens[s.Audience], nil
}

// writeFiles makes a folder hold these files. A program that reads one sees it whole, old or new.
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
