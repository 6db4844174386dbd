package lsp

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"strings"
)

// fileOf returns the path of a file: URI on this machine. It reports false for other schemes, other hosts and invalid paths.
func fileOf(uri string) (string, bool) { return fileOn(runtime.GOOS, uri) }

// fileOn is fileOf for the given operating system.
func fileOn(system, uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || !strings.EqualFold(u.Scheme, "file") || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsRune(u.Path, 0) {
		return "", false
	}
	name := u.Path
	if system == "windows" {
		if name, ok := windowsPath(u.Host, name); ok {
			return name, true
		}
		return "", false
	}
	if u.Host != "" && !strings.EqualFold(u.Host, "localhost") || !strings.HasPrefix(name, "/") {
		return "", false
	}
	return path.Clean(name), true
}

// windowsPath returns the path of a URI such as file:///c%3A/x or file://server/share/x, with an upper case drive and
// backslashes.
func windowsPath(host, name string) (string, bool) {
	if host != "" && !strings.EqualFold(host, "localhost") {
		return `\\` + host + strings.ReplaceAll(path.Clean("/"+name), "/", `\`), true
	}
	drive, rest, ok := strings.Cut(strings.TrimPrefix(name, "/"), ":")
	if !ok || len(drive) != 1 || strings.Contains(rest, ":") { // a second colon would name an alternate data stream
		return "", false
	}
	return strings.ToUpper(drive) + ":" + strings.ReplaceAll(path.Clean("/"+rest), "/", `\`), true
}

// uriOf returns the URI of a path on this machine.
func uriOf(name string) string { return uriOn(runtime.GOOS, name) }

func uriOn(system, name string) string {
	u := url.URL{Scheme: "file", Path: name}
	if system == "windows" {
		name = strings.ReplaceAll(name, `\`, "/")
		if rest, ok := strings.CutPrefix(name, "//"); ok {
			u.Host, name, _ = strings.Cut(rest, "/")
		}
		u.Path = "/" + name
	}
	return u.String()
}

// below returns the path of a file relative to a folder, with slashes. It reports false if the file is outside.
func below(folder, name string) (string, bool) {
	rel, err := filepath.Rel(folder, name)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// cleanName checks a slash-separated path of a request, which must be inside the folder.
func cleanName(field, name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\\\x00") || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", refuse(field, fmt.Sprintf("%s %.80q is not a path in the folder", field, name), "paths are relative to the folder, with slashes and without ..")
	}
	return clean, nil
}
