//go:build linux

package jar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/linux/roster"
)

// A name that is in use cannot be claimed; a dead jar's name is swept.
func TestTakenAndSwept(t *testing.T) {
	dir := tempDir(t)
	here, there := open(t, dir), open(t, dir)
	made := birth(t, here, "one", false)
	b, _, err := there.Begin(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ClaimFolder(); stepOf(err) != StepState || !strings.Contains(err.Error(), "sandbox one exists") {
		t.Errorf("%v", err)
	}
	b.Close()
	if err := made.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := made.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := there.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("its creator lives, and %d were swept, %v", n, err)
	}
	made.lock.Close() // simulates the end of its creator
	if n, err := there.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if ids, err := there.List(); err != nil || len(ids) > 0 {
		t.Errorf("left: %v, %v", ids, err)
	}
}

// The remains of another installation's dead jars are removed, and its living jars stay.
func TestSweepOthers(t *testing.T) {
	dir := tempDir(t)
	theirs := open(t, dir)
	alive := birth(t, theirs, "alive", false)
	dead := birth(t, theirs, "dead", false)
	if err := errors.Join(dead.Signal(unix.SIGKILL), dead.Await(t.Context())); err != nil {
		t.Fatal(err)
	}
	dead.lock.Close()
	o := options(dir)
	o.Installation, o.Agent = "ours", strings.NewReader("none")
	ours, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if n, err := ours.SweepOthers(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if ids, err := theirs.List(); err != nil || !slices.Equal(ids, []string{"alive"}) {
		t.Errorf("left: %v, %v", ids, err)
	}
	if alive.Ended() {
		t.Error("the living one has ended")
	}
}

// After a claim a jar has the new name only, or is gone.
func TestClaim(t *testing.T) {
	dir := tempDir(t)
	r := open(t, dir)
	var points []string
	r.Reached = func(point string) { points = append(points, point) }
	made := birth(t, r, "blank", false)
	settled := func(b Box) error {
		if b != Box(made) {
			t.Errorf("settles %v", b)
		}
		return nil
	}
	if got, err := r.Claim(t.Context(), "blank", "mine", settled); err != nil || got != Box(made) || made.ID() != "mine" {
		t.Errorf("%v, %v", got, err)
	}
	if want := []string{PointLimited, roster.PointLinked, roster.PointMoved, PointNamed}; !slices.Equal(points, want) {
		t.Errorf("points %v, want %v", points, want)
	}
	if _, err := r.Claim(t.Context(), "blank", "yours", settled); !errors.Is(err, errUnknown) {
		t.Errorf("claimed twice: %v", err)
	}
	if found, err := open(t, dir).Attach("mine"); err != nil || found.(*box).Pid != made.Pid {
		t.Errorf("found %v, %v", found, err)
	}
	refused := errors.New("refused")
	if _, err := r.Claim(t.Context(), "mine", "other", func(Box) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	if !made.Ended() {
		t.Error("what could not be claimed lives")
	}
	nothingLeft(t, r)
}

// A jar that ends while it is claimed is gone.
func TestClaimOfAJarThatEnds(t *testing.T) {
	r := open(t, tempDir(t))
	made := birth(t, r, "blank", false)
	process, err := unix.PidfdOpen(made.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	r.Reached = func(point string) {
		if point != PointNamed {
			return
		}
		if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil {
			t.Error(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 60_000); n != 1 {
			t.Errorf("it lives on: %v", err)
		}
	}
	if got, err := r.Claim(t.Context(), "blank", "mine", func(Box) error { return nil }); got != nil || !errors.Is(err, errGone) {
		t.Errorf("%v, %v", got, err)
	}
	nothingLeft(t, r)
}

// The length of a folder's name does not limit sockets.
func TestLongFolder(t *testing.T) {
	dir := filepath.Join(tempDir(t), strings.Repeat("long/", 30))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r := open(t, dir)
	b, _ := begin(t, r, "one")
	defer b.Close()
	f, err := b.Listen("socket")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := b.Jar.DialSocket(t.Context(), "socket")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	f.Close()
	for _, name := range []string{"socket", "other"} {
		if _, err := b.Jar.DialSocket(t.Context(), name); !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Records keep the layout of earlier versions, whose jars outlive them.
func TestRecordOfOld(t *testing.T) {
	old := `{"pid":7,"start_time":9,"boot_id":"x","lifetime":"detached","pids":64,"id_base":131072,"cgroup":[{"version":2,"path":"/sys/fs/cgroup/belljar/a/one"}]}`
	var rec Record
	if err := json.Unmarshal([]byte(old), &rec); err != nil || rec.Pid != 7 || rec.StartTime != 9 || rec.BootID != "x" || rec.IDBase != 131072 || rec.group() != "one" {
		t.Errorf("%+v, %v", rec, err)
	}
	text, err := json.Marshal(noted{rec, "n"})
	want := `{"pid":7,"start_time":9,"boot_id":"x","id_base":131072,"cgroup":[{"version":2,"path":"/sys/fs/cgroup/belljar/a/one"}],"note":"n"}`
	if string(text) != want || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}

func TestLockIn(t *testing.T) {
	for args, want := range map[string]string{
		AgentName + ` {"lock":"1:2"}`:      "1:2",
		AgentName + ` keep {"lock":"1:2"}`: "1:2",
		AgentName + ` {"lock":"1:2"} more`: "",
		AgentName:                          "",
		`other {"lock":"1:2"}`:             "",
		"":                                 "",
	} {
		if got := program().LockIn(strings.Fields(args)); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	e := options("").Errors
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for name, c := range map[string]struct {
		ctx        context.Context
		err        error
		step, hint string
	}{
		"namespaces":      {t.Context(), &forkexec.Error{Step: "clone", Errno: unix.EPERM}, "clone", "user namespaces"},
		"inner":           {t.Context(), &forkexec.Error{Step: "inner_userns", Errno: unix.EINVAL}, "inner_userns", "user namespaces"},
		"too many":        {t.Context(), &forkexec.Error{Step: "clone", Errno: unix.ENOSPC}, "clone", "max_user_namespaces"},
		"a masked /proc":  {t.Context(), &forkexec.Error{Step: StepProc, Errno: unix.EPERM}, StepProc, "systempaths"},
		"an old kernel":   {t.Context(), &forkexec.Error{Step: StepMount, Errno: unix.ENOSYS}, StepMount, "5.12"},
		"a filter":        {t.Context(), &forkexec.Error{Step: StepMount, Errno: unix.EPERM}, StepMount, "doctor"},
		"nothing special": {t.Context(), &forkexec.Error{Step: StepMount, Errno: unix.ENOSPC}, StepMount, ""},
		"killed":          {t.Context(), fmt.Errorf("x: %w", forkexec.ErrVanished), StepBirth, "memory"},
		"late":            {late, errors.New("given up"), StepBirth, "overloaded"},
		"given up":        {t.Context(), errors.New("given up"), StepBirth, ""},
	} {
		step := e.explain(c.ctx, c.err).(*stepError)
		if step.step != c.step || !strings.Contains(step.hint, c.hint) || (c.hint == "") != (step.hint == "") {
			t.Errorf("%s: %q, hint %q", name, step, step.hint)
		}
	}
}

// A failed Open leaves nothing.
func TestOpenRefuses(t *testing.T) {
	dir := tempDir(t)
	for name, change := range map[string]func(*Options){
		"installation":  func(o *Options) { o.Installation = "a/b" },
		"a file in way": func(o *Options) { o.RunDir = "/dev/null" },
	} {
		o := options(dir)
		o.Agent = strings.NewReader("program")
		change(&o)
		if r, err := Open(o); err == nil {
			r.Close()
			t.Errorf("%s: opened", name)
		}
	}
}

// A program that cannot be copied fails the first birth, but no call that does not need it.
func TestSealRefuses(t *testing.T) {
	for name, program := range map[string]io.Reader{
		"empty": strings.NewReader(""), "broken": io.MultiReader(strings.NewReader("begun"), iotest.ErrReader(os.ErrClosed)),
	} {
		o := options(tempDir(t))
		o.Agent = program
		r, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := r.Agent.File(); err == nil {
			t.Errorf("%s: sealed %s", name, f.Name())
		}
		b, ctx, err := r.Begin(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.ClaimIDs(); err != nil {
			t.Fatal(err)
		}
		program := r.Programs.New()
		if err := b.Start(ctx, program); stepOf(err) != StepAgent {
			t.Errorf("%s: %v", name, err)
		}
		program.Free()
		b.Close()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHoldNoImage(t *testing.T) {
	r := open(t, tempDir(t))
	if _, err := r.OpenImage(t.Context(), "/no/such/image", "", rootfs.User{}.Fill()); !errors.Is(err, errNoImage) || stepOf(err) != StepImage {
		t.Errorf("%v", err)
	}
}
