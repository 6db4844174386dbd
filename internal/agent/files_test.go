package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/belljar/belljar/internal/agent"
	"github.com/belljar/belljar/internal/agent/wire"
)

// The client validates file listings, because the agent may have been taken over.
func TestFilesOfAHostileAgent(t *testing.T) {
	ok := wire.FileInfo{Path: "d/x", Type: "file"}
	with := func(change func(*wire.FileInfo)) wire.FileInfo {
		f := ok
		change(&f)
		return f
	}
	for name, f := range map[string]wire.FileInfo{
		"a negative size":  with(func(f *wire.FileInfo) { f.Size = -1 }),
		"an unknown type":  with(func(f *wire.FileInfo) { f.Type = "door" }),
		"no type":          with(func(f *wire.FileInfo) { f.Type = "" }),
		"a strange mode":   with(func(f *wire.FileInfo) { f.Mode = 1 << 20 }),
		"a very long path": with(func(f *wire.FileInfo) { f.Path = "d/" + strings.Repeat("x", 200_000) }),
	} {
		if _, err := scripted(t, answer(wire.Reply{File: &f})).Stat(within(t), wire.FileRequest{Path: "d/x"}); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("stat, %s: %v", name, err)
		}
		if _, _, err := scripted(t, answer(wire.Reply{Files: []wire.FileInfo{f}})).ReadDir(within(t), wire.FileRequest{Path: "d"}); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("list, %s: %v", name, err)
		}
	}
	for _, path := range []string{"", ".", "..", "../x", "/etc/passwd", "d", "d/../x", "d//x", "d/x/", "e/x", "dx", "d/\x00"} {
		f := with(func(f *wire.FileInfo) { f.Path = path })
		for _, dir := range []string{"d", "/workspace/d", "./d/"} {
			c := scripted(t, answer(wire.Reply{Files: []wire.FileInfo{ok, f}}))
			if _, err := c.Walk(within(t), wire.FileRequest{Path: dir}, func(wire.FileInfo) error { return nil }); !errors.Is(err, agent.ErrProtocol) {
				t.Errorf("%q in a listing of %s: %v", path, dir, err)
			}
		}
	}
	for _, dir := range []string{".", "d", "/workspace", "/workspace/d/"} {
		list, _, err := scripted(t, answer(wire.Reply{Files: []wire.FileInfo{ok}})).ReadDir(within(t), wire.FileRequest{Path: dir})
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %v, %v", dir, list, err)
		}
	}
	for name, s := range map[string]wire.Space{"negative": {Bytes: -1}, "negative, too": {MaxFiles: -1}} {
		if _, err := scripted(t, answer(wire.Reply{Space: &s})).Space(within(t), wire.FileRequest{Path: "."}); !errors.Is(err, agent.ErrProtocol) {
			t.Errorf("space, %s: %v", name, err)
		}
	}
}

// Contents arrive unchanged in pieces of any size, and incomplete contents end with an error.
func TestContents(t *testing.T) {
	var got []byte
	var whole bool
	take := func(t *testing.T, _ wire.Request, r *wire.Reader, w *wire.Writer) {
		greet(w)
		got, whole = nil, false
		for {
			f, err := r.Read()
			if err != nil {
				return
			}
			if f.Kind == wire.KindEOF {
				whole = true
				break
			}
			got = append(got, f.Payload...)
		}
		w.JSON(wire.KindReply, wire.Reply{File: &wire.FileInfo{Path: "f", Type: "file", Size: int64(len(got))}})
	}
	for _, size := range []int{0, 1, 8191, 8192, 8193, 8192 + wire.MaxData, 300_000} {
		content := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		for name, r := range map[string]io.Reader{
			"at once": bytes.NewReader(content), "by the half": iotest.HalfReader(bytes.NewReader(content)), "with its end": iotest.DataErrReader(bytes.NewReader(content)),
		} {
			info, err := scripted(t, take).WriteFile(within(t), wire.FileRequest{Path: "f"}, r)
			if err != nil || info.Size != int64(size) || !bytes.Equal(got, content) || !whole {
				t.Errorf("%d bytes %s: %+v, %v", size, name, info, err)
			}
		}
	}
	for _, mishap := range []error{io.ErrUnexpectedEOF, errors.New("cut")} {
		ended := make(chan struct{})
		c := scripted(t, func(t *testing.T, req wire.Request, r *wire.Reader, w *wire.Writer) {
			defer close(ended)
			take(t, req, r, w)
		})
		_, err := c.WriteFile(within(t), wire.FileRequest{Path: "f"}, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(mishap)))
		if <-ended; !errors.Is(err, mishap) || whole {
			t.Errorf("%v: %v, whole %v", mishap, err, whole)
		}
	}
}

// The end of its context ends a listing also within a received part: to process one name may take long.
func TestListingWhoseTimeIsOver(t *testing.T) {
	c := scripted(t, answer(wire.Reply{Files: slices.Repeat([]wire.FileInfo{{Path: "x", Type: "file"}}, 1000)}))
	over := errors.New("the time is over")
	ctx, stop := context.WithCancelCause(t.Context())
	looked := 0
	_, err := c.Walk(ctx, wire.FileRequest{Path: "."}, func(wire.FileInfo) error {
		looked++
		stop(over)
		return nil
	})
	if !errors.Is(err, over) || looked != 1 {
		t.Errorf("%d entries looked at, %v", looked, err)
	}
}
