//go:build linux

package security

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/linux/rootfs"
	"github.com/belljar/belljar/test/tier"
)

// takes keeps another sandbox alive that has taken all that it could of some of the probe's budgets. The host must still
// have enough: verify takes one of each there.
func takes(t *testing.T, tr *trial, budgets []string) func(outcome) {
	other := tr.lane.trial(t)
	other.flags = []string{"--workspace-exec", "--file", built.Probe + ":probe"}
	most := "120000"
	if tr.lane.runtime == "gvisor" {
		most = tier.Pick("2000", most) // its timers have no limit and are slow to make, and none of them is the host's
	}
	var script strings.Builder
	for _, budget := range budgets {
		fmt.Fprintf(&script, "mkfifo /tmp/took-%[1]s; ./probe take %[1]s %[2]s >/tmp/took-%[1]s & head -n 1 /tmp/took-%[1]s >&2; ", budget, most)
	}
	end := other.hold(strings.TrimSuffix(script.String(), "; "))
	return func(outcome) {
		for _, budget := range budgets {
			if err := oneMore(budget); err != nil {
				t.Errorf("the host has no more of %s: %v", budget, err)
			}
		}
		end()
		took := map[string]int{}
		for line := range strings.Lines(other.messages.String()) {
			var n int
			var budget string
			if _, err := fmt.Sscanf(line, "took %d of %s", &n, &budget); err == nil {
				took[strings.TrimSuffix(budget, ":")] = n
			}
		}
		for _, budget := range budgets {
			n, known := took[budget]
			optional := budget == "queues" && tr.lane.runtime == "native" // Landlock, if the kernel has it, denies them
			if !known || !optional && (n == 0) != slices.Contains(closed, budget) {
				t.Errorf("control: the neighbour took %d of %s\n%s", n, budget, other.messages.String())
			}
		}
	}
}

// closed are the budgets of which a program can take nothing. docs/security.md#kernel-resources lists the reasons.
var closed = []string{"aio", "keys", "labels"}

// oneMore takes one of a budget and gives it back, without a privilege that would allow more than other users get.
func oneMore(budget string) error {
	one, ok := map[string]func() error{
		"aio":     oneContext,
		"flight":  oneInFlight,
		"inotify": oneInotify,
		"keys":    oneKey,
		"labels":  oneLabel,
		"locked":  oneLocked,
		"pipes":   onePipe,
		"queues":  oneQueue,
		"signals": oneTimer,
		"watches": oneWatch,
	}[budget]
	if !ok {
		return errors.New("unknown")
	}
	runtime.LockOSThread() // privileges belong to the thread
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var own, none [2]unix.CapUserData
	if err := unix.Capget(&header, &own[0]); err != nil {
		return err
	}
	for i := range own {
		none[i].Permitted = own[i].Permitted
	}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return err
	}
	err := one()
	return errors.Join(err, unix.Capset(&header, &own[0]))
}

// bootID gives the attack the value that must stay secret.
func bootID(t *testing.T, tr *trial) func(outcome) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	tr.flags = append(tr.flags, "--env", "LANE_BOOT="+strings.TrimSpace(string(id)))
	return func(outcome) {}
}

// nodes gives the attack the inodes of the host's device nodes.
func nodes(t *testing.T, tr *trial) func(outcome) {
	var list []string
	for _, name := range rootfs.Devices() {
		var s unix.Stat_t
		if err := unix.Stat("/dev/"+name, &s); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d:%d", s.Dev, s.Ino))
	}
	tr.flags = append(tr.flags, "--env", "LANE_DEVICES="+strings.Join(list, " "))
	return func(outcome) {}
}
