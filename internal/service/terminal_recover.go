package service

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/fault"
)

// isTerminal reports whether a command that an agent knows is a terminal's.
func isTerminal(execID string) bool { return strings.HasPrefix(execID, terminalExec) }

// recoverTerminals takes up the terminals of a session that a former process left, among the commands that its agent
// knows. Each goes on where nobody watches: its history is what the agent still has of it, and its reattach window begins
// now. One that cannot be taken up is ended.
func (s *Service) recoverTerminals(ctx context.Context, x *session, j *box.Box, execs []wire.ExecInfo) {
	for _, info := range execs {
		id, ok := strings.CutPrefix(info.ID, terminalExec)
		if !ok || s.terminals.get(id) != nil {
			continue
		}
		if err := s.recoverTerminal(ctx, x, j, id, info); err != nil {
			s.log.Warn("terminal could not be taken up", "terminal_id", id, "session_id", x.id, "err", err)
			_ = j.Agent.Kill(ctx, info.ID, wire.Kill{End: true}) // it has ended, or its session will
		}
	}
}

func (s *Service) recoverTerminal(ctx context.Context, x *session, j *box.Box, id string, info wire.ExecInfo) error {
	var note terminalNote
	if !belljar.ValidID(id) {
		return noTerminal(id)
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
	proc, err := j.Agent.Attach(ctx, info.ID, info.Acked)
	if err != nil {
		return err
	}
	t := s.newTerminal(x, state)
	t.history.lost = proc.Started().From > 0
	s.terminals.adopt(t)
	if !s.work.Do(func() { t.run(j, proc) }) {
		proc.Close()
		s.terminals.leave(t)
		return fault.ShuttingDown()
	}
	return nil
}
