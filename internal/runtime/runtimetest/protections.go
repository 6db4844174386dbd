package runtimetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/runtime"
)

// bornWith are network devices that the kernel makes in every namespace.
var bornWith = []string{"tunl0", "sit0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"}

// testProtections runs hostile programs against an isolated runtime. They never run without isolation.
func testProtections(t *testing.T, o Options) {
	if !o.Isolated {
		t.Skip("this runtime has no isolation")
	}
	limited := func(t *testing.T, name string, change func(*runtime.Spec)) *jar {
		r := o.New(t)
		c, err := r.Probe(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Protection(name); !p.Enforced {
			t.Skipf("%s is not enforced on this host: %s", name, p.Hint)
		}
		return create(t, o, r, change)
	}

	t.Run("memory", func(t *testing.T) {
		j := limited(t, runtime.ProtectMemory, func(s *runtime.Spec) { s.Limits.MemoryMB = 64 })
		p := j.start(j.command("tail", "/dev/zero")) // buffers the last line, which never ends
		exit, err := p.Output(j.ctx, func(int64, wire.Stream, []byte) error { return nil })
		if err != nil { // on some runtimes a memory hog ends the sandbox
			end, werr := j.Wait(j.ctx)
			if werr != nil || end.Reason != runtime.ExitOOM {
				t.Errorf("%v; the sandbox: %+v, %v", err, end, werr)
			}
			return
		}
		usage, err := j.Usage(j.ctx)
		if exit.Signal != 9 || err != nil || usage.OOMKills == nil || *usage.OOMKills == 0 {
			t.Errorf("%+v, %+v, %v", exit, usage, err)
		}
		if got := j.must("echo still here"); got != "still here" {
			t.Errorf("%q", got)
		}
	})
	t.Run("pids", func(t *testing.T) {
		j := limited(t, runtime.ProtectPids, func(s *runtime.Spec) { s.Limits.Pids = 20 })
		e := j.sh("i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); echo; done")
		e.Rlimits = map[string]uint64{"nproc": 20} // like the service
		got := j.run(e)
		if most := strings.Count(got.out, "\n"); got.exit.Code == 0 || most < 17 || most > 20 {
			t.Errorf("a hundred processes, %d: %+v", most, got)
		}
		usage, err := j.Usage(j.ctx)
		if err != nil || usage.PidsRefused != nil && *usage.PidsRefused == 0 {
			t.Errorf("%+v, %v", usage, err)
		}
		j.must("true")
		j = limited(t, runtime.ProtectPids, func(s *runtime.Spec) { s.Limits.Pids, s.Limits.NProc = 1, 1 })
		e = j.command("true")
		e.Rlimits = map[string]uint64{"nproc": 1}
		if got := j.run(e); got.exit.Code != 0 {
			t.Errorf("one process: %+v", got)
		}
	})
	t.Run("disk", func(t *testing.T) {
		j := limited(t, runtime.ProtectDisk, func(s *runtime.Spec) { s.Workspace.Bytes = 1 << 20 })
		got := j.run(j.sh("dd if=/dev/zero of=big bs=64k count=64"))
		if got.exit.Code == 0 || !strings.Contains(strings.ToLower(got.err), "no space") {
			t.Errorf("%+v", got)
		}
		_, err := j.agent.WriteFile(j.ctx, j.file("more"), strings.NewReader(strings.Repeat("x", 2<<20)))
		j.refused("write", err, wire.CodeNoSpace)
		if err := j.agent.Delete(j.ctx, j.file("big")); err != nil {
			t.Error(err)
		}
		j.write("fits", "again")
	})
	whole := open(t, o)
	whole.sub("from inside", func(j *jar) {
		j.sub("network", func(j *jar) {
			if got := j.must("tail -n +2 /proc/net/route"); got != "" {
				j.Errorf("routes: %q", got)
			}
			// Every new network namespace has the tunnel devices of the kernel's loaded modules; they are down.
			got := strings.Fields(j.must("tail -n +3 /proc/net/dev | cut -d: -f1"))
			if got = slices.DeleteFunc(got, func(name string) bool { return slices.Contains(bornWith, name) }); !slices.Equal(got, []string{"lo"}) {
				j.Errorf("%q", got)
			}
		})
		j.sub("host files", func(j *jar) {
			if got := j.must("cat /etc/shadow /etc/sudoers 2>/dev/null; ls -A /root /home /var/lib/dpkg /sys/kernel 2>/dev/null; true"); strings.Trim(got, "/:rothmevalibdpkg\n ") != "" {
				j.Errorf("%q", got)
			}
			if got := j.must("ls -d /workspace; pwd"); got != "/workspace\n/workspace" {
				j.Errorf("%q", got)
			}
		})
		j.sub("host processes", func(j *jar) {
			if got := j.must("ls /proc | grep -c '^[0-9]*$'"); len(got) > 1 {
				j.Errorf("%s processes are seen", got)
			}
		})
		j.sub("groups", func(j *jar) {
			if got, want := j.must("id -G"), j.must("id -g"); got != want {
				j.Errorf("groups %q", got)
			}
		})
		j.sub("exit cannot be forged", func(j *jar) {
			// A child writes an answer like the agent's to every descriptor.
			got := j.run(j.sh(`for fd in $(ls /proc/self/fd); do
				printf '\004\000\000\000\034{"exit":{"code":0,"cause":""}}' 2>/dev/null >&$fd
			done; ls /proc/self/fd | wc -l; exit 3`))
			if got.exit.Code != 3 || got.exit.Cause != wire.CauseExited {
				j.Errorf("%+v", got.exit)
			}
			if !strings.HasSuffix(got.out, "4\n") { // 0, 1, 2 and the descriptor of ls
				j.Errorf("more descriptors than it should have: %q", got.out)
			}
		})
	})
	whole.sub("killing everything", func(j *jar) {
		other := j.watch(j.start(j.sh("echo up; sleep 1000")))
		other.await("up")
		j.run(j.sh("kill -9 -1"))
		other.end()
		// If agent and programs share a user, a program can kill another's keeper too, and its status is lost.
		lost := j.shared() && other.exit.Cause == wire.CauseLost
		if other.exit.Signal != 9 && !lost {
			j.Errorf("the other command: %+v", other.exit)
		}
		if _, err := j.agent.Ping(j.ctx); err != nil {
			j.Errorf("the agent: %v", err)
		}
		ctx, cancel := context.WithCancel(j.ctx)
		cancel()
		if exit, err := j.Wait(ctx); err == nil {
			j.Errorf("the sandbox ended: %+v", exit)
		}
	})
	t.Run("fork bomb", func(t *testing.T) {
		j := limited(t, runtime.ProtectPids, func(s *runtime.Spec) { s.Limits.Pids = 64 })
		e := j.sh("bomb() { bomb | bomb & }; bomb; sleep 1000")
		e.TimeoutMS, e.GraceMS = 500, 100
		p := j.start(e)
		exit, err := p.Output(j.ctx, func(int64, wire.Stream, []byte) error { return nil })
		if err != nil || exit.Cause != wire.CauseTimeout && exit.Cause != wire.CauseExited {
			t.Errorf("%+v, %v", exit, err)
		}
		j.until("the sandbox is usable again", func() bool {
			p, err := j.agent.Exec(j.ctx, j.command("true"))
			if err != nil {
				return false
			}
			defer p.Close()
			exit, err := p.Output(j.ctx, func(int64, wire.Stream, []byte) error { return nil })
			return err == nil && exit.Code == 0
		})
	})
}
