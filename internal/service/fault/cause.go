package fault

import (
	"errors"
	"fmt"

	"github.com/belljar/belljar"
)

// Reasons to stop a run or a session early, as causes of contexts.
var (
	ErrCanceled       = errors.New("canceled by user")
	ErrShutdown       = errors.New("belljar is shutting down")
	ErrStartupTimeout = errors.New("startup timeout")
	ErrQueueTTL       = errors.New("waited too long for its turn")
	// ErrDetached means that the runs of a session continue, for the next process to reattach to.
	ErrDetached = errors.New("left to the next belljar")
	// ErrOverdue means that a command did not end at its agent's deadline.
	ErrOverdue = errors.New("overdue")
	// ErrDefect means that this process failed to handle what a run's sandbox sent.
	ErrDefect = errors.New("belljar failed to handle the run's output")
)

// Canceled returns [ErrCanceled] with the caller that canceled.
func Canceled(by belljar.Caller) error { return &canceled{by} }

type canceled struct{ by belljar.Caller }

func (e *canceled) Error() string { return ErrCanceled.Error() }
func (e *canceled) Unwrap() error { return ErrCanceled }

// Actor returns the caller for the event of an end: the one that canceled, else the owner.
func Actor(why error, owner belljar.Caller) belljar.Caller {
	if e := (*canceled)(nil); errors.As(why, &e) {
		return e.by
	}
	return owner
}

// ApprovalError is the cause of a run or session that was not approved.
type ApprovalError struct{ Approval belljar.Approval }

func (e *ApprovalError) Error() string {
	a := e.Approval
	switch {
	case a.State == belljar.ApprovalExpired:
		return "no operator approved it within " + a.ExpiresAt.Sub(a.RequestedAt).String()
	case a.Note != "":
		return fmt.Sprintf("%s denied it: %s", a.DecidedBy, a.Note)
	}
	return a.DecidedBy + " denied it"
}

// ExpiredError is the cause of a run whose session expired.
type ExpiredError struct{ Why string }

func (e *ExpiredError) Error() string { return "its session has expired: " + e.Why }
