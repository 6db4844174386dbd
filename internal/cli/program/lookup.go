package program

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostImage finds programs as a sandbox with the image "host" sees them: it contains few other folders of the machine.
type hostImage struct {
	visible []string // folders that exist inside
	path    []string // folders to search for programs, in order
}

func newHostImage() hostImage {
	return hostImage{
		visible: []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"},
		path: []string{
			"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", // PATH inside
			"/usr/local/go/bin", "/usr/lib/go/bin", // where Go's own archives are unpacked
		},
	}
}

// Find returns the name inside a sandbox of this machine's own program, or "" if sandboxes do not have it.
func Find(name string) string { return newHostImage().find(name) }

// standardPath is the number of folders of path that are also in PATH inside a sandbox.
const standardPath = 6

// find returns how to call a program inside: by its bare name if possible, else by its full path. It returns "" if the image does
// not have it.
func (h hostImage) find(name string) string {
	for i, dir := range h.path {
		first, ok := h.resolve(filepath.Join(dir, name))
		switch {
		case !ok:
		case first == filepath.Join(dir, name) && i < standardPath:
			return name
		default:
			return first
		}
	}
	return ""
}

// place returns the path of a program that find has found.
func (h hostImage) place(found string) string {
	if filepath.IsAbs(found) {
		return found
	}
	for _, dir := range h.path[:standardPath] {
		if _, ok := h.resolve(filepath.Join(dir, found)); ok {
			return filepath.Join(dir, found)
		}
	}
	return found
}

// resolve follows a program's links and returns the first path from which the rest of the chain is visible inside. It skips a link
// through /etc/alternatives, and finds nothing for a target in a home folder.
func (h hostImage) resolve(program string) (first string, ok bool) {
	const mostLinks = 40
	for at, n := program, 0; n < mostLinks; n++ {
		switch {
		case !h.sees(at):
			first = ""
		case first == "":
			first = at
		}
		target, err := os.Readlink(at)
		if err != nil {
			real, err := filepath.EvalSymlinks(at)
			if err != nil || first == "" || !h.sees(real) {
				return "", false
			}
			info, err := os.Stat(real)
			return first, err == nil && info.Mode().IsRegular() && info.Mode()&0o001 != 0
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		at = target
	}
	return "", false
}

func (h hostImage) sees(path string) bool {
	return slices.ContainsFunc(h.visible, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
}

// elsewhere returns where the caller's own PATH has a program that the image lacks, or "".
func elsewhere(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		program := filepath.Join(dir, name)
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return program
		}
	}
	return ""
}
