package volume

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/store"
)

// users is a store without records of users.
type users struct{}

func (users) Quota(context.Context, string) (belljar.Quota, error) {
	return belljar.Quota{}, store.ErrNotFound
}
func (users) Usage(context.Context, string, time.Time) (belljar.UserUsage, error) {
	return belljar.UserUsage{}, nil
}
func (users) Charge(context.Context, string, store.Charge, time.Time) error { return nil }
func (users) Kept(context.Context) (int64, int, error)                      { return 0, 0, nil }
func (users) Recorded(context.Context, string) (int64, int64, error)        { return 0, 0, nil }

// image creates a placeholder for an image.
func image(path string, _, _ int64) error { return os.WriteFile(path, []byte("image"), 0o600) }

type world struct {
	*Volumes
	accounts *admission.Accounts
	free     uint64
	events   []string
}

func open(t *testing.T, dir string, change func(*Options)) *world {
	t.Helper()
	w := &world{free: 1 << 40}
	w.accounts = &admission.Accounts{
		Users: users{}, Default: belljar.Quota{ArtifactMB: 100}, Now: time.Now, MinFreeBytes: 64 << 20,
		FreeBytes: func() (uint64, error) { return w.free, nil },
	}
	o := Options{
		Dir: dir, MaxMB: 50, Inodes: 10, Make: image, Accounts: w.accounts, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Record: func(e event.Event) { w.events = append(w.events, e.Name+" "+e.Detail["volume"]) },
	}
	if change != nil {
		change(&o)
	}
	w.Volumes = New(o)
	if err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

var (
	alice = belljar.Caller{ID: "alice"}
	bob   = belljar.Caller{ID: "bob"}
)

func code(err error) belljar.Code { return belljar.CodeOf(err) }

func make1(t *testing.T, w *world, caller belljar.Caller, name string, mb int) {
	t.Helper()
	if _, err := w.As(caller).Create(t.Context(), belljar.VolumeSpec{Name: name, MB: mb}); err != nil {
		t.Fatal(err)
	}
}

// One sandbox writes to a volume, and others read it. Meanwhile it is not removed, and it does not exist for other users.
func TestHolders(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	make1(t, w, alice, "a", 10)
	ctx, a := t.Context(), belljar.Workspace{Volume: "a", MB: 10}
	if err := errors.Join(w.Claim(ctx, "one", alice, a, false), w.Claim(ctx, "one", alice, a, false)); err != nil {
		t.Fatal(err)
	}
	var e *belljar.Error
	if err := w.Claim(ctx, "two", alice, a, false); !errors.As(err, &e) || e.Code != belljar.CodeConflict || e.Details["written_by"] != "one" {
		t.Errorf("a second writer: %v", err)
	}
	read := belljar.Workspace{Volume: "a", MB: 10, ReadOnly: true}
	if err := errors.Join(w.Claim(ctx, "three", alice, read, false), w.Claim(ctx, "four", alice, read, false)); err != nil {
		t.Error(err)
	}
	for id, readOnly := range map[string]bool{"one": false, "three": true} {
		var got runtime.Workspace
		made, err := w.Open(id, &got)
		if err != nil || got.Medium != runtime.MediumDisk || got.ReadOnly != readOnly || got.Lock == "" || filepath.Base(got.Image) != imageName {
			t.Fatalf("%s: %+v, %v", id, got, err)
		}
		if made(); !there(got.Image) {
			t.Errorf("%s: the image is gone", id)
		}
	}
	if got, _ := w.As(alice).Get(ctx, "a"); got.WrittenBy != "one" || strings.Join(got.UsedBy, " ") != "four one three" {
		t.Errorf("%+v", got)
	}
	if err := w.As(alice).Remove(ctx, "a"); code(err) != belljar.CodeConflict {
		t.Errorf("removed: %v", err)
	}
	for _, err := range []error{w.As(bob).Remove(ctx, "a"), w.Claim(ctx, "five", bob, a, false), second(w.As(bob).Get(ctx, "a")), second(w.Size(bob, belljar.Workspace{Volume: "a"}))} {
		if code(err) != belljar.CodeNotFound && code(err) != belljar.CodeInvalidRequest {
			t.Errorf("another user: %v", err)
		}
	}
	w.Drop("one")
	if err := w.Claim(ctx, "two", alice, a, false); err != nil {
		t.Errorf("the next writer: %v", err)
	}
	for _, id := range []string{"two", "three", "four", "none"} {
		w.Drop(id)
	}
	if _, err := w.Open("two", &runtime.Workspace{}); err == nil {
		t.Error("opened without a claim")
	}
	if err := w.As(alice).Remove(ctx, "a"); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(w.opts.Dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if got := strings.Join(w.events, ", "); got != "sandbox.volume.made a, sandbox.volume.removed a" {
		t.Errorf("events: %s", got)
	}
}

func second[T any](_ T, err error) error { return err }

func there(path string) bool { _, err := os.Stat(path); return err == nil }

// The workspace of one sandbox has no path once the sandbox is made.
func TestOwnDisk(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	own := belljar.Workspace{Medium: "disk", MB: 40}
	if err := w.Claim(t.Context(), "one", alice, own, false); err != nil {
		t.Fatal(err)
	}
	var got runtime.Workspace
	made, err := w.Open("one", &got)
	if err != nil || got.Lock != "" || !there(got.Image) {
		t.Fatalf("%+v, %v", got, err)
	}
	if made(); there(filepath.Dir(got.Image)) {
		t.Error("the folder is there")
	}
	if err := w.Claim(t.Context(), "two", alice, own, false); err != nil {
		t.Fatal(err)
	}
	if err := w.Claim(t.Context(), "three", alice, own, false); code(err) != belljar.CodeQuotaExceeded {
		t.Errorf("above the quota: %v", err)
	}
	if got := w.Bytes("alice"); got != 80<<20 {
		t.Errorf("%d bytes are alice's", got)
	}
	w.Drop("one")
	w.Drop("two") // was not made
	if err := w.Claim(t.Context(), "three", alice, own, false); err != nil {
		t.Errorf("in its place: %v", err)
	}
	w.Drop("three")
	if left, _ := os.ReadDir(w.opts.Dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	full := func(o *Options) {
		o.Make = func(path string, _, _ int64) error {
			return errors.Join(image(path, 0, 0), &os.PathError{Op: "allocate", Path: path, Err: syscall.ENOSPC})
		}
	}
	unable := func(o *Options) { o.Unable = &runtime.Reason{Detail: "no loop devices", Hint: "load them"} }
	for name, c := range map[string]struct {
		change func(*Options)
		mb     int
		free   uint64
		want   belljar.Code
		hint   string
	}{
		"none are allowed":   {func(o *Options) { o.MaxMB = 0 }, 10, 1 << 40, belljar.CodePolicyDenied, "SANDBOX_DISK_WORKSPACE_MB"},
		"the host has none":  {unable, 10, 1 << 40, belljar.CodeRuntimeUnavailable, "load them"},
		"too large":          {nil, 51, 1 << 40, belljar.CodePolicyDenied, ""},
		"above the quota":    {func(o *Options) { o.MaxMB = 200 }, 101, 1 << 40, belljar.CodeQuotaExceeded, "ask for less"},
		"below the mark":     {nil, 10, 70 << 20, belljar.CodeDiskFull, ""},
		"the disk is full":   {full, 10, 1 << 40, belljar.CodeDiskFull, "free space"},
		"an image not made":  {func(o *Options) { o.Make = func(string, int64, int64) error { return os.ErrInvalid } }, 10, 1 << 40, belljar.CodeInternal, ""},
		"no folder for them": {func(o *Options) { o.Dir = "/dev/null/x" }, 10, 1 << 40, belljar.CodeInternal, ""},
	} {
		w := open(t, dir, nil)
		if c.change != nil {
			c.change(&w.Volumes.opts)
		}
		w.free = c.free
		_, err := w.As(alice).Create(t.Context(), belljar.VolumeSpec{Name: "a", MB: c.mb})
		var e *belljar.Error
		if !errors.As(err, &e) || e.Code != c.want || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.Claim(t.Context(), "one", alice, belljar.Workspace{Volume: "a", MB: c.mb}, true); code(err) != c.want {
			t.Errorf("%s: claimed: %v", name, err)
		}
		if used, err := w.accounts.AllowArtifacts(t.Context(), "alice"); err != nil || !used.Reserve(100<<20) {
			t.Errorf("%s: the quota is not free: %v", name, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left: %v", name, left)
		}
	}
	w := open(t, dir, nil)
	make1(t, w, alice, "a", 10)
	make1(t, w, bob, "a", 10)
	for name, err := range map[string]error{
		"the same name": second(w.As(alice).Create(t.Context(), belljar.VolumeSpec{Name: "a", MB: 10})),
		"another size":  second(w.Size(alice, belljar.Workspace{Volume: "a", MB: 11})),
	} {
		if err != nil && code(err) != belljar.CodeConflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	if mb, err := w.Size(alice, belljar.Workspace{Volume: "a", MB: 10}); mb != 10 || err != nil {
		t.Errorf("its size: %d, %v", mb, err)
	}
	if mb, err := w.Size(alice, belljar.Workspace{Volume: "new", MB: 20}); mb != 20 || err != nil {
		t.Errorf("a new one: %d, %v", mb, err)
	}
	if _, err := w.Size(alice, belljar.Workspace{Volume: "new"}); code(err) != belljar.CodeNotFound {
		t.Errorf("none: %v", err)
	}
}

// If the server's disk has no room for a disk, the refusal has the free space, not what the new disk would leave.
func TestNoRoom(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	w.free = 70 << 20
	_, err := w.As(alice).Create(t.Context(), belljar.VolumeSpec{Name: "a", MB: 10})
	var e *belljar.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, "has 70 MiB left, and 10 MiB are asked for") || e.Details["free_bytes"] != uint64(70<<20) {
		t.Errorf("%+v", err)
	}
}

// Of concurrent requests for a missing volume, one makes it. All readers have it, and one writer.
func TestRace(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			errs[i] = w.Claim(t.Context(), string(rune('a'+i)), alice, belljar.Workspace{Volume: "v", MB: 10, ReadOnly: i%2 == 1}, true)
		})
	}
	all.Wait()
	won := 0
	for i, err := range errs {
		var e *belljar.Error
		if err == nil {
			won += 1 - i%2
		} else if !errors.As(err, &e) || i%2 == 1 || e.Details["written_by"] == nil {
			t.Error(i, err)
		}
	}
	list, _ := w.As(alice).List(t.Context())
	if left, _ := os.ReadDir(w.opts.Dir); won != 1 || len(list) != 1 || len(left) != 1 {
		t.Errorf("%d have it; %v; %v", won, list, left)
	}
}

// The lock that every admission and every end of a sandbox needs is free while the disk makes a name durable.
func TestSyncWithoutLock(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	begun, ends := make(chan string), make(chan struct{})
	w.sync = func(dir string) {
		begun <- dir
		<-ends
	}
	answers := make(chan error)
	for _, change := range []func() error{
		func() error {
			return second(w.As(alice).Create(t.Context(), belljar.VolumeSpec{Name: "a", MB: 10}))
		},
		func() error { return w.As(alice).Remove(t.Context(), "a") },
	} {
		go func() { answers <- change() }()
		if dir := <-begun; dir != w.opts.Dir {
			t.Errorf("%s is durable", dir)
		}
		if free := w.mu.TryLock(); !free {
			t.Error("locked meanwhile")
		} else {
			w.mu.Unlock()
		}
		ends <- struct{}{} // the answer comes after it
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// Wherever a process is killed, the next one finds only complete volumes.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, nil)
	make1(t, w, alice, "kept", 10)
	make1(t, w, alice, "held", 20)
	record, err := os.ReadFile(filepath.Join(w.folder("alice", "kept"), recordName))
	if err != nil {
		t.Fatal(err)
	}
	for stray, files := range map[string][]string{"1": nil, "2": {imageName}, "3": {imageName, recordName}, "4": {recordName, lockName}} {
		at := filepath.Join(dir, stray+strayExt)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(at, name), record, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := open(t, dir, func(o *Options) { o.MaxMB = 0 })
	list, _ := next.As(alice).List(t.Context())
	if left, _ := os.ReadDir(dir); len(list) != 2 || list[0].Name != "held" || list[1].MB != 10 || len(left) != 2 {
		t.Errorf("%+v; %v", list, left)
	}
	next.Reclaim("one", alice, belljar.Workspace{Medium: "disk", Volume: "held", MB: 20})
	next.Reclaim("two", alice, belljar.Workspace{Medium: "disk", MB: 40})
	if err := next.As(alice).Remove(t.Context(), "held"); code(err) != belljar.CodeConflict {
		t.Errorf("removed while a former sandbox has it: %v", err)
	}
	if got := next.Bytes("alice"); got != 70<<20 {
		t.Errorf("%d bytes are alice's", got)
	}
	used, err := next.accounts.AllowArtifacts(t.Context(), "alice")
	if err != nil || used.Reserve(31<<20) || !used.Reserve(30<<20) {
		t.Errorf("10, 20 and 40 of 100 MiB are not what is used: %v", err)
	}
	next.Drop("one")
	next.Drop("two")
	if err := errors.Join(next.As(alice).Remove(t.Context(), "held"), next.As(alice).Remove(t.Context(), "kept")); err != nil {
		t.Error(err)
	}

	// A record that does not match its folder is not a volume.
	moved := filepath.Join(dir, "0123")
	if err := errors.Join(os.Mkdir(moved, 0o700), os.WriteFile(filepath.Join(moved, recordName), record, 0o600)); err != nil {
		t.Fatal(err)
	}
	if list, _ := open(t, dir, nil).As(alice).List(t.Context()); len(list) != 0 || !there(moved) {
		t.Errorf("%v", list)
	}
	var got belljar.Volume
	if err := json.Unmarshal(record, &got); err != nil || got.Name != "kept" || got.UserID != "alice" {
		t.Errorf("%s", record)
	}
}
