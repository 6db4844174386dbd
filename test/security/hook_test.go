//go:build linux

package security

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belljar/belljar"
)

// taken is the prefix of hooks that take a budget, of which one sandbox takes everything.
const taken = "takes-"

// hook prepares the host for an attack and returns how to verify it afterwards.
type hook func(*testing.T, *trial) func(outcome)

func hooks() map[string]hook {
	return map[string]hook{
		"agentenv":  agentEnv,
		"artifacts": artifacts,
		"bait":      bait,
		"clients":   clients,
		"boot":      bootID,
		"blank":     blank,
		"brokered":  brokered,
		"disk":      disk,
		"elsewhere": elsewhere,
		"engine":    engineSocket,
		"flushes":   flushes,
		"half":      half,
		"listener":  listener,
		"narrowed":  narrowed,
		"neighbour": neighbour,
		"network":   network,
		"nodes":     nodes,

		"repository": repository,

		"responsive": responsive,
		"swapping":   swapping,

		"secret":           secret,
		"secret-snapshots": snapshots,
		"secret-neighbour": secretNeighbour,

		"network-empty":     networkEmpty,
		"network-neighbour": networkNeighbour,
	}
}

// listener serves TCP on the loopback, an abstract and a named unix socket. No sandbox may connect.
func listener(t *testing.T, tr *trial) func(outcome) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := tcp.Addr().(*net.TCPAddr).Port
	path := fmt.Sprintf("/tmp/belljar-bait-%d.sock", port)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // left by a killed process
		t.Fatal(err)
	}
	listeners := []net.Listener{tcp}
	t.Cleanup(func() {
		for _, l := range listeners {
			l.Close()
		}
	})
	for _, name := range []string{fmt.Sprintf("@belljar-bait-%d", port), path} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	var busy sync.WaitGroup
	for _, l := range listeners {
		busy.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				busy.Go(func() {
					if answered(c) == insideWord {
						calls.Add(1)
					}
				})
			}
		})
		// Control: it answers the host.
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, insideWord); err != nil {
			t.Fatal(err)
		}
		if hello, err := io.ReadAll(c); string(hello) != "hello\n" {
			t.Fatalf("control: %q, %v", hello, err)
		}
		c.Close()
	}
	tr.flags = append(tr.flags, "--env", fmt.Sprintf("LANE_PORT=%d", port))
	return func(outcome) {
		for _, l := range listeners {
			l.Close()
		}
		busy.Wait()
		if n := calls.Load() - int64(len(listeners)); n != 0 {
			t.Errorf("the host's listeners were reached %d times", n)
		}
	}
}

// insideWord is the probe's message when it connects. Other programs on this machine may connect to the same port.
const insideWord = "inside"

// answered answers a connection and returns the received message.
func answered(c net.Conn) string {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // another program may send nothing
	word := make([]byte, len(insideWord))
	_, _ = io.ReadFull(c, word) // a shorter message is another one
	_, _ = io.WriteString(c, "hello\n")
	return string(word)
}

// bait puts a token into files of the host and into belljar's own environment. No sandbox may print it.
func bait(t *testing.T, tr *trial) func(outcome) {
	token := "bait-" + rand.Text()
	places := []string{tr.dir, tr.lane.home, "/tmp", "/var/tmp"}
	if os.Geteuid() == 0 {
		places = append(places, "/root", "/home", "/var/lib", "/opt", "/mnt", "/srv", "/run", "/dev/shm")
	}
	planted := 0
	for _, place := range places {
		path := filepath.Join(place, "belljar-bait-"+rand.Text())
		if err := os.WriteFile(path, []byte(token), 0o644); err != nil {
			continue // not every host has all places
		}
		planted++
		t.Cleanup(func() { os.Remove(path) })
	}
	if planted < 4 {
		t.Errorf("control: only %d baits", planted)
	}
	tr.env = append(tr.env, "SANDBOX_API_KEY="+token, "AWS_SECRET_ACCESS_KEY="+token, "BELLJAR_BAIT="+token)
	return func(got outcome) {
		if strings.Contains(got.Stdout+got.Stderr, token) {
			t.Error("the token came out")
		}
		if strings.Contains(got.Stdout, tr.dir) {
			t.Error("a path of the host came out")
		}
	}
}

// neighbour keeps another sandbox alive, with a file and a process that must stay invisible.
func neighbour(t *testing.T, tr *trial) func(outcome) {
	other := tr.lane.trial(t)
	end := other.hold("mkdir belljar-bait && echo secret >belljar-bait/belljar-bait; echo secret >/tmp/belljar-bait; echo secret >/dev/shm/belljar-bait")
	return func(outcome) { end() }
}

// disk checks that nothing is written to a disk of the host. An ordinary user's agent may have no other place.
func disk(t *testing.T, tr *trial) func(outcome) {
	most := int64(4 << 20)
	if tr.lane.uid != 0 {
		agent, err := os.Stat(built.Agent)
		if err != nil {
			t.Fatal(err)
		}
		most += agent.Size()
	}
	return func(outcome) {
		if tr.account.Blocks > most/512 {
			t.Errorf("%d blocks were written to disks, more than %d", tr.account.Blocks, most/512)
		}
	}
}

// flushes checks that the disks of the host were not flushed as often as the probe has tried in each way. Other programs flush them, too.
func flushes(t *testing.T, _ *trial) func(outcome) {
	const most = 30_000
	count := func() (sum int) {
		paths, _ := filepath.Glob("/sys/block/*/stat")
		for _, path := range paths {
			text, _ := os.ReadFile(path) // the disk may have gone
			if fields := strings.Fields(string(text)); len(fields) > 15 {
				n, _ := strconv.Atoi(fields[15])
				sum += n
			}
		}
		return sum
	}
	before := count()
	return func(outcome) {
		if n := count() - before; n >= most {
			t.Errorf("the disks of the host were flushed %d times", n)
		}
	}
}

// half checks that a run has used no more than half a processor, its limit.
func half(t *testing.T, tr *trial) func(outcome) {
	return func(got outcome) {
		if tr.lane.runtime == "gvisor" {
			// This lane's kernel counts a thread as running even while the host pauses all of it, so its figure proves
			// nothing on a busy machine. internal/linux/cgroup tests the quota; here, the host must still respond.
			return
		}
		used := got.ResourceUsage.CPUTimeSec
		if used == nil || got.StartedAt == nil || got.FinishedAt == nil {
			t.Errorf("control: no figures: %+v", got.ResourceUsage)
			return
		}
		// The sandbox existed shortly before its program.
		const before = 1.0
		if took := got.FinishedAt.Sub(*got.StartedAt).Seconds(); *used > took/2+before {
			t.Errorf("%v seconds of a processor in %v, the limit is half", *used, took)
		}
	}
}

// responsive regularly starts a program on the host during the attack.
func responsive(t *testing.T, _ *trial) func(outcome) {
	ctx, cancel := context.WithCancel(t.Context())
	type tally struct {
		started int
		slowest time.Duration
		err     error
	}
	result := make(chan tally, 1)
	go func() {
		var sum tally
		pace := time.NewTicker(50 * time.Millisecond) // without it the loop would use a whole processor
		defer pace.Stop()
		for ; ctx.Err() == nil && sum.err == nil; <-pace.C {
			start := time.Now()
			sum.err = exec.Command("/bin/true").Run()
			sum.slowest = max(sum.slowest, time.Since(start))
			sum.started++
		}
		result <- sum
	}()
	return func(outcome) {
		cancel()
		sum := <-result
		if sum.err != nil {
			t.Errorf("the host could not start a program: %v", sum.err)
		}
		if sum.slowest > time.Minute {
			t.Errorf("starting a program on the host took %v", sum.slowest)
		}
		t.Logf("the host started %d programs meanwhile, the slowest in %v", sum.started, sum.slowest)
	}
}

// artifacts captures the attack's files and checks that all of them are its own.
func artifacts(t *testing.T, tr *trial) func(outcome) {
	token := "bait-" + rand.Text()
	secret := filepath.Join(tr.dir, "bait")
	if err := os.WriteFile(secret, []byte(token), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(tr.dir, "out")
	tr.flags = append(tr.flags, "--out", out, "--env", "BAIT="+secret)
	return func(got outcome) {
		var total int64
		honest := false
		err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if !d.Type().IsRegular() {
				t.Errorf("artifact %s is a %v", path, d.Type())
				return nil
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			total += int64(len(raw))
			for _, theirs := range []string{token, "root:x:0:", "root:*:", "GOMAXPROCS=2"} {
				if bytes.Contains(raw, []byte(theirs)) {
					t.Errorf("artifact %s holds %q", path, theirs)
				}
			}
			honest = honest || filepath.Base(path) == "plain" && string(raw) == "honest\n"
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if !honest {
			t.Errorf("control: the honest artifact is not there: %+v", got.Artifacts)
		}
		if most := int64(belljar.DefaultLimits().ArtifactMB) << 20; total > most {
			t.Errorf("artifacts of %d bytes, the cap is %d", total, most)
		}
	}
}

// hold starts a sandbox that runs prepare and then waits. It returns after prepare; end ends the sandbox and checks
// it.
func (tr *trial) hold(prepare string) (end func()) {
	_, end = tr.held(prepare)
	return end
}

// held is hold, and also returns the process.
func (tr *trial) held(prepare string) (p *process, end func()) {
	t := tr.t
	t.Helper()
	stdin, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	lines, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p = tr.start(t.Context(), slices.Concat([]string{"run", "--quiet"}, tr.where(), tr.flags, []string{"--", "sh", "-c", prepare + "; echo ready; read -r line; exit 0", "belljar-bait"}), stdin, stdout, &tr.messages)
	stdin.Close()
	stdout.Close()
	output := bufio.NewReader(lines)
	end = func() {
		t.Helper()
		feed.Close()
		io.Copy(io.Discard, output)
		lines.Close()
		if err := p.wait(); err != nil {
			t.Errorf("neighbour: %v\n%s", err, tr.messages.String())
		}
		for _, s := range tr.account.Survivors {
			t.Errorf("process of the neighbour left: %s", s)
		}
	}
	if line, err := output.ReadString('\n'); line != "ready\n" {
		end()
		t.Fatalf("the neighbour printed %q: %v %s", line, err, tr.messages.String())
	}
	return p, end
}
