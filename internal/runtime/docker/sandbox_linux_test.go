package docker_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	host "github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/need"
	"github.com/belljar/belljar/test/tier"
)

// cli runs Docker's own command against the test's engine.
func cli(t testing.TB, engine *dockerd.Engine, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", append([]string{"--host", engine.Host()}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// An image must not weaken the isolation: its volumes would be on the engine's disk, its health check a program of the
// engine's, its user root, and its variables would reach the agent.
func TestImageHasNoSay(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	image := "belljar-test/" + name()
	engine.Import(t, image, bytes.NewReader(dockerd.BusyboxRoot(t)), "VOLUME /data", "VOLUME /workspace/x", "VOLUME /tmp", "USER root", "ENV GODEBUG=panicnil=1 LD_PRELOAD=/x GOMAXPROCS=64",
		"HEALTHCHECK --interval=1s CMD touch /tmp/health", "ENTRYPOINT [\"/bin/false\"]", "WORKDIR /nowhere", "EXPOSE 80")
	installation := name()
	r := open(t, docker.Options{Host: engine.Host(), Installation: installation})
	box := create(t, r, spec(image))
	out, exit := run(t, box, `touch /data/x 2>/dev/null && echo data; grep -q " /data tmpfs\| /tmp tmpfs" /proc/mounts || echo no tmpfs
		touch /tmp/x || echo no tmp; [ "$(id -u)" -ge 100000 ] || echo uid; [ "$(id -G)" = "$(id -g)" ] || echo groups; ls /tmp`)
	if out != "x\n" || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	type mount struct{ Type, Name string }
	var list []struct {
		Config struct{ Env []string }
		Mounts []mount
	}
	if err := json.Unmarshal([]byte(cli(t, engine, "inspect", "belljar-"+installation+"-"+box.ID())), &list); err != nil {
		t.Fatal(err)
	}
	if env := list[0].Config.Env; !slices.Contains(env, "GODEBUG=") || !slices.Contains(env, "GOMAXPROCS=1") {
		t.Errorf("%v", env)
	}
	if mounted := list[0].Mounts; slices.ContainsFunc(mounted, func(m mount) bool { return m.Type == "volume" && !strings.HasPrefix(m.Name, "belljar-agent") }) {
		t.Errorf("volumes: %+v", mounted)
	}
}

// Two sandboxes have two users, neither of which exists on the host.
func TestUsersAreRandom(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	seen := map[string]bool{}
	for range 3 {
		out, _ := run(t, create(t, r, spec(engine.Busybox(t))), "id -u; id -g; grep -c . /proc/self/status >/dev/null; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status")
		f := strings.Fields(out)
		if len(f) != 10 || seen[f[0]] || f[0] == f[1] || f[3] != "0000000000000000" || f[5] != "0000000000000000" || f[7] != "1" || f[9] != "2" {
			t.Errorf("%q", out)
		}
		seen[f[0]] = true
	}
}

// Programs have the agent's own user here, and still must not be able to harm it.
func TestAgentSurvivesItsUser(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	box := create(t, r, spec(engine.Busybox(t)))
	before, err := host.New(box.Dial).Ping(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	out, _ := run(t, box, `for s in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 24 25 26 27 29 30 31; do kill -$s 1 2>/dev/null; done
		cat /proc/1/mem /proc/1/environ /proc/1/maps 2>/dev/null | head -c 1; ls /proc/1/fd /proc/1/cwd/ 2>/dev/null
		renice 19 1 2>/dev/null; chrt -i -p 0 1 2>/dev/null; taskset -p 1 1 2>/dev/null
		true 2>/dev/null >/proc/1/oom_score_adj; true 2>/dev/null >/.belljar/belljar-agent && echo overwritten; rm -f /.belljar/belljar-agent 2>/dev/null
		[ -x /.belljar/belljar-agent ] || echo removed; echo end`)
	if !strings.HasSuffix(out, "end\n") || strings.Contains(out, "overwritten") || strings.Contains(out, "removed") || strings.Contains(out, "new") {
		t.Errorf("%q", out)
	}
	after, err := host.New(box.Dial).Ping(within(t, patience))
	if err != nil || after.BootID != before.BootID {
		t.Errorf("%+v, %v", after, err)
	}
}

// The engine may have lost a volume or image that is cached as present, or have a volume that was never filled.
func TestEngineHasLostSomething(t *testing.T) {
	t.Parallel()
	engine := dockerd.New(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	create(t, r, spec(engine.Busybox(t))).Destroy(t.Context())
	volume := strings.TrimSpace(cli(t, engine, "volume", "ls", "-q"))

	// A process was killed after it made the volume and before it filled it.
	cli(t, engine, "volume", "rm", volume)
	cli(t, engine, "volume", "create", volume)
	other := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	if out, _ := run(t, create(t, other, spec(engine.Busybox(t))), "echo filled"); out != "filled\n" {
		t.Errorf("%q", out)
	}
	// The tag names another image now.
	cli(t, engine, "tag", engine.Busybox(t), "test/moving")
	root, err := r.Image(t.Context(), "test/moving")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Image(t.Context(), strings.TrimPrefix(root.Name, "sha256:")[:12]); !errors.Is(err, runtime.ErrNoImage) {
		t.Errorf("the beginning of an id: %v", err)
	}
	if byID, err := r.Image(t.Context(), root.Name); err != nil || byID.Name != root.Name {
		t.Errorf("%+v, %v", byID, err)
	}
	s := spec("test/moving")
	s.Root = root
	create(t, r, s)
	if ids, err := r.List(t.Context()); err != nil || len(ids) != 1 {
		t.Errorf("%v, %v", ids, err)
	}
}

// The image of a digest is imported once, however many callers ask for it simultaneously.
func TestImportOnce(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	dir := t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(dockerd.BusyboxRoot(t))
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := errors.Join(os.Link(filepath.Join(dir, "bin/busybox"), filepath.Join(dir, "bin/twin")), syscall.Mkfifo(filepath.Join(dir, "etc/group"), 0o666)); err != nil {
		t.Fatal(err)
	}
	root := runtime.Root{Ref: "test/once", Digest: fmt.Sprintf("sha256:%x%048d", belljar.NewID()[28:], 0), Dir: dir}
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			s := spec("")
			s.Root = root
			if _, err := r.Create(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	image := "belljar/" + root.Digest[7:19]
	if got := strings.Fields(cli(t, engine, "image", "history", "-q", image)); len(got) != 1 {
		t.Errorf("%v", got)
	}
	list, err := r.Images(t.Context())
	if err != nil || slices.ContainsFunc(list, func(i belljar.Image) bool { return strings.HasPrefix(i.Ref, "belljar/") }) {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := r.Image(t.Context(), image); !errors.Is(err, runtime.ErrNoImage) {
		t.Errorf("requests can name %s: %v", image, err)
	}
	// An image that another program removes is imported again.
	ids, err := r.List(t.Context())
	if err != nil || len(ids) != 3 {
		t.Fatal(ids, err)
	}
	for _, id := range ids {
		if err := r.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	cli(t, engine, "rmi", image)
	s := spec("")
	s.Root = root
	if out, _ := run(t, create(t, r, s), "[ -p /etc/group ] && echo pipe; [ /bin/busybox -ef /bin/twin ] && echo same"); out != "same\n" {
		t.Errorf("%q", out)
	}
}

// A user who may not use the engine gets an error that states so, with a hint.
func TestPermission(t *testing.T) {
	if socket := os.Getenv("BELLJAR_TEST_SOCKET"); socket != "" {
		r := offline(t, docker.Options{Host: "unix://" + socket})
		caps, err := r.Probe(t.Context())
		if err != nil || caps.Available || len(caps.Reasons) != 1 || caps.Reasons[0].Code != "host_permission_denied" || !strings.Contains(caps.Reasons[0].Hint, "group docker") {
			t.Errorf("%+v, %v", caps, err)
		}
		return
	}
	engine := dockerd.Start(t)
	const uid = 61501
	dir, program := need.User(t, uid)
	if err := os.Chmod(filepath.Dir(engine.Socket()), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestPermission$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"BELLJAR_TEST_SOCKET=" + engine.Socket()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestPermission")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	box := create(t, r, spec(engine.Busybox(t)))
	p := box.(runtime.Pauser)
	for range 2 {
		if err := p.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := host.New(box.Dial).Ping(within(t, 200*time.Millisecond)); err == nil {
		t.Error("a paused agent answers")
	}
	for range 2 {
		if err := p.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := run(t, box, "echo on"); out != "on\n" {
		t.Errorf("%q", out)
	}
	if err := errors.Join(p.Pause(t.Context()), box.Destroy(t.Context())); err != nil {
		t.Error(err)
	}
	if err := p.Pause(t.Context()); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("%v", err)
	}
}

// A killed creator's sandbox ends too, and the next process sweeps its remains from the engine.
func TestEndsWithItsCreator(t *testing.T) {
	if installation := os.Getenv("BELLJAR_TEST_ABANDON"); installation != "" {
		r, err := docker.New(docker.Options{Host: os.Getenv("BELLJAR_TEST_HOST"), Installation: installation, Agent: agent})
		if err == nil {
			_, err = r.Create(t.Context(), spec(os.Getenv("BELLJAR_TEST_IMAGE")))
		}
		fmt.Fprintln(os.Stderr, err)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	engine := dockerd.Start(t)
	installation := name()
	cmd := exec.Command(os.Args[0], "-test.run=^TestEndsWithItsCreator$")
	cmd.Env = append(os.Environ(), "BELLJAR_TEST_ABANDON="+installation, "BELLJAR_TEST_HOST="+engine.Host(), "BELLJAR_TEST_IMAGE="+engine.Busybox(t))
	if out, err := cmd.CombinedOutput(); !strings.Contains(fmt.Sprint(err), "killed") {
		t.Fatalf("%v\n%s", err, out)
	}
	r := open(t, docker.Options{Host: engine.Host(), Installation: installation})
	ids, err := r.List(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	cli(t, engine, "wait", "belljar-"+installation+"-"+ids[0])
	if _, err := r.Attach(t.Context(), ids[0]); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("attach: %v", err)
	}
	if n, err := r.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if ids, err := r.List(t.Context()); len(ids) > 0 || err != nil {
		t.Errorf("left: %v, %v", ids, err)
	}
}

// Sandboxes of another installation are not touched.
func TestInstallationsAreApart(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	ours := name()
	a, b := open(t, docker.Options{Host: engine.Host(), Installation: ours}), open(t, docker.Options{Host: engine.Host(), Installation: ours + "-b"})
	s := detached(spec(engine.Busybox(t)))
	s.ID = "b-1"
	create(t, a, s)
	if ids, err := b.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("%v, %v", ids, err)
	}
	// The container has a name that the other installation could have.
	if _, err := b.Attach(t.Context(), "1"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := b.Remove(t.Context(), "1"); err != nil {
		t.Error(err)
	}
	if ids, err := a.List(t.Context()); err != nil || len(ids) != 1 {
		t.Errorf("%v, %v", ids, err)
	}
}

// An engine on another machine has none of our paths or processes, and works nevertheless.
func TestEngineElsewhere(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go forward(l, engine.Socket())
	r := open(t, docker.Options{Host: "tcp://" + l.Addr().String(), Installation: name()})
	wanted := detached(spec(engine.Busybox(t)))
	wanted.Limits.MemoryMB = 64
	box := create(t, r, wanted)
	if out, exit := run(t, box, "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done"); out != "done\n" || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	u, err := box.Usage(within(t, patience))
	if err != nil || u.CPU == nil || u.Memory == nil || u.Pids == nil || !strings.HasPrefix(u.Sources["cpu"], "docker stats") {
		t.Errorf("%+v, %v", u, err)
	}
	if out, exit := run(t, box, "tail /dev/zero"); exit.Signal != 9 && exit.Code != 137 { // buffers the last line, which never ends
		t.Errorf("%q, %+v", out, exit)
	}
	ctx := within(t, patience)
	for u, err = box.Usage(ctx); err == nil && u.OOMKills != nil && *u.OOMKills == 0; { // a busy engine reports a kill late
		u, err = box.Usage(ctx)
	}
	if err != nil || u.OOMKills == nil || *u.OOMKills != 1 {
		t.Errorf("out of memory: %+v, %v", u, err)
	}
	if caps, err := r.Test(within(t, patience)); err != nil || !caps.Available {
		t.Errorf("%+v, %v", caps, err)
	}
}

// forward connects each client to a socket.
func forward(l net.Listener, socket string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", socket)
		if err != nil {
			from.Close()
			continue
		}
		pipe := func(a, b net.Conn) {
			io.Copy(a, b)
			a.Close()
			b.Close()
		}
		go pipe(from, to)
		go pipe(to, from)
	}
}

// If many callers attach simultaneously, there is one connection.
func TestAttachAtOnce(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	installation := name()
	first := open(t, docker.Options{Host: engine.Host(), Installation: installation})
	s := detached(spec(engine.Busybox(t)))
	create(t, first, s)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, docker.Options{Host: engine.Host(), Installation: installation})
	boxes := make(chan runtime.Sandbox, 4)
	for range cap(boxes) {
		go func() {
			box, err := r.Attach(within(t, patience), s.ID)
			if err != nil {
				t.Error(err)
			}
			boxes <- box
		}()
	}
	one := <-boxes
	for range cap(boxes) - 1 {
		if other := <-boxes; other != one {
			t.Error("two of one sandbox")
		}
	}
	if out, _ := run(t, one, "echo here"); out != "here\n" {
		t.Errorf("%q", out)
	}
}

// An image that is removed just before its use is reported as missing.
func TestUnpackedImageGone(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	for _, lock := range []string{"", filepath.Join(t.TempDir(), "lock")} {
		s := spec("")
		s.Root = runtime.Root{Ref: "gone", Digest: "sha256:" + strings.Repeat("e", 64), Dir: filepath.Join(t.TempDir(), "gone"), Lock: lock}
		if _, err := r.Create(t.Context(), s); !errors.Is(err, runtime.ErrNoImage) {
			t.Errorf("%v", err)
		}
	}
}

// An engine's user namespace has few ids, and a sandbox gets two of them.
func TestMappedEngine(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.NewMapped(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	caps, err := r.Probe(t.Context())
	if p := caps.Protection(runtime.ProtectIdentity); err != nil || !caps.Available || p.Weaker != "" {
		t.Errorf("%+v, %v", caps, err)
	}
	box := create(t, r, spec(engine.Busybox(t)))
	out, exit := run(t, box, `echo x >/workspace/file && echo x >/tmp/file && cat /workspace/file; [ "$(id -u)" -lt 65536 ] && echo mapped; tr -s ' ' </proc/self/uid_map`)
	if out != "x\nmapped\n 0 200000 65536\n" || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}

// A rootless engine has the rights of its user, and so do its sandboxes. If that user cannot make cgroups, there are no
// limits: the runtime reports so, and refuses requests that require limits.
func TestRootlessEngine(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	engine := dockerd.NewRootless(t)
	r := open(t, docker.Options{Host: engine.Host(), Installation: name()})
	caps, err := r.Probe(t.Context())
	if p := caps.Protection(runtime.ProtectIdentity); err != nil || !caps.Available || !caps.Rootless || p.Weaker != "" {
		t.Errorf("%+v, %v", caps, err)
	}
	for _, name := range []string{runtime.ProtectMemory, runtime.ProtectPids, runtime.ProtectCPU} {
		if caps.Protection(name).Enforced {
			continue
		}
		s := spec(engine.Busybox(t))
		s.Require = []string{name}
		var step *runtime.StepError
		if _, err := r.Create(within(t, patience), s); !errors.As(err, &step) || step.Step != name || step.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := spec(engine.Busybox(t))
	box := create(t, r, s)
	nproc := s.Limits.NProc // plus the agent's own tasks, which have the same user
	e := command(t, box, fmt.Sprintf(`id -G | wc -w; [ "$(id -u)" -lt 65536 ] && echo mapped; tr -s ' ' </proc/self/uid_map | head -1; grep CapBnd /proc/self/status
		[ $(ulimit -u) -ge %d ] && [ $(ulimit -u) -lt %d ] && echo limited
		touch /bin/x 2>/dev/null && echo writable; echo x >/workspace/file && cat /workspace/file`, nproc, nproc+100))
	e.Rlimits = map[string]uint64{"nproc": uint64(nproc)}
	p, err := host.New(box.Dial).Exec(within(t, patience), e)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want := "1\nmapped\n 0 61502 1\nCapBnd:\t0000000000000000\nlimited\nx\n"
	if out, exit := follow(t, p); out != want || exit.Code != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
}
