package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"
)

func TestCOBSIsUndone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var src []byte
		for range rapid.IntRange(0, 4).Draw(t, "runs") {
			fill := rapid.Byte().Draw(t, "fill")
			src = append(src, bytes.Repeat([]byte{fill}, rapid.SampledFrom([]int{0, 1, 2, 253, 254, 255, 508, 600}).Draw(t, "length"))...)
		}
		encoded := appendCOBS(nil, src)
		if bytes.IndexByte(encoded, 0) >= 0 {
			t.Fatalf("a 0x00 in %x", encoded)
		}
		if most := len(src) + len(src)/254 + 1; len(encoded) > most {
			t.Fatalf("%d bytes became %d, bound %d", len(src), len(encoded), most)
		}
		if back, ok := decodeCOBS(encoded); !ok || !bytes.Equal(back, src) {
			t.Fatalf("%x came back as %x", src, back)
		}
	})
}

// TestMuxFramePassesOnce checks that a frame is valid only in its place, and not damaged, cut, duplicate or in another epoch.
func TestMuxFramePassesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 1, 600).Draw(t, "body")
		number := rapid.Uint64().Draw(t, "number")
		here := func() *epoch { return &epoch{nonce: nonce{1, 2, 3}, next: number} }
		encoded := muxFrame{kind: muxData, stream: 7, body: body}.append(nil, here())
		if len(encoded) > muxCost(len(body)) {
			t.Fatalf("%d bytes cost %d", len(encoded), muxCost(len(body)))
		}
		encoded = encoded[:len(encoded)-1]
		parse := func(b []byte, e *epoch) (muxFrame, error) { return parseMuxFrame(bytes.Clone(b), e) }

		e := here()
		f, err := parse(encoded, e)
		if err != nil || f.kind != muxData || f.stream != 7 || !bytes.Equal(f.body, body) {
			t.Fatalf("%+v, %v", f, err)
		}
		if _, err := parse(encoded, e); err == nil {
			t.Error("it passes twice")
		}
		if _, err := parse(encoded, &epoch{nonce: nonce{9}, next: number}); err == nil {
			t.Error("it passes in another epoch")
		}
		if _, err := parse(encoded, nil); err == nil {
			t.Error("it passes without an epoch")
		}
		cut := rapid.IntRange(0, len(encoded)-1).Draw(t, "cut")
		if _, err := parse(encoded[:cut], here()); err == nil {
			t.Error("it passes when cut")
		}
		damaged := bytes.Clone(encoded)
		damaged[cut] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := parse(damaged, here()); err == nil {
			t.Error("it passes when damaged")
		}
	})
}

// FuzzMuxFrame decodes arbitrary bytes: valid frames are within the limits and encode to the same bytes.
func FuzzMuxFrame(f *testing.F) {
	seed := func(fr muxFrame, e *epoch) {
		b := fr.append(nil, e)
		f.Add(b[:len(b)-1])
	}
	seed(muxFrame{kind: muxReset, body: make([]byte, 20)}, nil)
	seed(muxFrame{kind: muxReady, body: make([]byte, 16)}, &epoch{})
	seed(muxFrame{kind: muxData, stream: 1, body: bytes.Repeat([]byte{0, 1}, 300)}, &epoch{})
	seed(muxFrame{kind: muxWindow, stream: 1, body: make([]byte, 4)}, &epoch{})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		fr, err := parseMuxFrame(bytes.Clone(encoded), &epoch{})
		if err != nil {
			if !errors.Is(err, ErrMux) {
				t.Fatal(err)
			}
			return
		}
		if !fr.wellFormed() || len(fr.body) > MaxMuxBody {
			t.Fatalf("%+v", fr)
		}
		e := &epoch{}
		if fr.kind == muxReset {
			e = nil
		}
		if again := fr.append(nil, e); !bytes.Equal(again[:len(again)-1], bytes.TrimSuffix(encoded, []byte{1})) && !bytes.Equal(again[:len(again)-1], encoded) {
			t.Fatalf("%x becomes %x", encoded, again)
		}
	})
}

// FuzzMuxAgent sends arbitrary bytes to an agent, before and within an epoch. A new host can then take over.
func FuzzMuxAgent(f *testing.F) {
	reset := muxFrame{kind: muxReset, body: append(make([]byte, 16), 0, 0, 64, 0)}.append([]byte{0}, nil)
	e := &epoch{}
	open := muxFrame{kind: muxOpen, stream: 1}.append(nil, e)
	data := muxFrame{kind: muxData, stream: 1, body: []byte("hello")}.append(nil, e)
	f.Add([]byte("garbage\x00more"))
	f.Add(reset)
	f.Add(bytes.Join([][]byte{reset, open, data}, nil))
	f.Add(bytes.Join([][]byte{reset, open, open}, nil))
	f.Add(bytes.Join([][]byte{reset, open, data[:7]}, nil))
	f.Fuzz(func(t *testing.T, garbage []byte) {
		toAgent, fromHost := io.Pipe()
		toHost, fromAgent := io.Pipe()
		agent := NewMuxAgent(pipeEnd{toAgent, fromAgent})
		defer agent.Close()
		written := make(chan struct{})
		drained := make(chan struct{})
		var seen bytes.Buffer
		go func() { // ignore the replies to garbage
			defer close(drained)
			buf := make([]byte, 4096)
			for {
				n, err := toHost.Read(buf)
				seen.Write(buf[:n])
				if err != nil || bytes.Contains(seen.Bytes(), bytes.Repeat([]byte{0xaa}, 15)) {
					return
				}
			}
		}()
		go func() {
			defer close(written)
			fromHost.Write(garbage)
			n := bytes.Repeat([]byte{0xaa}, 16)
			fromHost.Write(muxFrame{kind: muxReset, body: append(n, 0, 0, 64, 0)}.append([]byte{0}, nil))
		}()
		<-written
		<-drained
	})
}

type pipeEnd struct {
	*io.PipeReader
	w *io.PipeWriter
}

func (p pipeEnd) Write(b []byte) (int, error) { return p.w.Write(b) }

func (p pipeEnd) Close() error {
	p.PipeReader.Close()
	return p.w.Close()
}
