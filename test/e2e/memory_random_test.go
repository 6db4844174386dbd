//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
)

// greedy is the percentage of its limit that a greedy program aims for. Calm programs stay below their limit.
const greedy = 300

// outcomes are the overshoots of greedy programs, as parts of the allowed one, and the ends of calm programs.
type outcomes struct {
	mu     sync.Mutex
	most   float64
	at     string
	counts map[int]int
	greedy int
	calm   int
	killed []int // seeds of calm programs
}

func (o *outcomes) over(seed, mb, heldKB int) {
	over := (float64(heldKB)/1024 - float64(mb)) / max(8, float64(mb)/20)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.greedy++
	if o.counts == nil {
		o.counts, o.most = map[int]int{}, over
	}
	bucket := -1
	if over > 0 {
		bucket = int(over * 4)
	}
	o.counts[bucket]++
	if over >= o.most {
		o.most, o.at = over, fmt.Sprintf("seed %d: %d KiB of %d MiB", seed, heldKB, mb)
	}
}

func (o *outcomes) stayed(seed int, killed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calm++
	if killed {
		o.killed = append(o.killed, seed)
	}
}

func (o *outcomes) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d greedy programs: the most was %.2f of the allowed overshoot (%s); %d never above the limit", o.greedy, o.most, o.at, o.counts[-1])
	for i := range 5 {
		fmt.Fprintf(&b, ", %d from %.2f on", o.counts[i], float64(i)/4)
	}
	fmt.Fprintf(&b, "; %d calm programs: %d killed %v", o.calm, len(o.killed), o.killed)
	return b.String()
}

// randomProgram runs the program with this seed, and judges it. Every other program is calm: it holds no more than calm
// percent of its limit.
func randomProgram(t *testing.T, s *server, seed, calm int, all *outcomes) {
	t.Helper()
	mb := 16 + rand.New(rand.NewPCG(uint64(seed), 16)).IntN(512-16+1)
	part := calm
	if seed%2 == 1 {
		part = greedy
	}
	got := within(t, s, mb, "random", fmt.Sprint(seed), fmt.Sprint(mb), fmt.Sprint(part))
	most, refused := 0, ""
	for line := range strings.Lines(got.Stdout) {
		var kb int
		if n, _ := fmt.Sscanf(line, "held %d", &kb); n == 1 {
			most = max(most, kb)
		}
		if strings.HasPrefix(line, "refused") {
			refused = line
		}
	}
	if most == 0 {
		t.Errorf("seed %d, %d MiB: it does not report its own end: %s %s\n%s", seed, mb, got.Phase, got.Message, got.Stderr)
		return
	}
	if allowed := mb<<10 + max(8<<10, mb<<10/20); most > allowed {
		t.Errorf("seed %d: it held %d KiB, its limit is %d MiB", seed, most, mb)
	}
	if part == greedy {
		all.over(seed, mb, most)
		return
	}
	whole := got.Phase == belljar.PhaseCompleted && got.ExitCode != nil && *got.ExitCode == 0 && strings.HasSuffix(got.Stdout, "done\n")
	ranOut := got.ReasonCode == belljar.ReasonOOMKilled
	all.stayed(seed, ranOut)
	switch {
	case ranOut:
		t.Logf("seed %d: it held at most %d KiB of %d MiB, and was killed", seed, most, mb)
	case !whole:
		t.Errorf("seed %d: it held at most %d KiB of %d MiB: %s %s: %s", seed, most, mb, got.Phase, got.ReasonCode, got.Message)
	}
	if refused != "" {
		t.Errorf("seed %d: it held at most %d KiB of %d MiB: %s", seed, most, mb, refused)
	}
}

// randomPrograms runs n programs, atOnce at a time, every other pair on a server. At most killed of the calm ones may be
// killed.
func randomPrograms(t *testing.T, n, atOnce, calm, killed int) {
	t.Helper()
	memoryIsHeld(t)
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	var all outcomes
	var done sync.WaitGroup
	seeds := make(chan int, n)
	for range atOnce {
		done.Go(func() {
			for seed := range seeds {
				on := s
				if seed/2%2 == 0 {
					on = nil
				}
				randomProgram(t, on, seed, calm, &all)
			}
		})
	}
	for seed := range n {
		seeds <- seed
	}
	close(seeds)
	done.Wait()
	t.Log(&all)
	if len(all.killed) > killed {
		t.Errorf("%d calm programs were killed, want at most %d: %v", len(all.killed), killed, all.killed)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, s.output)
	}
}

// TestMemoryRandom runs programs that allocate and free memory of all kinds, and files, at random. None may exceed its
// limit, and none below its limit is hindered. Here calm programs stay farther below it than in the soak: on a busy
// machine, a program that writes files at full speed close to its limit may be killed, as docs/specification.md explains.
func TestMemoryRandom(t *testing.T) { randomPrograms(t, 4, 2, 60, 0) }
