package config

import (
	"errors"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

func images(c *Config) []row {
	return []row{
		{name: "ALLOWED_IMAGES", value: list(&c.AllowedImages, checkImagePattern), def: "[]",
			doc: "Images that requests may name; an empty list allows all. Names are completed as registries do (python:3.11 is docker.io/library/python:3.11); * matches anything but a slash, ** also slashes: python:*, registry.example/team/*. A digest is allowed if every tag of its name is, or if the image of that digest has an allowed name here, or as name@sha256:…. An alias is checked by its own name, not by its target; host only matches itself. The server does not start with a SANDBOX_DEFAULT_IMAGE, SANDBOX_MCP_IMAGE or SANDBOX_WORKSPACE_IMAGE that is not among them. Enters the policy hash when not empty."},
		{name: "IMAGE_PULL", value: oneOf(&c.ImagePull, "missing", "never"), def: "missing",
			doc: "What happens if a request names a missing image: missing pulls it while the run or session starts; never refuses the request, so that only operators add images. Enters the policy hash when it is not the default."},
		{name: "IMAGE_PREPULL", value: list(&c.ImagePrepull, checkImage), def: "[]",
			doc: "Images to pull in the background when the server starts, if they are missing. A failed pull is logged and retried on first use."},
		{name: "GO_CACHE", value: boolean(&c.GoCache), def: "true",
			doc: "Keep a Go build cache for each image: the compiled standard library, which sandboxes of that image read. The server makes it when a first Go program runs in the image, in the background and in a separate sandbox, in about a minute of CPU time and 200 MiB of disk. Later Go programs start in about a second."},
		{name: "IMAGE_REGISTRIES", value: list(&c.ImageRegistries, checkRegistry), def: "[]",
			doc: "Registries, as host or host:port, that may have private addresses and use plain HTTP. All others must have public addresses and use HTTPS."},
		{name: "IMAGE_ALIASES", value: pairs(&c.ImageAliases, checkAlias), def: "[]",
			doc: "Second names of images, as name=image: python:3.11-slim=belljar/python. Enters the policy hash when not empty."},
		{name: "IMAGE_MAX_MB", value: integer(&c.ImageMaxMB, 1, 16<<20), unit: "MiB", def: "16384",
			doc: "Size of one image, unpacked, and of an imported file."},
		{name: "IMAGE_GC_DAYS", value: integer(&c.ImageGCDays, 0, 36500), unit: "days", def: "0",
			doc: "Remove images not used for this long, imported ones too; 0 removes none."},
		{name: "IMAGE_KEEP_MB", value: integer(&c.ImageKeepMB, 0, 1<<30), unit: "MiB", def: "0",
			doc: "Cap on the size of all images; above it, the least recently used ones that no sandbox uses are removed; 0 is no cap."},
	}
}

// checkImagePattern refuses a pattern that cannot match any image.
func checkImagePattern(s string) error {
	if err := checkImage(s); err != nil {
		return err
	}
	if !doublestar.ValidatePattern(s) {
		return errors.New("is not a pattern")
	}
	return nil
}

func checkRegistry(s string) error {
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return errors.New("has no port from 1 to 65535")
		}
		host = h
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip == nil && !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`).MatchString(host) {
		return errors.New("must be host or host:port, without a scheme and a path")
	}
	return nil
}

func checkAlias(s string) error {
	name, ref, found := strings.Cut(s, "=")
	if !found {
		return errors.New("must be name=image")
	}
	if name == "host" {
		return errors.New("must leave host to be this machine's own programs")
	}
	if err := checkImage(name); err != nil {
		return err
	}
	return checkImage(ref)
}

// Aliases returns SANDBOX_IMAGE_ALIASES as a map from alias to image.
func (c *Config) Aliases() map[string]string {
	names := make(map[string]string, len(c.ImageAliases))
	for _, a := range c.ImageAliases {
		name, ref, _ := strings.Cut(a, "=")
		names[name] = ref
	}
	return names
}
