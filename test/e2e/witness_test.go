//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// witness records the responses of the servers of one data folder.
type witness struct {
	mu       sync.Mutex
	promises []*promise
	sessions []string
	kept     int // number of promises that the last server has already been checked for
	lost     int
}

// add records promises. Callers add only complete ones: a server may die during a response.
func (w *witness) add(p *promise) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.promises = append(w.promises, p)
}

// hold checks a server against the promises since the last time.
func (w *witness) hold(s *server, when string) {
	w.check(s, when, w.promises[w.kept:], w.sessions[w.lost:])
	w.kept, w.lost = len(w.promises), len(w.sessions)
}

// holdAll checks a server against all promises.
func (w *witness) holdAll(s *server) {
	s.t.Logf("%d runs, %d sessions", len(w.promises), len(w.sessions))
	w.check(s, "all", w.promises, w.sessions[w.lost:])
	w.lost = len(w.sessions)
}

func (w *witness) check(s *server, when string, promises []*promise, sessions []string) {
	s.t.Helper()
	next := make(chan *promise)
	var checkers sync.WaitGroup
	for range 8 {
		checkers.Go(func() {
			for p := range next {
				if wrong := p.check(s); wrong != "" {
					s.t.Errorf("%s: run %s, which prints %.60q: %s", when, p.id, p.output, wrong)
				}
			}
		})
	}
	for _, p := range promises {
		next <- p
	}
	close(next)
	checkers.Wait()
	for _, id := range sessions {
		s.checkSession(when, id)
	}
}

// checkSession checks that an answered session lives, with its files, whatever happened to the server that made it.
// Then it deletes the session.
func (s *server) checkSession(when, id string) {
	s.t.Helper()
	status, session := s.ask(http.MethodGet, api+"/sessions/"+id, nil)
	if status != http.StatusOK || session["state"] != "active" {
		s.t.Errorf("%s: session %s: %d %v", when, id, status, session)
		return
	}
	status, run, err := s.try(http.MethodPost, api+"/runs?wait=600s", map[string]any{
		"spec_version": "1.0", "session_id": id, "command": []string{"sh", "-c", "[ ! -e name ] || cat name"},
	})
	if err != nil || status != http.StatusOK || run["phase"] != "completed" {
		s.t.Errorf("%s: a run in session %s: %d %v, %v", when, id, status, run, err)
	}
	if status, answer := s.ask(http.MethodDelete, api+"/sessions/"+id, nil); status != http.StatusNoContent {
		s.t.Errorf("%s: session %s is not deleted: %d %v", when, id, status, answer)
	}
}

// most limits how often a client repeats its operation: the next server must finish the queue.
const most = 12

// harass keeps a server busy with all its operations, until it dies or all are done.
func (w *witness) harass(s *server, round int) *sync.WaitGroup {
	var crowd sync.WaitGroup
	for i, client := range []func(*server, string) bool{
		w.wait, w.wait, w.sleep, w.sleep, w.repeat, w.capture, w.cancel, w.follow, w.live,
	} {
		crowd.Go(func() {
			for n := 0; n < most && client(s, fmt.Sprintf("round %d client %d run %d", round, i, n)); n++ {
			}
		})
	}
	return &crowd
}

// start starts a run; ok is false if the server has died, or has no room.
func (s *server) start(query string, body map[string]any, header ...string) (run map[string]any, ok bool) {
	status, run, err := s.try(http.MethodPost, api+"/runs"+query, body, header...)
	switch {
	case err != nil:
		return nil, false
	case status == http.StatusOK, status == http.StatusAccepted:
		return run, true
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable, status == http.StatusConflict:
		return nil, false
	}
	s.t.Errorf("start: %d %v", status, run)
	return nil, false
}

// wait waits for a short run.
func (w *witness) wait(s *server, marker string) bool {
	run, ok := s.start("?wait=600s", oneShot("echo "+marker))
	if ok {
		id, _ := run["id"].(string)
		w.add(&promise{id: id, output: marker + "\n", ended: run["phase"] == "completed"})
	}
	return ok
}

// sleep starts a run that is active when the server is killed.
func (w *witness) sleep(s *server, marker string) bool {
	run, ok := s.start("", oneShot("echo "+marker+"; exec sleep 0.3"))
	if ok {
		id, _ := run["id"].(string)
		w.add(&promise{id: id, output: marker + "\n"})
	}
	return false
}

// repeat starts a run with a key.
func (w *witness) repeat(s *server, marker string) bool {
	body := oneShot("echo " + marker)
	run, ok := s.start("", body, "Idempotency-Key: "+marker)
	if ok {
		id, _ := run["id"].(string)
		w.add(&promise{id: id, output: marker + "\n", key: marker, body: body})
	}
	return ok
}

// capture waits for a run that leaves artifacts.
func (w *witness) capture(s *server, marker string) bool {
	body := oneShot("mkdir out; cd out; yes " + marker + " | head -c 200000 | tee b >a; echo " + marker)
	body["capture_patterns"] = []string{"out/*"}
	run, ok := s.start("?wait=600s", body)
	if ok {
		id, _ := run["id"].(string)
		content := strings.Repeat(marker+"\n", 200000/len(marker)+1)[:200000]
		w.add(&promise{id: id, output: marker + "\n", ended: run["phase"] == "completed", artifact: content})
	}
	return ok
}

// cancel starts a run and cancels it.
func (w *witness) cancel(s *server, marker string) bool {
	run, ok := s.start("", oneShot("echo "+marker+"; exec sleep 1"))
	if !ok {
		return false
	}
	id, _ := run["id"].(string)
	status, answer, err := s.try(http.MethodPost, api+"/runs/"+id+"/cancel", nil)
	if err == nil && status/100 != 2 && status != http.StatusServiceUnavailable {
		s.t.Errorf("cancel: %d %v", status, answer)
	}
	inTime := answer["status"] == "canceling" && answer["phase"] != "completed" // on a slow machine it may have ended
	w.add(&promise{id: id, output: marker + "\n", asked: true, canceled: err == nil && status/100 == 2 && inTime})
	return err == nil
}

// follow starts a run and follows its log.
func (w *witness) follow(s *server, marker string) bool {
	run, ok := s.start("", oneShot("for i in 1 2 3 4 5 6 7 8 9; do echo "+marker+"; sleep 0.01; done"))
	if !ok {
		return false
	}
	id, _ := run["id"].(string)
	p := &promise{id: id, output: strings.Repeat(marker+"\n", 9)}
	frames, err := s.frames(api+"/runs/"+id+"/logs?format=json&follow=true", func(f map[string]any) {
		p.ended = p.ended || f["event"] == "end"
	})
	p.seen = frames
	w.add(p)
	return err == nil
}

// live makes a session, writes a file and runs commands in it.
func (w *witness) live(s *server, marker string) bool {
	status, session, err := s.try(http.MethodPost, api+"/sessions", map[string]any{"spec_version": "1.0", "base_image": "host"})
	if err != nil || status/100 != 2 {
		if err == nil && status != http.StatusServiceUnavailable {
			s.t.Errorf("make a session: %d %v", status, session)
		}
		return false
	}
	id, _ := session["session_id"].(string)
	w.mu.Lock()
	w.sessions = append(w.sessions, id)
	w.mu.Unlock()
	for {
		status, answer, err := s.try(http.MethodPost, api+"/sessions/"+id+"/files?path=name", strings.NewReader(marker+"\n"),
			"Content-Type: application/octet-stream")
		if err != nil {
			return false
		}
		if status != http.StatusOK {
			if status != http.StatusConflict && status != http.StatusServiceUnavailable {
				s.t.Errorf("upload: %d %v", status, answer)
			}
			return false
		}
		run, ok := s.start("?wait=600s", map[string]any{
			"spec_version": "1.0", "session_id": id, "command": []string{"cat", "name"},
		})
		if !ok {
			return false
		}
		runID, _ := run["id"].(string)
		w.add(&promise{id: runID, output: marker + "\n", ended: run["phase"] == "completed"})
	}
}
