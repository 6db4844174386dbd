package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/store"
)

// Recover takes up what a former process left, and begins to sweep. Call it once, before the first request: sessions whose
// sandboxes live go on, and so do the runs whose commands do, which come to their own ends; runs that waited in the queue
// wait again; what cannot go on is put on record as lost, or as what its log says it became. Sandboxes that are nobody's
// are removed. Killed in the middle, it does the rest when it is called by the next process.
func (s *Service) Recover(ctx context.Context) error {
	s.node.Watch(s.work.Closing(), s.work.Go)
	rows, err := s.opts.Store.Runs().Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("read what is on record: %w", err)
	}
	// Sessions first: a run that belongs to one learns whether it is there.
	commands, err := s.recoverSessions(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.NodeID != s.opts.Node.ID || s.under(row.ID) != nil {
			continue // another daemon's
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.recoverRun(ctx, row)
	}
	s.endOrphanedCommands(commands)
	s.removeOrphans(ctx)
	s.sweepLater()
	s.reapLater()
	return nil
}

// recoverRun goes on with a run of a former process, or ends it. One that makes trouble keeps no other from being taken up.
// Where record and log differ the log is right: the record is behind by as much as [noteAfter], and what may have begun
// must not begin again.
func (s *Service) recoverRun(ctx context.Context, row store.Run) {
	log, err := s.openLog(row.ID)
	var a telling
	if err == nil {
		a, err = audit(ctx, log)
	}
	switch {
	case err != nil:
		s.log.Error("log of a former process cannot be used", "run_id", row.ID, "err", err)
		row.Warnings = append(row.Warnings, "its log cannot be read")
		s.recordLost(ctx, row, nil, a, errLost)
		return
	case a.over():
		err = errLost
	case row.Phase == belljar.PhaseQueued && row.Spec != nil && !a.moved:
		err = s.resume(ctx, row, log)
	default:
		err = s.reattachRun(ctx, row, log, a)
	}
	if err != nil {
		s.recordLost(ctx, row, log, a, err)
	}
}

// resume puts a run that was queued into the queue again. What is not allowed any more fails.
func (s *Service) resume(ctx context.Context, row store.Run, log logbook.Log) error {
	caller := belljar.Caller{ID: row.UserID, Role: belljar.RoleUser, Source: "recovery"}
	if len(row.Spec.AllowWeak) > 0 {
		caller.Role = belljar.RoleAdmin // or it would not have been queued
	}
	p, err := s.admitAgain(ctx, caller, belljar.RunRequest{RunSpec: *row.Spec}, row.ImageDigest)
	if err != nil {
		return err
	}
	quota, err := s.accounts.Quota(ctx, row.UserID)
	if err != nil {
		return err
	}
	r := s.newRun(caller, p, row.ID, row.CreatedAt)
	r.log = log
	if r.kept, err = s.accounts.AllowLog(ctx, r.owner, quota); err != nil {
		return err
	}
	if r.ticket, err = s.queue.Enter(r.owner, quota.ConcurrentRuns); err != nil {
		r.kept.Close()
		return err
	}
	if err := s.register(r); err != nil {
		r.kept.Close()
		r.ticket.Leave()
		return err
	}
	if !r.ticket.Waited() {
		if err := s.carrier.become(r, belljar.PhaseStarting); err != nil { // a queued run can start: never
			s.log.Error("run could not be started", "run_id", r.id, "err", err)
		}
	}
	s.launch(r)
	return nil
}

// recordLost ends a run that nobody carries any more: as its log says, if it came to its end there, else for the reason why. A
// nil log is one that cannot be used.
func (s *Service) recordLost(ctx context.Context, row store.Run, log logbook.Log, a telling, why error) {
	if row.SessionID == "" { // what it left in a session is a stray
		s.boxes.Remove(ctx, row.Runtime, row.ID)
	}
	end := a.end
	now := s.now()
	row.Spec, row.FinishedAt, row.EstimatedStartTime = nil, &now, nil
	switch {
	case log != nil && a.over():
		row.Warnings = append(row.Warnings, "belljar ended before it was on record what this run used and left")
		retell(&row.Run, end)
	case log == nil:
		lost(&row.Run, why)
		end.Seq = 1
	default:
		lost(&row.Run, why)
		end.Seq = s.carrier.endLog(row.ID, log, []belljar.Frame{errorFrame(row.Run), endFrame(row.Run, 0)})
	}
	row.LastSeq = end.Seq
	if log != nil {
		row.LogBytes = log.Size()
		s.carrier.seal(row.ID, log)
	}
	// What it left is not on record: nobody could find it.
	if err := s.opts.Blobs.Delete(ctx, row.UserID, row.ID); err != nil {
		s.log.Error("artifacts of a lost run could not be removed", "run_id", row.ID, "err", err)
	}
	s.accounts.LogAdded(row.UserID, row.LogBytes)
	if err := s.opts.Store.Runs().Finish(ctx, row); err != nil {
		s.log.Error("end of a lost run could not be put on record, trying on", "run_id", row.ID, "err", err)
		s.work.Go(func() { s.carrier.insist(row) })
	}
	s.opts.Events.Record(event.Event{
		Name: ended(row.Phase), Time: now, Caller: belljar.Caller{ID: row.UserID, Source: "recovery"}, Run: &row.Run, Runtime: row.Runtime,
		Component: component, Reason: string(row.ReasonCode),
	})
}

// lost makes a run one that failed because of why.
func lost(run *belljar.Run, why error) {
	run.Phase, run.ReasonCode, run.Message = belljar.PhaseFailed, belljar.ReasonNodeLost, why.Error()
	if errors.Is(why, errLost) {
		run.Hint = "send it again"
		return
	}
	run.Message = "belljar was restarted while the run was queued, and it cannot run any more: " + why.Error()
	run.Hint = belljar.HintOf(why)
	switch belljar.CodeOf(why) {
	case belljar.CodePolicyDenied:
		run.ReasonCode = belljar.ReasonPolicyDenied
	case belljar.CodeImageUnavailable:
		run.ReasonCode = belljar.ReasonImagePullFailed
	default:
		run.ReasonCode = belljar.ReasonProvisionFailed
	}
}

// retell makes a run what the end event of its log says.
func retell(run *belljar.Run, end belljar.Frame) {
	phase, _ := end.Data["phase"].(string)
	reason, _ := end.Data["reason_code"].(string)
	run.Phase, run.ReasonCode = belljar.Phase(phase), belljar.Reason(reason)
	if !run.Phase.Terminal() {
		lost(run, errLost) // it would be a fault of ours, and must not make two of it
	}
	switch code := end.Data["exit_code"].(type) {
	case float64:
		run.ExitCode = number(int(code))
	case int:
		run.ExitCode = number(code)
	}
}

// errorFrame says what went wrong on our side.
func errorFrame(run belljar.Run) belljar.Frame {
	data := map[string]any{"reason_code": string(run.ReasonCode), "message": run.Message}
	if run.Hint != "" {
		data["hint"] = run.Hint
	}
	return belljar.Frame{Type: belljar.FrameEvent, Event: belljar.EventError, Data: data}
}
