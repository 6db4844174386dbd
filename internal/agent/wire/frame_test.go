package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/belljar/belljar/internal/agent/wire"
)

// TestFramesArriveAsSent writes random sequences of frames and reads them back one byte at a time.
func TestFramesArriveAsSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var buf bytes.Buffer
		w := wire.NewWriter(&buf)
		type sent struct {
			kind     wire.Kind
			position int64
			stream   wire.Stream
			body     []byte
		}
		var all []sent
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			f := sent{kind: rapid.SampledFrom([]wire.Kind{wire.KindRequest, wire.KindData, wire.KindEOF, wire.KindOutput}).Draw(t, "kind")}
			var err error
			switch f.kind {
			case wire.KindRequest:
				f.body = []byte(`{"op":"ping"}`)
				err = w.JSON(f.kind, wire.Request{Op: wire.OpPing})
			case wire.KindData:
				f.body = rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "body")
				err = w.Data(f.body)
			case wire.KindEOF:
				err = w.EOF()
			case wire.KindOutput:
				f.body = rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
				f.position = rapid.Int64Range(0, 1<<62).Draw(t, "position")
				f.stream = rapid.SampledFrom([]wire.Stream{wire.Stdout, wire.Stderr}).Draw(t, "stream")
				err = w.Output(f.position, f.stream, f.body)
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, f)
		}
		r := wire.NewReader(iotest.OneByteReader(&buf))
		for i, want := range all {
			f, err := r.Read()
			if err != nil || f.Kind != want.kind {
				t.Fatalf("frame %d: kind %d, %v; want %d", i, f.Kind, err, want.kind)
			}
			body := f.Payload
			if f.Kind == wire.KindOutput {
				var position int64
				var stream wire.Stream
				if position, stream, body, err = f.Output(); err != nil || position != want.position || stream != want.stream {
					t.Fatalf("frame %d: output at %d of %d, %v", i, position, stream, err)
				}
			}
			if !bytes.Equal(body, want.body) {
				t.Fatalf("frame %d: %q instead of %q", i, body, want.body)
			}
		}
		if _, err := r.Read(); err != io.EOF {
			t.Fatalf("after the last frame: %v", err)
		}
	})
}

func TestDataIsCutIntoFrames(t *testing.T) {
	var buf bytes.Buffer
	if err := wire.NewWriter(&buf).Data(make([]byte, 2*wire.MaxData+1)); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(&buf)
	for _, want := range []int{wire.MaxData, wire.MaxData, 1} {
		if f, err := r.Read(); err != nil || len(f.Payload) != want {
			t.Fatalf("%d bytes, %v; want %d", len(f.Payload), err, want)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	frame := func(kind byte, size uint32, body string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, size), body...)
	}
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"kind 0":                 {frame(0, 0, ""), wire.ErrFrame},
		"unknown kind":           {frame(99, 0, ""), wire.ErrFrame},
		"long data":              {frame(5, wire.MaxData+1, ""), wire.ErrFrame},
		"long JSON":              {frame(2, wire.MaxJSON+1, ""), wire.ErrFrame},
		"EOF with bytes":         {frame(6, 1, "x"), wire.ErrFrame},
		"absurd length":          {frame(7, 1<<32-1, ""), wire.ErrFrame},
		"end in the head":        {frame(5, 3, "")[:2], io.ErrUnexpectedEOF},
		"end in the payload":     {frame(5, 3, "ab"), io.ErrUnexpectedEOF},
		"end before the payload": {frame(5, 3, ""), io.ErrUnexpectedEOF},
		"end between frames":     {nil, io.EOF},
	} {
		if _, err := wire.NewReader(bytes.NewReader(c.in)).Read(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// The number of values in a reply is limited before they are decoded: they take far more memory than their text.
func TestReplyWithManyValues(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want error
	}{
		"values":           {`{"files":[{}` + strings.Repeat(",{}", wire.MaxValues) + `]}`, wire.ErrFrame},
		"commas in a name": {`{"files":[{"path":"\"` + strings.Repeat(`,\\\"`, 2*wire.MaxValues) + `"}]}`, nil},
	} {
		var reply wire.Reply
		err := wire.Frame{Kind: wire.KindReply, Payload: []byte(c.in)}.JSON(&reply)
		if !errors.Is(err, c.want) || len(reply.Files) > 1 {
			t.Errorf("%s: %d files, %v", name, len(reply.Files), err)
		}
	}
}

// FuzzReader feeds arbitrary bytes: accepted frames are within the limits, and encode to the same bytes.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x02{}\x06\x00\x00\x00\x00"))
	f.Add([]byte("\x07\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00\x00\x07\x01x"))
	f.Add([]byte("\x05\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := wire.NewReader(bytes.NewReader(in))
		at := 0
		for {
			fr, err := r.Read()
			if err != nil {
				return
			}
			size := 5 + len(fr.Payload)
			if !bytes.Equal(in[at+5:at+size], fr.Payload) || in[at] != byte(fr.Kind) {
				t.Fatalf("frame at %d is not what was read", at)
			}
			var again bytes.Buffer
			switch w := wire.NewWriter(&again); fr.Kind {
			case wire.KindData:
				if len(fr.Payload) == 0 {
					break
				}
				w.Data(fr.Payload)
			case wire.KindEOF:
				w.EOF()
			case wire.KindOutput:
				position, stream, b, err := fr.Output()
				if err != nil {
					break
				}
				if position < 0 || len(b) > wire.MaxData {
					t.Fatalf("output of %d bytes at %d", len(b), position)
				}
				w.Output(position, stream, b)
			default:
				var req wire.Request
				if len(fr.Payload) > wire.MaxJSON {
					t.Fatalf("%d bytes of JSON", len(fr.Payload))
				}
				if err := fr.JSON(&req); err != nil && !errors.Is(err, wire.ErrFrame) {
					t.Fatal(err)
				}
			}
			if again.Len() > 0 && !bytes.Equal(again.Bytes(), in[at:at+size]) {
				t.Fatalf("%x becomes %x", in[at:at+size], again.Bytes())
			}
			at += size
		}
	})
}

// FuzzOutput splits arbitrary payloads.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01"))
	f.Add([]byte("\xff\x00\x00\x00\x00\x00\x00\x00\x02abc"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x03abc"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x04abc"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		position, stream, b, err := wire.Frame{Kind: wire.KindOutput, Payload: payload}.Output()
		if err != nil {
			if !errors.Is(err, wire.ErrFrame) {
				t.Fatal(err)
			}
			return
		}
		if position < 0 || stream < wire.Stdout || stream > wire.Result || !bytes.Equal(b, payload[9:]) {
			t.Fatalf("%x: position %d, stream %d, %x", payload, position, stream, b)
		}
	})
}
