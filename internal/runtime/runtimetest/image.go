//go:build unix

package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/runtime"
)

// testImage applies to every runtime that runs images which Belljar has unpacked. An image is untrusted: it may be made
// to trick the code that makes a root from it.
func testImage(t *testing.T, o Options) {
	caps, err := o.New(t).Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if !caps.Unpacked {
		t.Skip("this runtime has no use for unpacked images")
	}
	for name, test := range map[string]func(*testing.T, Options){
		"no etc":           testImageBare,
		"read-only":        testImageReadOnly,
		"writable places":  testImageWritable,
		"files in etc":     testImageEtc,
		"user":             testImageUser,
		"user too high":    testImageUserTooHigh,
		"links everywhere": testImageLinks,
		"files in the way": testImageFiles,
		"names":            testImageNames,
		"too many names":   testImageManyNames,
		"pipes":            testImagePipes,
		"one program":      testImageScratch,
		"in use":           testImageInUse,
		"gone":             testImageGone,
		"claim":            testImageClaim,
		"two of one image": testImageShared,
	} {
		t.Run(name, func(t *testing.T) {
			o.maybeParallel(t)
			test(t, o)
		})
	}
}

// open makes a sandbox of an image, whose commands run as its user.
func (r *rootTree) open(o Options, change ...func(*runtime.Spec)) *jar {
	r.Helper()
	change = append([]func(*runtime.Spec){func(s *runtime.Spec) { s.Root = r.root() }}, change...)
	j := open(r.T, o, change...)
	j.asImageUser()
	return j
}

// asImageUser makes commands run as the workspace's owner, if agent and programs share a user.
func (j *jar) asImageUser() {
	j.Helper()
	if !j.shared() {
		return
	}
	info, err := j.agent.Ping(j.ctx)
	if err != nil {
		j.Fatal(err)
	}
	j.o.UID, j.o.GID = info.UID, info.GID
}

func testImageBare(t *testing.T, o Options) {
	j := tree(t).open(o)
	if got := j.must(`id -u; echo hello >f; cat f; cd; pwd`); !strings.Contains(got, "hello") {
		t.Errorf("%q", got)
	}
	if got := j.must("cat /etc/hosts"); !strings.Contains(got, "localhost") {
		t.Errorf("/etc/hosts: %q", got)
	}
	if got := j.must("ls -A /usr /home /root /boot /sys/kernel /etc/ssl /nix /lib /lib64 2>/dev/null; true"); strings.Trim(got, "/:usrhometblinx64\n ") != "" {
		t.Errorf("what is not the image's is seen: %q", got)
	}
}

func testImageReadOnly(t *testing.T, o Options) {
	r := tree(t)
	for _, dir := range []string{"etc", "usr/lib", "opt/app", "mnt", "home/user", "srv"} {
		r.folder(dir)
	}
	r.text("etc/passwd", "root:x:0:0::/:/bin/sh\n")
	for _, dir := range []string{"opt/app", "mnt", "home/user"} {
		r.check(os.Chmod(r.at(dir), 0o777)) // whatever the umask
	}
	j := r.open(o)
	for _, dir := range []string{"/", "/bin", "/etc", "/usr/lib", "/opt/app", "/mnt", "/home/user", "/srv"} {
		if got := j.run(j.sh(`: >"$1/new"`, dir)); got.exit.Code == 0 {
			t.Errorf("a file was made in %s", dir)
		}
	}
	if got := j.run(j.sh(`: >>/etc/passwd`)); got.exit.Code == 0 {
		t.Error("a file of the image was opened for writing")
	}
	if got := j.run(j.sh(`rm /bin/busybox`)); got.exit.Code == 0 {
		t.Error("a file of the image was removed")
	}
}

func testImageWritable(t *testing.T, o Options) {
	for name, make := range map[string]func(*rootTree){
		"no var":       func(*rootTree) {},
		"var as usual": func(r *rootTree) { r.folder("var/tmp"); r.link("var/run", "/run"); r.folder("var/lib") },
		"old var":      func(r *rootTree) { r.folder("var/tmp"); r.folder("var/run"); r.text("var/run/left", "x") },
	} {
		if o.Few && name != "old var" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := tree(t)
			make(r)
			j := r.open(o)
			for _, dir := range []string{"/workspace", "/tmp", "/dev/shm", "/var/tmp"} {
				j.must(`echo text >"$1/file"; [ "$(cat "$1/file")" = text ]`, dir)
			}
		})
	}
}

func testImageEtc(t *testing.T, o Options) {
	const passwd = "root:x:0:0::/:/bin/sh\nimage:x:4000:4000::/:/bin/sh"
	for name, c := range map[string]struct {
		make func(*rootTree)
		want string // in the output of /etc
	}{
		"empty":         {func(r *rootTree) { r.folder("etc") }, "localhost"},
		"empty files":   {func(r *rootTree) { r.text("etc/hosts", ""); r.text("etc/passwd", ""); r.text("etc/group", "") }, "localhost"},
		"hosts missing": {func(r *rootTree) { r.text("etc/passwd", passwd); r.text("etc/group", "root:x:0:\n") }, "image:x:4000"},
		"usual": {func(r *rootTree) {
			r.text("etc/passwd", passwd)
			r.text("etc/group", "root:x:0:\n")
			r.text("etc/hosts", "")
			r.text("etc/hostname", "elsewhere\n")
			r.text("etc/os-release", "ID=test\n")
		}, "ID=test"},
	} {
		if o.Few && name != "usual" && name != "empty files" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r := tree(t)
			c.make(r)
			r.text("etc/mark", "of the image")
			j := r.open(o)
			got := j.must("cat /etc/hosts /etc/passwd /etc/os-release 2>/dev/null; cat /etc/mark")
			for _, want := range []string{c.want, "localhost", "of the image"} {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in %q", want, got)
				}
			}
			if had, err := os.ReadFile(r.at("etc/mark")); err != nil || string(had) != "of the image" {
				t.Errorf("the image has changed: %q, %v", had, err)
			}
		})
	}
}

func testImageUser(t *testing.T, o Options) {
	users := [][2]int{{1001, 1002}, {65535, 5}, {33, 33}, {65534, 65534}}
	if o.Few {
		users = users[:2]
	}
	for _, user := range users {
		t.Run(fmt.Sprint(user), func(t *testing.T) {
			r := tree(t)
			o := o
			o.UID, o.GID = user[0], user[1]
			j := r.open(o, func(s *runtime.Spec) { s.Root.UID, s.Root.GID = user[0], user[1] })
			got := j.must(`id -u; id -g; stat -c %u:%g /workspace; : >/workspace/f; : >/tmp/f`)
			if want := fmt.Sprintf("%d\n%d\n%d:%d", j.o.UID, j.o.GID, j.o.UID, j.o.GID); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			j.write("file", "text")
			if got := j.must("cat file; echo more >>file"); got != "text" {
				t.Errorf("%q", got)
			}
		})
	}
}

func testImageUserTooHigh(t *testing.T, o Options) {
	r := tree(t)
	spec := o.spec()
	spec.Root = r.root()
	spec.Root.UID = 1 << 20
	rt := o.New(t)
	box, err := rt.Create(within(t), spec)
	if err == nil {
		// The runtime supports such users, or has one user for all.
		r.check(box.Destroy(within(t)))
		return
	}
	if step := (*runtime.StepError)(nil); !errors.As(err, &step) {
		t.Errorf("%v names no step", err)
	}
	if ids, err := rt.List(within(t)); err != nil || slices.Contains(ids, spec.ID) {
		t.Errorf("a refused sandbox is listed: %v, %v", ids, err)
	}
}

// Every name that a root replaces, and others that programs look at, are links out of the image.
func testImageLinks(t *testing.T, o Options) {
	out := t.TempDir()
	if err := os.WriteFile(out+"/passwd", []byte("SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	absolute, relative := out, strings.Repeat("../", 30)+out[1:]
	images := map[string][]string{
		"absolute": {absolute}, "relative": {relative}, "root": {"/"}, "itself": {"etc"}, "nowhere": {"/nowhere"},
		"long": {"/" + strings.Repeat("long/", 800)},
	}
	if o.Few { // all targets, in turn, in two images
		images = map[string][]string{"out": {absolute, relative}, "odd": slices.Concat(images["root"], images["itself"], images["nowhere"], images["long"])}
	}
	for what, targets := range images {
		t.Run(what, func(t *testing.T) {
			r := tree(t)
			for i, name := range []string{"dev", "proc", "sys", "tmp", "run", "workspace", "etc", "var", "usr", "home", "mnt", "opt", "lib"} {
				r.link(name, targets[i%len(targets)])
			}
			j := r.open(o)
			j.sound()
			if got := j.run(j.sh("cat /etc/passwd /usr/passwd /home/passwd /var/passwd")); strings.Contains(got.out, "SECRET") {
				t.Error("a link of the image leads out of the sandbox")
			}
			if list, err := os.ReadDir(out); err != nil || len(list) != 1 {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

// sound checks that a sandbox has everything that every root has.
func (j *jar) sound() {
	j.Helper()
	got := j.must(`for d in null zero full random urandom tty; do [ -c /dev/$d ] || echo no $d; done
		[ -d /proc/self ] || echo no proc
		for d in /workspace /tmp /dev/shm; do [ -d $d ] && [ ! -L $d ] && : >$d/file || echo no $d; done
		echo x >/dev/null; pwd`)
	if got != belljar.WorkspaceDir {
		j.Errorf("%q", got)
	}
	j.write("sound", "text")
	if got := j.read("sound"); got != "text" {
		j.Errorf("%q", got)
	}
}

func testImageFiles(t *testing.T, o Options) {
	r := tree(t)
	for _, name := range []string{"dev", "proc", "sys", "tmp", "run", "workspace", "etc", "var", "mnt", "opt"} {
		r.text(name, "a file")
	}
	j := r.open(o)
	j.sound()
	if got := j.must("cat /opt"); got != "a file" {
		t.Errorf("%q", got)
	}
}

func testImageNames(t *testing.T, o Options) {
	names := []string{" ", "new\nline", "-rf", `back\slash`, "...", "a:b,c=d", strings.Repeat("n", 255), "'quoted\"", "workspace ", "*"}
	r := tree(t)
	for _, name := range names {
		r.text(name+"/file", "text of "+name)
		r.link("l"+name[:min(len(name), 200)], name)
	}
	r.text("\xff\xfe/file", "not text")
	j := r.open(o)
	if got := j.must(`cat "/$(printf '\377\376')/file"`); got != "not text" {
		t.Errorf("a name that is not text: %q", got)
	}
	for _, name := range names {
		for _, path := range []string{"/" + name, "/l" + name[:min(len(name), 200)]} {
			if got := j.run(j.command("/bin/cat", path+"/file")); got.out != "text of "+name {
				t.Errorf("%q: %q, %q", path, got.out, got.err)
			}
		}
	}
}

func testImageManyNames(t *testing.T, o Options) {
	if o.Few && o.CopiesImages {
		t.Skip("this runtime mounts no names")
	}
	r := tree(t)
	for i := range 1200 { // more than a runtime mounts
		r.check(os.WriteFile(r.at(fmt.Sprint("name-", i)), nil, 0o644))
	}
	spec := o.spec()
	spec.Root = r.root()
	rt := o.New(t)
	box, err := rt.Create(within(t), spec)
	if err == nil { // the runtime ignores them
		defer box.Destroy(within(t))
		if _, err := agent.New(box.Dial).Ping(within(t)); err != nil {
			t.Error(err)
		}
		return
	}
	if step := (*runtime.StepError)(nil); !errors.As(err, &step) || !strings.Contains(err.Error(), "names") {
		t.Errorf("%v does not say what is wrong", err)
	}
	// Immediately, unless a process that was just forked still has the parent's descriptors.
	for until := time.Now().Add(patience); r.inUse(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the image of a refused sandbox is in use")
		}
	}
}

// A pipe without a writer must not block a reader.
func testImagePipes(t *testing.T, o Options) {
	r := tree(t)
	for _, name := range []string{
		"etc/passwd", "etc/group", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/localtime", "etc/nsswitch.conf",
		"etc/ld.so.preload", "etc/ld.so.cache", "usr/share/zoneinfo/UTC", "pipe", "dev",
	} {
		r.fifo(name)
	}
	j := r.open(o)
	j.sound()
	if _, err := j.agent.Stat(j.ctx, j.file("sound")); err != nil {
		t.Error(err)
	}
}

func testImageScratch(t *testing.T, o Options) {
	r := tree(t)
	r.check(os.Rename(r.at("bin/busybox"), r.at("busybox")))
	r.check(os.RemoveAll(r.at("bin")))
	j := r.open(o)
	if got := j.run(j.command("/busybox", "echo", "hello")); got.out != "hello\n" || got.exit.Code != 0 {
		t.Errorf("%+v", got)
	}
	j.write("file", "text")
	if got := j.read("file"); got != "text" {
		t.Errorf("%q", got)
	}
}

func testImageInUse(t *testing.T, o Options) {
	if o.CopiesImages {
		t.Skip("this runtime has a copy of its own")
	}
	r := tree(t)
	j := r.open(o, func(s *runtime.Spec) { s.Lifetime, s.Lease = runtime.LifetimeDetached, time.Hour })
	if !r.inUse() {
		t.Error("the image of a living sandbox is not in use")
	}
	j.must("true")
	if o.Restart != nil {
		j.restart()
		if !r.inUse() {
			t.Error("after a restart, the image of a living sandbox is not in use")
		}
	}
	if err := j.Destroy(j.ctx); err != nil {
		t.Fatal(err)
	}
	j.until("the image is free", func() bool { return !r.inUse() })
}

func testImageGone(t *testing.T, o Options) {
	for name, remove := range map[string]func(*rootTree) error{
		"image": func(r *rootTree) error { return os.RemoveAll(r.dir) },
		"all":   func(r *rootTree) error { return errors.Join(os.RemoveAll(r.dir), os.Remove(r.lock)) },
	} {
		t.Run(name, func(t *testing.T) {
			if o.CopiesImages {
				t.Skip("this runtime has a copy of its own")
			}
			r := tree(t)
			rt := o.New(t)
			spec := o.spec()
			spec.Root = r.root()
			create(t, o, rt, func(s *runtime.Spec) { s.Root = spec.Root }) // made before the image is removed
			if ahead, ok := runtime.As[runtime.Releaser](rt); ok {
				ahead.Release(within(t), spec.Root.Digest) // otherwise the image could not be removed
			}
			r.check(remove(r))
			if _, err := rt.Create(within(t), spec); !errors.Is(err, runtime.ErrNoImage) {
				t.Errorf("%v", err)
			}
			if ids, err := rt.List(within(t)); err != nil || slices.Contains(ids, spec.ID) {
				t.Errorf("a refused sandbox is listed: %v, %v", ids, err)
			}
		})
	}
}

func testImageClaim(t *testing.T, o Options) {
	r := tree(t)
	r.text("mark", "of the image")
	rt := o.New(t)
	claimer, ok := rt.(runtime.Claimer)
	if !ok {
		t.Skip("this runtime makes nothing ahead")
	}
	spec := o.spec()
	spec.Root = r.root()
	blank := claimer.Blank(spec)
	blank.ID, blank.Lease = belljar.NewID(), time.Minute
	if _, err := rt.Create(within(t), blank); err != nil {
		t.Fatal(err)
	}
	box, err := claimer.Claim(within(t), blank.ID, spec)
	if err != nil {
		t.Fatal(err)
	}
	j := &jar{T: t, o: o, ctx: within(t), runtime: rt, Sandbox: box, agent: agent.New(box.Dial)}
	t.Cleanup(func() { r.check(box.Destroy(within(t))) })
	j.asImageUser()
	if got := j.must("cat /mark"); got != "of the image" {
		t.Errorf("%q", got)
	}
	if !o.CopiesImages && !r.inUse() {
		t.Error("the image of a claimed sandbox is not in use")
	}
}

func testImageShared(t *testing.T, o Options) {
	r := tree(t)
	a, b := r.open(o), r.open(o)
	a.write("mine", "a")
	a.must(": >/tmp/mine")
	if b.exists("mine") || b.run(b.sh("cat /tmp/mine")).exit.Code == 0 {
		t.Error("two sandboxes of one image share more than that")
	}
	if err := a.Destroy(a.ctx); err != nil {
		t.Fatal(err)
	}
	if !o.CopiesImages && !r.inUse() {
		t.Error("the end of one sandbox has freed the image of another")
	}
}
