package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/cli/transfer"
)

// Exit statuses as in timeout(1) and the shell (docs/cli.md).
const (
	exitTimeout       = 124
	exitNotExecutable = 126
	exitNotFound      = 127
	exitOOM           = 137
)

// conclude reports how a run ended and returns the exit status. early are the warnings already printed.
func conclude(c *console, run belljar.Run, signal syscall.Signal, early ...string) int {
	more := "gives it more"
	if run.SessionID != "" {
		more = "of the session gives all its runs more"
	}
	if place, ok := run.Failure.Place(); ok && len(run.Failure.Frames) >= longTrace && (run.ReasonCode == belljar.ReasonNonZeroExit || run.ReasonCode == "") {
		c.Hint("it failed at %s", place) // before the warnings, which may give the reason
	}
	for _, warning := range run.Warnings {
		if !slices.Contains(early, warning) {
			c.Print("%s", warning)
		}
	}
	status := exitFailure
	if run.ExitCode != nil || run.ReasonCode == belljar.ReasonCompileFailed {
		status = run.ExitStatus()
	}
	if signal != 0 && run.Phase == belljar.PhaseKilled {
		return 128 + int(signal)
	}
	if run.Context.Lost() {
		c.Note("the interpreter of context %s was replaced: its variables are gone", run.Context.Name)
	}
	if run.Context != nil && run.Context.Replayed > 0 {
		c.Note("context %s has a new interpreter, in which %d pieces of earlier code were executed again", run.Context.Name, run.Context.Replayed)
	}
	if run.Shell != nil && run.Shell.State == belljar.ShellReplaced {
		c.Note("the shell has ended; the next command gets a new one, in %s", cmp.Or(run.Shell.Cwd, belljar.WorkspaceDir))
	}
	if run.Build != nil && run.Build.OutputTruncated {
		c.Print("what the compiler printed was cut at %d KiB", belljar.MaxBuildOutput>>10)
	}
	limits := limitsOf(run)
	switch run.ReasonCode {
	case belljar.ReasonExecutionTimeout:
		c.Print("timed out after %v", span(limits.TimeoutSec))
		c.Hint("set a longer --timeout")
		return exitTimeout
	case belljar.ReasonCPUTimeExceeded:
		c.Print("used more than %v of CPU time", span(limits.CPUTimeSec))
		c.Hint("--cpu-time %s", more)
		return exitTimeout
	case belljar.ReasonStartupTimeout:
		c.Print("%s", messageOf(run)) // the message names the resource that the run waited for
		c.Hint("%s", cmp.Or(run.Hint, "--startup-timeout gives it longer"))
		return exitTimeout
	case belljar.ReasonOOMKilled:
		c.Print("%s", messageOf(run)) // the message includes the limit
		c.Hint("--memory %dm %s", 2*limits.MemoryMB, more)
		return exitOOM
	case belljar.ReasonPidsLimit:
		most, flag := limits.Pids, "--pids"
		if limits.NProc != 0 && limits.NProc < limits.Pids {
			most, flag = limits.NProc, "--nproc"
		}
		c.Print("%s", messageOf(run)) // the message includes the limit, and whether it may be the host's
		c.Hint("%s %d %s", flag, 2*most, more)
	case belljar.ReasonSignaled:
		c.Note("ended by %s", run.Signal)
	case belljar.ReasonNonZeroExit, "":
		if status == exitNotExecutable && run.Hint != "" { // a file in /workspace, perhaps
			c.Hint("%s", run.Hint)
		}
	default:
		c.Print("%s", messageOf(run))
		if status == exitNotFound && run.SessionID == "" && len(run.Command) > 0 && transfer.IsLocal(run.Command[0]) {
			run.Hint = "to run a file of this machine: belljar run " + show.Word(run.Command[0])
		}
		if run.Hint != "" {
			c.Hint("%s", run.Hint)
		}
	}
	return status
}

// longTrace is the number of stack frames from which the failing place needs a line of its own.
const longTrace = 8

// limitsOf returns the limits of a run.
func limitsOf(run belljar.Run) belljar.Limits {
	if run.ResourceUsage != nil && run.ResourceUsage.Limits != nil {
		return *run.ResourceUsage.Limits
	}
	return belljar.DefaultLimits()
}

// messageOf returns a run's failure message.
func messageOf(run belljar.Run) string {
	if run.Message != "" && run.Message != string(run.ReasonCode) {
		return run.Message
	}
	return strings.ReplaceAll(string(run.ReasonCode), "_", " ")
}

func span(sec float64) time.Duration {
	return time.Duration(sec * float64(time.Second)).Round(time.Millisecond)
}

// failIn reports a failure and returns the exit status for it. With json, it first prints it in the JSON of the HTTP API.
func (c *console) failIn(json bool, failure error) int {
	if !json {
		return c.fail(failure)
	}
	out := map[string]any{"error": mistake.JSON(failure)}
	if some, is := errors.AsType[*mistake.Some](failure); is {
		out["done"], out["failed"] = some.Done, some.JSON()
	}
	write := show.JSON
	if c.lines {
		write = show.JSONLine
	}
	if err := write(c.stdout, out); err != nil {
		return c.fail(err)
	}
	return c.fail(failure)
}

// printDone prints the results of a command with several names, one a line or as JSON. With --json it prints nothing if there
// were failures: failIn prints them.
func (c *console) printDone(json bool, done []string, err error) error {
	switch {
	case !json:
		return errors.Join(show.Lines(c.stdout, done), err)
	case err == nil:
		return show.JSON(c.stdout, done)
	}
	return err
}
