//go:build linux

package gvisor

import (
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/mount"
	"github.com/belljar/belljar/internal/linux/rootfs"
)

// Capacity of the jar's root in addition to the parts of the sandbox's root: runsc's state, and the bundle.
const (
	stageBytes  = 4 << 20
	stageInodes = 1024
)

// devices are the host's devices that gVisor needs.
func (pl *plan) devices() []string {
	list := []string{"null", "zero", "random", "urandom"}
	if pl.platform == PlatformKVM {
		list = append(list, "kvm")
	}
	return list
}

// sources are files and folders of the host. The child opens them before it drops its user, which may have access to
// paths that the sandbox's user cannot reach. It opens them by path, since a mount can be copied only in its own
// namespace.
type sources struct {
	runsc, config forkexec.Arg
	agent, image  *forkexec.Arg // nil for none
	layers        []forkexec.Arg
}

func (pl *plan) openSources(p *forkexec.Program) (s sources) {
	open := func(step, name string) forkexec.Arg {
		p.Step(step)
		return p.Open(unix.SYS_OPENAT, forkexec.Int(unix.AT_FDCWD), p.Str(name), forkexec.Int(unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC), forkexec.Int(0))
	}
	s.runsc = open(stepProgram, pl.runsc)
	if pl.agentLink != "" {
		agent := open(jar.StepAgent, pl.agentLink)
		s.agent = &agent
	}
	s.config = open(stepProgram, pl.configFile)
	if pl.image != "" {
		image := open(jar.StepImage, pl.image)
		s.image = &image
	}
	for _, l := range pl.layers {
		s.layers = append(s.layers, open(jar.StepImage, l.Dir))
	}
	return s
}

// placeAgent makes the agent visible in the sandbox's root: the host's file, or a copy if that is nil.
func (pl *plan) placeAgent(p *forkexec.Program, m *mount.Builder, b *rootfs.Builder, file *forkexec.Arg) {
	name := path.Join(placeRoot, placeAgent)
	if file != nil {
		b.File(name, "")
		m.BindOpen(*file, b.Root, name, rootfs.Sealed)
		return
	}
	p.Step(jar.StepAgent)
	fd := m.Temp(unix.SYS_OPENAT, b.Root, p.Str(name), forkexec.Int(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC), forkexec.Int(0o555))
	// The offset is the child's own: all births share that of the open file.
	p.Call(unix.SYS_SENDFILE, fd, forkexec.Int(pl.birth.Program()), forkexec.Ptr(p, new(int64)), forkexec.Int(pl.agent.size))
	p.Expect(int(pl.agent.size), unix.ENOSPC)
	p.Close(fd)
	p.Step(jar.StepMount)
}

// build makes the jar's root and the sandbox's root in it, and returns it open.
func (pl *plan) build(p *forkexec.Program, m *mount.Builder, from sources) forkexec.Arg {
	p.Step(jar.StepMount)
	size := int64(stageBytes)
	if from.agent == nil {
		size += pl.agent.size
	}
	b := rootfs.NewBuilder(p, m, pl.root, from.image, size, stageInodes)
	for _, name := range []string{placeState, placeSpare, "tmp", "proc", "dev"} {
		b.Dir(name)
	}
	b.File(placeBundle+"/config.json", "")
	m.BindOpen(from.config, b.Root, placeBundle+"/config.json", rootfs.Sealed)
	b.File(placeRunsc, "")
	m.BindOpen(from.runsc, b.Root, placeRunsc, rootfs.Sealed)
	for _, name := range rootfs.Reserved() {
		b.Dir(path.Join(placeRoot, name))
	}
	pl.placeAgent(p, m, b, from.agent)
	b.Parts(slices.DeleteFunc(slices.Clone(pl.root.Parts), func(part rootfs.Part) bool { return reserved(part.Name) }), placeRoot, placeSpare)
	for i, l := range pl.layers {
		name := path.Join(placeRoot, l.Path())
		b.Dir(name)
		m.BindOpen(from.layers[i], b.Root, name, rootfs.Sealed)
	}
	if pl.disk != nil {
		b.Dir(placeDisk)
		pl.disk.Attach(m, b.Root, placeDisk)
	}
	p.Step(jar.StepProc)
	proc := m.FS("proc", mount.NoSUID|mount.NoDev|mount.NoExec)
	m.Attach(proc, b.Root, "proc")
	p.Step(jar.StepDev)
	for _, name := range pl.devices() {
		b.File("dev/"+name, "")
		m.Bind("/dev/"+name, b.Root, "dev/"+name, mount.NoSUID|mount.NoExec)
	}
	return b.Root
}
