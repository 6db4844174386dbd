package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/logbook"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/outcome"
	"github.com/belljar/belljar/internal/service/placement"
	"github.com/belljar/belljar/internal/service/recovery"
	"github.com/belljar/belljar/internal/store"
)

// Recovery recovers runs. The recovery of sessions cleans up after them in sessions.
type Recovery struct{ runs *Runs }

var _ recovery.Part = Recovery{}

// Recovery returns the recovery of the runs. Recover their sessions first.
func (s *Runs) Recovery() Recovery { return Recovery{s} }

// former is a run of a previous process.
type former struct {
	row  store.Run
	log  logbook.Log // nil if it cannot be read
	past history
}

// sandbox returns the id of the run's sandbox.
func (f *former) sandbox() string { return cmp.Or(f.row.SessionID, f.row.ID) }

// Recover continues the runs of a previous process of this node, or records them as lost. Those that hold slots and memory come first:
// only then a queued run can know whether there is room for it.
func (s Recovery) Recover(ctx context.Context) error {
	rows, err := s.runs.runner.store.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("look for unfinished runs: %w", err)
	}
	var found []*former
	for _, row := range rows {
		if row.NodeID == s.runs.opts.NodeID && s.runs.Get(row.ID) == nil { // otherwise it is another server's
			found = append(found, &former{row: row})
		}
	}
	queued := make(map[*former]bool, len(found))
	var mu sync.Mutex
	recovery.ForEachIn(ctx, found, (*former).sandbox, func(agent context.Context, f *former, silent func()) {
		if ctx.Err() == nil && !s.recover(ctx, f, agent, silent) {
			mu.Lock()
			defer mu.Unlock()
			queued[f] = true
		}
	})
	for _, f := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if queued[f] {
			if err := s.requeue(ctx, f.row, f.log); err != nil {
				s.recordLost(ctx, f.row, f.log, f.past, err)
			}
		}
	}
	return ctx.Err()
}

// recover continues a run that has left the queue, or ends it. It returns false for one that is still queued. If record and log differ,
// the log is right: the record lags by up to [noteAfter], and a command that may have begun must not begin again. agent and silent are as
// for reattach.
func (s Recovery) recover(ctx context.Context, f *former, agent context.Context, silent func()) bool {
	log, err := s.openLog(f.row.ID)
	if err == nil {
		f.past, err = readHistory(ctx, log)
	}
	if err != nil {
		s.runs.runner.log.Error("log of a former process cannot be read", "run_id", f.row.ID, "err", err)
		f.row.Warnings = append(f.row.Warnings, "its log cannot be read")
		s.recordLost(ctx, f.row, nil, f.past, errLost)
		return true
	}
	f.log = log
	switch {
	case f.past.over():
		err = errLost
	case f.row.Phase == belljar.PhaseQueued && f.row.Spec != nil && !f.past.moved:
		return false
	default:
		err = s.reattach(agent, f, silent)
	}
	if err != nil {
		s.recordLost(ctx, f.row, log, f.past, err)
	}
	return true
}

// openLog opens the log of a run of a previous process, or creates one.
func (s Recovery) openLog(id string) (logbook.Log, error) {
	log, err := s.runs.runner.logs.Open(id)
	if errors.Is(err, logbook.ErrNotFound) {
		return s.runs.runner.logs.Create(id)
	}
	return log, err
}

// requeue queues a queued run again. It repeats the admission: a run that is no longer permitted fails.
func (s Recovery) requeue(ctx context.Context, row store.Run, log logbook.Log) (err error) {
	caller := s.runs.runner.rules.Recovered(recovery.Caller(row.UserID, row.Operator), admission.RequestOfRun(*row.Spec), row.Isolation, row.PolicyHash == s.runs.opts.PolicyHash)
	spec := *row.Spec
	var broker *placement.Broker
	if spec.Secrets, broker, err = s.runs.opts.Secrets.Open(row.ID, row.Secrets); err != nil {
		return fmt.Errorf("its secrets on record: %w", err)
	}
	secrets := spec.Secrets
	spec.Secrets = maps.Clone(secrets)
	for name, given := range secrets {
		given.From = "" // its value is known, and must not change
		spec.Secrets[name] = given
	}
	p, err := s.runs.admitter.admitWith(ctx, caller, belljar.RunRequest{RunSpec: spec}, row.ImageDigest)
	if err != nil {
		return err
	}
	if err := s.runs.openContext(p); err != nil {
		return err
	}
	defer func() {
		if err != nil && p.undoContext != nil {
			p.undoContext()
		}
	}()
	p.request.Secrets = secrets
	if p.sealed = row.Secrets; broker != nil {
		p.Broker = broker // the one on record
	}
	quota, err := s.runs.runner.accounts.Quota(ctx, row.UserID)
	if err != nil {
		return err
	}
	asks, err := recoverApproval(s.runs, row, p)
	if err != nil {
		return err
	}
	r := s.runs.create(caller, p, row.ID, row.CreatedAt)
	r.log, r.state.Approval = log, row.Approval
	r.releaseBudget = s.runs.opts.Budget.Recharge(r.owner, &p.request.RunSpec)
	r.ticket = s.runs.queueOf(p).Park() // it was accepted: a queue that is full now takes it, too
	defer func() {
		if err != nil {
			r.kept.Close()
			r.withdrawApproval(true)
			r.ticket.Leave()
			r.releaseRequest()
			s.runs.runner.memory.Drop(r.id)
		}
	}()
	if p.session == nil && asks == nil { // its user's quota permitted this memory when it was first queued
		if err := s.runs.runner.memory.Claim(r.id, r.owner, &p.Placement, belljar.Quota{}); err != nil {
			return err
		}
	}
	if r.kept, err = s.runs.runner.accounts.AllowLog(ctx, r.owner, quota); err != nil {
		return err
	}
	if asks == nil {
		r.ticket.Join(r.owner, quota.ConcurrentRuns)
	} else if err := requeueAsked(ctx, s.runs, r, *asks); err != nil {
		return err
	}
	if err := s.runs.register(r); err != nil {
		return err
	}
	s.runs.launch(r)
	return nil
}

// recordLost ends a run that does not continue: with the end in its log, if there is one, else with the reason why. A nil log is one that
// cannot be read.
func (s Recovery) recordLost(ctx context.Context, row store.Run, log logbook.Log, past history, why error) {
	if row.SessionID == "" { // in a session it leaves only an orphaned command
		s.runs.runner.boxes.Remove(ctx, row.Runtime, row.ID)
	}
	end := past.end
	now := s.runs.runner.now()
	row.Spec, row.Secrets, row.Limits, row.FinishedAt, row.EstimatedStartTime = nil, nil, nil, &now, nil
	row.Approval = s.runs.opts.Desk.Lost(ctx, row.Approval)
	switch {
	case log != nil && past.over():
		row.Warnings = append(row.Warnings, "belljar ended before it was on record what this run used and left")
		endAsLogged(&row.Run, end)
	case log == nil:
		endAsLost(&row.Run, why)
		end.Seq = 1
	default:
		endAsLost(&row.Run, why)
		end.Seq = s.runs.runner.endLog(row.ID, log, []belljar.Frame{outcome.ErrorFrame(row.Run), outcome.EndFrame(row.Run, 0)})
	}
	row.LastSeq = end.Seq
	if log != nil {
		row.LogBytes = log.Size()
		s.runs.runner.seal(row.ID, log)
	}
	// Its artifacts are not on record, so that no request could find them.
	if err := s.runs.runner.blobs.Delete(ctx, row.UserID, row.ID); err != nil {
		s.runs.runner.log.Error("artifacts of a lost run cannot be removed", "run_id", row.ID, "err", err)
	}
	s.runs.runner.accounts.LogAdded(row.UserID, row.LogBytes)
	if err := s.runs.runner.store.Finish(ctx, row); err != nil {
		s.runs.runner.log.Error("end of a lost run cannot be recorded; retrying", "run_id", row.ID, "err", err)
		s.runs.runner.work.Go(func() {
			s.runs.runner.retry.Do(func() error { return s.runs.runner.store.Finish(context.Background(), row) }, "run_id", row.ID)
		})
	}
	s.runs.runner.record(event.Event{
		Name: endEvent(row.Phase), Time: now, Caller: belljar.Caller{ID: row.UserID, Source: "recovery"}, Run: &row.Run, Runtime: row.Runtime,
		Reason: string(row.ReasonCode),
	})
}

// endAsLost makes a run fail with the reason why.
func endAsLost(run *belljar.Run, why error) {
	run.Phase, run.ReasonCode, run.Message = belljar.PhaseFailed, belljar.ReasonNodeLost, why.Error()
	if errors.Is(why, errLost) {
		run.Hint = "send it again, with a new Idempotency-Key if it had one: the same key returns this run"
		return
	}
	run.Message = "belljar was restarted while the run was queued, and the run can no longer start: " + why.Error()
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

// endAsLogged ends a run with the end event of its log.
func endAsLogged(run *belljar.Run, end belljar.Frame) {
	phase, _ := end.Data["phase"].(string)
	reason, _ := end.Data["reason_code"].(string)
	run.Phase, run.ReasonCode = belljar.Phase(phase), belljar.Reason(reason)
	if !run.Phase.Terminal() {
		endAsLost(run, errLost) // an end event without an outcome: a defect
	}
	if run.ReasonCode == belljar.ReasonCanceledByUser {
		run.Message = string(run.ReasonCode) // the event has no message, and clients expect this one
	}
	switch code := end.Data["exit_code"].(type) {
	case float64:
		run.ExitCode = new(int(code))
	case int:
		run.ExitCode = &code
	}
}
