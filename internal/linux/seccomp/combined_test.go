//go:build linux

package seccomp

import (
	"encoding/json"
	"slices"
	"testing"

	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// The combined program returns the same as the two stacked ones: the stricter action, and of two errors that of the filter
// installed last.
func TestCombined(t *testing.T) {
	for _, shared := range []bool{false, true} {
		o := Options{Arch: "amd64", Kernel: Kernel{6, 0}, SharedUID: shared}
		both, err := Sandbox(o)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := Combined(o)
		if err != nil {
			t.Fatal(err)
		}
		agent, exec, one := newMachine(t, both.Agent), newMachine(t, both.Exec), newMachine(t, whole)
		for number := range uint32(600) {
			for _, audit := range []uint32{auditAMD64, auditARM64} {
				for v := range uint64(40) {
					d := data{audit: audit, number: number, args: [6]uint64{v, v % 7, v % 3, v}}
					want := agent.run(t, d)
					if mine := exec.run(t, d); mine != allow && (want == allow || mine == kill) {
						want = mine
					}
					if got := one.run(t, d); got != want {
						t.Fatalf("shared %v, %+v: %#x, want %#x", shared, d, got, want)
					}
				}
			}
		}
	}
}

// The profile for engines allows every call that the Agent filter allows, and no other, except for conditions on arguments.
func TestProfile(t *testing.T) {
	o := Options{Kernel: Kernel{6, 0}, SharedUID: true}
	text, err := Profile(o)
	if err != nil {
		t.Fatal(err)
	}
	var p profile.Seccomp
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != specs.ActErrno || len(p.ArchMap) != 2 || len(p.ArchMap[0].SubArches) != 0 {
		t.Errorf("default %s, architectures %+v", p.DefaultAction, p.ArchMap)
	}
	allowed := map[string]bool{}
	for _, s := range p.Syscalls {
		if s.Action != specs.ActAllow {
			t.Errorf("%v is %s", s.Names, s.Action)
		}
		for _, name := range s.Names {
			allowed[name] = true
		}
	}
	for _, name := range denied {
		if allowed[name] {
			t.Errorf("%s is allowed", name)
		}
	}
	for _, name := range []string{"ptrace", "process_vm_readv", "rt_sigqueueinfo", "modify_ldt", "unshare", "mount", "bpf", "keyctl"} {
		if allowed[name] {
			t.Errorf("%s is allowed", name)
		}
	}
	for _, name := range []string{"read", "execve", "clone", "clone3", "socket", "socketpair", "seccomp", "prctl", "prlimit64", "openat2", "pidfd_open"} {
		if !allowed[name] {
			t.Errorf("%s is not allowed", name)
		}
	}
	again, err := Profile(o)
	if err != nil || !slices.Equal(again, text) {
		t.Errorf("not the same twice: %v", err)
	}
}
