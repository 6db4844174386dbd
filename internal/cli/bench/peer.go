package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/belljar/belljar/internal/cli/host"
	"github.com/belljar/belljar/internal/notice"
)

// command is a subject that starts a program and waits for it.
func command(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, name, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, notice.OneLine(stderr.String()))
		}
		return nil
	}
}

// peers returns a function for each other isolation program. It returns its subject, or the reason that it is missing.
func peers(dir, dockerImage string) []func() (subject, string) {
	return []func() (subject, string){
		bubblewrap,
		func() (subject, string) { return runc(dir) },
		func() (subject, string) { return dockerRun(dockerImage) },
		func() (subject, string) { return dockerRun(dockerImage, "--network", "none") },
	}
}

// bubblewrap configures the closest equivalent of a Belljar sandbox that its flags allow.
func bubblewrap() (subject, string) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return subject{}, "bubblewrap is not installed"
	}
	args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + name); err == nil {
			args = append(args, "--symlink", target, "/"+name)
		} else if _, err := os.Stat("/" + name); err == nil {
			args = append(args, "--ro-bind", "/"+name, "/"+name)
		}
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--chdir", "/workspace", "/bin/true")
	s := subject{"bubblewrap --unshare-all", command(bwrap, args...)}
	if err := s.run(context.Background()); err != nil {
		return subject{}, "bubblewrap does not work here: " + notice.OneLine(err.Error())
	}
	return s, ""
}

// runc runs a bundle whose root is the host's /usr.
func runc(dir string) (subject, string) {
	bin, err := exec.LookPath("runc")
	if err != nil {
		return subject{}, "runc is not installed"
	}
	root := filepath.Join(dir, "runc", "rootfs")
	mounts := []map[string]any{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755", "size=65536k"}},
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return subject{}, err.Error()
	}
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + name); err == nil {
			os.Symlink(target, filepath.Join(root, name))
		} else if _, err := os.Stat("/" + name); err == nil {
			mounts = append(mounts, map[string]any{"destination": "/" + name, "type": "bind", "source": "/" + name, "options": []string{"rbind", "ro"}})
		}
	}
	config := map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{
			"user": map[string]any{"uid": 0, "gid": 0}, "args": []string{"/bin/true"}, "cwd": "/",
			"env": []string{"PATH=/usr/bin:/bin"}, "noNewPrivileges": true,
		},
		"root":   map[string]any{"path": "rootfs", "readonly": true},
		"mounts": mounts,
		"linux": map[string]any{"namespaces": []map[string]string{
			{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"},
		}},
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return subject{}, err.Error()
	}
	bundle := filepath.Dir(root)
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), raw, 0o600); err != nil {
		return subject{}, err.Error()
	}
	state := filepath.Join(dir, "runc-state")
	n := 0
	s := subject{"runc run", func(ctx context.Context) error {
		n++
		return command(bin, "--root", state, "run", "--bundle", bundle, fmt.Sprintf("belljar-bench-%d-%d", os.Getpid(), n))(ctx)
	}}
	if err := s.run(context.Background()); err != nil {
		return subject{}, "runc does not work here: " + notice.OneLine(err.Error())
	}
	return s, ""
}

// dockerRun runs a container with Docker's defaults and these flags.
func dockerRun(image string, flags ...string) (subject, string) {
	name := strings.Join(append([]string{"docker run"}, flags...), " ")
	if image == "" {
		return subject{}, name + " needs --docker-image"
	}
	bin, err := exec.LookPath("docker")
	if err != nil {
		return subject{}, "docker is not installed"
	}
	args := append([]string{"run", "--rm"}, flags...)
	s := subject{name, command(bin, append(args, image, "/bin/true")...)}
	if err := s.run(context.Background()); err != nil {
		return subject{}, name + " does not work here: " + notice.OneLine(err.Error())
	}
	return s, ""
}

// machineFacts are needed to interpret the figures.
func machineFacts() map[string]string {
	facts := map[string]string{"go": runtime.Version(), "user": "rootless"}
	if os.Geteuid() == 0 {
		facts["user"] = "root"
	}
	model := "unknown processor"
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	facts["machine"] = fmt.Sprintf("%d × %s", runtime.NumCPU(), model)
	facts["kernel"] = host.KernelRelease()
	facts["cgroups"] = host.CgroupMode("/sys/fs/cgroup")
	return facts
}
