package service

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/logbook"
)

// telling is what the log of a run says of it, which is ahead of its record.
type telling struct {
	phase belljar.Phase // the last that it names; "" for none
	begun bool          // its command has been started
	moved bool          // it has left the queue, or may have
	kept  int64         // bytes of output
	cut   string        // why output is missing, "" if none is
	end   belljar.Frame // the end event; of no type if there is none
}

// audit reads a log that nobody writes to.
func audit(ctx context.Context, log logbook.Log) (telling, error) {
	var a telling
	last := log.Last()
	if last == 0 {
		return a, nil
	}
	for f, err := range log.Read(ctx, 1) {
		if err != nil {
			return a, err
		}
		a.add(f)
		if f.Seq >= last {
			return a, nil
		}
	}
	a.moved = true // it is sealed, or damaged
	return a, nil
}

func (a *telling) add(f belljar.Frame) {
	switch {
	case f.Type == belljar.FrameHeartbeat:
		return
	case f.Step != "":
	case f.Type == belljar.FrameStdout, f.Type == belljar.FrameStderr:
		a.kept += int64(len(f.Output))
		a.begun = true
	case f.Type == belljar.FrameTruncated:
		a.cut = f.Reason
	case f.Event == belljar.EventStart:
		a.begun = true
	case f.Event == belljar.EventEnd:
		a.end = f
	case f.Event == belljar.EventPhase:
		phase, _ := f.Data["phase"].(string)
		a.phase = belljar.Phase(phase)
		if a.phase == belljar.PhaseQueued {
			return
		}
	}
	a.moved = true
}

// over reports whether the run came to its end.
func (a telling) over() bool { return isEnd(a.end) }

// transcript goes on where the log stops; heard is as in there.
func (a telling) transcript(log logbook.Log, limit int64, heard func()) *transcript {
	return &transcript{
		log: log, room: max(limit-a.kept, 0), kept: a.kept, heard: heard,
		cut: a.cut != "", reason: a.cut, marked: a.cut != "",
	}
}
