package belljar_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/belljar/belljar"
)

// TestFrameJSON pins the envelope of docs/compatibility.md#frames, key for key.
func TestFrameJSON(t *testing.T) {
	for _, test := range []struct {
		name  string
		frame belljar.Frame
		want  string
	}{
		{"text", belljar.Frame{Seq: 1, Type: belljar.FrameStdout, Output: []byte("hé\n")},
			`{"type":"stdout","encoding":"utf8","data":"hé\n","seq":1}`},
		{"no output", belljar.Frame{Seq: 2, Type: belljar.FrameStderr},
			`{"type":"stderr","encoding":"utf8","data":"","seq":2}`},
		{"of a build", belljar.Frame{Seq: 2, Type: belljar.FrameStderr, Step: belljar.StepBuild, Output: []byte("x")},
			`{"type":"stderr","encoding":"utf8","data":"x","step":"build","seq":2}`},
		{"binary", belljar.Frame{Seq: 3, Type: belljar.FrameStderr, Output: []byte{0xff, 0xfe}},
			`{"type":"stderr","encoding":"base64","data":"//4=","seq":3}`},
		{"event", belljar.Frame{Seq: 4, Type: belljar.FrameEvent, Event: "end", Data: map[string]any{"exit_code": 0}},
			`{"type":"event","event":"end","data":{"exit_code":0},"seq":4}`},
		{"event without data", belljar.Frame{Seq: 5, Type: belljar.FrameEvent, Event: "start"},
			`{"type":"event","event":"start","data":{},"seq":5}`},
		{"heartbeat", belljar.Frame{Seq: 6, Type: belljar.FrameHeartbeat, Time: time.Unix(1, 0)},
			`{"type":"heartbeat","ts":"1970-01-01T00:00:01Z","seq":6}`},
		{"truncated", belljar.Frame{Seq: 7, Type: belljar.FrameTruncated, Reason: "log_cap"},
			`{"type":"truncated","reason":"log_cap","seq":7}`},
	} {
		got, err := json.Marshal(test.frame)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v\nwant %s", test.name, got, err, test.want)
		}
	}
}

func TestFrameJSONRefuses(t *testing.T) {
	for _, in := range []string{
		``, `[]`, `{"type":"stdout"}`, `{"type":"stdout","encoding":"utf8","data":5}`, `{"type":"stdout","data":"x"}`,
		`{"type":"stderr","encoding":"base64","data":"*"}`, `{"type":"stdout","encoding":"hex","data":"00"}`,
		`{"type":"event","data":[]}`, `{"seq":-1}`, `{"type":"heartbeat","ts":"yesterday"}`,
	} {
		var f belljar.Frame
		if err := json.Unmarshal([]byte(in), &f); err == nil {
			t.Errorf("%s is read as %+v", in, f)
		}
	}
}

// The largest frame stays below 64 KB, even if JSON needs six bytes for one.
func TestFrameJSONSize(t *testing.T) {
	for _, unit := range []string{"x", "\x00", "<", `"`, "\n", "é", "\xff", "\u2028", "😀"} {
		f := belljar.Frame{Seq: 1 << 63, Type: belljar.FrameStdout}
		f.Output = []byte(strings.Repeat(unit, belljar.MaxFrameBytes/len(unit)))
		raw, err := json.Marshal(f)
		if err != nil || len(raw) > 64<<10 {
			t.Errorf("%d bytes of %q make a message of %d bytes, %v", len(f.Output), unit, len(raw), err)
		}
		var back belljar.Frame
		if err := json.Unmarshal(raw, &back); err != nil || !bytes.Equal(back.Output, f.Output) {
			t.Errorf("%q does not come back: %v", unit, err)
		}
	}
}

// FuzzFrameOutput: any output is encoded and decoded unchanged, as text if it is text with few escapes.
func FuzzFrameOutput(f *testing.F) {
	for _, seed := range []string{"", "hello", "\xff", "é", "\xc3", "\x00\x00", "</script>"} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, seq uint64) {
		in := belljar.Frame{Seq: seq, Type: belljar.FrameStdout, Output: b}
		raw, err := json.Marshal(in)
		if err != nil || !utf8.Valid(raw) {
			t.Fatalf("%q: %v", raw, err)
		}
		var out belljar.Frame
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		if out.Seq != seq || out.Type != in.Type || !bytes.Equal(out.Output, b) {
			t.Errorf("%+v became %+v", in, out)
		}
		if text := bytes.Contains(raw, []byte(`"encoding":"utf8"`)); text && !utf8.Valid(b) {
			t.Errorf("binary output travels as text: %s", raw)
		} else if !text && utf8.Valid(b) && len(b) < belljar.MaxFrameBytes/6 {
			t.Errorf("short text does not travel as text: %s", raw)
		}
	})
}

// FuzzFrameJSON: a decoded frame is unchanged after encoding and decoding.
func FuzzFrameJSON(f *testing.F) {
	for _, seed := range []string{
		`{"type":"stdout","encoding":"utf8","data":"x","seq":1}`, `{"type":"event","event":"end","data":{"a":[1,null]},"seq":2}`,
		`{"type":"stderr","encoding":"base64","data":"//4=","seq":3}`, `{"type":"truncated","reason":"log_cap","seq":4}`,
		`{"type":"heartbeat","ts":"2025-10-28T12:00:00Z","seq":5}`, `{"type":"event","data":null}`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var first, second belljar.Frame
		if json.Unmarshal(raw, &first) != nil {
			return
		}
		again, err := json.Marshal(first)
		if err != nil {
			if strings.Contains(err.Error(), "year outside of range") {
				return
			}
			t.Fatalf("%s: %v", raw, err)
		}
		if err := json.Unmarshal(again, &second); err != nil {
			t.Fatalf("%s became %s: %v", raw, again, err)
		}
		third, err := json.Marshal(second)
		if err != nil || !bytes.Equal(again, third) {
			t.Errorf("%s, then %s: %v\n%s", again, third, err, cmp.Diff(first, second))
		}
	})
}
