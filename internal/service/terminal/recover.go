package terminal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/fault"
)

// IsTerminal reports whether a command is a terminal, by its id.
func IsTerminal(execID string) bool { return strings.HasPrefix(execID, execPrefix) }

// Recover reattaches to the terminals that a previous process left in a session, among the commands that its agent knows. Each
// continues without a client: its history is the output that the agent still has, and its reattach window begins now. A terminal
// that cannot be recovered is ended. Recover stops at the maximum of a session: a program that has taken over its agent can name
// any number.
func (s *Terminals) Recover(ctx context.Context, x Session, execs []wire.ExecInfo) {
	tried, most := 0, s.opts.Limits.PerSession
	for _, info := range execs {
		id, ok := strings.CutPrefix(info.ID, execPrefix)
		if !ok || !belljar.ValidID(id) || s.table.get(id) != nil {
			continue
		}
		if tried++; most >= 0 && tried > most+keptEnded {
			s.opts.Log.Warn("agent names more terminals than a session has", "session_id", x.Session().ID)
			return
		}
		if err := s.recover(ctx, x, id, info); err != nil {
			s.opts.Log.Warn("terminal could not be resumed", "terminal_id", id, "session_id", x.Session().ID, "err", err)
			_ = x.Box().Agent.Kill(ctx, info.ID, wire.Kill{End: true}) // it has ended, or its session will end it
		}
	}
}

func (s *Terminals) recover(ctx context.Context, x Session, id string, info wire.ExecInfo) error {
	var note note
	if len(info.Note) > wire.MaxNote {
		return fmt.Errorf("its note has %d bytes", len(info.Note))
	}
	if err := json.Unmarshal([]byte(info.Note), &note); err != nil {
		return err
	}
	state := belljar.Terminal{
		ID: id, Name: note.Name, Command: note.Command, Shared: note.Shared, CreatedAt: note.CreatedAt, Cols: 80, Rows: 24,
	}
	if info.PTY != nil {
		state.Cols, state.Rows = int(info.PTY.Cols), int(info.PTY.Rows)
	}
	proc, err := x.Box().Agent.Attach(ctx, info.ID, info.Acked)
	if err != nil {
		return err
	}
	t := s.make(x, state)
	if proc.Started().From > 0 { // the agent has a full history
		t.opening.within = min(cutWithin, t.history.most)
	}
	s.table.adopt(t)
	if !s.opts.Work.Do(func() { t.run(proc, t.owner) }) {
		proc.Close()
		s.table.leave(t)
		return fault.ShuttingDown()
	}
	return nil
}
