package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/blob"
	"github.com/belljar/belljar/internal/service/fault"
	"github.com/belljar/belljar/internal/store"
)

func TestRecord(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, store.ErrFull, fmt.Errorf("write: %w", blob.ErrFull)} {
		err := fault.Record("write the run", full)
		if belljar.CodeOf(err) != belljar.CodeDiskFull || belljar.HintOf(err) == "" || !errors.Is(err, full) {
			t.Errorf("%v: %v", full, err)
		}
	}
	err := fault.Record("write the run", io.ErrUnexpectedEOF)
	if belljar.CodeOf(err) != belljar.CodeInternal || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestSeconds(t *testing.T) {
	if one, half := fault.Seconds(1), fault.Seconds(0.5); one != "1 second" || half != "0.5 seconds" {
		t.Errorf("%s, %s", one, half)
	}
}

func TestAs(t *testing.T) {
	own := fault.Refuse("cmd", 5, "cmd must be a list")
	if got := fault.As("start", own); got != own {
		t.Errorf("%v", got)
	}
	if got := fault.As("start", io.EOF); belljar.CodeOf(got) != belljar.CodeInternal || !errors.Is(got, io.EOF) {
		t.Errorf("%v", got)
	}
}

func TestImages(t *testing.T) {
	own := &belljar.Error{Code: belljar.CodeImageInvalid, Message: "no image"}
	for _, tt := range []struct {
		err  error
		code belljar.Code
	}{
		{own, belljar.CodeImageInvalid},
		{fmt.Errorf("pull: %w", own), belljar.CodeImageInvalid},
		{syscall.ENOSPC, belljar.CodeDiskFull},
		{context.Canceled, belljar.CodeCanceled},
		{context.DeadlineExceeded, belljar.CodeTimeout},
		{io.EOF, belljar.CodeInternal},
	} {
		if got := belljar.CodeOf(fault.Images(tt.err)); got != tt.code {
			t.Errorf("%v: %s, not %s", tt.err, got, tt.code)
		}
	}
	if err := fault.Images(nil); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	var e *belljar.Error
	if !errors.As(fault.Refuse("ref", "x", "ref is unknown"), &e) || e.Code != belljar.CodeInvalidRequest || e.Details["field"] != "ref" || e.Details["provided"] != "x" {
		t.Errorf("%+v", e)
	}
	if err := fault.Forbidden("remove images"); belljar.CodeOf(err) != belljar.CodeForbidden {
		t.Error(err)
	}
	if !errors.As(fault.ShuttingDown(), &e) || e.Code != belljar.CodeRuntimeUnavailable || e.Details["retry_after_sec"] != 5 {
		t.Errorf("%+v", e) // without it, clients retry at most twice
	}
}

func TestAbove(t *testing.T) {
	err := fault.Above("ttl_sec", 86400, 35996400)
	if belljar.CodeOf(err) != belljar.CodePolicyDenied || err.Error() != "ttl_sec is limited to 86400 here, got 35996400" {
		t.Error(err)
	}
}
