// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import "strings"

const relatedImagePrefix = "RELATED_IMAGE_"

// RelatedImage returns the name of the environment variable that replaces a component's default image, such as
// RELATED_IMAGE_GATEWAY_MASTER for gateway-master. For ProbeImage, the variable names the image of the probe pods.
// Users may set these variables to images of a mirror.
func RelatedImage(component string) string {
	return relatedImagePrefix + strings.ReplaceAll(strings.ToUpper(component), "-", "_")
}

// RelatedImages returns the images in variables RELATED_IMAGE_*, by component. environ has elements NAME=image.
func RelatedImages(environ []string) map[string]string {
	images := map[string]string{}
	for _, variable := range environ {
		name, image, _ := strings.Cut(variable, "=")
		if component, ok := strings.CutPrefix(name, relatedImagePrefix); ok && image != "" {
			images[strings.ReplaceAll(strings.ToLower(component), "_", "-")] = image
		}
	}
	return images
}
