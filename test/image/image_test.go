//go:build linux

package image_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	images "github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/native"
	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/image"
	"github.com/belljar/belljar/test/tier"
)

// patience limits a program on a slow and busy machine.
const patience = 10 * time.Minute

var wanted = flag.String("images", tier.Pick("busybox", "busybox,shell,python"), "which images to build and run: busybox, shell, python, node, go, java")

// program is a program that an image must run.
type program struct {
	files map[string]string
	argv  []string
	want  string
}

func programs() map[string][]program {
	return map[string][]program{
		"busybox": {
			{argv: []string{"/bin/sh", "-c", "echo hello; grep -c localhost /etc/hosts"}, want: "hello\n2\n"},
		},
		"shell": {
			{argv: []string{"bash", "-c", `a=(1 2 3); echo ${#a[@]} $(whoami) $HOME $(getent ahosts localhost | head -1 | cut -d' ' -f1)`}, want: "3 sandbox /workspace 127.0.0.1\n"},
			{argv: []string{"bash", "-c", `echo '{"a":[1,2]}' | jq .a[1]; seq 3 | awk '{s+=$1} END {print s}'; ps -e >/dev/null && echo ps`}, want: "2\n6\nps\n"},
			{argv: []string{"sh", "-c", `find / -xdev -perm /6000 -type f 2>/dev/null; find /var/lib/apt /var/cache/apt 2>/dev/null; echo none`}, want: "none\n"},
		},
		"python": {
			{argv: []string{"python", "-c", "print('hi')"}, want: "hi\n"}, // of the specification's first example
			{argv: []string{"python3", "-c", `
import concurrent.futures, getpass, json, os, pwd, socket, sqlite3, ssl, subprocess, tempfile, zoneinfo
print(socket.gethostbyname("localhost"), pwd.getpwuid(os.getuid()).pw_name, sqlite3.connect(":memory:").execute("select 1+1").fetchone()[0])
with concurrent.futures.ThreadPoolExecutor(4) as pool: print(sum(pool.map(lambda n: n * n, range(10))))
with socket.create_server(("localhost", 0)) as s, socket.create_connection(s.getsockname()) as c: print("connected")
print(subprocess.run(["sh", "-c", "echo $((6*7))"], capture_output=True, text=True).stdout.strip())
with tempfile.TemporaryFile() as f: f.write(b"x")
`}, want: "127.0.0.1 sandbox 2\n285\nconnected\n42\n"},
		},
		"node": {
			{argv: []string{"node", "-e", `
const { Worker } = require('worker_threads'); const dns = require('dns');
let s = 0; for (let i = 0; i < 1e7; i++) s += i % 7; console.log(s);
new Worker("require('worker_threads').parentPort.postMessage(6*7)", { eval: true }).on('message', m => {
  console.log(m); dns.lookup('localhost', (e, a) => console.log(e ? e.message : 'found')) });`}, want: "29999994\n42\nfound\n"},
		},
		"go": {
			{files: map[string]string{"hello.go": `package main

import ("fmt"; "net"; "sync")

func main() {
	var wg sync.WaitGroup
	for i := 0; i < 4; i++ { wg.Add(1); go wg.Done() }
	wg.Wait()
	_, err := net.LookupHost("localhost")
	fmt.Println("hello", err)
}
`}, argv: []string{"sh", "-c", "go build -o hello hello.go && ./hello"}, want: "hello <nil>\n"},
		},
		"java": {
			{files: map[string]string{"Hello.java": `import java.net.InetAddress;
import java.util.stream.IntStream;

public class Hello {
	public static void main(String[] args) throws Exception {
		Thread t = new Thread(() -> System.out.println(IntStream.range(0, 1_000_000).parallel().mapToLong(i -> i).sum()));
		t.start(); t.join();
		System.out.println(InetAddress.getByName("localhost").isLoopbackAddress());
	}
}
`}, argv: []string{"java", "Hello.java"}, want: "499999500000\ntrue\n"},
		},
	}
}

func TestImages(t *testing.T) {
	rt := open(t)
	store, err := images.Open(images.Options{Path: filepath.Join(t.TempDir(), "images")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range strings.Split(*wanted, ",") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tar := ""
			if name == "busybox" {
				tar = image.Busybox(t)
			} else {
				tar = image.Debian(t, name)
			}
			root := unpack(t, store, name, tar)
			for _, p := range programs()[name] {
				run(t, rt, root, p)
			}
		})
	}
}

// open makes a native runtime.
func open(t *testing.T) runtime.Runtime {
	t.Helper()
	dir := t.TempDir()
	agent, err := build.Agent(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := native.New(native.Options{Agent: bytes.NewReader(program), RunDir: filepath.Join(dir, "run"), Installation: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// unpack imports a tar, as belljar image import does.
func unpack(t *testing.T, store *images.Store, name, tar string) runtime.Root {
	t.Helper()
	f, err := os.Open(tar)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	made, err := store.Import(t.Context(), "belljar/"+name, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	root, err := store.Find(t.Context(), "belljar/"+name)
	if err != nil || root.Digest != made.Digest {
		t.Fatalf("%+v, %v; imported %+v", root, err, made)
	}
	t.Logf("%s: %d MB", name, made.Bytes>>20)
	return root.Runtime()
}

func run(t *testing.T, rt runtime.Runtime, root runtime.Root, p program) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	limits := belljar.DefaultLimits()
	limits.MemoryMB, limits.Pids, limits.NProc, limits.TmpMB = 2048, 256, 256, 512
	box, err := rt.Create(ctx, runtime.Spec{
		ID: belljar.NewID(), Root: root, Limits: limits, Lifetime: runtime.LifetimeCreator,
		Workspace: runtime.Workspace{Bytes: 512 << 20, Inodes: 65536, Exec: true, Medium: runtime.MediumMemory},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Destroy(context.Background())
	inside := agent.New(box.Dial)
	info, err := inside.Ping(ctx)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := 1000, 1000
	if info.UID != 0 { // agent and programs have one user
		uid, gid = info.UID, info.GID
	}
	for name, text := range p.files {
		if _, err := inside.WriteFile(ctx, wire.FileRequest{Path: name, UID: uid, GID: gid}, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	process, err := inside.Exec(ctx, wire.Exec{
		ID: belljar.NewID(), Argv: p.argv, UID: uid, GID: gid, KillAll: true,
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/workspace", "USER=sandbox", "LOGNAME=sandbox",
			"LANG=C.UTF-8", "TMPDIR=/workspace",
		},
	})
	if err != nil {
		t.Fatalf("%q: %v", p.argv, err)
	}
	defer process.Close()
	var out, other strings.Builder
	begin := time.Now()
	exit, err := process.Output(ctx, func(_ int64, s wire.Stream, b []byte) error {
		if s == wire.Stderr {
			other.Write(b)
		} else {
			out.Write(b)
		}
		return nil
	})
	if err != nil || exit.Code != 0 || out.String() != p.want {
		t.Errorf("%.60q: %+v, %v\nstdout %q, want %q\nstderr %s", p.argv, exit, err, out.String(), p.want, other.String())
	}
	t.Logf("%.40q: %v", p.argv, time.Since(begin).Round(time.Millisecond))
}
