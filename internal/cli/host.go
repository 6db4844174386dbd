package cli

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine is what doctor tells about the machine itself.
type machine struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Kernel    string `json:"kernel,omitempty"`
	CPUs      int    `json:"cpus"`
	Cgroup    string `json:"cgroup,omitempty"` // v1, hybrid, v2, none
	Root      bool   `json:"root"`
	Container string `json:"container,omitempty"` // docker, podman, kubernetes; "" outside
	Hint      string `json:"hint,omitempty"`      // what would help, where a protection is missing
}

func examineHost(c *console) machine {
	h := machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Kernel: kernelRelease(),
		Root: os.Geteuid() == 0, Container: container(c),
	}
	if runtime.GOOS == "linux" {
		h.Cgroup = cgroupMode("/sys/fs/cgroup")
	}
	return h
}

func (h machine) print(b *strings.Builder, p palette) {
	who := "rootless"
	if h.Root {
		who = "root"
	}
	facts := []string{h.OS + "/" + h.Arch}
	if h.Kernel != "" {
		facts = append(facts, "kernel "+h.Kernel)
	}
	facts = append(facts, fmt.Sprintf("%d cpus", h.CPUs))
	if h.Cgroup != "" {
		facts = append(facts, "cgroup "+h.Cgroup)
	}
	facts = append(facts, who)
	if h.Container != "" {
		facts = append(facts, "inside "+h.Container)
	}
	fmt.Fprintf(b, "%s  %s\n", p.bold("host"), strings.Join(facts, ", "))
	advise(b, p, 2, h.Hint)
}

// kernelRelease returns the kernel's release, "" where there is none to read.
func kernelRelease() string {
	raw, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// cgroupMode says which generation of control groups is mounted at root.
func cgroupMode(root string) string {
	switch {
	case exists(root + "/cgroup.controllers"):
		return "v2"
	case exists(root + "/unified/cgroup.controllers"):
		return "hybrid"
	case exists(root+"/memory") || exists(root+"/pids") || exists(root+"/cpu"):
		return "v1"
	}
	return "none"
}

// container names what we run inside of, where it leaves a mark.
func container(c *console) string {
	if _, ok := c.getenv("KUBERNETES_SERVICE_HOST"); ok {
		return "kubernetes"
	}
	switch {
	case exists("/.dockerenv"):
		return "docker"
	case exists("/run/.containerenv"):
		return "podman"
	}
	return ""
}

// containerHint says what a container needs to build sandboxes inside it: a /proc without the engine's masks, so that
// a new one may be mounted, and the engine's own seccomp and AppArmor walls out of the way of ours.
func containerHint(kind string) string {
	switch kind {
	case "docker", "podman":
		return "start the container with --security-opt seccomp=unconfined " +
			"--security-opt apparmor=unconfined --security-opt systempaths=unconfined --cap-add SYS_ADMIN"
	case "kubernetes":
		return "set procMount: Unmasked, seccompProfile and appArmorProfile type: Unconfined, " +
			"and capabilities add: [SYS_ADMIN] in the pod's securityContext"
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
