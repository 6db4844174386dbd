//go:build linux

package idmap

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/belljar/belljar/test/need"
)

func newPool(t testing.TB) *Pool {
	t.Helper()
	p, err := Discover(Options{Dir: filepath.Join(t.TempDir(), "ids")})
	if err != nil {
		t.Fatal(err)
	}
	if p.Mode == ModeSingle {
		need.Missing(t, "ids to claim: %s", p.Hint)
	}
	return p
}

func claim(t testing.TB, p *Pool) *Range {
	t.Helper()
	r, err := p.Claim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// After any sequence of claims and releases, in pools of any shape, living ranges do not overlap and are within the
// allowed ids. A pool is exhausted exactly when all its slots are claimed.
func TestClaimsNeverOverlap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		l := narrow()
		if rapid.Bool().Draw(rt, "wide") {
			l = wide()
		}
		first := rapid.Int64Range(0, 1<<20).Draw(rt, "first")
		ids := []span{{first, first + rapid.Int64Range(0, 6*l.size).Draw(rt, "size")}}
		ids = without(ids, []span{{first + l.size, first + l.size + rapid.Int64Range(1, 50).Draw(rt, "hole")}})
		p := &Pool{dir: filepath.Join(dir, "ids")}
		p.use(ModeRoot, l, ids)
		var live []*Range
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(rt, "release") {
				i := rapid.IntRange(0, len(live)-1).Draw(rt, "which")
				if err := live[i].Release(); err != nil {
					rt.Fatal(err)
				}
				live = append(live[:i], live[i+1:]...)
				continue
			}
			r, err := p.Claim()
			if errors.Is(err, ErrExhausted) != (len(live) == p.Slots) {
				rt.Fatalf("claim with %d of %d out: %v", len(live), p.Slots, err)
			}
			if err == nil {
				live = append(live, r)
			}
		}
		seen := map[int]bool{}
		for _, r := range live {
			for _, e := range r.UIDs {
				s := span{int64(e.Outside), int64(e.Outside + e.Count)}
				if in := both([]span{s}, ids); len(in) != 1 || in[0] != s {
					rt.Fatalf("%v is not all ours: %v", s, ids)
				}
				for id := e.Outside; id < e.Outside+e.Count; id += 8 {
					if seen[id] {
						rt.Fatalf("%d is claimed twice", id)
					}
					seen[id] = true
				}
			}
			r.Close()
		}
	})
}

func TestClaimsOfManyProcessesNeverMeet(t *testing.T) {
	p := newPool(t)
	seen := map[int]bool{}
	for range 20 {
		seen[claim(t, p).Base()] = true
	}
	var ends []func() error
	for range 4 {
		c := exec.Command(os.Args[0], "-other", "claim", p.dir)
		c.Stderr = os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		stdin, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		for range 20 {
			lines.Scan()
			base, err := strconv.Atoi(lines.Text())
			if err != nil || seen[base] {
				t.Errorf("another process claimed %q: %v", lines.Text(), err)
			}
			seen[base] = true
		}
		ends = append(ends, func() error { stdin.Close(); return c.Wait() })
	}
	if len(seen) != 100 {
		t.Errorf("%d ranges for 100 claims", len(seen))
	}
	for _, end := range ends {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// The claim lives as long as a process that inherited its lock, whatever the claimer does.
func TestClaimOutlivesItsMaker(t *testing.T) {
	p := newPool(t)
	p.spans, p.Slots = []span{{p.spans[0].first, p.spans[0].first + 1}}, 1
	r := claim(t, p)
	heir := exec.Command("/bin/cat")
	heir.ExtraFiles = []*os.File{r.Lock}
	heir.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := heir.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := heir.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Forget(r.Base()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Claim(); !errors.Is(err, ErrExhausted) {
		t.Errorf("claimed again while the heir lives: %v", err)
	}
	stdin.Close()
	if err := heir.Wait(); err != nil {
		t.Fatal(err)
	}
	again := claim(t, p)
	if again.Base() != r.Base() {
		t.Errorf("base %d, want %d again", again.Base(), r.Base())
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(p.dir); len(left) > 0 {
		t.Errorf("%d lock files are left", len(left))
	}
}

func TestClaimRefusesAFolderThatOthersCanWriteTo(t *testing.T) {
	p := newPool(t)
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if r, err := p.Claim(); err == nil {
		r.Close()
		t.Error("claimed in a folder open to all")
	}
}

func TestHostIDs(t *testing.T) {
	r := &Range{UIDs: narrow().extents(5000), GIDs: []Extent{{1000, 7, 1}}}
	for inside, want := range map[int]int{0: 120000, 7: 120007, 8: -1, 1000: 120008, 65534: 120016, 65542: -1, -1: -1} {
		if got := r.HostUID(inside); got != want {
			t.Errorf("uid %d is %d on the host, want %d", inside, got, want)
		}
	}
	if r.HostGID(1000) != 7 || r.HostGID(0) != -1 {
		t.Errorf("gids %d and %d", r.HostGID(1000), r.HostGID(0))
	}
}

func TestRangeInForce(t *testing.T) {
	p := newPool(t)
	r := claim(t, p)
	v, err := look(r)
	if err != nil {
		t.Fatal(err)
	}
	want := squeeze(strings.ReplaceAll(table(r.UIDs), "\n", ";"))
	if squeeze(v.UIDMap) != want || squeeze(v.GIDMap) != want {
		t.Errorf("maps %q and %q, want %q", v.UIDMap, v.GIDMap, want)
	}
}

func squeeze(s string) string { return strings.ReplaceAll(s, " ", "") }

// A real rootless test: another user, in a mount namespace with the test's own accounts.
func TestRootless(t *testing.T) {
	need.Root(t)
	need.Program(t, "newuidmap")
	const passwd = "root:x:0:0::/root:/bin/sh\nada:x:4242:4242::/:/bin/sh\n"
	dir := t.TempDir()
	run := func(t *testing.T, sub string) report {
		t.Helper()
		// The user cannot read root's folders, so the program is copied.
		self := copyTo(t, os.Args[0])
		passwdFile, subFile := filepath.Join(dir, "passwd"), filepath.Join(dir, "sub")
		for name, text := range map[string]string{passwdFile: passwd, subFile: sub} {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(name, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		home := filepath.Dir(self)
		c := exec.Command(self, "-other", "private", passwdFile, subFile, "rootless", filepath.Join(home, "run", "ids"))
		c.Stderr = os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		var r report
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		return r
	}
	t.Run("subordinate ids", func(t *testing.T) {
		r := run(t, "ada:240000:2400\n")
		want := fmt.Sprintf("0%d8;1000%d8;65534%d7;", r.Base, r.Base+8, r.Base+16)
		if r.Mode != ModeSub || r.Slots != 100 || squeeze(r.View.UIDMap) != want || squeeze(r.View.GIDMap) != want || r.View.Setgroups != "allow;" {
			t.Errorf("%+v, want a map like %s", r, want)
		}
	})
	t.Run("one id", func(t *testing.T) {
		r := run(t, "somebody:240000:2400\n")
		if r.Mode != ModeSingle || !r.Shared || squeeze(r.View.UIDMap) != "100042421;" || squeeze(r.View.GIDMap) != "100042421;" || r.View.Setgroups != "deny;" {
			t.Errorf("%+v, want 1000 → 4242 and no setgroups", r)
		}
	})
}

// copyTo copies a program to a folder of user 4242.
func copyTo(t *testing.T, program string) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "idmap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "program")
	if err := os.WriteFile(file, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o755); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return file
}

func BenchmarkClaim(b *testing.B) {
	for _, taken := range []int{0, 1000, 4000} {
		b.Run(strconv.Itoa(taken), func(b *testing.B) {
			p := newPool(b)
			for range taken {
				claim(b, p)
			}
			for b.Loop() {
				r, err := p.Claim()
				if err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
		})
	}
}
