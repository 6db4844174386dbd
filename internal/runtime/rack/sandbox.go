//go:build linux

package rack

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/belljar/belljar/internal/linux/jar"
	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/internal/runtime"
)

// Sandbox is the part of a living sandbox that all runtimes have in common.
type Sandbox struct {
	*jar.Jar
	Born runtime.Spec // the spec it was made for, until it is claimed; zero if attached

	Exit runtime.Exit  // valid once it has ended
	Last runtime.Usage // valid once it has ended
}

// Wait implements [runtime.Sandbox].
func (s *Sandbox) Wait(ctx context.Context) (runtime.Exit, error) {
	if err := s.Await(ctx); err != nil {
		return runtime.Exit{}, err
	}
	return s.Exit, nil
}

// Claimed marks a blank as claimed and returns the spec that it was made for. It refuses a spec of another kind,
// and the blank stays unclaimed.
func (s *Sandbox) Claimed(spec runtime.Spec) (born runtime.Spec, err error) {
	born = s.Born
	born.ID, born.Lease = "", 0
	if !reflect.DeepEqual(spec.Blank(), born) {
		return born, errors.New("it was made for something else")
	}
	s.Born = runtime.Spec{}
	return born, nil
}

// User returns the user of programs.
func User(root runtime.Root) rootfs.User {
	return rootfs.User{UID: root.UID, GID: root.GID}.Fill()
}

// CheckLayers refuses packages that programs could not load: without an error of ours, a library that cannot be mapped is an error deep in a
// program, or kills it. A saved workspace is mostly read.
func CheckLayers(layers []runtime.Layer) error {
	for _, l := range layers {
		if l.Name != runtime.SnapshotLayer && rootfs.NoExec(l.Dir) {
			return &runtime.StepError{
				Step: jar.StepImage, Err: fmt.Errorf("the packages cannot be used: %s is on a file system mounted noexec", l.Dir),
				Hint: "remount it with exec, or set SANDBOX_DATA to a folder on another file system",
			}
		}
	}
	return nil
}

// Sizes of a sandbox's own memory file systems.
const (
	RunBytes = 16 << 20
	ShmBytes = 64 << 20
)
