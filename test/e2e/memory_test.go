//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/need"
)

// memoryRun is the output of belljar run --json.
type memoryRun struct {
	belljar.Run
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// within runs the probe in a sandbox with a memory limit of mb MiB, on the server if there is one.
func within(t *testing.T, s *server, mb int, args ...string) memoryRun {
	t.Helper()
	flags := []string{"run", "--json", "--quiet", "--memory", fmt.Sprint(mb), "--workspace-exec", "--timeout", "5m", "--file", built.Probe + ":probe", "--", "./probe"}
	cmd := exec.CommandContext(t.Context(), built.Belljar, append(flags, args...)...)
	if s != nil {
		cmd.Env = s.env()
	}
	out, err := cmd.Output()
	var got memoryRun
	if json.Unmarshal(out, &got) != nil || got.Phase == "" {
		t.Fatalf("belljar run: %v\n%s", err, out)
	}
	return got
}

// memoryIsHeld skips a test if this host cannot limit the memory of native sandboxes.
func memoryIsHeld(t *testing.T) {
	t.Helper()
	need.Root(t)
	if got := within(t, nil, 64, "keep", "8", "true"); !strings.HasPrefix(got.LimitsEnforced["memory"], "cgroup") {
		need.Missing(t, "a limit on memory by a cgroup: %v", got.LimitsEnforced)
	}
}

// The legal programs hold most of their memory all the time.
const (
	legalMB = 256
	// fillAll fills all places concurrently, as fast as it can, and then deletes everything.
	fillAll = `for place in /workspace /tmp /dev/shm; do
	dd if=/dev/zero of=$place/ballast bs=256k 2>/dev/null &
done
wait
for place in /workspace /tmp /dev/shm; do
	dd if=/dev/zero of=$place/more bs=256k count=4 2>&1 | grep -q 'No space left' || { echo "$place is not full"; exit 1; }
done
rm /workspace/ballast /tmp/ballast /dev/shm/ballast /workspace/more /tmp/more /dev/shm/more`
	smallFiles = `for n in 1 2 3; do
	mkdir /workspace/$n && cd /workspace/$n || exit
	i=0; while [ $i -lt 2000 ]; do echo $i >$i || exit; i=$((i+1)); done
	[ $n = 1 ] || rm -r /workspace/$((n-1)) || exit
done`
	// readImage reads that many bytes from that many large files. Finding all files takes longer than reading a hundred.
	readImage = `find /usr -xdev -type f -size +2000k 2>/dev/null | head -n %d | tr '\n' '\0' | xargs -0 cat 2>/dev/null | head -c %d | wc -c`
)

// legal runs a shell script next to a program that holds a part of its memory, and reports an unexpected outcome.
func legal(t *testing.T, s *server, mb, percent int, script string) (stdout string) {
	t.Helper()
	got := within(t, s, mb, "keep", fmt.Sprint(mb*percent/100), "sh", "-c", script)
	if got.Phase != belljar.PhaseCompleted || got.ExitCode == nil || *got.ExitCode != 0 {
		t.Errorf("%d %% of %d MiB held: %s %s, exit %v: %s\n%s%s", percent, mb, got.Phase, got.ReasonCode, got.ExitCode, got.Message, got.Stdout, got.Stderr)
	}
	return got.Stdout
}

// TestMemoryLegal runs programs that stay within their limit while they use files normally. TestSoakMemoryLegal runs them closer
// to the limit. A reader needs memory for the kernel's read-ahead, up to 8 MiB for each file, which cannot be reclaimed while it
// is in progress.
func TestMemoryLegal(t *testing.T) {
	memoryIsHeld(t)
	for _, c := range []struct {
		name        string
		mb, percent int
		script      string
	}{
		{"many small files", 64, 75, smallFiles},
		{"reads more than its limit", 128, 50, fmt.Sprintf(readImage, 120, 200<<20)},
	} {
		t.Run(c.name, func(t *testing.T) { legal(t, nil, c.mb, c.percent, c.script) })
	}
	t.Run("two at once", func(t *testing.T) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { legal(t, nil, legalMB, 90, fillAll) })
		}
		both.Wait()
	})
}
