//go:build linux

package cgroup

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fake is a machine in an ordinary folder. It simulates the kernel's behaviour that the package relies on: a new group
// has the files of the controllers that its parent enables, and processes and controllers exclude each other.
type fake struct {
	t       *testing.T
	root    string
	foreign map[string]bool  // files and folders of another owner
	busy    map[string]int   // how many more times the removal of a folder fails
	refuse  map[string]error // files that cannot be written, with the error
}

func newFake(t *testing.T, own string, mounts ...string) *fake {
	f := &fake{t: t, root: t.TempDir(), foreign: map[string]bool{}, busy: map[string]int{}, refuse: map[string]error{}}
	f.put("/proc/self/mountinfo", strings.Join(mounts, "\n")+"\n")
	f.put("/proc/self/cgroup", own+"\n")
	f.put("/proc/swaps", "Filename Type Size Used Priority\n")
	return f
}

func (f *fake) path(name string) string { return filepath.Join(f.root, name) }

func (f *fake) put(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) get(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// v2 makes a cgroup2 folder with the given controllers available and enabled for its children.
func (f *fake) v2(dir, controllers, children, procs string) {
	f.put(dir+"/cgroup.controllers", controllers)
	f.put(dir+"/cgroup.subtree_control", children)
	f.put(dir+"/cgroup.procs", procs)
	f.put(dir+"/cgroup.type", "domain")
}

// v2root is v2 for the root of the machine, which has no type.
func (f *fake) v2root(dir, controllers, procs string) {
	f.v2(dir, controllers, "", procs)
	if err := os.Remove(f.path(dir + "/cgroup.type")); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) kernel() kernel {
	return kernel{mkdir: f.mkdir, rmdir: f.rmdir, access: f.access, write: f.write}
}

func (f *fake) discover() *Host {
	f.t.Helper()
	h, err := discover(Options{Root: f.root}, f.kernel())
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

func (f *fake) access(name string) error {
	if f.foreign[strings.TrimPrefix(name, f.root)] {
		return unix.EACCES
	}
	return unix.Access(name, unix.F_OK)
}

func (f *fake) mkdir(dir string) error {
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return err
	}
	name, parent := strings.TrimPrefix(dir, f.root), filepath.Dir(strings.TrimPrefix(dir, f.root))
	for file, text := range f.files(parent) {
		f.put(filepath.Join(name, file), text)
	}
	return nil
}

func (f *fake) files(parent string) map[string]string {
	v1 := map[string]map[string]string{
		"memory": {"memory.limit_in_bytes": "9223372036854771712", "memory.memsw.limit_in_bytes": "9223372036854771712", "memory.swappiness": "60",
			"memory.kmem.tcp.limit_in_bytes": "9223372036854771712"},
		"pids":    {"pids.max": "max", "pids.events": "max 3", "pids.current": "2"},
		"cpu":     {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"},
		"cpuacct": {"cpuacct.usage": "1500"},
	}
	v2 := map[string]map[string]string{
		"memory": {"memory.max": "max", "memory.swap.max": "max", "memory.current": "4096", "memory.peak": "8192", "memory.events": "low 0\noom 2\noom_kill 1"},
		"pids":   {"pids.max": "max", "pids.current": "2", "pids.events": "max 3"},
		"cpu":    {"cpu.max": "max 100000", "cpu.weight": "100"},
	}
	files := map[string]string{"cgroup.procs": ""}
	if !exists(f.path(parent + "/cgroup.controllers")) {
		files["tasks"] = ""
		for name, list := range v1 {
			if strings.Contains(","+strings.Split(parent, "/")[4]+",", ","+name+",") {
				maps.Copy(files, list)
			}
		}
		for file := range files {
			if !exists(f.path(filepath.Join(parent, file))) && strings.HasPrefix(file, "memory.memsw") {
				delete(files, file) // if the parent has no swap accounting, neither has the child
			}
		}
		return files
	}
	on := f.get(parent + "/cgroup.subtree_control")
	maps.Copy(files, map[string]string{"cgroup.controllers": on, "cgroup.subtree_control": "", "cgroup.threads": "", "cgroup.type": "domain",
		"cgroup.max.descendants": "max", "cgroup.max.depth": "max", "cgroup.events": "populated 0", "cgroup.kill": "", "cpu.stat": "usage_usec 7\nuser_usec 5"})
	for controller := range strings.FieldsSeq(on) {
		maps.Copy(files, v2[controller])
	}
	return files
}

func (f *fake) rmdir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unix.ENOENT
	}
	if f.busy[dir] > 0 {
		f.busy[dir]--
		return unix.EBUSY
	}
	if slices.ContainsFunc(entries, os.DirEntry.IsDir) || exists(dir+"/populated") {
		return unix.EBUSY
	}
	return os.RemoveAll(dir)
}

func (f *fake) write(name, value string) error {
	dir, file := filepath.Split(name)
	if err := f.refuse[strings.TrimPrefix(name, f.root)]; err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	old, err := read(dir, file)
	if err != nil {
		return err
	}
	switch file {
	case "cgroup.subtree_control":
		controller := strings.TrimPrefix(value, "+")
		offered, err := read(dir, "cgroup.controllers")
		if err != nil || !slices.Contains(strings.Fields(offered), controller) {
			return &os.PathError{Op: "write", Path: name, Err: unix.ENOENT}
		}
		if procs, err := read(dir, "cgroup.procs"); err == nil && procs != "" && exists(filepath.Join(dir, "cgroup.type")) {
			return &os.PathError{Op: "write", Path: name, Err: unix.EBUSY}
		}
		value = strings.TrimSpace(old + " " + controller)
	case "cgroup.procs": // from the parent, which is enough for these tests
		above := filepath.Join(filepath.Dir(filepath.Clean(dir)), file)
		text, err := os.ReadFile(above)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(strings.Fields(string(text)), func(pid string) bool { return pid == value })
		if err := os.WriteFile(above, []byte(strings.Join(left, "\n")), 0o644); err != nil {
			return err
		}
		value = strings.TrimSpace(old + "\n" + value)
	}
	return os.WriteFile(name, []byte(value), 0o644)
}

// mountLine is a line of mountinfo.
func mountLine(kind, root, point, options, controllers string) string {
	return fmt.Sprintf("31 23 0:28 %s %s %s - %s %s %s", root, point, options, kind, kind, "rw,"+controllers)
}
