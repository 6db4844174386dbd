//go:build linux

package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// usrLinks are the names next to /usr that are links on a usr-merged host, and folders on an older one. storeDirs
// contain the programs of hosts that have none in /usr.
var (
	usrLinks  = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}
	storeDirs = []string{"nix/store", "gnu/store"}
)

// etcAllowed lists all files of the host's /etc that a sandbox sees: programs in /usr need them to find their own
// parts, and they reveal nothing about this machine or its users.
var etcAllowed = []string{
	"alternatives", "ld.so.cache", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted", "ca-certificates/extracted",
	"java-*-openjdk", "mime.types", "protocols", "services", "perl", "python3", "python3.*", "matplotlibrc", "crypto-policies",
	"maven/m2.conf", "maven/logging", // not settings.xml, which may have passwords
}

// Host returns the root with the host's own programs.
func Host(u User) (*Tree, error) {
	if info, err := os.Stat("/usr"); err != nil || !info.IsDir() {
		return nil, errors.New("the host has no /usr folder to use as the image")
	}
	t := &Tree{Dir: "/", Parts: []Part{{Name: "usr", Kind: Bind, Source: "usr"}}}
	for _, name := range usrLinks {
		t.show(name)
	}
	for _, name := range storeDirs {
		t.show(name)
	}
	for _, pattern := range etcAllowed {
		found, _ := filepath.Glob("/etc/" + pattern)
		for _, source := range found {
			t.show(source[1:])
		}
	}
	if link, err := os.Readlink("/etc/localtime"); err == nil {
		if zone := zoneFile(link); zone != "" {
			t.Parts = append(t.Parts, Part{Name: "etc/localtime", Kind: Link, Target: zone})
		}
	}
	t.Parts = append(t.Parts, written(u.Fill())...)
	t.Parts = append(t.Parts, Part{Name: "opt", Kind: Folder}, Part{Name: "mnt", Kind: Folder})
	t.Parts = append(t.Parts, variable()...)
	return t, nil
}

// zoneFile returns the absolute path of the time zone to which /etc/localtime links; "" if it is not a file that a sandbox has.
// Many hosts have a relative link.
func zoneFile(link string) string {
	if !filepath.IsAbs(link) {
		link = "/etc/" + link
	}
	if link = filepath.Clean(link); !strings.HasPrefix(link, "/usr/share/zoneinfo/") {
		return ""
	}
	return link
}

// variable returns the parts of /var for a root that has none.
func variable() []Part {
	return []Part{{Name: "var/tmp", Kind: Link, Target: "/tmp"}, {Name: "var/run", Kind: Link, Target: "/run"}}
}

// show adds the host's folder, file or link of a name.
func (t *Tree) show(name string) {
	info, err := os.Lstat("/" + name)
	if err != nil {
		return
	}
	p := Part{Name: name, Kind: Bind, Source: name}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink("/" + name)
		if err != nil {
			return
		}
		p = Part{Name: name, Kind: Link, Target: target}
	case info.IsDir():
	case info.Mode().IsRegular():
		p.File = true
	default:
		return
	}
	t.Parts = append(t.Parts, p)
}

// there reports whether the host still has all parts of the tree: without one of them no sandbox could be made.
func (t *Tree) there() bool {
	return !slices.ContainsFunc(t.Parts, func(p Part) bool {
		if p.Kind != Bind {
			return false
		}
		info, err := os.Lstat("/" + p.Source)
		return err != nil || info.IsDir() == p.File
	})
}
