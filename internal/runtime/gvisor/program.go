//go:build linux

package gvisor

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/runtime"
)

// programName is the file name of belljar-runsc.
const programName = "belljar-runsc"

// Modules that identify belljar-runsc: its own path and the module that states its version.
const (
	programPath = "github.com/belljar/belljar/gvisor"
	gvisorPath  = "gvisor.dev/gvisor"
)

// programTag is the build tag of belljar-runsc in make gvisor. A program built without it does not limit the memory of programs.
const programTag = "belljar_memory_limit"

// program is belljar-runsc on this host.
type program struct {
	path    string // with links resolved
	version string // of gVisor
	reason  *runtime.Reason
}

// finder finds belljar-runsc. The file may appear, vanish and be replaced while a daemon runs.
type finder struct {
	given string // its required path; "" to search for it

	mu   sync.Mutex
	last program
	path string      // the path that was inspected last
	file os.FileInfo // the file found there; nil for none
}

// find returns the current belljar-runsc. It does not read an unchanged file again.
func (f *finder) find() program {
	path := f.given
	if path == "" {
		path = lookAround()
	}
	file, _ := os.Stat(path) // findProgram reports an error
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil || path != f.path || !sameContent(f.file, file) {
		f.last, f.path, f.file = findProgram(path), path, file
	}
	return f.last
}

// sameContent reports whether two looks at a file, of which the second may be nil, found the same content.
func sameContent(a, b os.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.Mode() == b.Mode() && a.ModTime().Equal(b.ModTime())
}

// findProgram inspects the file at path, "" for none, and makes sure that it is belljar-runsc: another runsc does not limit the number of files.
func findProgram(path string) program {
	missing := func(detail string) program {
		return program{reason: &runtime.Reason{
			Code: "host_prerequisite_missing", Step: stepProgram, Detail: detail,
			Hint: "build it with: make gvisor, and put bin/" + programName + " next to belljar or in PATH",
		}}
	}
	if path == "" {
		return missing(programName + " is neither next to belljar nor in PATH")
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return missing(fmt.Sprintf("%s: %v", path, err))
	}
	info, err := buildinfo.ReadFile(real)
	if err != nil {
		return missing(fmt.Sprintf("%s was not built with Go: %v", path, err))
	}
	if info.Path != programPath {
		return missing(fmt.Sprintf("%s is another program, of %s", path, info.Path))
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-tags", Value: programTag}) {
		return missing(path + " is of an older Belljar and does not limit the memory of programs")
	}
	p := program{path: real}
	for _, m := range info.Deps {
		if m.Path == gvisorPath {
			p.version = m.Version
		}
	}
	if err := unix.Access(real, unix.X_OK); err != nil {
		return missing(fmt.Sprintf("%s cannot be executed: %v", path, err))
	}
	if file, err := os.Stat(real); err == nil && file.Mode()&0o001 == 0 && os.Geteuid() == 0 {
		return program{reason: &runtime.Reason{
			Code: "host_permission_denied", Step: stepProgram,
			Detail: fmt.Sprintf("%s cannot be executed by the users that sandboxes have (mode %04o)", path, file.Mode().Perm()),
			Hint:   "chmod a+rx " + real,
		}}
	}
	return p
}

// lookAround finds belljar-runsc next to this program, else in PATH; "" if it is nowhere.
func lookAround() string {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), programName)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside
		}
	}
	found, err := exec.LookPath(programName)
	if err != nil {
		return ""
	}
	return found
}
