package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/interrupt"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// approvalCommands are belljar approval ….
type approvalCommands struct {
	LS      approvalList    `cmd:"" name:"ls" help:"List the requests that wait for an operator, and why."`
	Approve approvalApprove `cmd:"" help:"Let a request continue."`
	Deny    approvalDeny    `cmd:"" help:"End a request."`
}

// approvalList is belljar approval ls.
type approvalList struct {
	All   bool `help:"List those that were decided, too."`
	Limit int  `short:"n" default:"50" placeholder:"N" help:"At most that many (default 50, at most 200)."`
	Quiet bool `short:"q" help:"Print ids only."`
	JSON  bool `name:"json" help:"Print one JSON array."`
}

// Run lists approvals.
func (l *approvalList) Run(ctx context.Context, c *console) error {
	return c.remote(func(s belljar.Service) error {
		if l.Limit < 1 || l.Limit > belljar.MaxPage {
			return mistake.New("", "--limit: %d is not between 1 and %d", l.Limit, belljar.MaxPage)
		}
		q := belljar.ApprovalQuery{Limit: l.Limit, State: belljar.ApprovalPending}
		if l.All {
			q.State = ""
		}
		page, err := s.Admin().Approvals(ctx, q)
		if err != nil {
			return err
		}
		if page.HasMore {
			more := "--limit shows more"
			if l.Limit == belljar.MaxPage {
				more = "decide some to see more"
			}
			c.Note("%d of %d approvals; %s", len(page.Items), page.Total, more)
		}
		if l.Quiet && !l.JSON {
			var ids []string
			for _, a := range page.Items {
				ids = append(ids, a.ID)
			}
			return show.Lines(c.stdout, ids)
		}
		return show.List(c.stdout, l.JSON, page.Items, "ID KIND USER STATE AGE REASONS COMMAND", func(a belljar.Approval) []string {
			age := show.RoughDuration(time.Since(a.RequestedAt))
			return []string{a.ID, a.Kind, a.UserID, string(a.State), age, strings.Join(a.Reasons, ", "), requested(a)}
		})
	})
}

// requested returns the command of a request. If it is longer than what the server keeps, requested says so.
func requested(a belljar.Approval) string {
	command := show.Command(a.Command)
	if a.CommandTruncated {
		command += " [cut here: the server keeps 16 KiB]"
	}
	return command
}

// decisionFlags are the flags that approve and deny share.
type decisionFlags struct {
	ID   string `arg:"" name:"id" help:"The approval's id, as approval ls shows it, or the beginning of it."`
	Note string `empty:"" placeholder:"TEXT" help:"Message for the user who sent the request."`
	JSON bool   `name:"json" help:"Print the approval as one JSON object."`
}

type (
	approvalApprove struct {
		decisionFlags `embed:""`
	}
	approvalDeny struct {
		decisionFlags `embed:""`
	}
)

func (*approvalApprove) Help() string {
	return `The request continues as it was sent. If the server or the user's quota has no room for it, the command fails, and the
request still waits.

Examples:
  belljar approval ls
  belljar approval approve 01a1fe25-cb55 --note 'this once'`
}

func (*approvalDeny) Help() string {
	return `The run or session fails with policy_denied, and the user reads the note.

Examples:
  belljar approval deny 01a1fe25-cb55 --note 'use the CI machine'`
}

// Run approves a request.
func (a *approvalApprove) Run(ctx context.Context, c *console) error {
	return a.decide(ctx, c, belljar.DecisionApprove)
}

// Run denies a request.
func (a *approvalDeny) Run(ctx context.Context, c *console) error {
	return a.decide(ctx, c, belljar.DecisionDeny)
}

func (f *decisionFlags) decide(ctx context.Context, c *console, decision string) error {
	return c.remote(func(s belljar.Service) error {
		id, err := ident.Approval(ctx, s, f.ID)
		if err != nil {
			return err
		}
		decided, err := s.Admin().Decide(ctx, id, belljar.ApprovalDecision{Decision: decision, Note: f.Note})
		if err != nil {
			return err
		}
		if f.JSON {
			return show.JSON(c.stdout, decided)
		}
		return show.Lines(c.stdout, []string{decided.ID + " " + string(decided.State)})
	})
}

// noteApproval prints that a run waits for an operator, and the decision.
func (c *console) noteApproval(f belljar.Frame) {
	state, _ := f.Data["state"].(string)
	switch belljar.ApprovalState(state) {
	case belljar.ApprovalPending:
		c.Note("waiting for an operator's approval: %s", strings.Join(reasonsOf(f), ", "))
	case belljar.ApprovalApproved:
		by, _ := f.Data["decided_by"].(string)
		line := by + " approved it"
		if note, _ := f.Data["note"].(string); note != "" {
			line += ": " + note
		}
		c.Note("%s", line)
	}
}

func reasonsOf(f belljar.Frame) (reasons []string) {
	switch list := f.Data["reasons"].(type) {
	case []string:
		return list
	case []any:
		for _, r := range list {
			text, _ := r.(string)
			reasons = append(reasons, text)
		}
	}
	return reasons
}

// approved waits for an operator's approval of a session. A signal ends the wait, and with drop also the session.
func (c *console) approved(ctx context.Context, s belljar.Service, made belljar.Session, drop bool) (belljar.Session, error) {
	if a := made.Approval; a != nil && a.State == belljar.ApprovalPending {
		c.noteAsked(*a)
	}
	waiting, stopped := interrupt.Context(ctx)
	got, err := belljar.Approved(waiting, s.Sessions(), made)
	if err != nil && waiting.Err() != nil && drop {
		err = errors.Join(err, s.Sessions().Delete(context.WithoutCancel(ctx), made.ID))
	}
	return got, stopped(err)
}

// noteAsked prints that a session waits for an operator.
func (c *console) noteAsked(a belljar.Approval) {
	c.Note("session %s is waiting for an operator's approval: %s", a.ID, strings.Join(a.Reasons, ", "))
}
