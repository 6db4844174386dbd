//go:build linux

package dockerd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// who is the user that runs an engine.
type who int

const (
	asRoot         who = iota
	asRemapper         // root, for containers in a user namespace
	asOrdinaryUser     // a user without privileges
)

// rootlessID is the user and group of a rootless engine.
const rootlessID = 61502

// command starts an engine with these arguments. It does not change the machine's own tables of users and subordinate ids: if
// others are needed, the engine gets a mount namespace with its own.
func (w who) command(dir string, args []string) (*exec.Cmd, error) {
	ids := filepath.Join(dir, "subid")
	switch w {
	case asRemapper:
		const script = `ids=$1; shift; mount --bind "$ids" /etc/subuid && mount --bind "$ids" /etc/subgid && exec dockerd "$@"`
		if err := os.WriteFile(ids, []byte("nobody:200000:65536\n"), 0o644); err != nil {
			return nil, err
		}
		return exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", ids}, args...)...), nil
	case asOrdinaryUser:
		return rootless(dir, append([]string{"dockerd"}, args...))
	}
	return exec.Command("dockerd", args...), nil
}

// rootless runs a command as an unprivileged user who is root in a user namespace with 65,536 subordinate ids, as rootlesskit
// would; the user owns dir.
func rootless(dir string, args []string) (*exec.Cmd, error) {
	const (
		outer = `cd "$1" && mount --bind passwd /etc/passwd && mount --bind subid /etc/subuid && mount --bind subid /etc/subgid && shift &&
			exec setpriv --reuid "$ID" --regid "$ID" --clear-groups unshare --user --map-root-user --map-auto --mount --net --propagation private sh -c "$INNER" sh "$@"`
		// A rootless engine requires only this variable, and a program that it never runs. Changing the user clears the
		// parent-death signal.
		inner = `mount -t tmpfs none /run && exec setpriv --pdeathsig TERM "$@"`
	)
	id := strconv.Itoa(rootlessID)
	bin := filepath.Join(dir, "bin")
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "passwd"), []byte("root:x:0:0::/root:/bin/sh\nengine:x:"+id+":"+id+"::"+dir+":/bin/sh\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "subid"), []byte("engine:300000:65536\n"), 0o644),
		os.MkdirAll(bin, 0o755),
		os.WriteFile(filepath.Join(bin, "rootlesskit-docker-proxy"), []byte("#!/bin/sh\nexit 1\n"), 0o755),
	)
	for name, mode := range map[string]os.FileMode{"passwd": 0o644, "subid": 0o644, "bin": 0o755, "bin/rootlesskit-docker-proxy": 0o755} {
		err = errors.Join(err, os.Chmod(filepath.Join(dir, name), mode)) // regardless of the umask
	}
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", outer, "sh", dir}, args...)...)
	cmd.Env = []string{
		"PATH=" + bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "ID=" + id,
		"INNER=" + inner, "ROOTLESSKIT_PARENT_EUID=" + id, "ROOTLESSKIT_STATE_DIR=" + dir,
	}
	return cmd, nil
}

// unprivileged checks whether that works here.
func unprivileged() (string, error) {
	dir, err := os.MkdirTemp(short(), "dockerd")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chown(dir, rootlessID, rootlessID)); err != nil {
		return "", err
	}
	cmd, err := rootless(dir, []string{"true"})
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
