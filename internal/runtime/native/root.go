//go:build linux

package native

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/runtime"
)

// hostRoot is what a sandbox sees of a root file system: looked up once, since it does not change.
type hostRoot struct {
	entries []entry
	etc     []etcFile
}

// entry is one thing in the root: a link (target set), or a file or folder of the host (source set), read-only.
type entry struct {
	name   string // relative, e.g. usr or etc/alternatives
	source string
	target string
	file   bool
}

// etcFile is a file of ours in /etc.
type etcFile struct{ name, text string }

// usrLinks are the names beside /usr that a usr-merged host has as links, and an older one as folders.
var usrLinks = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// etcAllowed is all of the host's /etc that a sandbox sees: what programs in /usr need to find their own parts, and
// nothing that could tell about this machine or anybody on it.
var etcAllowed = []string{
	"alternatives", "ld.so.cache", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted",
	"java-*-openjdk", "mime.types", "protocols", "services", "perl", "python3", "python3.*", "crypto-policies",
}

// storeDirs hold the programs of hosts that have none in /usr.
var storeDirs = []string{"nix/store", "gnu/store"}

const passwd = `root:x:0:0:root:/:/usr/sbin/nologin
sandbox:x:1000:1000:sandbox:/workspace:/bin/sh
nobody:x:65534:65534:nobody:/:/usr/sbin/nologin
`

const group = `root:x:0:
tty:x:5:
sandbox:x:1000:
nogroup:x:65534:
`

// lookRoot finds out what the root of a sandbox is made of.
func lookRoot(root runtime.Root) (*hostRoot, error) {
	if root.Dir != "" {
		return lookImage(root.Dir)
	}
	h := &hostRoot{etc: []etcFile{
		{"passwd", passwd},
		{"group", group},
		{"hostname", "belljar\n"},
		{"hosts", "127.0.0.1 localhost belljar\n::1 localhost\n"},
		{"resolv.conf", "# there is no network here\n"},
		{"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
	}}
	if info, err := os.Stat("/usr"); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the host has no /usr folder to use as the image")
	}
	h.entries = append(h.entries, entry{name: "usr", source: "/usr"})
	for _, name := range usrLinks {
		h.add(name, "/"+name)
	}
	for _, name := range storeDirs {
		h.add(name, "/"+name)
	}
	for _, pattern := range etcAllowed {
		found, _ := filepath.Glob("/etc/" + pattern)
		for _, source := range found {
			h.add(source[1:], source)
		}
	}
	if zone, err := os.Readlink("/etc/localtime"); err == nil && strings.HasPrefix(zone, "/usr/share/zoneinfo/") {
		h.entries = append(h.entries, entry{name: "etc/localtime", target: zone})
	}
	return h, nil
}

// lookImage lists an unpacked image. Its own dev, proc, sys and writable places are not taken.
func lookImage(dir string) (*hostRoot, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read image: %w", err)
	}
	h := &hostRoot{}
	for _, e := range list {
		switch e.Name() {
		case "dev", "proc", "sys", "tmp", "run", "workspace":
		default:
			h.add(e.Name(), filepath.Join(dir, e.Name()))
		}
	}
	return h, nil
}

// add takes source if it is a folder, a file or a link.
func (h *hostRoot) add(name, source string) {
	info, err := os.Lstat(source)
	if err != nil {
		return
	}
	e := entry{name: name}
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		if e.target, err = os.Readlink(source); err != nil {
			return
		}
	case info.IsDir():
		e.source = source
	case info.Mode().IsRegular():
		e.source, e.file = source, true
	default:
		return
	}
	h.entries = append(h.entries, e)
}

const sealed = mount.ReadOnly | mount.NoSUID | mount.NoDev

// buildRoot makes the whole root file system and returns it open. It is staged over /proc, the one folder that every
// Linux has and that we do not need until we have our own.
func (pl *plan) buildRoot(p *forkexec.Program, m *mount.Builder) forkexec.Arg {
	p.Step(stepMount)
	p.Call(unix.SYS_UMASK, forkexec.Int(0))
	root := m.FS("tmpfs", mount.NoSUID|mount.NoDev, [2]string{"size", "1m"}, [2]string{"nr_inodes", "512"}, [2]string{"mode", "755"})
	m.Attach(root, forkexec.Int(unix.AT_FDCWD), "/proc")

	b := &rootBuilder{p: p, m: m, root: root, made: map[string]bool{".": true}}
	for _, e := range pl.host.entries {
		b.entry(e)
	}
	for _, f := range pl.host.etc {
		b.file("etc/"+f.name, f.text)
	}
	for _, dir := range []string{"proc", "dev", "tmp", "run", "workspace", "var", "opt", emptyDir} {
		b.dir(dir)
	}
	b.link("var/tmp", "/tmp")
	b.link("var/run", "/run")
	b.tmpfs("workspace", pl.workspace.Bytes, pl.workspace.Inodes, "0755", !pl.workspace.Exec)
	b.tmpfs("tmp", pl.limits.tmp, pl.limits.inodes, "1777", true)
	b.tmpfs("run", pl.limits.run, pl.limits.inodes, "0755", true)
	b.proc()
	b.dev(pl)
	p.Step(stepMount)
	m.SetAttr(root, sealed, false)
	return root
}

// rootBuilder appends the parts of a root file system.
type rootBuilder struct {
	p    *forkexec.Program
	m    *mount.Builder
	root forkexec.Arg
	made map[string]bool
}

func (b *rootBuilder) dir(name string) {
	if b.made[name] {
		return
	}
	b.dir(path.Dir(name))
	b.p.Call(unix.SYS_MKDIRAT, b.root, b.p.Str(name), forkexec.Int(0o755))
	b.made[name] = true
}

func (b *rootBuilder) link(name, target string) {
	b.dir(path.Dir(name))
	b.p.Call(unix.SYS_SYMLINKAT, b.p.Str(target), b.root, b.p.Str(name))
}

func (b *rootBuilder) file(name, text string) {
	b.dir(path.Dir(name))
	fd := b.create(b.root, name)
	if text != "" {
		b.p.Call(unix.SYS_WRITE, fd, b.p.Str(text), forkexec.Int(len(text)))
	}
	b.p.Close(fd)
}

func (b *rootBuilder) create(dir forkexec.Arg, name string) forkexec.Arg {
	return b.m.Temp(unix.SYS_OPENAT, dir, b.p.Str(name), forkexec.Int(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0o644))
}

func (b *rootBuilder) entry(e entry) {
	switch {
	case e.target != "":
		b.link(e.name, e.target)
		return
	case e.file:
		b.file(e.name, "")
	default:
		b.dir(e.name)
	}
	b.m.Bind(e.source, b.root, e.name, sealed)
}

// tmpfs mounts a writable memory file system with hard caps, owned by the sandbox user.
func (b *rootBuilder) tmpfs(name string, bytes, inodes int64, mode string, noexec bool) {
	attr := mount.NoSUID | mount.NoDev
	if noexec {
		attr |= mount.NoExec
	}
	b.m.MountFS("tmpfs", b.root, name, attr, mount.Tmpfs(bytes, inodes, mode, sandboxID, sandboxID)...)
}

// emptyDir is a folder of the sandbox's root that stays empty.
const emptyDir = "mnt"

// What of /proc tells about the host or reaches into it. What only the host's root can read (kpageflags, slabinfo,
// vmallocinfo …) nobody in a user namespace can, so it is not worth a mount; of that, only what could harm the host is
// here, as a second wall. Every kernel has the last of each list.
var (
	procHiddenFiles = []string{
		"kcore", "keys", "key-users", "kmsg", "kallsyms", "latency_stats", "timer_list", "timer_stats", "sched_debug",
		"sysrq-trigger", "modules", "iomem", "ioports", "interrupts", "softirqs", "diskstats", "partitions", "config.gz", "cmdline",
	}
	procHiddenFolders = []string{"acpi", "asound", "scsi", "driver", "bus", "irq", "tty", "fs"}
	procReadOnly      = []string{"sys"}
)

func (b *rootBuilder) proc() {
	b.p.Step(stepProc)
	proc := b.m.FS("proc", mount.NoSUID|mount.NoDev|mount.NoExec)
	b.m.Attach(proc, b.root, "proc")
	b.m.HideFiles(proc, procHiddenFiles)
	b.m.HideFolders(proc, procHiddenFolders, b.root, emptyDir)
	for _, name := range procReadOnly {
		b.m.Protect(proc, name, mount.ReadOnly|mount.NoSUID|mount.NoDev|mount.NoExec)
	}
}

// devices are all that /dev has, bound from the host one by one.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

func (b *rootBuilder) dev(pl *plan) {
	b.p.Step(stepDev)
	dev := b.m.FS("tmpfs", mount.NoSUID|mount.NoExec, [2]string{"size", "64k"}, [2]string{"nr_inodes", "64"}, [2]string{"mode", "755"})
	b.m.Attach(dev, b.root, "dev")
	for _, name := range devices {
		b.p.Close(b.create(dev, name))
		b.m.Bind("/dev/"+name, dev, name, mount.NoSUID|mount.NoExec)
	}
	for _, l := range [][2]string{{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}} {
		b.p.Call(unix.SYS_SYMLINKAT, b.p.Str(l[1]), dev, b.p.Str(l[0]))
	}
	b.p.Call(unix.SYS_MKDIRAT, dev, b.p.Str("pts"), forkexec.Int(0o755))
	b.p.Call(unix.SYS_MKDIRAT, dev, b.p.Str("shm"), forkexec.Int(0o755))
	// A memory-backed terminal layer of our own: the host's terminals do not exist here.
	b.m.MountFS("devpts", dev, "pts", mount.NoSUID|mount.NoExec, [2]string{"newinstance", ""}, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"}, [2]string{"max", "64"})
	b.m.MountFS("tmpfs", dev, "shm", mount.NoSUID|mount.NoDev|mount.NoExec, mount.Tmpfs(pl.limits.shm, pl.limits.inodes, "1777", sandboxID, sandboxID)...)
	b.m.SetAttr(dev, mount.ReadOnly|mount.NoSUID|mount.NoExec, false)
}

// appendMap appends a line of an id map.
func appendMap(b []byte, inside, outside, count int) []byte {
	b = strconv.AppendInt(b, int64(inside), 10)
	b = strconv.AppendInt(append(b, ' '), int64(outside), 10)
	b = strconv.AppendInt(append(b, ' '), int64(count), 10)
	return append(b, '\n')
}
