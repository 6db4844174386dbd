//go:build linux

package spool_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/belljar/belljar/internal/agent/guest/spool"
	"github.com/belljar/belljar/internal/agent/wire"
)

// A write of at most a page is read in one piece; larger ones arrive in several.
func TestWritesAreWhole(t *testing.T) {
	var s spool.Spool
	var want bytes.Buffer
	for i := range 5000 {
		line := fmt.Appendf(nil, "%d%s\n", i, bytes.Repeat([]byte("."), i*7%3000))
		want.Write(line)
		s.Add(wire.Stdout, line)
	}
	large := bytes.Repeat([]byte("x"), 3*spool.MaxChunk)
	want.Write(large)
	s.Add(wire.Stdout, large)
	var got bytes.Buffer
	for int64(got.Len()) < s.Next {
		_, part := s.At(int64(got.Len()))
		if got.Len()+len(part) < want.Len()-len(large) && part[len(part)-1] != '\n' {
			t.Fatalf("a line is cut: … %q", part[max(len(part)-40, 0):])
		}
		got.Write(part)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes of %d, or others", got.Len(), want.Len())
	}
	if kept := s.Room(); kept > wire.SpoolSize-want.Len() {
		t.Errorf("the room is %d", kept)
	}
}
