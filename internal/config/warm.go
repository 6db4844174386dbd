package config

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

var modulePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
})

// checkPreload checks an item of SANDBOX_WARM_PRELOAD.
func checkPreload(s string) error {
	image, modules, _ := strings.Cut(s, "=")
	if image == "" || len(s) > 4096 {
		return errors.New("must be an image and modules: IMAGE=MODULE+MODULE")
	}
	for name := range strings.SplitSeq(modules, "+") {
		if !modulePattern().MatchString(name) {
			return errors.New("must name modules of Python after the image: IMAGE=MODULE+MODULE")
		}
	}
	return nil
}

// Preload returns SANDBOX_WARM_PRELOAD as a map from image to modules.
func (c *Config) Preload() map[string][]string {
	images := map[string][]string{}
	for _, item := range c.WarmPreload {
		image, modules, _ := strings.Cut(item, "=")
		images[image] = append(images[image], strings.Split(modules, "+")...)
	}
	return images
}
