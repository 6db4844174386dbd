//go:build linux

package landlock

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/forkexec"
)

// Ruleset grants rights on folders. A folder also has the rights of its parents. Paths are absolute, as the child sees them at that
// point. A folder that does not exist gets no rule. The zero value grants nothing.
type Ruleset struct {
	ReadExec  []string // reading and executing
	ReadWrite []string // also writing, creating and removing anything but device nodes, and moving between these folders
	// Shared is like ReadWrite, for a folder that other sandboxes read: without making FIFOs, whose content would outlive the sandbox that is
	// charged for it while a reader has them open.
	Shared []string
	// Use allows writing and ioctl, without creating or removing: /dev, /proc.
	Use []string
	// Open are descriptors of folders without a path, with the rights of ReadWrite.
	Open []int
}

// Sandbox returns the ruleset of a sandbox's tree. volume means that other sandboxes may read its workspace, and readOnly that it only reads it.
func Sandbox(volume, readOnly bool) Ruleset {
	r := Ruleset{
		ReadExec:  []string{"/"},
		ReadWrite: []string{"/tmp", "/run", "/dev/shm"},
		Use:       []string{"/dev", "/proc"},
	}
	const workspace = "/workspace"
	switch {
	case readOnly: // a read-only mount lets programs write to a FIFO
	case volume:
		r.Shared = []string{workspace}
	default:
		r.ReadWrite = append(r.ReadWrite, workspace)
	}
	return r
}

// rulesetAttrSize is the size of struct landlock_ruleset_attr up to version 6. An older kernel accepts it as long as the fields that
// it does not know are zero.
const rulesetAttrSize = unsafe.Offsetof(unix.LandlockRulesetAttr{}.Scoped) + 8

// Append makes the child of p set no_new_privs, which the kernel requires, and apply the ruleset. abi is the kernel's [ABI], or less.
// It returns false, and appends nothing, if there is no Landlock; the caller decides whether that is acceptable.
func (r Ruleset) Append(p *forkexec.Program, abi int) bool {
	if abi < 2 {
		return false
	}
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: restricted(abi), Scoped: scoped(abi)}
	p.Call(unix.SYS_PRCTL, forkexec.Int(unix.PR_SET_NO_NEW_PRIVS), forkexec.Int(1), forkexec.Int(0), forkexec.Int(0), forkexec.Int(0))
	ruleset := p.Open(unix.SYS_LANDLOCK_CREATE_RULESET, forkexec.Ptr(p, attr), forkexec.Int(rulesetAttrSize), forkexec.Int(0))
	var folder forkexec.Arg
	for i, g := range r.grants() {
		rule := forkexec.Alloc[unix.LandlockPathBeneathAttr](p)
		rule.Allowed_access = g.rights & attr.Handled_access_fs
		path := []forkexec.Arg{forkexec.Int(unix.AT_FDCWD), p.Str(g.path), forkexec.Int(unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY)}
		if i == 0 {
			folder = p.Open(unix.SYS_OPENAT, path...)
		} else {
			p.Reopen(folder, unix.SYS_OPENAT, path...)
		}
		p.Store(&rule.Parent_fd)
		p.UnlessError(func() {
			p.Call(unix.SYS_LANDLOCK_ADD_RULE, ruleset, forkexec.Int(unix.LANDLOCK_RULE_PATH_BENEATH), forkexec.Ptr(p, rule), forkexec.Int(0))
			p.Close(folder)
		}, unix.ENOENT)
	}
	for _, fd := range r.Open {
		rule := &unix.LandlockPathBeneathAttr{Allowed_access: readWrite & attr.Handled_access_fs, Parent_fd: int32(fd)}
		p.Call(unix.SYS_LANDLOCK_ADD_RULE, ruleset, forkexec.Int(unix.LANDLOCK_RULE_PATH_BENEATH), forkexec.Ptr(p, rule), forkexec.Int(0))
	}
	p.Call(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, forkexec.Int(0))
	p.Close(ruleset)
	return true
}

// grant is the rule for one folder.
type grant struct {
	path   string
	rights uint64
}

func (r Ruleset) grants() (list []grant) {
	add := func(paths []string, rights uint64) {
		for _, path := range paths {
			list = append(list, grant{path, rights})
		}
	}
	add(r.ReadExec, readExec)
	add(r.ReadWrite, readWrite)
	add(r.Shared, readWrite&^unix.LANDLOCK_ACCESS_FS_MAKE_FIFO)
	add(r.Use, use)
	return list
}
