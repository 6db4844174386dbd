//go:build linux

package gvisor

import (
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
)

const sealed = mount.ReadOnly | mount.NoSUID | mount.NoDev

// How much the jar's root holds beside what the parts of the sandbox's root need: runsc's state, and the bundle.
const (
	stageBytes  = 4 << 20
	stageInodes = 1024
)

// devices are those of the host that gVisor needs.
func (pl *plan) devices() []string {
	list := []string{"null", "zero", "random", "urandom"}
	if pl.platform == PlatformKVM {
		list = append(list, "kvm")
	}
	return list
}

// sources are files and folders of the host, opened in the child before it gives up its user, who may pass where the
// sandbox's may not: by path, since a mount can be copied in its own namespace only.
type sources struct{ runsc, agent, image forkexec.Arg }

func (pl *plan) openSources(p *forkexec.Program) (s sources) {
	open := func(step, name string) forkexec.Arg {
		p.Step(step)
		return p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str(name), forkexec.Int(unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC), forkexec.Int(0))
	}
	s.runsc = open(stepProgram, pl.runsc)
	s.agent = open(stepAgent, pl.agentFile)
	if pl.image != "" {
		s.image = open(stepImage, pl.image)
	}
	return s
}

// stage is the jar's root in the making.
type stage struct {
	p       *forkexec.Program
	m       *mount.Builder
	root    forkexec.Arg
	made    map[string]bool
	sources map[string]forkexec.Arg // open folders of the image; nil for the host
	covers  map[string]forkexec.Arg // open folders of the root in which something is covered
}

// build makes the jar's root, and in it the sandbox's, and returns it open. It is staged over /proc, the one folder that
// every Linux has and that we do not need until we have our own.
func (pl *plan) build(p *forkexec.Program, m *mount.Builder, from sources) forkexec.Arg {
	p.Step(stepMount)
	p.Call(unix.SYS_UMASK, forkexec.Int(0))
	bytes, inodes := pl.root.Room()
	root := m.FS("tmpfs", mount.NoSUID|mount.NoDev,
		[2]string{"size", strconv.FormatInt(stageBytes+bytes+int64(len(pl.config)), 10)},
		[2]string{"nr_inodes", strconv.FormatInt(stageInodes+inodes, 10)}, [2]string{"mode", "755"})
	m.Attach(root, forkexec.Int(unix.AT_FDCWD), "/proc")
	s := &stage{p: p, m: m, root: root, made: map[string]bool{".": true}, covers: map[string]forkexec.Arg{}}
	if pl.image != "" {
		s.sources = map[string]forkexec.Arg{".": from.image}
	}
	for _, name := range []string{placeState, placeSpare, "tmp", "proc", "dev"} {
		s.dir(name)
	}
	s.file(placeBundle+"/config.json", string(pl.config))
	s.file(placeRunsc, "")
	m.BindOpen(from.runsc, root, placeRunsc, sealed)
	for _, name := range rootfs.Reserved() {
		s.dir(path.Join(placeRoot, name))
	}
	s.file(path.Join(placeRoot, placeAgent), "")
	m.BindOpen(from.agent, root, path.Join(placeRoot, placeAgent), sealed)
	for i, part := range pl.root.Parts {
		if !reserved(part.Name) {
			s.part(part, i)
		}
	}
	p.Step(stepProc)
	proc := m.FS("proc", mount.NoSUID|mount.NoDev|mount.NoExec)
	m.Attach(proc, root, "proc")
	p.Step(stepDev)
	for _, name := range pl.devices() {
		s.file("dev/"+name, "")
		m.Bind("/dev/"+name, root, "dev/"+name, mount.NoSUID|mount.NoExec)
	}
	return root
}

func (s *stage) dir(name string) {
	if s.made[name] {
		return
	}
	s.dir(path.Dir(name))
	s.p.Call(unix.SYS_MKDIRAT, s.root, s.p.Str(name), forkexec.Int(0o755))
	s.made[name] = true
}

func (s *stage) link(name, target string) {
	s.dir(path.Dir(name))
	s.p.Call(unix.SYS_SYMLINKAT, s.p.Str(target), s.root, s.p.Str(name))
}

func (s *stage) file(name, text string) {
	s.dir(path.Dir(name))
	fd := s.m.Temp(unix.SYS_OPENAT, s.root, s.p.Str(name), forkexec.Int(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0o644))
	if text != "" {
		s.p.Call(unix.SYS_WRITE, fd, s.p.Str(text), forkexec.Int(len(text)))
		s.p.Expect(len(text), unix.ENOSPC)
	}
	s.p.Close(fd)
}

// part makes one part of the sandbox's root. Those that are again what is made later are the sentry's to make.
func (s *stage) part(p rootfs.Part, number int) {
	name := path.Join(placeRoot, p.Name)
	switch p.Kind {
	case rootfs.Folder:
		s.dir(name)
	case rootfs.Link:
		s.link(name, p.Target)
	case rootfs.Text:
		if !p.Over {
			s.file(name, p.Text)
			return
		}
		spare := path.Join(placeSpare, strconv.Itoa(number))
		s.file(spare, p.Text)
		s.m.BindAt(s.root, spare, s.covered(name), path.Base(name), sealed)
	case rootfs.Bind:
		if p.File {
			s.file(name, "")
		} else {
			s.dir(name)
		}
		if s.sources == nil {
			s.m.Bind("/"+p.Source, s.root, name, sealed)
			return
		}
		s.m.BindAt(s.source(path.Dir(p.Source)), path.Base(p.Source), s.root, name, sealed)
	}
}

// source is a folder of the image, open.
func (s *stage) source(dir string) forkexec.Arg {
	fd, ok := s.sources[dir]
	if !ok {
		fd = s.folder(s.source(path.Dir(dir)), path.Base(dir))
		s.sources[dir] = fd
	}
	return fd
}

// covered is the folder of the root, open, in which a part covers something.
func (s *stage) covered(name string) forkexec.Arg {
	dir := path.Dir(name)
	fd, ok := s.covers[dir]
	if !ok {
		fd = s.folder(s.root, dir)
		s.covers[dir] = fd
	}
	return fd
}

// folder opens a folder of that name, which no link leads to.
func (s *stage) folder(in forkexec.Arg, name string) forkexec.Arg {
	return s.p.Open(unix.SYS_OPENAT, in, s.p.Str(name), forkexec.Int(unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC), forkexec.Int(0))
}
