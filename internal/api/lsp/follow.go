package lsp

import (
	"context"
	"fmt"
	gosync "sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/trace"
)

// run is a run that the server follows, or has followed.
type run struct {
	*plan
	service belljar.Service
	id      string
	token   string                  // of its progress; "" for none
	quit    context.CancelFunc      // cancels the start
	leave   context.CancelCauseFunc // ends the following
	phase   belljar.Phase           // the last known phase
	isAway  bool                    // its server does not answer
	started belljar.Run
	files   texts
	places  *trace.Resolver // without artifacts before the run has ended
	out     [2]collected    // stdout, stderr
	done    chan struct{}

	typing gosync.Mutex
	stdin  belljar.Stdin // nil until the first input
	over   bool          // it accepts no more input

	// Set before done is closed.
	final     belljar.Run
	err       error  // why the run could not be followed to its end
	elsewhere string // the place of its failure in the sandbox, if no mark has it
}

// mostRuns limits the runs that are remembered.
const mostRuns = 100

// remember keeps a run for commands that name it. The caller holds the mutex.
func (s *Server) remember(r *run) {
	s.runs[r.id] = r
	s.order = append(s.order, r.id)
	s.reporter.desk.newest[r.target()] = r.id
	if len(s.order) > mostRuns {
		delete(s.runs, s.order[0])
		s.order = s.order[1:]
	}
	if r.folder != nil {
		args := r.args
		args.Wait = false
		r.folder.last = &args
	}
}

// runNote is the notification belljar/run.
type runNote struct {
	RunID    string         `json:"run_id"`
	Folder   string         `json:"folder,omitempty"`
	Target   string         `json:"target,omitempty"` // the URI of the file that was run
	Phase    belljar.Phase  `json:"phase"`
	ExitCode *int           `json:"exit_code,omitempty"`
	Reason   belljar.Reason `json:"reason_code,omitempty"`
	// Message describes how the run ended or, before its end, why it cannot be followed.
	Message string `json:"message,omitempty"`
	Lost    bool   `json:"lost,omitempty"` // the run is no longer followed, and its phase is the last known one
	WebURL  string `json:"web_url,omitempty"`
}

// tellRun reports the state of a run.
func (s *reporter) tellRun(r *run, now belljar.Run, lost bool) {
	if !s.desk.options.Notifications {
		return
	}
	note := runNote{
		RunID: r.id, Lost: lost, Target: r.args.URI, Phase: now.Phase, ExitCode: now.ExitCode, Reason: now.ReasonCode, Message: now.Message, WebURL: s.desk.webURL(r.id),
	}
	if r.folder != nil {
		note.Folder = r.folder.uri
	}
	s.desk.notify("belljar/run", note)
}

// begin begins the run's progress display, if the editor supports it.
func (s *reporter) begin(ctx context.Context, r *run) {
	if !s.desk.client.Window.WorkDoneProgress {
		return
	}
	s.desk.mu.Lock()
	s.desk.tokens++
	token := fmt.Sprintf("belljar-run-%d", s.desk.tokens)
	s.desk.mu.Unlock()
	if err := s.desk.ask(ctx, "window/workDoneProgress/create", map[string]string{"token": token}, nil); err != nil {
		return // the editor will not show it
	}
	r.token = token
	s.desk.mu.Lock()
	s.desk.begun[token] = r
	s.desk.mu.Unlock()
	s.progress(r, "begin", "preparing")
}

func (s *reporter) progress(r *run, kind, message string) {
	if r.token == "" {
		return
	}
	if kind == "end" {
		s.desk.mu.Lock()
		delete(s.desk.begun, r.token)
		s.desk.mu.Unlock()
	}
	value := progressValue{Kind: kind, Message: message, Cancellable: kind != "end"}
	if kind == "begin" {
		value.Title = "Belljar: " + r.label()
	}
	s.desk.notify("$/progress", progressParams{Token: r.token, Value: value})
}

// follow forwards a run's output until it ends, and then shows its failure.
func (s *Server) follow(ctx context.Context, r *run) {
	defer close(r.done)
	defer s.reporter.desk.forget(r.plan)
	defer func() { r.out, r.places, r.files = [2]collected{}, nil, texts{} }() // the run is remembered for a long time
	r.phase = r.started.Phase
	s.reporter.tellRun(r, r.started, false)
	ctx = s.o.onRetry(ctx, func(err error) { s.reporter.away(r, err) })
	r.places = trace.NewResolver(r.files, trace.Options{Cwd: r.spec.Cwd})
	pump := &pump{reporter: s.reporter, run: r}
	for frame, err := range r.service.Runs().Frames(ctx, r.id, 1) {
		if err != nil {
			r.err = err
			break
		}
		if r.isAway {
			r.isAway = false
			s.reporter.stands(r)
		}
		switch {
		case frame.Type == belljar.FrameStdout:
			r.out[0].add(frame.Output)
			pump.add(0, frame.Output, frame.Seq)
		case frame.Type == belljar.FrameStderr:
			r.out[1].add(frame.Output)
			pump.add(1, frame.Output, frame.Seq)
		case frame.Type == belljar.FrameEvent && frame.Event == belljar.EventPhase:
			phase, _ := frame.Data["phase"].(string)
			if now := belljar.Phase(phase); !now.Terminal() {
				r.phase = now
				s.reporter.stands(r)
			}
		}
	}
	pump.end()
	r.typing.Lock()
	r.over = true
	if r.stdin != nil {
		_ = r.stdin.Close() // the run has ended
	}
	r.typing.Unlock()
	if r.err == nil {
		r.final, r.err = r.service.Runs().Get(ctx, r.id)
	}
	switch {
	case s.reporter.desk.ctx.Err() != nil:
		r.err = context.Canceled // the editor ended
		return
	case ctx.Err() != nil:
		r.err = context.Cause(ctx)
	}
	if r.err != nil {
		s.reporter.lost(r)
		return
	}
	r.places = trace.NewResolver(r.files, trace.Options{Cwd: r.spec.Cwd, Artifacts: &captured{ctx: ctx, from: r.service.Artifacts(), run: r.id}})
	found := s.reporter.diagnose(r)
	summary := r.summary()
	s.reporter.tellRun(r, r.final, false)
	s.reporter.progress(r, "end", summary)
	s.reporter.desk.replace(r, found)
	if r.args.URI != "" {
		s.reporter.desk.mark(r)
	}
	if !s.reporter.desk.options.Notifications {
		s.reporter.desk.background(func(ctx context.Context) { s.offer(ctx, r, summary) })
	}
}

// lost reports that a run cannot be followed. Its outcome is unknown.
func (s *reporter) lost(r *run) {
	message := "the run cannot be followed any further: " + words(r.err)
	s.progress(r, "end", message)
	s.tellRun(r, belljar.Run{Phase: r.phase, Message: message}, true)
	s.desk.tell(messageError, "Belljar: "+message)
}

// stands reports the phase of a run that continues.
func (s *reporter) stands(r *run) {
	s.tellRun(r, belljar.Run{Phase: r.phase}, false)
	s.progress(r, "report", string(r.phase))
}

// away reports that the server does not answer, once per outage.
func (s *reporter) away(r *run, err error) {
	if r.isAway {
		return
	}
	r.isAway = true
	message := s.desk.server + " does not answer, and is asked again: " + words(err)
	s.progress(r, "report", message)
	if r.phase != "" { // else the run has not started yet
		s.tellRun(r, belljar.Run{Phase: r.phase, Message: message}, false)
	}
	s.desk.tell(messageWarning, "Belljar: "+r.label()+": "+message)
}

// summary describes how a run ended.
func (r *run) summary() string {
	text := r.label() + " "
	switch {
	case r.final.Phase == belljar.PhaseTimedOut:
		text += "timed out"
	case r.final.Phase == belljar.PhaseKilled && r.final.ReasonCode == belljar.ReasonCanceledByUser:
		text += "was cancelled"
	case r.final.ExitCode != nil:
		text += fmt.Sprintf("exited with status %d", *r.final.ExitCode)
	default:
		text += "did not run"
	}
	if ms, ok := r.final.Took(); ok {
		text += fmt.Sprintf(" after %.1f s", float64(ms)/1000)
	}
	if r.final.Message != "" && r.final.Phase != belljar.PhaseCompleted && r.final.ReasonCode != belljar.ReasonNonZeroExit {
		return text + ": " + r.final.Message
	}
	return text + r.elsewhere
}

// offer shows an editor without a panel how a run ended, and offers the next actions.
func (s *Server) offer(ctx context.Context, r *run, summary string) {
	const again, list, open = "Run again", "Show artifacts", "Open in Belljar"
	p := messageParams{Type: messageInfo, Message: "Belljar: " + summary, Actions: []messageAction{{again}}}
	if r.final.Phase != belljar.PhaseCompleted {
		p.Type = messageWarning
	}
	if left, err := r.service.Artifacts().List(ctx, r.id); err == nil && len(left) > 0 {
		p.Actions = append(p.Actions, messageAction{list})
	}
	if s.reporter.desk.webURL(r.id) != "" {
		p.Actions = append(p.Actions, messageAction{open})
	}
	var chosen *messageAction
	if err := s.reporter.desk.ask(ctx, "window/showMessageRequest", p, &chosen); err != nil || chosen == nil {
		return
	}
	var err error
	switch chosen.Title {
	case again:
		var p *plan
		if p, err = s.plan(r.args); err == nil {
			_, err = s.start(ctx, p)
		}
	case list:
		_, err = s.openArtifacts(ctx, runArg{r.id})
	case open:
		_, err = s.openRun(ctx, runArg{r.id})
	}
	if err != nil {
		s.reporter.desk.tell(messageError, "Belljar: "+words(err))
	}
}

// collected keeps the part of a stream that is searched for failures: its beginning and its end.
type collected struct {
	head, tail []byte
}

const (
	keepHead = 64 << 10
	keepTail = 1 << 20
)

func (c *collected) add(b []byte) {
	n := min(len(b), keepHead-len(c.head))
	c.head = append(c.head, b[:n]...)
	c.tail = append(c.tail, b[n:]...)
	if len(c.tail) > 2*keepTail {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keepTail:]...)
	}
}

func (c *collected) text() string {
	return string(c.head) + string(c.tail[max(len(c.tail)-keepTail, 0):])
}
