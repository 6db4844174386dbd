package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/service/box"
)

// Bounds of a replay.
const (
	mostReplayed  = 1000    // pieces of code
	mostReplayedB = 4 << 20 // bytes of them
)

// Replay executes the earlier code of a context again, in the order in which it was executed and without its output, if the context has no
// interpreter. earlier yields runs of the session, oldest first. exec is the next command. It returns how many pieces of code were executed.
func (t *Table) Replay(ctx context.Context, b *box.Box, exec wire.Exec, name string, earlier func(yield func(belljar.Run, error) bool)) (n int, err error) {
	e, err := t.find(name)
	if err != nil {
		return 0, err
	}
	shells, err := agent.Shells(ctx, b.Agent)
	if err != nil {
		return 0, fmt.Errorf("ask for the interpreters: %w", err)
	}
	if slices.ContainsFunc(shells, func(s wire.ShellInfo) bool { return s.Name == prefix+name && s.Alive }) {
		return 0, nil
	}
	t.mu.Lock()
	since := e.since
	t.mu.Unlock()
	defer func() {
		var refused *belljar.Error // by cannotReplay
		t.mu.Lock()
		e.failed = err != nil && (n > 0 || e.failed || errors.As(err, &refused))
		t.mu.Unlock()
		if err != nil && n > 0 { // otherwise half of the variables would pass for all of them, also if the run was cancelled
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTime)
			err = errors.Join(err, agent.EndShell(ending, b.Agent, prefix+name))
			cancel()
		}
	}()
	var code []belljar.Run
	size := 0
	for run, err := range earlier {
		if err != nil {
			return 0, err
		}
		if !replays(run, e, since) {
			continue
		}
		if run.CommandTruncated {
			return 0, cannotReplay(run, "the record has only its beginning")
		}
		if size += len(run.Command[0]); size > mostReplayedB || len(code) == mostReplayed {
			return 0, cannotReplay(run, fmt.Sprintf("at most %d pieces of code and %d bytes are", mostReplayed, mostReplayedB))
		}
		code = append(code, run)
	}
	// An older run may have started later: it waited for an approval.
	slices.SortStableFunc(code, func(a, b belljar.Run) int { return a.StartedAt.Compare(*b.StartedAt) })
	exec.Stdin = false
	for n < len(code) {
		run := code[n]
		n++
		again := t.direct(exec, e, run.Command[0])
		again.Shell.Fresh = n == 1
		_, exit, err := execute(ctx, b, again)
		if err != nil {
			return n, fmt.Errorf("execute the code of run %s again: %w", run.ID, err)
		}
		if run.Phase == belljar.PhaseCompleted && exit.Code != 0 || exit.Shell == nil || exit.Shell.Replaced {
			return n, cannotReplay(run, fmt.Sprintf("this time it ended with status %d", exit.Code))
		}
	}
	return n, nil
}

// replays reports whether a run is code of the context that ended normally, so that its variables remained. If it is where its interpreter began,
// its state reports the loss of the one before.
func replays(run belljar.Run, e *entry, since time.Time) bool {
	return run.Context != nil && run.Context.Name == e.name && run.Context.Language == e.language && len(run.Command) == 1 && run.ExitCode != nil &&
		run.StartedAt != nil && !run.StartedAt.Before(since) &&
		(run.Phase == belljar.PhaseCompleted || run.ReasonCode == belljar.ReasonNonZeroExit) && (run.Context.State != belljar.ShellReplaced || run.StartedAt.Equal(since))
}

func cannotReplay(run belljar.Run, why string) error {
	return &belljar.Error{
		Code: belljar.CodeConflict, Message: fmt.Sprintf("the code of run %s cannot be executed again: %s", run.ID, why),
		Details: map[string]any{"run_id": run.ID}, Hint: "leave replay out, and repeat the necessary part of the earlier code",
	}
}
