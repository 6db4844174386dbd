package fault_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image/fault"
)

func TestWrap(t *testing.T) {
	invalid := fault.Invalid("layers", "it has %d layers", 3)
	for _, tt := range []struct {
		err  error
		code belljar.Code
	}{
		{invalid, belljar.CodeImageInvalid},
		{io.ErrUnexpectedEOF, belljar.CodeInternal},
		{syscall.ENOSPC, belljar.CodeDiskFull},
	} {
		if got := belljar.CodeOf(fault.Wrap("unpack", tt.err)); got != tt.code {
			t.Errorf("%v: %s, not %s", tt.err, got, tt.code)
		}
	}
	if err := fault.Wrap("unpack", nil); err != nil {
		t.Error(err)
	}
	if err := fault.Wrap("unpack", context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestNamed(t *testing.T) {
	invalid := fault.TooLarge("bytes", 5, "it has more than %d bytes", 5)
	named := fault.Named("app:1", invalid)
	var e *belljar.Error
	if !errors.As(named, &e) || e.Message != `image "app:1" cannot be used: it has more than 5 bytes` || e.Details["image"] != "app:1" || e.Details["limit"] != int64(5) {
		t.Errorf("%+v", e)
	}
	if errors.As(invalid, &e); e.Details["image"] != nil {
		t.Error("the error of another caller is changed")
	}
	full := fault.Named("app:1", &belljar.Error{Code: belljar.CodeDiskFull, Message: "no room"})
	if errors.As(full, &e); e.Hint != fault.RoomHint || !strings.HasPrefix(e.Message, `image "app:1" cannot be kept`) {
		t.Errorf("%+v", e)
	}
	if got := fault.Named("app:1", io.EOF); !errors.Is(got, io.EOF) || belljar.CodeOf(got) == belljar.CodeImageInvalid {
		t.Error(got)
	}
}

func TestPrintable(t *testing.T) {
	if got := fault.Printable("a\x1b[31m\nb"); got != "a [31m b" {
		t.Errorf("%q", got)
	}
	if got := fault.Printable(strings.Repeat("x", 400)); len([]rune(got)) != 301 {
		t.Errorf("%d runes", len([]rune(got)))
	}
}
