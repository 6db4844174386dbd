package dir

import (
	"errors"
	"reflect"
	"testing"

	"github.com/belljar/belljar"
)

// FuzzRecord checks that the decoder stays within its input, and that an accepted frame can be encoded and decoded
// again.
func FuzzRecord(f *testing.F) {
	c := saltedCodec([8]byte{1, 2, 3})
	for _, frame := range sample() {
		b := must(c.append(nil, 1, frame))
		f.Add(b[recordHead:], b[8])
	}
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, byte(kindEvent))
	f.Add([]byte("\x01anull"), byte(kindEvent))
	f.Fuzz(func(t *testing.T, payload []byte, k byte) {
		if _, err := c.next(payload, 1, false); err == nil {
			t.Skip("a sum by chance")
		}
		if r, err := c.next(payload, 1, true); err == nil && (r.size > len(payload) || len(r.payload) > r.size) {
			t.Fatalf("record of %d bytes in %d", r.size, len(payload))
		}
		frame, err := record{kind(k), payload, 0}.frame(7)
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Fatal(err)
			}
			return
		}
		b, err := c.append(nil, 7, frame)
		check(t, err)
		r, err := c.next(b, 7, false)
		check(t, err)
		again, err := r.frame(7)
		check(t, err)
		if !reflect.DeepEqual(frame, again) {
			t.Fatalf("%+v became %+v", frame, again)
		}
		if _, err := c.next(b, 8, false); !errors.Is(err, errDamaged) {
			t.Fatalf("frame 7 passes as frame 8: %v", err)
		}
	})
}

// FuzzFile opens arbitrary files as logs and checks that they continue after their complete records without a gap.
func FuzzFile(f *testing.F) {
	file, ends := written(f, true, sample()...)
	f.Add(file)
	f.Add(file[:ends[3]+4])
	f.Add(append(append([]byte{}, file[:ends[1]]...), make([]byte, 100)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		log, err := found(t, file).Open("run")
		if err != nil {
			return // file of a later version
		}
		last := log.Last()
		grew := log.Append(belljar.Frame{Type: belljar.FrameStdout, Output: []byte("next")}) == nil
		check(t, log.Seal())
		got := frames(t, log)
		if grew && (uint64(len(got)) != last+1 || string(got[last].Output) != "next") {
			t.Fatalf("%d frames after %d", len(got), last)
		}
		for i, f := range got {
			if f.Seq != uint64(i+1) {
				t.Fatalf("seq %d at %d", f.Seq, i+1)
			}
		}
	})
}
