package docker_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/belljar/belljar/internal/runtime/docker"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/need"
)

// All containers are below the requested cgroup, and its limit holds. A kill by that limit does not count as one by the sandbox's
// own.
func TestCgroupParent(t *testing.T) {
	t.Parallel()
	engine := dockerd.Start(t)
	parent := name()
	dir, file := filepath.Join("/sys/fs/cgroup/memory", parent), "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Dir(dir)); err != nil {
		dir, file = filepath.Join("/sys/fs/cgroup", parent), "memory.max"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		need.Missing(t, "a cgroup: %v", err)
	}
	t.Cleanup(func() { // the engine made a cgroup in each hierarchy
		found, _ := filepath.Glob("/sys/fs/cgroup/*/" + parent) // the pattern is valid
		for _, path := range append(found, filepath.Join("/sys/fs/cgroup", parent)) {
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte("150M"), 0); err != nil {
		t.Fatal(err)
	}
	r := open(t, docker.Options{Host: engine.Host(), Installation: name(), CgroupParent: "/" + parent})
	box := create(t, r, detached(spec(engine.Busybox(t))))
	below, err := os.ReadDir(dir)
	if err != nil || !slices.ContainsFunc(below, os.DirEntry.IsDir) {
		t.Errorf("the container is not below it: %v", err)
	}
	_, exit := run(t, box, "head -c 300000000 /dev/zero | tail | wc -c")
	u, err := box.Usage(within(t, patience))
	if err != nil || u.OOMKills == nil || *u.OOMKills == 0 || u.LimitHits == nil || *u.LimitHits != 0 {
		t.Errorf("exit %+v, usage %+v, %v", exit, u, err)
	}
	if err := box.Destroy(within(t, patience)); err != nil {
		t.Error(err)
	}
}
