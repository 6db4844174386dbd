//go:build linux

package container

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/need"
)

// image holds busybox and belljar.
const image = "belljar-inside"

// doctor is the output of belljar doctor --json.
type doctor struct {
	Host struct {
		Container string `json:"container"`
		Hint      string `json:"hint"`
	} `json:"host"`
	Runtimes []struct {
		Name string `json:"name"`
		runtime.Capabilities
	} `json:"runtimes"`
}

func (d doctor) native(t *testing.T) runtime.Capabilities {
	t.Helper()
	for _, r := range d.Runtimes {
		if r.Name == "native" {
			return r.Capabilities
		}
	}
	t.Fatalf("doctor says nothing about native: %+v", d)
	return runtime.Capabilities{}
}

// TestContainer puts belljar into containers.
func TestContainer(t *testing.T) {
	host := engine(t)
	t.Run("docker", func(t *testing.T) { inDocker(t, host) })
	t.Run("kubernetes", func(t *testing.T) { inKubernetes(t, host) })
}

// inDocker follows doctor's advice step by step, like a user who has just put belljar into a container.
func inDocker(t *testing.T, host string) {
	// Without flags belljar does not work, and doctor lists the missing ones.
	plain, status := examine(t, host, nil, "")
	if caps := plain.native(t); caps.Available || status != 1 {
		t.Fatalf("native works in a container without any flag, status %d: %+v", status, caps)
	}
	if plain.Host.Container != "docker" {
		t.Errorf("doctor says it is inside %q", plain.Host.Container)
	}
	flags := flagsOf(plain.Host.Hint)
	if len(flags) == 0 {
		t.Fatalf("doctor prints no flags: %q", plain.Host.Hint)
	}
	t.Logf("doctor's flags: %v", flags)

	// Each flag is needed: no user should lower a protection needlessly.
	commands := remounts(t, host, flags)
	for i, flag := range flags {
		if flag.value == "apparmor=unconfined" && !appArmor() {
			continue // this kernel has no AppArmor
		}
		rest := slices.Delete(slices.Clone(flags), i, i+1)
		got, _ := examine(t, host, rest, "{ "+commands+"; } 2>/dev/null || :")
		if complete(got.native(t)) {
			t.Errorf("%s %s is not needed", flag.name, flag.value)
		}
	}

	// With the flags programs run. Only limits may be missing, for which doctor prints a command.
	withFlags, status := examine(t, host, flags, "")
	if caps := withFlags.native(t); !caps.Available || status != 0 {
		t.Fatalf("native does not work with doctor's flags, status %d: %+v", status, caps)
	}
	out := run(t, host, flags, "", "belljar", "run", "--quiet", "--", "sh", "-c", "id -u; cat /proc/self/uid_map")
	if lines := strings.Fields(out.stdout); out.status != 0 || len(lines) < 3 || lines[0] != "1000" || lines[2] == "0" && lines[3] == "4294967295" {
		t.Fatalf("belljar run in the container: %+v", out)
	}

	// So does gVisor, if the container has its program. The engine mounts /dev/shm noexec, and sandboxes have their folder there.
	if program, err := filepath.Abs("../../bin/belljar-runsc"); err == nil {
		if _, err := os.Stat(program); err == nil {
			more := append(slices.Clone(flags), flag{"--volume", program + ":/usr/bin/belljar-runsc:ro"})
			if out := run(t, host, more, "", "belljar", "run", "--quiet", "--runtime", "gvisor", "--", "echo", "works"); out.stdout != "works\n" {
				t.Errorf("gVisor in the container: %+v", out)
			}
		}
	}

	// With the command, too, doctor reports no problem, and the limits hold.
	all, status := examine(t, host, flags, commands)
	if caps := all.native(t); !complete(caps) || status != 0 || all.Host.Hint != "" {
		t.Fatalf("doctor is not content, status %d: %+v", status, all)
	}
	// The limits of its file systems are added to the 64 MiB.
	hog := run(t, host, flags, commands, "belljar", "run", "--memory", "64m", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=900M", "count=1")
	if hog.status != 137 || !strings.Contains(hog.stderr, "memory") {
		t.Errorf("900 MiB with a limit of 64: %+v", hog)
	}
	fine := run(t, host, flags, commands, "belljar", "run", "--memory", "64m", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=3M", "count=1")
	if fine.status != 0 {
		t.Errorf("control: 3 MiB with a limit of 64: %+v", fine)
	}
}

// inKubernetes checks that a pod gets the same advice as a container, in Kubernetes' terms.
func inKubernetes(t *testing.T, host string) {
	got, status := examine(t, host, []flag{{"--env", "KUBERNETES_SERVICE_HOST=10.0.0.1"}}, "")
	if status != 1 || got.Host.Container != "kubernetes" {
		t.Fatalf("status %d, %+v", status, got.Host)
	}
	for _, want := range []string{"procMount: Unmasked", "seccompProfile", "appArmorProfile", "Unconfined", "SYS_ADMIN"} {
		if !strings.Contains(got.Host.Hint, want) {
			t.Errorf("the advice does not say %s: %s", want, got.Host.Hint)
		}
	}
}

// flag is one flag of docker run.
type flag struct{ name, value string }

// flagsOf returns the flags in doctor's advice.
func flagsOf(hint string) []flag {
	var flags []flag
	for _, m := range regexp.MustCompile(`(--[a-z-]+)[ =](\S+)`).FindAllStringSubmatch(hint, -1) {
		flags = append(flags, flag{m[1], strings.TrimRight(m[2], ",;")})
	}
	return flags
}

// remounts returns the commands that doctor advises inside a container with flags, as a shell line.
func remounts(t *testing.T, host string, flags []flag) string {
	t.Helper()
	got, _ := examine(t, host, flags, "")
	var commands []string
	for _, p := range got.native(t).Protections {
		if _, command, ok := strings.Cut(p.Hint, "CAP_SYS_ADMIN: "); ok && !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
	}
	if len(commands) == 0 {
		t.Fatalf("doctor has no command for the limits that are missing: %+v", got)
	}
	return strings.Join(commands, " && ")
}

func complete(caps runtime.Capabilities) bool {
	return caps.Available && !slices.ContainsFunc(caps.Protections, func(p runtime.Protection) bool { return !p.Enforced })
}

func appArmor() bool {
	raw, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.TrimSpace(string(raw)) == "Y"
}

// examine runs doctor in a new container, after a shell line.
func examine(t *testing.T, host string, flags []flag, first string) (doctor, int) {
	t.Helper()
	out := run(t, host, flags, first, "belljar", "doctor", "--json")
	var d doctor
	if err := json.Unmarshal([]byte(out.stdout), &d); err != nil {
		t.Fatalf("%v: %+v", err, out)
	}
	return d, out.status
}

// output is the output and the exit status of a container.
type output struct {
	stdout, stderr string
	status         int
}

// run runs args in a new container, after a shell line.
func run(t *testing.T, host string, flags []flag, first string, args ...string) output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	line := []string{"--host", host, "run", "--rm", "--network", "none"}
	for _, f := range flags {
		line = append(line, f.name, f.value)
	}
	line = append(line, image, "/bin/sh", "-c", strings.TrimPrefix(first+" && ", " && ")+`exec "$@"`, "sh")
	cmd := exec.CommandContext(ctx, "docker", append(line, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("docker run: %v\n%s", err, stderr.String())
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// engine starts an engine that has the image, and returns its address.
func engine(t *testing.T) string {
	t.Helper()
	need.Program(t, "docker")
	host := dockerd.Start(t).Host()
	cmd := exec.Command("docker", "--host", host, "import", "-", image)
	cmd.Stdin = bytes.NewReader(tree(t))
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, printed)
	}
	return host
}

// tree is the image: busybox under all its names, and belljar.
func tree(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	programs, err := build.Into(dir)
	if err != nil {
		t.Fatal(err)
	}
	busybox := need.Program(t, "busybox")
	names, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var a archive
	a.folder("usr/bin", 0o755)
	a.folder("tmp", 0o1777)
	a.folder("root", 0o700)
	a.link("bin", "usr/bin")
	a.file(t, "usr/bin/busybox", busybox)
	a.file(t, "usr/bin/belljar", programs.Belljar)
	for _, name := range strings.Fields(string(names)) {
		if name != "busybox" {
			a.link(filepath.Join("usr/bin", name), "busybox")
		}
	}
	raw, err := a.bytes()
	if err != nil {
		t.Fatal(fmt.Errorf("tar: %w", err))
	}
	return raw
}
