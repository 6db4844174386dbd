//go:build linux

package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/flock"
	"github.com/belljar/belljar/internal/linux/idmap"
	"github.com/belljar/belljar/internal/linux/installed"
)

// pick finds a tool that works on this machine: in PATH, or below root ("" is the machine's own).
func pick(below string) (tool, error) {
	root := os.Geteuid() == 0
	fail := func(message, hint string) (tool, error) {
		return nil, &belljar.Error{Code: belljar.CodeRuntimeUnavailable, Message: message, Hint: hint}
	}
	if path, err := installed.Find(below, "mmdebstrap"); err == nil {
		if root {
			return mmdebstrap{path: path, mode: "root"}, nil
		}
		if _, err := installed.Find(below, "newuidmap"); err != nil {
			return fail("building an image without root needs newuidmap", "as root: apt install uidmap")
		}
		if !subordinate() {
			return fail("building an image without root needs subordinate ids, and you have none", "as root: "+idmap.Grant("", me()))
		}
		return mmdebstrap{path: path, mode: "unshare"}, nil
	}
	path, err := installed.Find(below, "debootstrap")
	switch {
	case err != nil:
		return fail("building an image needs mmdebstrap or debootstrap, and neither is here",
			"on Debian and Ubuntu: apt install mmdebstrap; elsewhere build on such a machine with --output FILE, or pull images from a registry")
	case !root:
		return fail("debootstrap needs root", "run it as root, or apt install mmdebstrap, which does without")
	}
	return debootstrap{path: path}, nil
}

func me() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint(os.Geteuid())
}

// subordinate reports whether the user has subordinate ids.
func subordinate() bool {
	text, err := os.ReadFile("/etc/subuid")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, ":")
		if name == me() || name == fmt.Sprint(os.Geteuid()) {
			return true
		}
	}
	return false
}

// mmdebstrap makes the tar itself, and cleans up after itself, also when it is interrupted.
type mmdebstrap struct{ path, mode string }

func (mmdebstrap) name() string { return "mmdebstrap" }

// mergedUsr are hooks of mmdebstrap that make links of /bin and /lib. Without them a package does that, which needs all
// of perl.
const mergedUsr = "/usr/share/mmdebstrap/hooks/merged-usr"

func (m mmdebstrap) build(ctx context.Context, j *job) error {
	packages := j.recipe.all()
	args := []string{
		"--mode=" + m.mode, "--variant=essential", "--format=tar", "--skip=output/dev", "--skip=cleanup/apt", `--aptopt=APT::Install-Recommends "false"`,
	}
	if info, err := os.Stat(mergedUsr); err == nil && info.IsDir() {
		args = append(args, "--hook-dir="+mergedUsr)
		packages += ",usr-is-merged"
	}
	for _, option := range unwanted() {
		args = append(args, "--dpkgopt="+option)
	}
	args = append(args, "--essential-hook="+prepare, "--include="+packages)
	for _, hook := range []string{j.recipe.finish, tidy} {
		if hook != "" {
			args = append(args, "--customize-hook="+hook)
		}
	}
	args = append(args, j.suite, "-")
	for _, s := range j.sources {
		args = append(args, s.String())
	}
	return j.run(ctx, j.out, m.path, args...)
}

// debootstrap makes a folder.
type debootstrap struct{ path string }

func (debootstrap) name() string { return "debootstrap" }

func (d debootstrap) build(ctx context.Context, j *job) error {
	root := filepath.Join(j.dir, "root")
	args := []string{"--variant=minbase", "--include=" + j.recipe.all()}
	i := slices.IndexFunc(j.sources, func(s source) bool { return s.suite == j.suite })
	if keyring := j.sources[i].signed; keyring != "" {
		args = append(args, "--keyring="+keyring)
	}
	if err := j.run(ctx, j.log, d.path, append(args, j.suite, root, j.sources[i].uri)...); err != nil {
		return err
	}
	for _, hook := range []string{j.recipe.finish, tidy, slim} {
		if err := j.run(ctx, j.log, "/bin/sh", "-c", hook, "sh", root); err != nil {
			return err
		}
	}
	tar, err := installed.Find("", "tar")
	if err != nil {
		return err
	}
	return j.run(ctx, j.out, tar, "--one-file-system", "--numeric-owner", "--exclude=./dev/*", "-C", root, "-c", ".")
}

// stopTime is how long a tool may take to clean up.
const stopTime = 20 * time.Second

// run runs a program to its end, in a mount namespace of its own if possible. Its mounts then end with the namespace, and
// do not prevent the removal of its files. When ctx ends, run asks the program and its children to end.
func (j *job) run(ctx context.Context, out io.Writer, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = j.dir, out, j.log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains([]string{"PATH", "TMPDIR", "LANG", "LC_ALL", "LANGUAGE", "DEBIAN_FRONTEND"}, name)
	}), "PATH="+os.Getenv("PATH")+":/usr/bin:/bin:/usr/sbin:/sbin", "TMPDIR="+j.dir, "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	// A process group of its own: run passes a Ctrl-C on the terminal on to it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil { // processes of the group that did not end
		if kill := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); kill != nil && !errors.Is(kill, syscall.ESRCH) {
			err = errors.Join(err, kill)
		}
	}
	return err
}

// strayAfter is the age at which a folder can belong to a dead process: a younger one may not be locked yet.
const strayAfter = time.Minute

// sweep removes the temporary folders of killed builds.
func sweep(parent string) {
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), folderName) {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err == nil && time.Since(info.ModTime()) > strayAfter && info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) && flock.Try(f, true) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = f.Close()
	}
}
