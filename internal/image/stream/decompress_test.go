package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// streamed returns a zstd stream of data that declares how far back it refers.
func streamed(t *testing.T, data []byte, window int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(data)
	if err := errors.Join(err, w.Flush()); err != nil { // now the writer cannot know that this was all
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLargeWindows tests that streams that need much memory are decompressed a few at a time, and do not block
// others.
func TestLargeWindows(t *testing.T) {
	half := bytes.Repeat([]byte("some words "), 1000)
	want := append(bytes.Clone(half), half...)
	far, near := streamed(t, half, 64<<20), streamed(t, half, usualWindow)
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}, near...)
	if !farBack(far) || !farBack(skippable) || farBack(near) {
		t.Fatal("it is not known how far back streams refer")
	}
	large := make(chan struct{}, 2)
	open := func(ctx context.Context, data []byte) (*Decompressor, error) {
		return Decompress(ctx, bytes.NewReader(data), large, func(r io.Reader) (io.ReadCloser, error) {
			data, err := io.ReadAll(r)
			return io.NopCloser(bytes.NewReader(data)), err
		})
	}
	check := func(u *Decompressor, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(u)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	first, err := open(t.Context(), far)
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(t.Context(), skippable)
	if err != nil {
		t.Fatal(err)
	}
	check(open(t.Context(), near))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(gone, far); !errors.Is(err, context.Canceled) {
		t.Errorf("a third one: %v", err)
	}
	check(first, nil)
	_ = first.Close() // a second Close frees no second place
	third, err := open(t.Context(), far)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(gone, far); !errors.Is(err, context.Canceled) {
		t.Errorf("a fourth one: %v", err)
	}
	check(second, nil)
	check(third, nil)
	if len(large) != 0 {
		t.Errorf("%d places are taken", len(large))
	}

	// A stream that refers further back than declared at first, and one that refers too far back.
	_, err = io.ReadAll(must(t)(open(t.Context(), append(bytes.Clone(near), far...))))
	var packed *InvalidError
	if !errors.As(err, &packed) {
		t.Errorf("a second frame of another window: %v", err)
	}
	_, err = io.ReadAll(must(t)(open(t.Context(), streamed(t, half, 256<<20))))
	if !errors.As(err, &packed) {
		t.Errorf("too far back: %v", err)
	}
}

func must(t *testing.T) func(*Decompressor, error) *Decompressor {
	return func(u *Decompressor, err error) *Decompressor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = u.Close() })
		return u
	}
}
