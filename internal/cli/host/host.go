// Package host describes the machine that the command line runs on.
package host

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/belljar/belljar/internal/cli/show"
)

// Machine is what doctor reports about the machine itself.
type Machine struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Kernel    string `json:"kernel,omitempty"`
	CPUs      int    `json:"cpus"`
	Cgroup    string `json:"cgroup,omitempty"` // v1, hybrid, v2, none
	Root      bool   `json:"root"`
	Container string `json:"container,omitempty"` // docker, podman, kubernetes; "" outside
	Hint      string `json:"hint,omitempty"`      // how to get a missing protection
}

// Examine describes this machine. getenv reads the environment.
func Examine(getenv func(string) (string, bool)) Machine {
	h := Machine{
		OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Kernel: KernelRelease(),
		Root: os.Geteuid() == 0, Container: container(getenv),
	}
	if runtime.GOOS == "linux" {
		h.Cgroup = CgroupMode("/sys/fs/cgroup")
	}
	return h
}

// Print writes the description for people.
func (h Machine) Print(b *strings.Builder, p show.Palette) {
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
	fmt.Fprintf(b, "%s  %s\n", p.Bold("host"), strings.Join(facts, ", "))
	p.Advise(b, 2, h.Hint)
}

// KernelRelease returns the kernel's release, or "" if it is unknown.
func KernelRelease() string {
	raw, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// CgroupMode returns the generation of control groups that is mounted at root.
func CgroupMode(root string) string {
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

// container returns the kind of container that this process runs in, if it can be recognised.
func container(getenv func(string) (string, bool)) string {
	if _, ok := getenv("KUBERNETES_SERVICE_HOST"); ok {
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

// NestedHint explains what a container needs for sandboxes inside it: a /proc without the engine's masks, so that a new one can be
// mounted, and no seccomp or AppArmor profile of the engine that blocks Belljar's own.
func NestedHint(kind string) string {
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
