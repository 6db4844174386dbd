package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImages(t *testing.T) {
	c := load(t, Sources{})
	if c.ImagePull != "missing" || len(c.ImageRegistries)+len(c.ImageAliases)+c.ImageGCDays+c.ImageKeepMB != 0 || c.ImageMaxMB != 16<<10 {
		t.Errorf("defaults are %q %v %v %d %d %d", c.ImagePull, c.ImageRegistries, c.ImageAliases, c.ImageMaxMB, c.ImageGCDays, c.ImageKeepMB)
	}
	c = load(t, Sources{Env: []string{
		"SANDBOX_IMAGE_ALIASES=python:3.11-slim=belljar/python, node:20-alpine=belljar/node@sha256:ab",
		"SANDBOX_IMAGE_REGISTRIES=registry.example,127.0.0.1:5000,[::1]:5000", "SANDBOX_ALLOWED_IMAGES=python:*,registry.example/team/**",
	}})
	if diff := cmp.Diff(map[string]string{"python:3.11-slim": "belljar/python", "node:20-alpine": "belljar/node@sha256:ab"}, c.Aliases()); diff != "" {
		t.Error(diff)
	}
	if len(c.ImageRegistries) != 3 || len(c.AllowedImages) != 2 {
		t.Errorf("got %v, %v", c.ImageRegistries, c.AllowedImages)
	}
	for key, values := range map[string][]string{
		"IMAGE_PULL":       {"always"},
		"IMAGE_REGISTRIES": {"https://registry.example", "registry.example/team", "a:b", "a:0", "-a", "a b"},
		"IMAGE_ALIASES":    {"python", "=x", "x=", "host=python", "a b=c"},
		"ALLOWED_IMAGES":   {"[a", "a b"},
		"IMAGE_PREPULL":    {"a b", "a,\tb c"},
		"IMAGE_MAX_MB":     {"0", "-1"},
		"IMAGE_GC_DAYS":    {"-1", "x"},
		"IMAGE_KEEP_MB":    {"-1"},
	} {
		for _, v := range values {
			got := problems(t, Sources{Env: []string{Prefix + key + "=" + v}})
			if !strings.HasPrefix(got[0], Prefix+key+" in the environment ") {
				t.Errorf("%s=%s: %q", key, v, got)
			}
		}
	}
}
