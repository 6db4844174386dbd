package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

// Steps of building a sandbox, as a [runtime.StepError] names them.
const (
	stepEngine  = "engine"
	stepState   = "state"
	stepImage   = "image"
	stepAgent   = "agent"
	stepSeccomp = "seccomp"
	stepCreate  = "create"
	stepVerify  = "verify"
	stepAttach  = "attach"
	stepStart   = "start"
	stepNetwork = "network"
	stepMount   = "mount"
)

// fault names the step that failed and adds the usual cause of what the engine reported.
func fault(step string, err error) error {
	var known *runtime.StepError
	if err == nil || errors.As(err, &known) {
		return err
	}
	hint := ""
	text := err.Error()
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", step, err)
	case unreachable(err):
		step, hint = stepEngine, "start the engine, or say where it is with SANDBOX_DOCKER_HOST or DOCKER_HOST"
	case cerrdefs.IsPermissionDenied(err):
		hint = hintRefused
	case strings.Contains(text, "unable to upgrade"):
		hint = "a proxy before the engine must let connections be upgraded (HTTP 101): Belljar speaks with agents over one"
	case strings.Contains(text, "no space left on device"):
		hint = "free space where the engine keeps its data (docker system df)"
	case strings.Contains(text, "seccomp"):
		hint = "the engine cannot use the seccomp profile; it is never left out: update the engine's libseccomp and runc, or give another one with SANDBOX_DOCKER_SECCOMP"
	case strings.Contains(text, "apparmor"):
		hint = "load the AppArmor profile where the engine is (apparmor_parser -r), or leave SANDBOX_DOCKER_APPARMOR_PROFILE empty"
	case strings.Contains(strings.ToLower(text), "rlimit"):
		hint = "the engine may not set the limits of a sandbox: raise LimitNOFILE, LimitNPROC and LimitMEMLOCK in the unit that starts it"
	case strings.Contains(text, "unknown or invalid runtime"), strings.Contains(text, "Unknown runtime"):
		hint = "add the OCI runtime to the engine's daemon.json, or name another one with SANDBOX_DOCKER_OCI_RUNTIME"
	}
	return runtime.FailedStep(step, clip(err), hint)
}

// memoryHeld reports whether an engine refused a limit because the container holds more: runc and crun report that in a text only.
func memoryHeld(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "current usage") || strings.Contains(text, "resource busy")
}

// clip shortens an error in which an engine repeats the request.
func clip(err error) error {
	const most = 600
	text := err.Error()
	if len(text) <= most {
		return err
	}
	return errors.New(text[:most/2] + " … " + text[len(text)-most/2:])
}

// unreachable reports whether an error means only that the engine did not answer.
func unreachable(err error) bool {
	var op *net.OpError
	return client.IsErrConnectionFailed(err) || errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		cerrdefs.IsUnavailable(err)
}

func exists(id string) error {
	return &runtime.StepError{Step: stepState, Err: fmt.Errorf("sandbox %s exists", id)}
}
