//go:build linux

package jar

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/cgroup"
	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/test/need"
)

// This program is the first process of the jars in these tests. It ends when it is killed, or with its lifeline.
func TestMain(m *testing.M) {
	if os.Args[0] == AgentName {
		var config struct{ Lifeline int }
		if err := json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &config); err != nil || config.Lifeline == 0 {
			for {
				unix.Pause() // until it is killed
			}
		}
		bufio.NewReader(os.NewFile(uintptr(config.Lifeline), "lifeline")).ReadByte()
		os.Exit(3)
	}
	if os.Getenv(notExecutable) != "" {
		if err := sealExecutable(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if point, err := strconv.Atoi(os.Getenv("BELLJAR_TEST_KILLED_AT")); err == nil {
		fmt.Fprintln(os.Stderr, killedAt(os.Getenv("BELLJAR_TEST_DIR"), point))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var (
	errUnknown = errors.New("unknown")
	errGone    = errors.New("gone")
	errNoImage = errors.New("no image")
	errFull    = errors.New("full")
)

// stepError is the tests' [Errors.Step].
type stepError struct {
	step, hint string
	err        error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// box is the tests' [Box].
type box struct {
	*Jar
	Note string

	mu   sync.Mutex
	ends []End
}

func (b *box) OnEnd(e End) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = append(b.ends, e)
}

// noted is the tests' record.
type noted struct {
	Record
	Note string `json:"note"`
}

func valid(name string) bool { return name != "" && !strings.ContainsAny(name, "./") }

// options are those of racks whose files are in dir.
func options(dir string) Options {
	return Options{
		Kind: "kind", RunDir: filepath.Join(dir, "run"), IDDir: filepath.Join(dir, "ids"), Installation: "jar-test-" + filepath.Base(dir),
		ValidID: valid,
		Adopt: func(j *Jar, text []byte) (Box, error) {
			var rec noted
			err := json.Unmarshal(text, &rec)
			return &box{Jar: j, Note: rec.Note}, err
		},
		Errors: Errors{
			Step:    func(step string, err error, hint string) error { return &stepError{step, hint, err} },
			Unknown: errUnknown, Gone: errGone, NoImage: errNoImage, Full: errFull,
		},
	}
}

func open(t *testing.T, dir string) *Rack {
	t.Helper()
	r, err := openSelf(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ids, err := r.List()
		for _, id := range ids {
			err = errors.Join(err, r.Remove(context.Background(), id))
		}
		if err := errors.Join(err, r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// openSelf opens a rack whose agent is this program.
func openSelf(dir string) (*Rack, error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	o := options(dir)
	o.Agent = self
	return Open(o)
}

// tempDir returns a folder that is short enough for a socket, with a unique name for the cgroups.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jar")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// begin returns a birth that has claimed everything and is not started.
func begin(t *testing.T, r *Rack, id string) (*Birth, context.Context) {
	t.Helper()
	b, ctx, err := r.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	err = b.ClaimIDs()
	if err == nil {
		err = b.ClaimFolder()
	}
	if err == nil {
		err = b.Limit(cgroup.Limits{Memory: 512 << 20, Pids: 512}, nil)
	}
	if err != nil {
		b.Close()
		t.Fatal(err)
	}
	return b, ctx
}

// birth makes a jar with a process in it, detached unless it has a lifeline.
func birth(t *testing.T, r *Rack, id string, lifeline bool) *box {
	t.Helper()
	made, err := bear(t.Context(), r, id, lifeline, func() {})
	if stepOf(err) == "clone" && os.Geteuid() != 0 {
		t.Skip("no user namespaces here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// bear is birth without a test. It calls reached after every step.
func bear(ctx context.Context, r *Rack, id string, lifeline bool, reached func()) (*box, error) {
	b, ctx, err := r.Begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var config struct {
		Lock     string `json:"lock"`
		Lifeline int
	}
	for _, step := range []func() error{
		b.ClaimIDs,
		b.ClaimFolder,
		func() error { return b.Limit(cgroup.Limits{Memory: 512 << 20, Pids: 512}, nil) },
		func() (err error) {
			if lifeline {
				config.Lifeline, err = b.Lifeline()
			}
			return err
		},
		func() (err error) { config.Lock, err = b.Lock(); return err },
		func() error {
			text, err := json.Marshal(config)
			if err != nil {
				return err
			}
			p := r.Programs.New()
			defer p.Free()
			b.Enter(p)
			p.Step(StepUserNS)
			p.Sync()
			if !b.IDs.Shared {
				SetID(p, 0)
			}
			b.Leave(p)
			b.Exec(p, []string{"-", string(text)}, nil)
			return b.Start(ctx, p)
		},
		func() error { return b.Write(noted{b.Record(), "of " + id}) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
		reached()
	}
	s := &box{Jar: b.Jar, Note: "of " + id}
	if err := b.Keep(s); err != nil {
		return nil, err
	}
	reached()
	return s, nil
}

// Jars whose processes leave no room for another one refuse it, and admit it when there is room again.
func TestCrowded(t *testing.T) {
	r := open(t, tempDir(t))
	if r.Cgroups == nil || !r.Cgroups.Capability(cgroup.Pids).Enforced {
		need.Missing(t, "a cgroup that counts processes")
	}
	first := birth(t, r, "first", false) // in a folder with the usual bound
	used, bound, ok := r.Cgroups.Pids(r.group())
	if !ok || used < 1 || used > birthTasks || bound < 2*birthTasks { // it is a Go program, with threads
		t.Fatalf("%d of %d, %v", used, bound, ok)
	}
	if err := first.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		room int64
		want string
	}{{birthTasks, ""}, {birthTasks - 1, "together may have 63"}, {birthTasks, ""}} {
		r.Cgroups.Sweep(r.group())
		r.Cgroups.Bind(cgroup.Bound{Pids: c.room})
		if err := r.Cgroups.Prepare(r.group()); err != nil {
			t.Fatal(err)
		}
		next, err := bear(t.Context(), r, "next", false, func() {})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || errors.Is(err, errFull)) {
			t.Errorf("with room for %d: %v", c.room, err)
		}
		if err == nil {
			if _, err := bear(t.Context(), r, "more", false, func() {}); !errors.Is(err, errFull) || stepOf(err) != StepCgroup {
				t.Errorf("beside another: %v", err)
			}
			if err := next.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func stepOf(err error) string {
	if step := (*stepError)(nil); errors.As(err, &step) {
		return step.step
	}
	return ""
}

// nothingLeft checks that no trace of a jar is on disk or among cgroups.
func nothingLeft(t *testing.T, r *Rack) {
	t.Helper()
	for _, dir := range []string{r.Dir(), r.o.IDDir} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		for _, e := range entries {
			t.Errorf("left: %s", filepath.Join(dir, e.Name()))
		}
	}
	if r.Cgroups != nil {
		if left, err := r.Cgroups.List(r.group()); err != nil || len(left) > 0 {
			t.Errorf("left among cgroups: %v, %v", left, err)
		}
	}
}

// A jar lives, another rack finds it again, and it is gone when either has destroyed it.
func TestLife(t *testing.T) {
	dir := tempDir(t)
	here, there := open(t, dir), open(t, dir)
	made := birth(t, here, "one", false)
	if again, err := here.Attach("one"); err != nil || again != Box(made) {
		t.Errorf("attached here: %v, %v", again, err)
	}
	found, err := there.Attach("one")
	if err != nil {
		t.Fatal(err)
	}
	other := found.(*box)
	if other.Note != "of one" || other.Pid != made.Pid || other.Base != made.Base {
		t.Errorf("found %+v, made %+v", other, made)
	}
	if n, err := there.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if err := there.Remove(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if err := made.Await(t.Context()); err != nil {
		t.Error(err)
	}
	if err := made.Destroy(t.Context()); err != nil {
		t.Errorf("destroyed twice: %v", err)
	}
	for name, b := range map[string]*box{"made": made, "found": other} {
		if len(b.ends) != 1 || b.ends[0].Destroyed != (b == other) || b.ends[0].Child != (b == made) {
			t.Errorf("%s: reported %+v", name, b.ends)
		}
	}
	if got := made.ends[0].Status; !got.Signaled() || got.Signal() != unix.SIGKILL {
		t.Errorf("ended with %v", got)
	}
	if _, err := here.Attach("one"); !errors.Is(err, errUnknown) {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := made.DialSocket(t.Context(), "any"); !errors.Is(err, errGone) {
		t.Errorf("dialled: %v", err)
	}
	nothingLeft(t, here)
}

// A jar with a lifeline ends when its creator's end closes, and reports that.
func TestLifeline(t *testing.T) {
	r := open(t, tempDir(t))
	made := birth(t, r, "one", true)
	made.lifeline.Close()
	if err := made.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := made.ends[0]; end.Destroyed || !end.Status.Exited() || end.Status.ExitStatus() != 3 {
		t.Errorf("ended with %+v", end)
	}
	if err := made.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, r)
}

// A birth that ends at any point before it is kept leaves nothing.
func TestUnkept(t *testing.T) {
	r := open(t, tempDir(t))
	for i, claim := range []func(*Birth) error{
		func(*Birth) error { return nil },
		(*Birth).ClaimIDs,
		(*Birth).ClaimFolder,
		func(b *Birth) error { return b.Limit(cgroup.Limits{Pids: 64}, nil) },
		func(b *Birth) error { _, err := b.Lifeline(); return err },
		func(b *Birth) error {
			f, err := b.Listen("socket")
			if err == nil {
				err = f.Close()
			}
			return err
		},
	} {
		b, _, err := r.Begin(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		if i > 1 {
			err = b.ClaimIDs()
		}
		if err == nil && i > 2 {
			err = b.ClaimFolder()
		}
		if err == nil {
			err = claim(b)
		}
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		b.Close()
		nothingLeft(t, r)
	}
}

// A program that fails names its step, and leaves nothing.
func TestFailedStep(t *testing.T) {
	r := open(t, tempDir(t))
	b, ctx := begin(t, r, "one")
	p := r.Programs.New()
	defer p.Free()
	b.Enter(p)
	p.Step(StepImage)
	p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str("/no/such/image"), forkexec.Int(unix.O_PATH), forkexec.Int(0))
	p.Sync()
	b.Leave(p)
	b.Exec(p, []string{"{}"}, nil)
	if err := b.Start(ctx, p); stepOf(err) != StepImage || !errors.Is(err, errNoImage) {
		t.Errorf("%v", err)
	}
	b.Close()
	nothingLeft(t, r)
}

// Remove ends a birth in progress, and returns when it has ended.
func TestRemoveInBirth(t *testing.T) {
	r := open(t, tempDir(t))
	b, ctx := begin(t, r, "one")
	if _, _, err := r.Begin(t.Context(), "one"); stepOf(err) != StepState {
		t.Errorf("begun twice: %v", err)
	}
	removed := make(chan error, 1)
	go func() { removed <- r.Remove(context.Background(), "one") }()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), errRemoved) {
		t.Errorf("ended by %v", context.Cause(ctx))
	}
	select {
	case err := <-removed:
		t.Errorf("removed while it was made: %v", err)
	default:
	}
	b.Close()
	if err := <-removed; err != nil {
		t.Error(err)
	}
	nothingLeft(t, r)
}
