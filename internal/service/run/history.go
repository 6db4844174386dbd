package run

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// history is the content of a log from a previous process, which is ahead of the run's record.
type history struct {
	phase belljar.Phase // the last phase in the log; "" for none
	begun bool          // its command has started
	moved bool          // it has left the queue, or may have
	kept  int64         // bytes of output
	cut   string        // why output is missing, "" if all is there
	end   belljar.Frame // the end event; without a type if there is none
}

// readHistory reads a log to which no process writes.
func readHistory(ctx context.Context, log logbook.Log) (history, error) {
	var h history
	last := log.Last()
	if last == 0 {
		return h, nil
	}
	for f, err := range log.Read(ctx, 1) {
		if err != nil {
			return h, err
		}
		h.add(f)
		if f.Seq >= last {
			return h, nil
		}
	}
	h.moved = true // the log is sealed or damaged
	return h, nil
}

func (h *history) add(f belljar.Frame) {
	switch {
	case f.Type == belljar.FrameHeartbeat, f.Event == belljar.EventApproval:
		return
	case f.Step != "":
	case f.Type == belljar.FrameStdout, f.Type == belljar.FrameStderr, f.Type == belljar.FrameResult:
		h.kept += int64(len(f.Output))
		h.begun = true
	case f.Type == belljar.FrameTruncated:
		h.cut = f.Reason
	case f.Event == belljar.EventStart:
		h.begun = true
	case f.Event == belljar.EventEnd:
		h.end = f
	case f.Event == belljar.EventPhase:
		phase, _ := f.Data["phase"].(string)
		h.phase = belljar.Phase(phase)
		if h.phase == belljar.PhaseQueued {
			return
		}
	}
	h.moved = true
}

// over reports whether the run ended.
func (h history) over() bool { return isEnd(h.end) }

// transcript continues next at the end of the log.
func (h history) transcript(next *transcript, limit int64) *transcript {
	return &transcript{
		log: next.log, room: max(limit-h.kept, 0), kept: h.kept, onOutput: next.onOutput, onCut: next.onCut, hide: next.hide, allowed: next.allowed,
		cut: h.cut != "", reason: h.cut, marked: h.cut != "",
	}
}
