// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"fmt"
	"path"
	"sync"

	"sigs.k8s.io/yaml"

	helmcharts "d3os.com/d3os-operator/helm-charts"
	"d3os.com/d3os-operator/internal/platform/component"
)

// preset holds a chart's defaults for a component. Charts and operator read the same file.
type preset struct {
	Image    string   `json:"image"`
	Port     int32    `json:"port"`
	TimeZone string   `json:"timeZone"`
	Schemas  []string `json:"schemas"` // schemas of mysql
}

var presets sync.Map // file in helmcharts.FS -> preset

// defaults returns the chart's image and port for a component.
func defaults(c *component.Component) preset {
	if c.HasProductDefaults {
		return load(path.Join(c.Chart, "services", string(c.Name), "preset.yaml"))
	}
	return load(path.Join(c.Chart, "values.yaml"))
}

// imageKey returns the key of a component's image in Input.Images: ProbeImage for the kind ThirdParty, otherwise the component's name.
func imageKey(c *component.Component) string {
	if c.Kind == component.ThirdParty {
		return ProbeImage
	}
	return string(c.Name)
}

// load panics if an embedded chart is invalid. Tests would detect that.
func load(file string) preset {
	if p, ok := presets.Load(file); ok {
		return p.(preset)
	}
	data, err := helmcharts.FS.ReadFile(file)
	if err != nil {
		panic(fmt.Sprintf("read the embedded chart: %v", err))
	}
	var p preset
	if err := yaml.Unmarshal(data, &p); err != nil {
		panic(fmt.Sprintf("parse %s of the embedded chart: %v", file, err))
	}
	presets.Store(file, p)
	return p
}

// DefaultImages returns the charts' default images by their keys in Input.Images: for every component with a default image, and for the
// probe.
func DefaultImages() map[string]string {
	images := map[string]string{ProbeImage: load(path.Join(component.ChartThirdParty, "values.yaml")).Image}
	for _, c := range component.OfProduct() {
		if image := defaults(&c).Image; image != "" {
			images[imageKey(&c)] = image
		}
	}
	return images
}
