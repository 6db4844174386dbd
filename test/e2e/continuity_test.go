//go:build linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/tier"
)

// episodeRounds is the number of kills during one set of runs.
const episodeRounds = 5

// burst is the number of lines printed together: more than an agent buffers without a server.
var burst = tier.Pick(200_000, 1_000_000)

// TestContinuity kills a server repeatedly while commands, in a session and alone, print numbered lines: slowly, in bursts, and in
// reply to input. They continue without a gap, and so do clients that follow the output.
func TestContinuity(t *testing.T) {
	t.Parallel()
	rounds := tier.Rounds(t, 1, 20)
	for _, l := range lanes() {
		t.Run(l.runtime, func(t *testing.T) {
			t.Parallel()
			continuity(t, l, rounds)
		})
	}
}

func continuity(t *testing.T, l lane, rounds int) {
	data := t.TempDir()
	args := append(l.open(t), "--set", "max_log_bytes=104857600", "--set", "cancel_grace_seconds=0.5")
	s := serve(t, data, args...)
	l.furnish(s)
	for round := 0; round < rounds && !t.Failed(); {
		e := begin(t, s, l.image)
		for range min(episodeRounds, rounds-round) {
			round++
			e.exercise(s)
			time.Sleep(rand.N(250 * time.Millisecond))
			s.kill()
			time.Sleep(rand.N(100 * time.Millisecond))
			s = serve(t, data, args...)
			e.resume(s)
		}
		e.end(s)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("the last server ended with %d\n%s", code, s.output)
	}
	nothingLeft(t, data)
}

// episode is a session, with runs, a shell and a terminal that outlive servers.
type episode struct {
	t                    *testing.T
	image                string
	session              string
	slow, bursts, spoken string // ids of runs
	terminal             string
	stirred              int    // number of bursts requested, words spoken and shell commands
	shell                string // id of the active shell command
	waited               []string
	seen                 []map[string]any // frames of slow, as its reader received them
	reader               sync.WaitGroup
	waiters              sync.WaitGroup
}

// begin makes a session and starts its runs.
func begin(t *testing.T, s *server, image string) *episode {
	t.Helper()
	e := &episode{t: t, image: image}
	status, session := s.ask(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.1", "base_image": image})
	if status/100 != 2 {
		t.Fatalf("make a session: %d %v", status, session)
	}
	e.session, _ = session["session_id"].(string)
	e.slow = e.start(s, e.inSession(`i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; [ $((i%7)) != 0 ] || echo seventh $i >&2; sleep 0.002; done; echo end $i; exit 3`))
	loud := e.inSession(fmt.Sprintf(`n=1; while [ ! -e stop ]; do if [ -e burst-$n ]; then seq 1 %d | sed "s/^/$n /"; n=$((n+1)); fi; sleep 0.01; done`, burst))
	loud["resources"] = map[string]any{"log_bytes": 100 << 20}
	e.bursts = e.start(s, loud)
	talk := oneShot(`while read word; do echo "got $word"; [ "$word" != stop ] || exit 7; done; echo cut off`)
	talk["base_image"] = image
	talk["spec_version"], talk["interactive"], talk["stdin_idle_timeout_sec"] = "1.1", true, longTime
	e.spoken = e.start(s, talk)
	e.inShell(s, "mkdir deep; cd deep; N=0; twice() { echo $(($1*2)); }; sleep 1000 & JOB=$!")
	terminal, err := s.client().Terminals().Open(t.Context(), e.session, belljar.TerminalSpec{Command: []string{"/bin/sh"}})
	if err != nil {
		t.Fatal(err)
	}
	e.terminal = terminal.ID
	e.types(s, "T=0; echo be''gun", "begun")
	e.read(s)
	return e
}

func (e *episode) inSession(line string) map[string]any {
	return map[string]any{"spec_version": "1.1", "session_id": e.session, "command": []string{"sh", "-c", line}, "timeout_sec": longTime}
}

// start starts a run and returns its id when it has begun.
func (e *episode) start(s *server, body map[string]any) string {
	e.t.Helper()
	run, ok := s.start("", body)
	if !ok {
		e.t.Fatalf("not started: %v", body)
	}
	id, _ := run["id"].(string)
	e.begun(s, id)
	return id
}

// exercise makes the runs do something, and a client wait for one.
func (e *episode) exercise(s *server) {
	e.t.Helper()
	e.stirred++
	label := fmt.Sprint("waited-", e.stirred)
	e.waited = append(e.waited, label)
	body := e.inSession("sleep 0.4; echo " + label)
	body["labels"] = map[string]string{"name": label}
	e.waiters.Go(func() { s.start("?wait=600s", body) }) // it fails if the server dies
	until(e.t, label+" is on record", func() bool { return e.find(s, label) != "" })
	e.begun(s, e.find(s, label))
	e.speak(s, fmt.Sprint("word", e.stirred))
	e.types(s, "T=$((T+1)); echo te''rm$T", fmt.Sprint("term", e.stirred))
	e.shell = e.start(s, map[string]any{"spec_version": "1.1", "session_id": e.session, "shell": map[string]any{
		"cmd": "sleep 0.3; N=$((N+1)); echo shell $N $(twice $N) ${PWD##*/}; kill -0 $JOB",
	}})
	e.put(s, fmt.Sprint("burst-", e.stirred))
}

// begun waits until a run has started: the server makes no promise about others.
func (e *episode) begun(s *server, id string) {
	e.t.Helper()
	until(e.t, id+" has begun", func() bool {
		run, wrong := s.run(id)
		return wrong == "" && run["started_at"] != nil
	})
}

// find returns the id of a run in the session, by its label.
func (e *episode) find(s *server, label string) string {
	e.t.Helper()
	_, list := s.ask(http.MethodGet, api+"/runs?limit=100&session_id="+e.session, nil)
	items, _ := list["items"].([]any)
	for _, item := range items {
		run, _ := item.(map[string]any)
		if labels, _ := run["labels"].(map[string]any); labels["name"] == label {
			id, _ := run["id"].(string)
			return id
		}
	}
	return ""
}

// put makes an empty file in the workspace.
func (e *episode) put(s *server, name string) {
	e.t.Helper()
	path := api + "/sessions/" + e.session + "/files?path=" + name
	if status, answer := s.ask(http.MethodPost, path, strings.NewReader(""), "Content-Type: application/octet-stream"); status != http.StatusOK {
		e.t.Errorf("make %s: %d %v", name, status, answer)
	}
}

// speak sends a word to the run spoken, and waits for its answer.
func (e *episode) speak(s *server, word string) {
	e.t.Helper()
	in, err := s.client().Runs().Stdin(e.t.Context(), e.spoken)
	if err != nil {
		e.t.Fatalf("speak %s: %v", word, err)
	}
	defer in.Close()
	if _, err := in.Write([]byte(word + "\n")); err != nil {
		e.t.Fatalf("speak %s: %v", word, err)
	}
	until(e.t, "an answer to "+word, func() bool {
		text, err := s.get(api + "/runs/" + e.spoken + "/logs")
		return err == nil && strings.Contains(text, "got "+word+"\n")
	})
}

// inShell runs a short command in the session's shell.
func (e *episode) inShell(s *server, cmd string) {
	e.t.Helper()
	status, answer := s.ask(http.MethodPost, api+"/sessions/"+e.session+"/shell", map[string]any{"cmd": cmd})
	if status != http.StatusOK || answer["exit_code"] != 0.0 {
		e.t.Fatalf("shell: %d %v", status, answer)
	}
}

// types types a line at the terminal, and waits for its output.
func (e *episode) types(s *server, line, answer string) {
	e.t.Helper()
	screen := s.watch(s.client(), e.terminal)
	defer screen.Close()
	screen.typed(line + "\r")
	screen.await(answer)
}

// read follows the slow run, until its server dies or it ends.
func (e *episode) read(s *server) {
	from := len(e.seen) + 1
	e.reader.Go(func() {
		frames, _ := s.frames(fmt.Sprintf("%s/runs/%s/logs?format=json&follow=true&from_seq=%d", api, e.slow, from), nil)
		e.seen = append(e.seen, frames...)
	})
}

// resume checks the session and its runs on the next server, and follows the slow run again.
func (e *episode) resume(s *server) {
	e.t.Helper()
	e.reader.Wait()
	e.waiters.Wait()
	e.read(s)
	if status, session := s.ask(http.MethodGet, api+"/sessions/"+e.session, nil); status != http.StatusOK || session["state"] != "active" {
		e.t.Errorf("the session: %d %v", status, session)
	}
	for _, id := range []string{e.slow, e.bursts, e.spoken} {
		if run, wrong := s.run(id); wrong != "" || run["phase"] != "running" {
			e.t.Errorf("run %s: %s %v", id, wrong, run)
		}
	}
	_, stdout, _ := e.result(s, e.shell, 0)
	e.same("the shell's command", strings.ReplaceAll(stdout, "\r", ""), fmt.Sprintf("shell %d %d deep\n", e.stirred, 2*e.stirred))
	e.types(s, "echo st''ill$T", fmt.Sprint("still", e.stirred))
}

// end ends the runs and compares every byte.
func (e *episode) end(s *server) {
	e.t.Helper()
	e.speak(s, "stop")
	e.put(s, "stop")
	e.reader.Wait()

	frames, stdout, stderr := e.result(s, e.slow, 3)
	last := strings.Count(stdout, "\n") - 1
	var wantOut, wantErr strings.Builder
	for i := 1; i <= last; i++ {
		fmt.Fprintf(&wantOut, "line %d\n", i)
		if i%7 == 0 {
			fmt.Fprintf(&wantErr, "seventh %d\n", i)
		}
	}
	fmt.Fprintf(&wantOut, "end %d\n", last)
	e.same("the slow run", stdout, wantOut.String())
	e.same("the slow run's stderr", stderr, wantErr.String())
	for i := range min(len(e.seen), len(frames)) {
		if !reflect.DeepEqual(e.seen[i], frames[i]) {
			e.t.Errorf("frame %d was seen as %v and is %v", i+1, e.seen[i], frames[i])
			break
		}
	}
	if len(e.seen) != len(frames) {
		e.t.Errorf("%d frames were seen, and %d are there", len(e.seen), len(frames))
	}

	_, stdout, _ = e.result(s, e.bursts, 0)
	var want strings.Builder
	for n := range e.stirred {
		for i := range burst {
			fmt.Fprintf(&want, "%d %d\n", n+1, i+1)
		}
	}
	// The last bursts may have been requested but not begun.
	if stdout == "" || stdout != want.String()[:min(len(stdout), want.Len())] || !strings.HasSuffix(stdout, fmt.Sprintf(" %d\n", burst)) {
		e.same("the bursts", stdout, want.String())
	}

	_, stdout, _ = e.result(s, e.spoken, 7)
	want.Reset()
	for n := range e.stirred {
		fmt.Fprintf(&want, "got word%d\n", n+1)
	}
	e.same("the one spoken to", stdout, want.String()+"got stop\n")
	for _, label := range e.waited {
		_, stdout, _ = e.result(s, e.find(s, label), 0)
		e.same(label, stdout, label+"\n")
	}
	if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+e.session, nil); status != http.StatusNoContent {
		e.t.Errorf("the session is not deleted: %d %v", status, answer)
	}
}

// result follows a run to its end, checks its exit status, and returns its log.
func (e *episode) result(s *server, id string, code float64) (frames []map[string]any, stdout, stderr string) {
	e.t.Helper()
	frames, err := s.frames(api+"/runs/"+id+"/logs?format=json&follow=true", nil)
	if err != nil {
		e.t.Fatal(err)
	}
	var out, errs strings.Builder
	for i, f := range frames {
		if f["seq"] != float64(i+1) {
			e.t.Fatalf("frame %d has seq %v", i+1, f["seq"])
		}
		text, _ := f["data"].(string)
		switch f["type"] {
		case "stdout":
			out.WriteString(text)
		case "stderr":
			errs.WriteString(text)
		case "truncated":
			e.t.Errorf("the log of run %s was cut: %v", id, f)
		}
	}
	run, wrong := s.run(id)
	want := belljar.PhaseCompleted
	if code != 0 {
		want = belljar.PhaseFailed
	}
	if wrong != "" || run["phase"] != string(want) || run["exit_code"] != code {
		e.t.Errorf("run %s: %s %v, want exit code %v", id, wrong, run, code)
	}
	return frames, out.String(), errs.String()
}

// same compares the output, and reports the first difference.
func (e *episode) same(what, got, want string) {
	e.t.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	e.t.Errorf("%s: %d bytes, want %d; they differ at %d: %.40q, want %.40q", what, len(got), len(want), at, got[at:], want[at:])
}
