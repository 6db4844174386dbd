package runtimetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/internal/runtime"
)

// testLayers tests that a sandbox can read and execute its layers, and cannot change them. A runtime without layers refuses them.
func testLayers(t *testing.T, o Options) {
	r := o.New(t)
	caps, err := r.Probe(within(t))
	if err != nil {
		t.Fatal(err)
	}
	dirs := t.TempDir()
	var layers []runtime.Layer
	for _, name := range []string{"one", "two", runtime.SnapshotLayer} {
		dir := filepath.Join(dirs, name)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho "+name+"\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
		layers = append(layers, runtime.Layer{Name: name, Dir: dir})
	}
	if !caps.Layers {
		spec := o.spec()
		spec.Root.Layers = layers
		if _, err := r.Create(within(t), spec); stepOf(err) == "" {
			t.Errorf("a runtime without layers made a sandbox with some: %v", err)
		}
		return
	}
	j := create(t, o, r, func(s *runtime.Spec) { s.Root.Layers = layers })
	if got := j.must("cd " + runtime.LayersDir + "; one/tool; two/tool; ls; " + runtime.SnapshotDir + "/tool"); got != "one\ntwo\none\ntwo\nsnapshot" {
		t.Errorf("%q", got)
	}
	for _, attempt := range []string{
		"echo mine > one/tool", "touch one/new", "rm -f one/tool", "chmod 777 one/tool", "mv one three", "mkdir three", "rmdir two",
		"ln one/tool /tmp/tool", "touch /snapshot/new", "rm /snapshot/tool", "ln -s / one/root", "mount -o remount,rw one", "umount one",
	} {
		if got := j.run(j.sh("cd " + runtime.LayersDir + "; " + attempt)); got.exit.Code == 0 {
			t.Errorf("%s: allowed", attempt)
		}
	}
	if err := j.Destroy(j.ctx); err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		raw, err := os.ReadFile(filepath.Join(l.Dir, "tool"))
		entries, _ := os.ReadDir(l.Dir)
		if want := "#!/bin/sh\necho " + l.Name + "\n"; err != nil || string(raw) != want || len(entries) != 1 {
			t.Errorf("layer %s was changed: %q, %v, %v", l.Name, raw, entries, err)
		}
	}
}

// stepOf returns the step that failed, "" for none.
func stepOf(err error) string {
	var step *runtime.StepError
	if errors.As(err, &step) {
		return step.Step
	}
	return ""
}
