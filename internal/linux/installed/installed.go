//go:build linux

// Package installed finds programs of the host, which a short PATH may lack: that of a service manager, of cron or of root's su.
package installed

import (
	"os/exec"
	"path/filepath"
)

// Find returns the path of a program that is in PATH, or else in one of the folders where distributions install programs. These are below
// root, "" for the host's own.
func Find(root, name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join("/", root, dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}
