package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// fill sets every field of v to a nonzero value, through pointers, lists and maps.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("some text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(41)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(42)
	case reflect.Float64:
		v.SetFloat(4.25)
	default:
		panic("fill: " + v.Kind().String())
	}
}

func filled[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// A new field that Plain does not support makes every use slow.
func TestPlainKnowsEveryField(t *testing.T) {
	exec, size, ack := filled[Exec](), filled[Size](), int64(7)
	exit := filled[Exit]()
	exec.Shell, exit.Shell = nil, nil // a shell's messages may be slow
	for _, v := range []any{
		new(filled[Hello]()), &Request{Op: OpExec, Exec: &exec, ID: "x", From: 1, Lease: 2, Conn: math.MaxUint64, Port: math.MaxUint16},
		&Control{Ack: &ack, Resize: &size, CloseStdin: true, Forget: true}, &Control{Answer: new(filled[Answer]())},
		&Reply{Started: new(filled[Started]())}, &Reply{Exit: &exit}, &Reply{Exit: &Exit{Code: -1, WallMS: 1234.5678901}}, &Reply{Done: true},
	} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(v).Elem())
		if !plainly(raw, got.Interface()) {
			t.Errorf("%T is not read plainly: %s", v, raw)
		} else if !reflect.DeepEqual(got.Interface(), v) {
			t.Errorf("%T: read %+v from %s", v, got.Elem(), raw)
		}
	}
	for _, v := range []any{
		filled[Hello](), Hello{Protocol: Protocol, Version: 1}, Reply{Started: new(filled[Started]())}, Reply{Started: &Started{}},
		Reply{Exit: &exit}, Reply{Exit: &Exit{Code: -1}}, Reply{Done: true}, Reply{Ask: new(filled[Ask]())}, Reply{Ask: &Ask{}},
		Request{Op: OpExec, Exec: &exec}, Request{Op: OpExec, Exec: &Exec{Argv: []string{}, Env: []string{}}},
		Request{Op: OpExec, Exec: &Exec{Argv: []string{}, Env: []string{"A=b", "C="}, Rlimits: map[string]uint64{"nproc": 1, "core": 0, "a": math.MaxUint64}}},
	} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := writePlain(v); !ok || !bytes.Equal(got, want) {
			t.Errorf("wrote %s (%v), want %s", got, ok, want)
		}
	}
}

// A command with any single field set is encoded as by encoding/json, or left to it.
func TestPlainLosesNothingOfExec(t *testing.T) {
	for i := range reflect.TypeFor[Exec]().NumField() {
		exec := Exec{Argv: []string{}, Env: []string{}}
		fill(reflect.ValueOf(&exec).Elem().Field(i))
		r := Request{Op: OpExec, Exec: &exec}
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := writePlain(r); ok && !bytes.Equal(got, want) {
			t.Errorf("wrote %s, want %s", got, want)
		}
	}
	for i := range reflect.TypeFor[Request]().NumField() {
		r := Request{Exec: &Exec{Argv: []string{}, Env: []string{}}}
		fill(reflect.ValueOf(&r).Elem().Field(i))
		want, _ := json.Marshal(r)
		if got, ok := writePlain(r); ok && !bytes.Equal(got, want) {
			t.Errorf("wrote %s, want %s", got, want)
		}
	}
}

// Each combination of fields of a reply is left to encoding/json unless it is supported.
func TestPlainLeavesWhatIsSpecial(t *testing.T) {
	for i := range reflect.TypeFor[Reply]().NumField() {
		var r Reply
		fill(reflect.ValueOf(&r).Elem().Field(i))
		if got, ok := writePlain(r); ok {
			if want, _ := json.Marshal(r); !bytes.Equal(got, want) {
				t.Errorf("wrote %s, want %s", got, want)
			}
		}
		r.Started = &Started{}
		if got, ok := writePlain(r); ok && reflect.TypeFor[Reply]().Field(i).Name != "Started" {
			t.Errorf("wrote %s of two fields", got)
		}
	}
	for name, v := range map[string]any{
		"markup":   Reply{Started: &Started{ID: "a<b"}},
		"a quote":  Reply{Started: &Started{ID: `a"b`}},
		"a letter": Hello{Build: "é"},
		"tiny":     Reply{Exit: &Exit{WallMS: 1e-9}},
		"no list":  Request{Exec: &Exec{Argv: []string{"a"}}}, // of variables
		"no exec":  Request{Op: OpPing},
		"a shell":  Reply{Exit: &Exit{Shell: new(filled[Exit]()).Shell}},
		"pointer":  &Hello{},
		"other":    Control{},
	} {
		if got, ok := writePlain(v); ok {
			t.Errorf("%s: wrote %s", name, got)
		}
	}
	for name, text := range map[string]string{
		"blanks":         `{ "op":"ping"}`,
		"null":           `{"op":"exec","exec":null}`,
		"an escape":      `{"op":"\u0070ing"}`,
		"another letter": `{"op":"é"}`,
		"other case":     `{"OP":"ping"}`,
		"a fraction":     `{"op":"lease","lease_ms":1.0}`,
		"twice":          `{"exec":{"id":"a"},"exec":{"cwd":"b"}}`,
		"more":           `{"op":"ping"}x`,
		"less":           `{"op":"ping"`,
		"a comma":        `{"op":"ping",}`,
		"unknown":        `{"op":"ping","else":1}`,
		"another type":   `{"op":1}`,
		"too large":      `{"from":9223372036854775808}`,
		"leading zero":   `{"from":01}`,
		"nothing":        ``,
	} {
		var r Request
		if plainly([]byte(text), &r) || !reflect.DeepEqual(r, Request{}) {
			t.Errorf("%s: read %s as %+v", name, text, r)
		}
	}
	r := Request{ID: "there already"}
	if plainly([]byte(`{"op":"ping"}`), &r) {
		t.Error("read into what was not empty")
	}
}

func FuzzPlain(f *testing.F) {
	raw, _ := json.Marshal(Request{Op: OpExec, Exec: new(filled[Exec]())})
	f.Add(string(raw))
	f.Add(`{"protocol":"belljar-agent","version":1,"features":["a","b"]}`)
	f.Add(`{"exit":{"code":-1,"cause":"exited","position":0,"wall_ms":1.50,"usage":{"user_us":1,"source":"rusage"}}}`)
	f.Add(`{"exit":{"wall_ms":-0,"usage":{},"usage":{}}}`)
	f.Add(`{"ack":-0,"resize":{"cols":65535,"rows":0}}`)
	f.Add(`{"answer":{"id":18446744073709551615,"ok":true,"reason":"no_match","missing":false}}`)
	f.Add(`{"op":"accept","conn":7,"port":65536}`)
	f.Add(`{"op":"relay","relay":{"ports":[80,443]}}`)
	f.Add(`{"ask":{"id":1,"open":{"host":"a.example","port":443,"via":"address"}}}`)
	f.Add(`{"op":"exec","exec":{"argv":[],"rlimits":{"a":18446744073709551615,"a":0}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		agrees[Hello](t, text)
		agrees[Request](t, text)
		agrees[Control](t, text)
		agrees[Reply](t, text)
		want, _ := json.Marshal(Reply{Exit: &Exit{Cwd: text, WallMS: float64(len(text)) / 7}})
		if got, ok := writePlain(Reply{Exit: &Exit{Cwd: text, WallMS: float64(len(text)) / 7}}); ok && !bytes.Equal(got, want) {
			t.Errorf("wrote %s, want %s", got, want)
		}
		ask := Reply{Ask: &Ask{ID: uint64(len(text)), Name: text, Open: &Open{Host: text, Via: Via(text)}}}
		want, _ = json.Marshal(ask)
		if got, ok := writePlain(ask); ok && !bytes.Equal(got, want) {
			t.Errorf("wrote %s, want %s", got, want)
		}
		if got, ok := readBytes(text); ok {
			var want []byte
			if err := json.Unmarshal([]byte(text), &want); err != nil || !bytes.Equal(got, want) {
				t.Errorf("read %q from %s, want %q, %v", got, text, want, err)
			}
		}
	})
}

func readBytes(text string) ([]byte, bool) {
	p := NewPlain([]byte(text))
	b := p.Bytes()
	return b, p.Done()
}

// agrees checks that the plain parser and encoding/json return the same.
func agrees[T any](t *testing.T, text string) {
	var got, want T
	if !plainly([]byte(text), &got) {
		return
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: read %+v, want %+v, %v", text, got, want, err)
	}
}
