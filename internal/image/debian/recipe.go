package debian

import (
	"slices"
	"strings"
)

// recipe lists the parts of an image in addition to the essential packages.
type recipe struct {
	name     string
	packages []string
	finish   string // shell commands; $1 is the root
}

func recipes() []recipe {
	return []recipe{
		{name: "shell", packages: []string{"bash", "procps", "jq"}},
		{name: "python", packages: []string{"python3"}, finish: `ln -s python3 "$1/usr/bin/python"`},
		{name: "node", packages: []string{"nodejs"}},
		// The compiler's own parts, compiled, are half of the package, and sandboxes build no compilers.
		{name: "go", packages: []string{"golang-go"}, finish: `rm -rf "$1"/usr/lib/go-*/pkg/linux_*/cmd "$1"/usr/share/go-*/test`},
		{name: "java", packages: []string{"default-jdk-headless"}, finish: `rm -rf "$1"/usr/lib/jvm/*/jmods "$1"/usr/lib/jvm/*/lib/src.zip`},
	}
}

// common are the packages of every image.
func common() []string { return []string{"ca-certificates", "netbase"} }

// Names lists the images that can be made.
func Names() []string {
	var names []string
	for _, r := range recipes() {
		names = append(names, r.name)
	}
	return names
}

func find(name string) (recipe, bool) {
	list := recipes()
	i := slices.IndexFunc(list, func(r recipe) bool { return r.name == name })
	if i < 0 {
		return recipe{}, false
	}
	return list[i], true
}

// all returns the packages to install.
func (r recipe) all() string {
	return strings.Join(slices.Concat(r.packages, common()), ",")
}

// unwanted returns the files of packages that no program in a sandbox reads. Licences stay.
func unwanted() []string {
	return []string{
		"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright", "path-exclude=/usr/share/man/*",
		"path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/lintian/*",
	}
}

// prepare makes folders that packages need, although their files in them are not unpacked.
const prepare = `mkdir -p "$1/usr/share/man/man1"`

// tidy removes parts that a read-only image does not need: package lists, caches, logs and set-id bits. It leaves /tmp alone: mmdebstrap
// keeps a file there that points apt into the image. Without it, mmdebstrap's apt-get would change this machine.
const tidy = `set -e
rm -rf "$1"/var/lib/apt "$1"/var/cache/* "$1"/var/log/* "$1"/var/lib/dpkg/*-old "$1"/etc/*-
find "$1" -xdev -type f -perm /6000 -exec chmod ug-s '{}' +`

// slim removes temporary files, and the unwanted files for a tool that cannot skip them.
const slim = `rm -rf "$1"/tmp/* "$1"/run/*
find "$1/usr/share/doc" -mindepth 1 -not -type d -not -name copyright -delete
find "$1/usr/share/doc" -mindepth 1 -type d -empty -delete
rm -rf "$1"/usr/share/man/* "$1"/usr/share/info/* "$1"/usr/share/locale/* "$1"/usr/share/lintian/*`
