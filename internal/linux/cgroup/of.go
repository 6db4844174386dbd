//go:build linux

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// OfProcess finds the group of a process, whatever made it, to read its usage. It leaves out hierarchies that are not mounted
// here, or only in part.
func OfProcess(pid int) (*Group, error) {
	where, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cgroup of process %d: %w", pid, err)
	}
	mounted, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cgroup of process %d: %w", pid, err)
	}
	own := parseOwn(string(where))
	var folders []Folder
	for _, m := range parseMounts(string(mounted)) {
		names := m.controllers
		if m.version == 2 {
			names = []string{""}
		}
		for _, name := range names {
			at, ok := own[name]
			if m.root != "/" {
				var below bool
				at, below = strings.CutPrefix(at, m.root)
				ok = ok && below && (at == "" || at[0] == '/')
			}
			if !ok {
				continue
			}
			f := Folder{Version: m.version, Path: filepath.Join(m.point, at)}
			if m.version == 1 {
				f.Controllers = m.controllers
			} else {
				f.Controllers = controllersOf(f.Path)
			}
			folders = append(folders, f)
			break
		}
	}
	return Open(folders)
}

// controllersOf returns the controllers of a cgroup2 folder; none if it cannot be read.
func controllersOf(dir string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	return strings.Fields(string(text))
}
